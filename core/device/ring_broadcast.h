// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Broadcast along a ring that begins at the root: chunk by chunk, every rank hands on what it got.
#pragma once

#include <cstdint>

#include "core/device/primitives_simple.h"
#include "core/model/ring_geometry.h"

namespace weft::device {

/// `primitives` stand over the item's connections; the root takes from none, the last rank gives
/// to none. Ends early when a primitive does.
template <class Primitives>
WEFT_HD void ring_broadcast(Primitives& primitives, const WorkItem& item) {
  for (std::uint64_t base = 0; base < item.count; base += item.chunk) {
    const std::uint64_t left = item.count - base;
    const Extent extent{.offset = base, .count = left < item.chunk ? left : item.chunk};
    bool done = false;
    if (item.ring_position + 1 == item.ranks) {
      done = primitives.recv(extent);
    } else if (item.ring_position != 0) {
      done = primitives.recv_copy_send(extent);
    } else if (item.send == item.recv) {
      done = primitives.send_from_output(extent);
    } else {
      done = primitives.copy_send(extent);
    }
    if (!done) return;
  }
}

}  // namespace weft::device
