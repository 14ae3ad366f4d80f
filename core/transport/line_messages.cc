// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/line_messages.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>

#include "core/base/wait.h"

namespace weft {
namespace {

// As core/device/flagged_line.h has it: two words, each with half of the payload below the flag.
constexpr std::uint32_t kLineBytes = 16;
constexpr std::size_t kWordsOfLine = 2;
constexpr std::uint32_t kLinePayloadBytes = 8;
constexpr std::uint64_t kPayloadOfWord = UINT32_MAX;
constexpr unsigned kFlagShift = 32;

constexpr std::size_t kCallsOftenAhead = 256;

// What a GPU has just stored or loaded is in no cache of this processor: lines are asked for so far
// ahead that they are there in time.
constexpr std::size_t kWordsAhead = 64 * kWordsOfLine;
constexpr std::uint32_t kLinesOfFetch = 4;
// Looks at a line that has not come, once others of its call have: a kernel stores them together,
// and who looks again comes back after a microsecond.
constexpr std::uint32_t kMostLooksAtALine = 64;

std::uint64_t load_word(std::uint64_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_relaxed);
}
void store_word(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_relaxed);
}

void store_line(std::uint64_t* line, std::uint64_t payload, std::uint32_t flag) {
  const std::uint64_t high = static_cast<std::uint64_t>(flag) << kFlagShift;
  store_word(line, high | (payload & kPayloadOfWord));
  store_word(line + 1, high | (payload >> kFlagShift));
}

// Whether it has the flag; then its payload.
bool load_line(std::uint64_t* line, std::uint32_t flag, std::uint64_t& payload) {
  const std::uint64_t low = load_word(line);
  const std::uint64_t high = load_word(line + 1);
  if ((((low ^ high) >> kFlagShift) | ((low >> kFlagShift) ^ flag)) != 0) return false;
  payload = (low & kPayloadOfWord) | (high << kFlagShift);
  return true;
}

constexpr std::size_t payload_at(std::uint32_t line) {
  return std::size_t{line} * kLinePayloadBytes;
}

// A line as it is loaded or stored at once, aligned: no word of 8 bytes comes apart by that (Intel
// SDM 3A, "Guaranteed Atomic Operations", of processors with AVX; Arm ARM, "Requirements for
// single-copy atomicity"). Where the low byte comes first, the halves of its payload are elements 0
// and 2.
static_assert(std::endian::native == std::endian::little);
using Quarters = std::uint32_t __attribute__((vector_size(16)));
Quarters load_quarters(const std::uint64_t* line) {
  return *reinterpret_cast<const volatile Quarters*>(line);
}
void store_quarters(std::uint64_t* line, Quarters value) {
  *reinterpret_cast<volatile Quarters*>(line) = value;
}
constexpr Quarters four_of(std::uint32_t value) {
  return Quarters{value, value, value, value};
}

// Lines that are taken at once, where all have come: who takes one by one spends more on that than
// memory does.
constexpr std::uint32_t kLinesAtOnce = 8;

// Whether so many lines have come; then their payload.
bool collect_at_once(const std::uint64_t* line, Quarters flags, std::byte* to) {
  Quarters payload[kLinesAtOnce / 2];
  Quarters difference{};
  for (std::uint32_t i = 0; i < kLinesAtOnce / 2; ++i, line += 2 * kWordsOfLine) {
    const Quarters first = load_quarters(line);
    const Quarters second = load_quarters(line + kWordsOfLine);
    payload[i] = __builtin_shufflevector(first, second, 0, 2, 4, 6);
    difference |= __builtin_shufflevector(first, second, 1, 3, 5, 7) ^ flags;
  }
  if ((difference[0] | difference[1] | difference[2] | difference[3]) != 0) return false;
  std::memcpy(to, payload, sizeof(payload));
  return true;
}

// Takes lines to `to` up to the first that has not come; answers how many.
std::uint32_t collect_payload(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
                              std::byte* to) {
  std::uint32_t looks = 0;
  for (std::uint32_t i = 0; i < lines;) {
    if (lines - i >= kLinesAtOnce) {
      for (std::uint32_t at = 0; at < kLinesAtOnce; at += kLinesOfFetch)
        __builtin_prefetch(line + kWordsAhead + at * kWordsOfLine);
      if (collect_at_once(line, four_of(flag), to + payload_at(i))) {
        i += kLinesAtOnce;
        line += kLinesAtOnce * kWordsOfLine;
        continue;
      }
    }
    std::uint64_t payload = 0;
    while (!load_line(line, flag, payload)) {
      if (++looks > kMostLooksAtALine) return i;
      cpu_relax();
    }
    std::memcpy(to + payload_at(i), &payload, sizeof(payload));
    ++i;
    line += kWordsOfLine;
  }
  return lines;
}

void deliver_payload(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
                     const std::byte* from) {
  const Quarters flags = four_of(flag);
  std::uint32_t i = 0;
  for (; i + 2 <= lines; i += 2, line += 2 * kWordsOfLine) {
    if (i % kLinesOfFetch == 0) __builtin_prefetch(line + kWordsAhead, 1);
    Quarters payload{};
    std::memcpy(&payload, from + payload_at(i), sizeof(payload));
    store_quarters(line, __builtin_shufflevector(payload, flags, 0, 4, 1, 5));
    store_quarters(line + kWordsOfLine, __builtin_shufflevector(payload, flags, 2, 6, 3, 7));
  }
  if (i == lines) return;
  std::uint64_t payload = 0;
  std::memcpy(&payload, from + payload_at(i), sizeof(payload));
  store_line(line, payload, flag);
}

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
  collected_ += collect_payload(line_of(call, collected_), message.lines() - collected_, flag,
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
  deliver_payload(line_of(call, known.message.headers),
                  static_cast<std::uint32_t>(std::min(bytes, wanted) / kLinePayloadBytes), flag,
                  message_of(call));
  return true;
}

}  // namespace weft
