// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/line_messages.h"

#include <atomic>
#include <cstring>

#include "core/base/wait.h"

namespace weft {
namespace {

// As core/device/flagged_line.h has it: two words, each with half of the payload below the flag.
constexpr std::uint32_t kLineBytes = 16;
constexpr std::uint32_t kWordsOfLine = 2;
constexpr std::uint32_t kPayloadBytes = 8;
constexpr std::uint64_t kPayloadOfWord = UINT32_MAX;
constexpr unsigned kFlagShift = 32;

constexpr std::size_t kMostOftenAhead = 256;

// What a GPU has just stored or loaded is in no cache of this processor: lines are asked for so far
// ahead that they are there in time.
constexpr std::uint32_t kWordsAhead = 64 * kWordsOfLine;
constexpr std::uint32_t kLinesOfFetch = 4;
// Looks at a line that has not come, once others of its step have: a kernel stores them together,
// and who looks again comes back after a microsecond.
constexpr std::uint32_t kMostLooks = 64;

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
  return std::size_t{line} * kPayloadBytes;
}

// Takes lines to `to` up to the first that has not come; answers how many.
std::uint32_t collect_payload(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
                              std::byte* to) {
  std::uint32_t looks = 0;
  for (std::uint32_t i = 0; i < lines; ++i, line += kWordsOfLine) {
    if (i % kLinesOfFetch == 0) __builtin_prefetch(line + kWordsAhead);
    std::uint64_t payload = 0;
    while (!load_line(line, flag, payload)) {
      if (++looks > kMostLooks) return i;
      cpu_relax();
    }
    std::memcpy(to + payload_at(i), &payload, sizeof(payload));
  }
  return lines;
}

}  // namespace

LineMessages::LineMessages(std::byte* memory, const Shape& shape) : memory_(memory), shape_(shape) {
  // Repeated calls allocate nothing, however far a rank is ahead.
  steps_.reserve(kMostOftenAhead);
}

std::uint32_t LineMessages::lines_of_slot() const {
  return shape_.slot_bytes / kLineBytes;
}

bool LineMessages::add(const Step& step) {
  const LineMessage& message = step.message;
  if (message.headers == 0 || message.headers > lines_of_slot()) return false;
  if (message.payload_bytes > payload_at(lines_of_slot() - message.headers)) return false;
  steps_.push_back(step);
  return true;
}

void LineMessages::forget_before(std::uint64_t step) {
  const std::uint64_t over = step - first_;
  // Not each time: what stays is moved.
  if (2 * over < steps_.size()) return;
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(over));
  first_ = step;
}

std::uint64_t* LineMessages::line_of(std::uint64_t step, std::uint32_t line) const {
  return reinterpret_cast<std::uint64_t*>(memory_ +
                                          step % shape_.slots * std::size_t{shape_.slot_bytes} +
                                          std::size_t{line} * kLineBytes);
}

std::optional<OperationTag> LineMessages::collect(std::uint64_t step) {
  if (step != collecting_) {
    collecting_ = step;
    collected_ = 0;
  }
  const LineMessage& message = find(step).message;
  if (collected_ == message.lines()) return collected_tag_;  // the net had no room for it
  const std::uint32_t flag = flag_of(step);
  for (; collected_ < message.headers; ++collected_) {
    std::uint64_t header = 0;
    if (!load_line(line_of(step, collected_), flag, header)) return std::nullopt;
    if (collected_ == 0) collected_tag_ = header;
  }
  collected_ += collect_payload(line_of(step, collected_), message.lines() - collected_, flag,
                                message_of(step) + payload_at(collected_ - message.headers));
  if (collected_ != message.lines()) return std::nullopt;
  collected(step);
  return collected_tag_;
}

void LineMessages::store(std::uint64_t step, std::uint32_t first, std::uint32_t lines,
                         std::uint64_t payload, std::uint32_t flag) {
  for (std::uint32_t line = first; line < first + lines; ++line)
    store_line(line_of(step, line), payload, flag);
}

void LineMessages::store_message(std::uint64_t step, std::uint32_t first, std::uint64_t bytes) {
  const std::uint32_t flag = flag_of(step);
  const std::byte* const from = message_of(step);
  std::uint64_t* line = line_of(step, first);
  for (std::uint64_t at = 0; at < bytes; at += kPayloadBytes, line += kWordsOfLine) {
    if (at % payload_at(kLinesOfFetch) == 0) __builtin_prefetch(line + kWordsAhead, 1);
    std::uint64_t payload = 0;
    std::memcpy(&payload, from + at, sizeof(payload));
    store_line(line, payload, flag);
  }
}

}  // namespace weft
