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

LineMessages::LineMessages(std::byte* memory, std::uint32_t half_bytes, std::uint32_t period)
    : halves_(memory), half_bytes_(half_bytes), period_(period) {
  // Repeated calls allocate nothing, however far a rank is ahead.
  calls_.reserve(kCallsOftenAhead);
}

bool LineMessages::add(const Call& call) {
  const std::uint64_t lines = std::uint64_t{call.message.headers} + call.message.payload_lines;
  if (call.message.headers == 0 || lines > half_bytes_ / kLineBytes) return false;
  calls_.push_back(call);
  return true;
}

void LineMessages::forget_before(std::uint64_t call) {
  const std::uint64_t over = call - first_;
  // Not each time: what stays is moved.
  if (2 * over < calls_.size()) return;
  calls_.erase(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(over));
  first_ = call;
}

std::uint64_t* LineMessages::line_of(std::uint64_t call, std::uint32_t line) const {
  return reinterpret_cast<std::uint64_t*>(halves_ + call % kDirectHalves * half_bytes_ +
                                          std::size_t{line} * kLineBytes);
}

// Before flags begin again: what a kernel stored in the period before would be taken for new. The
// kernel of the next call but one stores here when it has lines of a peer that had this message.
void LineMessages::wipe(std::uint64_t call) {
  for (std::uint32_t line = 0; line < half_bytes_ / kLineBytes; ++line)
    store_line(line_of(call, line), 0, 0);
  // Behind it come the lines of calls that others make with the help of this one's message.
  std::atomic_thread_fence(std::memory_order_release);
}

std::uint64_t LineMessages::payload_bytes(std::uint64_t call) const {
  return std::uint64_t{find(call).message.payload_lines} * kLinePayloadBytes;
}

std::optional<OperationTag> LineMessages::collect(std::uint64_t call) {
  if (call != collecting_) {
    collecting_ = call;
    collected_ = 0;
  }
  const InboxMessage& message = find(call).message;
  if (collected_ == message.lines()) return collected_tag_;  // the net had no room for it
  const std::uint32_t flag = flag_of(call);
  for (; collected_ < message.headers; ++collected_) {
    if (!load_line(line_of(call, collected_), flag, collected_tag_)) return std::nullopt;
  }
  collected_ += collect_lines(line_of(call, collected_), message.lines() - collected_, flag,
                              message_of(call) + payload_at(collected_ - message.headers));
  if (collected_ != message.lines()) return std::nullopt;
  if (flag + 1 >= period_) wipe(call);
  return collected_tag_;
}

bool LineMessages::deliver(std::uint64_t call, OperationTag tag, std::uint64_t bytes) {
  const Call& known = find(call);
  const std::uint32_t flag = flag_of(call);
  const std::uint64_t wanted = payload_bytes(call);
  if (tag == known.tag && bytes != wanted) return false;
  for (std::uint32_t line = 0; line < known.message.headers; ++line)
    store_line(line_of(call, line), tag, flag);
  // Of another call no more than this one has room for, which its kernel will not use.
  deliver_lines(line_of(call, known.message.headers),
                static_cast<std::uint32_t>(std::min(bytes, wanted) / kLinePayloadBytes), flag,
                message_of(call));
  return true;
}

}  // namespace weft
