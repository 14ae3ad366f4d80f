// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reduces what lies in memory of several ranks, one after the other by their numbers. Groups share
// the elements and wait for nobody.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/any_lane_loops.h"
#include "core/device/any_reduction.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/model/direct_peers.h"
#include "core/model/two_shot.h"
#include "core/model/window_reduction.h"

namespace weft::device {

/// By one group, of part `part` of `parts`. Sums of some lie where nobody needs the bytes any more,
/// since the output may be a source that is yet to be read. What accumulates is not stored before
/// it is complete; of two ranks a sum is, and the loops of two sources are faster.
template <class Group, class Memory>
  requires lane_group<Group>
WEFT_HD void reduce_sources(Group& group, Memory& memory, const SourcesToReduce& sources,
                            std::uint32_t part, std::uint32_t parts) {
  const AnyReduction reduction(sources.type, sources.reduction, sources.ranks, {},
                               sources.rounds_each);
  const std::uint64_t bytes = reduction.element_bytes();
  const Extent share = two_shot_share({.offset = 0, .count = sources.count}, part, parts, bytes);
  if (reduction.accumulates() && (sources.ranks > 2 || reduction.finishes())) {
    const std::uint64_t at = share.offset * bytes;
    std::byte* const to[1] = {sources.to + at};
    const std::byte* from[kMostDirectRanks] = {};
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kMostDirectRanks; ++rank)
      if (rank < sources.ranks) from[rank] = sources.from[rank] + at;
    lane_reduce_ranks<kMostDirectRanks>(reduction, group, memory, to, from, sources.ranks,
                                        share.count);
    return;
  }
  // Tile by tile, so that what one step writes is near when the next one reads it.
  constexpr std::uint64_t kTileBytes = 64 << 10;
  const std::uint64_t tile = kTileBytes / bytes;
  for (std::uint64_t done = 0; done < share.count; done += tile) {
    const std::uint64_t left = share.count - done;
    const std::uint64_t count = left < tile ? left : tile;
    const std::uint64_t at = (share.offset + done) * bytes;
    const std::byte* so_far = sources.from[0] + at;
    for (std::uint32_t rank = 1; rank < sources.ranks; ++rank) {
      const bool last = rank + 1 == sources.ranks;
      std::byte* const to = (last ? sources.to : sources.between) + at;
      memory.reduce(reduction, group, to, nullptr, so_far, sources.from[rank] + at, count);
      so_far = to;
      // The next step's lanes may take other elements, depending on where they lie.
      if (!last || reduction.finishes()) group.sync();
    }
    if (reduction.finishes()) memory.finish(reduction, group, sources.to + at, nullptr, count);
  }
}

}  // namespace weft::device
