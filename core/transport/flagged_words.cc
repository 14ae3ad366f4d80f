// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/flagged_words.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "core/base/wait.h"

namespace weft {
namespace {

constexpr std::uint64_t kPayloadOfWord = UINT32_MAX;
constexpr unsigned kFlagShift = 32;

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

// A line as it is loaded or stored at once, aligned: no word of 8 bytes comes apart by that (Intel
// SDM 3A, "Guaranteed Atomic Operations", of processors with AVX; Arm ARM, "Requirements for
// single-copy atomicity"). Where the low byte comes first, the halves of its payload are elements 0
// and 2. The language knows no such access, so a race with a kernel that stores is left out of what
// ThreadSanitizer looks for: each word is used alone, once its flag was seen in it.
static_assert(std::endian::native == std::endian::little);
using Quarters = std::uint32_t __attribute__((vector_size(16)));
__attribute__((no_sanitize("thread"))) Quarters load_quarters(const std::uint64_t* line) {
  return *reinterpret_cast<const volatile Quarters*>(line);
}
__attribute__((no_sanitize("thread"))) void store_quarters(std::uint64_t* line, Quarters value) {
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

}  // namespace

void store_line(std::uint64_t* line, std::uint64_t payload, std::uint32_t flag) {
  const std::uint64_t high = static_cast<std::uint64_t>(flag) << kFlagShift;
  store_word(line, high | (payload & kPayloadOfWord));
  store_word(line + 1, high | (payload >> kFlagShift));
}

bool load_line(std::uint64_t* line, std::uint32_t flag, std::uint64_t& payload) {
  const std::uint64_t low = load_word(line);
  const std::uint64_t high = load_word(line + 1);
  if ((((low ^ high) >> kFlagShift) | ((low >> kFlagShift) ^ flag)) != 0) return false;
  payload = (low & kPayloadOfWord) | (high << kFlagShift);
  return true;
}

std::uint32_t collect_lines(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
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

void deliver_lines(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
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

}  // namespace weft
