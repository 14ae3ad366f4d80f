// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/caller.h"

namespace weft {

void Caller::add_poll(std::vector<pollfd>& entries) {
  if (!wire_) return connector_.add_poll(entries);
  const short output = wire_->has_output() ? POLLOUT : 0;
  entries.push_back(
      {.fd = wire_->fd(), .events = static_cast<short>(POLLIN | output), .revents = 0});
}

void Caller::serve(const pollfd& entry) {
  if (answered_) return;
  if (!wire_) {
    if (auto fd = connector_.serve(entry)) {
      wire_.emplace(std::move(*fd), key_);
      wire_->queue(MessageType::kRingHello, hello_.encode());
      if (!wire_->flush()) reset();
    }
    return;
  }
  if (entry.revents == 0) return;
  const bool lost = !wire_->flush();
  const auto input = wire_->fill();
  const auto message = wire_->next();
  if (message && *message) {
    const auto answer = (*message)->type == MessageType::kRingHello
                            ? RingHelloMessage::decode((*message)->payload)
                            : std::nullopt;
    answered_ = answer && *answer == RingHelloMessage{.channel = hello_.channel,
                                                      .from = hello_.to,
                                                      .to = hello_.from,
                                                      .nranks = hello_.nranks};
    if (!answered_) reset();
    return;
  }
  if (lost || !message || !input || *input == Wire::Input::kClosed) reset();
}

void Caller::reset() {
  answered_ = false;
  wire_.reset();
  connector_.reset();
}

}  // namespace weft
