// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-gather by ring: in each loop every rank's chunk goes round once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/portability.h"
#include "core/device/primitives_simple.h"
#include "core/model/ring_geometry.h"

namespace weft::device {

/// The chunk of a rank's block that begins `base` elements into the channel's part of it; may be
/// empty, and is then passed over by all.
WEFT_HD inline Extent chunk_of_block(const WorkItem& item, std::uint32_t rank, std::uint64_t base) {
  const Extent block = item.blocks != nullptr
                           ? item.blocks[rank]
                           : Extent{.offset = rank * item.stride, .count = item.count};
  const std::uint64_t left = base < block.count ? block.count - base : 0;
  return {.offset = block.offset + base, .count = left < item.chunk ? left : item.chunk};
}

/// `primitives` stand over the item's two connections. Ends early when a primitive does.
template <class Primitives>
WEFT_HD void ring_all_gather(Primitives& primitives, const WorkItem& item,
                             std::uint32_t element_bytes) {
  const std::uint32_t ranks = item.ranks;
  const std::uint32_t position = item.ring_position;
  const auto chunk_at = [&](std::uint32_t hop, std::uint64_t base) {
    return chunk_of_block(item, item.ring[ring_chunk(position, hop, ranks)], base);
  };
  const bool in_place = item.send == item.recv + chunk_at(0, 0).offset * element_bytes;
  for (std::uint64_t base = 0; base < item.count; base += item.chunk) {
    const Extent mine = chunk_at(0, base);
    const Extent own{.offset = base, .count = mine.count};
    if (!(in_place ? primitives.send_from_output(mine) : primitives.copy_send(own, mine.offset)))
      return;
    for (std::uint32_t hop = 1; hop + 1 < ranks; ++hop) {
      if (!primitives.recv_copy_send(chunk_at(hop, base))) return;
    }
    if (!primitives.recv(chunk_at(ranks - 1, base))) return;
  }
}

}  // namespace weft::device
