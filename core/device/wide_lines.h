// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines of LL128 that eight lanes store and load together, 16 bytes each, in pairs: of 15 times 16
// bytes of payload each lane has one in the first line, and each but the last another in the
// second. The last has its one half in each line, in front of the flags. So what a lane has lies at
// a multiple of 16 bytes in the caller's buffer as well.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/model/direct_peers.h"

namespace weft::device {

static_assert(kWideLineLanes * sizeof(Line) == kWideLineBytes);

/// What a lane has of a pair of lines. On the last of the eight, `first` is all of it.
struct LineShare {
  Line first;
  Line second;
};

/// From a lane's first payload of a pair to its second.
inline constexpr std::uint32_t kToSecondPayload = kWideLineLanes * sizeof(Line);

/// Bytes of payload that pairs before number `pair` have, and this lane before its own in it.
WEFT_HD constexpr std::uint64_t wide_payload_place(std::uint64_t pair, std::uint32_t lane) {
  return pair * kWidePairPayload + lane * sizeof(Line);
}

/// What this lane stores in both lines; `last`: it has the flags. Word by word, so that no lane
/// goes a way of its own.
WEFT_HD inline LineShare with_flags(const LineShare& payload, bool last, std::uint64_t flag) {
  return {.first = {.low = payload.first.low, .high = last ? flag : payload.first.high},
          .second = {.low = last ? payload.first.high : payload.second.low,
                     .high = last ? flag : payload.second.high}};
}
/// The reverse.
WEFT_HD inline LineShare without_flags(const LineShare& lines, bool last) {
  return last ? LineShare{.first = {.low = lines.first.low, .high = lines.second.low}, .second = {}}
              : lines;
}

/// The first 16 of `bytes` bytes at `from`, which is aligned to its element; zeros beyond.
template <class Reduction>
WEFT_HD_OUTLINE Line load_piece(const std::byte* from, std::uint64_t bytes) {
  return {.low = Reduction::load_payload(from, bytes),
          .high = bytes > kLinePayload
                      ? Reduction::load_payload(from + kLinePayload, bytes - kLinePayload)
                      : 0};
}
/// The reverse.
template <class Reduction>
WEFT_HD_OUTLINE void store_piece(std::byte* to, Line line, std::uint64_t bytes) {
  Reduction::store_payload(to, line.low, bytes);
  if (bytes > kLinePayload) {
    Reduction::store_payload(to + kLinePayload, line.high, bytes - kLinePayload);
  }
}

}  // namespace weft::device
