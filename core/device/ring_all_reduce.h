// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-reduce by ring: in each loop a chunk goes round once to be reduced and once to be handed out.
//
// Model: tests/models/ring_credits.pml
#pragma once

#include <cstdint>

#include "core/device/primitives_simple.h"
#include "core/model/ring_geometry.h"
#include "core/model/step_lines.h"

namespace weft::device {

/// Whether a ring all-reduce of this item can run without every rank waiting for a free slot at
/// once: each rank sends a whole chunk before it takes the first slot, and one more step after.
WEFT_HD inline bool ring_all_reduce_fits(const WorkItem& item, std::uint32_t element_bytes) {
  const std::uint32_t step_bytes = step_payload(item.protocol, item.to_next.step_bytes);
  const RingLoop loop = ring_loop(0, item.count, item.chunk, item.ranks, element_bytes);
  return steps_of(loop.chunk < item.count ? loop.chunk : item.count, element_bytes, step_bytes) <
         item.to_next.steps;
}

/// The same where each rank sends a chunk and then passes on those of the others.
WEFT_HD inline bool ring_chunk_fits(const WorkItem& item, std::uint32_t element_bytes) {
  return steps_of(item.chunk < item.count ? item.chunk : item.count, element_bytes,
                  step_payload(item.protocol, item.to_next.step_bytes)) < item.to_next.steps;
}

/// `primitives` stand over the item's two connections. Ends early when a primitive does.
template <class Primitives>
WEFT_HD void ring_all_reduce(Primitives& primitives, const WorkItem& item,
                             std::uint32_t element_bytes) {
  const std::uint32_t ranks = item.ranks;
  const std::uint32_t position = item.ring_position;
  for (std::uint64_t base = 0; base < item.count;) {
    const RingLoop loop = ring_loop(base, item.count, item.chunk, ranks, element_bytes);
    std::uint32_t hop = 0;
    if (!primitives.send(loop.extent(position, item.count))) return;
    for (hop = 1; hop + 1 < ranks; ++hop) {
      const Extent extent = loop.extent(ring_chunk(position, hop, ranks), item.count);
      if (!primitives.recv_reduce_send(extent)) return;
    }
    const Extent own = loop.extent(ring_chunk(position, ranks - 1, ranks), item.count);
    if (!primitives.recv_reduce_copy_send(own)) return;
    for (hop = ranks; hop + 2 < 2 * ranks; ++hop) {
      const Extent extent = loop.extent(ring_chunk(position, hop, ranks), item.count);
      if (!primitives.recv_copy_send(extent)) return;
    }
    const Extent last = loop.extent(ring_chunk(position, 2 * ranks - 2, ranks), item.count);
    if (!primitives.recv(last)) return;
    base += loop.chunk * ranks;
  }
}

}  // namespace weft::device
