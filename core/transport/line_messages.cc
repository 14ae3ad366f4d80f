// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/line_messages.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "core/transport/flagged_words.h"

namespace weft {
namespace {

constexpr std::size_t kCallsOftenAhead = 256;

}  // namespace

LineMessages::LineMessages(const InboxHalves& halves, std::byte* messages)
    : halves_(halves), messages_(messages) {
  // Repeated calls allocate nothing, however far a rank is ahead.
  calls_.reserve(kCallsOftenAhead);
}

bool LineMessages::add(const Call& call) {
  const InboxMessage& message = call.message;
  const std::uint64_t end =
      std::uint64_t{message.headers} + message.skipped + message.payload_lines;
  if (message.lines() == 0 || end > halves_.half_bytes / kLineBytes) return false;
  calls_.push_back(call);
  return true;
}

void LineMessages::forget_before(std::uint64_t message) {
  const std::uint64_t over = message - first_;
  // Not each time: what stays is moved.
  if (2 * over < calls_.size()) return;
  calls_.erase(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(over));
  first_ = message;
}

std::uint64_t* LineMessages::line_of(const Call& call, std::uint32_t line) const {
  return reinterpret_cast<std::uint64_t*>(halves_.begin +
                                          call.number % kDirectHalves * halves_.half_bytes +
                                          std::size_t{line} * kLineBytes);
}

// Before flags begin again: what a kernel stored in the period before would be taken for new. The
// kernel of the next call but one stores here when it has lines of a peer that had this message.
void LineMessages::wipe(const Call& call) {
  for (std::uint32_t line = 0; line < halves_.half_bytes / kLineBytes; ++line)
    store_line(line_of(call, line), 0, 0);
  // Behind it come the lines of calls that others make with the help of this one's message.
  std::atomic_thread_fence(std::memory_order_release);
}

std::uint64_t LineMessages::payload_bytes(std::uint64_t message) const {
  return std::uint64_t{find(message).message.payload_lines} * kLinePayloadBytes;
}

std::optional<OperationTag> LineMessages::collect(std::uint64_t message) {
  const Call& call = find(message);
  const InboxMessage& lines = call.message;
  if (message != collecting_) {
    collecting_ = message;
    collected_ = 0;
  }
  // A stripe without headers has the tag that this rank's kernel stores in those of the first.
  if (lines.headers == 0) collected_tag_ = call.tag;
  if (collected_ == lines.lines()) return collected_tag_;  // the net had no room for it
  const std::uint32_t flag = flag_of(call);
  for (; collected_ < lines.headers; ++collected_) {
    if (!load_line(line_of(call, collected_), flag, collected_tag_)) return std::nullopt;
  }
  const std::uint32_t taken = collected_ - lines.headers;
  collected_ +=
      collect_lines(line_of(call, lines.first_of_payload() + taken), lines.payload_lines - taken,
                    flag, place_of(message) + payload_at(taken));
  if (collected_ != lines.lines()) return std::nullopt;
  if (lines.headers != 0 && flag + 1 >= halves_.period) wipe(call);
  return collected_tag_;
}

bool LineMessages::deliver(std::uint64_t message, OperationTag tag, std::uint64_t bytes) {
  const Call& known = find(message);
  const std::uint32_t flag = flag_of(known);
  const std::uint64_t wanted = payload_bytes(message);
  if (tag == known.tag && bytes != wanted) return false;
  for (std::uint32_t line = 0; line < known.message.headers; ++line)
    store_line(line_of(known, line), tag, flag);
  // Of another call no more than this one has room for, which its kernel will not use.
  deliver_lines(line_of(known, known.message.first_of_payload()),
                static_cast<std::uint32_t>(std::min(bytes, wanted) / kLinePayloadBytes), flag,
                place_of(message));
  return true;
}

}  // namespace weft
