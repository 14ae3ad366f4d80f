// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/connector.h"

#include "core/bootstrap/wire.h"

namespace weft {
namespace {

// One address that swallows packets must not keep the others from being tried.
constexpr auto kAttemptSpan = std::chrono::seconds(1);
constexpr auto kRetryPause = std::chrono::milliseconds(30);

}  // namespace

void Connector::add_poll(std::vector<pollfd>& entries) {
  if (!fd_ && pause_.passed()) begin();
  entries.push_back({.fd = fd_ ? fd_.get() : -1, .events = POLLOUT, .revents = 0});
}

std::optional<UniqueFd> Connector::serve(const pollfd& entry) {
  if (!fd_) return std::nullopt;
  if (entry.revents != 0) {
    last_errno_ = connect_errno(fd_.get());
    if (last_errno_ == 0 && (entry.revents & POLLOUT) != 0) return std::move(fd_);
    give_up_attempt();
  } else if (attempt_.passed()) {
    last_errno_ = ETIMEDOUT;
    give_up_attempt();
  }
  return std::nullopt;
}

void Connector::reset() {
  last_errno_ = ECONNRESET;
  give_up_attempt();
}

void Connector::begin() {
  auto started = start_connect(addresses_[index_]);
  if (started) {
    fd_ = std::move(*started);
    attempt_ = Deadline::after(kAttemptSpan);
  } else {
    last_errno_ = static_cast<int>(started.error().native());
    give_up_attempt();
  }
}

void Connector::give_up_attempt() {
  fd_.reset();
  refused_ = refused_ || last_errno_ == ECONNREFUSED;
  in_doubt_ = in_doubt_ || (last_errno_ != ECONNREFUSED && last_errno_ != ENETUNREACH);
  index_ = (index_ + 1) % addresses_.size();
  if (index_ == 0) {
    nobody_listens_ = refused_ && !in_doubt_;
    refused_ = false;
    in_doubt_ = false;
  }
  pause_ = Deadline::after(index_ == 0 ? std::chrono::nanoseconds(kRetryPause)
                                       : std::chrono::nanoseconds(0));
}

}  // namespace weft
