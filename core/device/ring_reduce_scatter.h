// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reduce-scatter by ring: in each loop every rank's chunk goes round once, reduced on its way, and
// ends at the rank that it belongs to.
#pragma once

#include <cstdint>

#include "core/device/portability.h"
#include "core/device/primitives_simple.h"
#include "core/device/ring_all_gather.h"
#include "core/model/ring_geometry.h"

namespace weft::device {

/// `primitives` stand over the item's two connections. Ends early when a primitive does.
template <class Primitives>
WEFT_HD void ring_reduce_scatter(Primitives& primitives, const WorkItem& item) {
  const std::uint32_t ranks = item.ranks;
  const std::uint32_t position = item.ring_position;
  // A chunk begins at the rank behind its owner, so that it ends there after n - 1 hops.
  const auto chunk_at = [&](std::uint32_t hop, std::uint64_t base) {
    return chunk_of_block(item, item.ring[ring_chunk(position, hop + 1, ranks)], base);
  };
  for (std::uint64_t base = 0; base < item.count; base += item.chunk) {
    if (!primitives.send(chunk_at(0, base))) return;
    for (std::uint32_t hop = 1; hop + 1 < ranks; ++hop) {
      if (!primitives.recv_reduce_send(chunk_at(hop, base))) return;
    }
    if (!primitives.recv_reduce_copy(chunk_at(ranks - 1, base), base)) return;
  }
}

}  // namespace weft::device
