// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions whose inputs lie in windows: each rank reads its range of the inputs of all others,
// reduces it, and writes the result where others want it. Copy engines read and write, so nothing
// but the sums takes multiprocessors. Within a call nobody else reads or writes a rank's range, so
// ranks meet before the first piece and after the last one, and not between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <weft/types.h>

#include "core/model/direct_peers.h"
#include "core/model/ring_geometry.h"
#include "core/model/two_shot.h"

namespace weft {

/// One rank's part in such a call. Pointers as this rank sees them.
struct WindowReduction {
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;
  bool rounds_each = false;      ///< WorkItem::rounds_each.
  std::uint64_t count = 0;       ///< Elements of this rank's range; 0: it only meets the others.
  std::uint32_t most_parts = 1;  ///< CTAs that a sum may take.
  std::byte* output = nullptr;   ///< Where this rank's result goes.
  std::byte* staging = nullptr;  ///< Memory of the device, for what was read and not yet reduced.
  std::uint64_t staging_bytes = 0;
  const std::byte* sources[kMostDirectRanks]{};  ///< The range in each rank's input, its own too.
  std::byte* targets[kMostDirectRanks]{};        ///< Where others want the result; null: nowhere.
};

/// Pieces are read while earlier ones are reduced, so that many are in the staging memory at once.
inline constexpr std::uint32_t kWindowSlots = 2;
/// Of a range, so that reading, reducing and writing overlap; and no shorter than that: each costs
/// some microseconds of going from one engine to the other.
inline constexpr std::uint32_t kLeastWindowPieces = 4;
inline constexpr std::uint64_t kLeastWindowPiece = std::uint64_t{4} << 20;

/// Bytes of a piece, whole grains; at least one.
[[nodiscard]] constexpr std::uint64_t window_piece_bytes(std::uint64_t range_bytes,
                                                         std::uint64_t staging_bytes,
                                                         std::uint32_t ranks) {
  const std::uint64_t room = staging_bytes / (std::uint64_t{kWindowSlots} * (ranks - 1));
  const std::uint64_t wanted = std::max(range_bytes / kLeastWindowPieces, kLeastWindowPiece);
  return std::max(std::min(room, wanted) / kChunkGrainBytes, std::uint64_t{1}) * kChunkGrainBytes;
}

/// The range of an all-reduce that is rank `rank`'s: whole grains, the last ones may be shorter.
[[nodiscard]] constexpr Extent window_range(std::uint64_t count, std::uint32_t rank,
                                            std::uint32_t ranks, std::uint64_t element_bytes) {
  return two_shot_share({.offset = 0, .count = count}, rank, ranks, element_bytes);
}

/// What one launch reduces of it: from[0] to from[ranks - 1], in that order.
struct SourcesToReduce {
  const std::byte* from[kMostDirectRanks]{};
  std::byte* to = nullptr;       ///< May be one of them.
  std::byte* between = nullptr;  ///< For sums of some of them: from[0] or from[1], but not `to`.
  std::uint64_t count = 0;
  std::uint32_t ranks = 0;
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;
  bool rounds_each = false;  ///< WorkItem::rounds_each.
};

}  // namespace weft
