// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls by multicast: memory of all ranks behind one address, through which a switch combines what
// all of them hold and stores to all of them at once. How such a call is cut, and where its
// elements lie: what plans announce and kernels do.
//
// Elements are staged in memory of the communicator, so that any buffers will do. Each part of a
// rank's kernel has places there of its own, one for each rank's share, alike on all ranks and for
// the whole call, since parts do not wait for each other.
//
// Model: tests/models/multicast.pml
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/model/operation.h"
#include "core/model/ring_geometry.h"
#include "core/model/two_shot.h"

namespace weft {

/// What a rank sees of such memory. Pointers, no owner.
struct MulticastView {
  std::byte* own = nullptr;  ///< This rank's, for ordinary loads and stores.
  std::byte* all = nullptr;  ///< Stands for that of all ranks; for instructions of multicast alone.
  /// Of devices that only act as if they had such instructions, instead of `all`: that of each of
  /// so many ranks.
  std::byte* const* each = nullptr;
  std::uint32_t ranks = 0;
  std::uint64_t bytes = 0;  ///< Of each rank, from there on; aligned to 128.
};

/// The most memory of a rank.
inline constexpr std::uint64_t kMostMulticastBytes = std::uint64_t{256} << 20;

/// Which operations go by multicast.
[[nodiscard]] constexpr bool fits_multicast(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kAllGather ||
         operation == Operation::kReduceScatter;
}

/// Whether switches combine such elements: as `multimem.ld_reduce` does from sm_90 on (PTX ISA
/// 8.1, "multimem.ld_reduce"; ptxas 13.0 takes these alone). Averages are sums that are divided
/// later, and inputs that are multiplied are so before. Not taken: minima and maxima of float16 and
/// bfloat16, which have no form that keeps NaN, as those of this library do.
[[nodiscard]] constexpr bool switches_combine(weft_data_type type, weft_reduction reduction) {
  const bool adds = reduction == WEFT_SUM || reduction == WEFT_AVG || reduction == kPremulSum;
  switch (type) {
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_INT64:
    case WEFT_UINT64:
      return adds || reduction == WEFT_MIN || reduction == WEFT_MAX;
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
    case WEFT_FLOAT32:
    case WEFT_FLOAT64:
      return adds;
    default:
      return false;
  }
}

/// The places of a call's parts, in bytes from the beginning of a rank's memory.
struct MulticastPlaces {
  std::uint64_t share = 0;  ///< Bytes of each place, whole grains.
  std::uint32_t ranks = 0;

  [[nodiscard]] constexpr std::uint64_t at(std::uint32_t part, std::uint32_t rank) const {
    return (std::uint64_t{part} * ranks + rank) * share;
  }
};
[[nodiscard]] constexpr MulticastPlaces multicast_places(std::uint64_t range_bytes,
                                                         std::uint32_t ranks, std::uint32_t parts) {
  return {.share = two_shot_place(range_bytes, 1, parts, 0), .ranks = ranks};
}

/// Bytes of a rank's range, whole grains, that fit into so much memory, whatever the parts of a
/// call, of which there are `parts` at most.
[[nodiscard]] constexpr std::uint64_t multicast_range_bytes(std::uint64_t bytes,
                                                            std::uint32_t ranks,
                                                            std::uint32_t parts) {
  const std::uint64_t each = bytes / ranks;
  const std::uint64_t spent = std::uint64_t{parts - 1} * kChunkGrainBytes;
  return each <= spent ? 0 : (each - spent) / kChunkGrainBytes * kChunkGrainBytes;
}

/// The piece that begins at element `base` of `count`, base < count: each rank's range holds
/// `chunk` elements of it, a multiple of a grain, or fewer.
[[nodiscard]] constexpr RingLoop multicast_piece(Operation operation, std::uint64_t base,
                                                 std::uint64_t count, std::uint64_t chunk,
                                                 std::uint32_t ranks, std::uint64_t element_bytes) {
  if (!has_blocks(operation)) return two_shot_piece(base, count, chunk, ranks, element_bytes);
  return {.base = base, .chunk = std::min(chunk, count - base)};
}
/// Elements from the beginning of a piece to that of the next; of blocks, of each of them.
[[nodiscard]] constexpr std::uint64_t multicast_step(Operation operation, const RingLoop& piece,
                                                     std::uint32_t ranks) {
  return has_blocks(operation) ? piece.chunk : piece.chunk * ranks;
}
/// The range of a rank in a piece, which it combines or gathers; of blocks, within its own.
[[nodiscard]] constexpr Extent multicast_range(Operation operation, const RingLoop& piece,
                                               std::uint32_t rank, std::uint64_t count) {
  if (!has_blocks(operation)) return piece.extent(rank, count);
  return {.offset = piece.base, .count = piece.chunk};
}

}  // namespace weft
