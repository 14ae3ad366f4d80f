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

/// `primitives` stand over the item's two connections. Ends early when a primitive does.
template <class Primitives>
WEFT_HD void ring_all_gather(Primitives& primitives, const WorkItem& item,
                             std::uint32_t element_bytes) {
  const std::uint32_t ranks = item.ranks;
  const std::uint32_t position = item.ring_position;
  const auto block_of = [&](std::uint32_t hop) {
    return item.ring[ring_chunk(position, hop, ranks)] * item.stride;
  };
  const bool in_place = item.send == item.recv + block_of(0) * element_bytes;
  for (std::uint64_t base = 0; base < item.count; base += item.chunk) {
    const std::uint64_t left = item.count - base;
    const std::uint64_t count = left < item.chunk ? left : item.chunk;
    const Extent own{.offset = base, .count = count};
    if (!(in_place ? primitives.send(own) : primitives.copy_send(own, block_of(0) + base))) return;
    for (std::uint32_t hop = 1; hop + 1 < ranks; ++hop) {
      if (!primitives.recv_copy_send({.offset = block_of(hop) + base, .count = count})) return;
    }
    if (!primitives.recv({.offset = block_of(ranks - 1) + base, .count = count})) return;
  }
}

}  // namespace weft::device
