// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How ring algorithms cut a channel into loops, chunks and steps. One definition for the kernels
// that move the data, the planner that counts steps and the tests that check either.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft {

/// The most ranks that a communicator can have; whoever names more is refused.
inline constexpr std::uint32_t kMaxRanks = 1U << 16;

/// Elements [offset, offset + count) of a channel.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// What a channel has of a block of `count` elements; it has `share` of the longest one's, from
/// element `offset` on.
[[nodiscard]] constexpr std::uint64_t block_share(std::uint64_t count, std::uint64_t offset,
                                                  std::uint64_t share) {
  const std::uint64_t after = count < offset ? 0 : count - offset;
  return after < share ? after : share;
}

/// a / b. A GPU divides 64 bits by a routine of more than a hundred instructions, one after the
/// other; 32 bits suffice nearly always.
[[nodiscard]] constexpr std::uint64_t quotient(std::uint64_t a, std::uint64_t b) {
  if (a <= UINT32_MAX && b <= UINT32_MAX) {
    return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  }
  return a / b;
}

/// Chunks are cut at multiples of this many bytes, so that lines of 16 bytes stay whole.
inline constexpr std::uint64_t kChunkGrainBytes = 64;

/// Elements of a grain; of elements that divide one.
[[nodiscard]] constexpr std::uint64_t grain_elements(std::uint64_t element_bytes) {
  return std::max<std::uint64_t>(1, quotient(kChunkGrainBytes, element_bytes));
}
/// The least multiple of a grain, a power of two, that is not less.
[[nodiscard]] constexpr std::uint64_t rounded_to_grains(std::uint64_t elements,
                                                        std::uint64_t grain) {
  return (elements + grain - 1) & ~(grain - 1);
}

/// A chunk is not cut smaller than this only to give each rank one: each passes every hop, and what
/// a hop costs is the same for all that are so small.
inline constexpr std::uint64_t kLeastChunkBytes = 8192;

/// All-reduce by ring: a channel is walked in loops of `ranks` chunks; in a loop each chunk goes
/// round the ring twice. The last loop shrinks its chunks so that every rank still gets a share, if
/// there is enough for that.
struct RingLoop {
  std::uint64_t base = 0;   ///< First element of this loop.
  std::uint64_t chunk = 0;  ///< Elements of each chunk of this loop; the last ones may hold fewer.

  /// What chunk `index` (0 to ranks - 1) covers, for a channel of `count` elements; may be empty.
  [[nodiscard]] constexpr Extent extent(std::uint32_t index, std::uint64_t count) const {
    const std::uint64_t offset = base + index * chunk;
    if (offset >= count) return {.offset = count, .count = 0};
    return {.offset = offset, .count = std::min(chunk, count - offset)};
  }
};

/// The loop that starts at element `base` of a channel of `count` elements (base < count).
[[nodiscard]] constexpr RingLoop ring_loop(std::uint64_t base, std::uint64_t count,
                                           std::uint64_t chunk, std::uint32_t ranks,
                                           std::uint64_t element_bytes) {
  const std::uint64_t left = count - base;
  if (left >= chunk * ranks) return {.base = base, .chunk = chunk};
  const std::uint64_t share =
      std::max(quotient(left + ranks - 1, ranks),
               std::max<std::uint64_t>(1, quotient(kLeastChunkBytes, element_bytes)));
  return {.base = base,
          .chunk = std::min(chunk, rounded_to_grains(share, grain_elements(element_bytes)))};
}

/// Steps that `count` elements take: full steps of `step_bytes`, the last may be shorter; none for
/// an empty extent, which both ends pass over.
[[nodiscard]] constexpr std::uint64_t steps_of(std::uint64_t count, std::uint64_t element_bytes,
                                               std::uint64_t step_bytes) {
  return quotient(count * element_bytes + step_bytes - 1, step_bytes);
}

/// Which chunk of a loop the rank at `position` of the ring handles at `hop`, going downwards:
/// at hop 0 a rank sends the chunk of its own number, at hop h the one that started h ranks before.
[[nodiscard]] constexpr std::uint32_t ring_chunk(std::uint32_t position, std::uint32_t hop,
                                                 std::uint32_t ranks) {
  return (position + ranks - hop % ranks) % ranks;
}

}  // namespace weft
