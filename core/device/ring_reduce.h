// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reduce along a ring that ends at the root: chunk by chunk, every rank adds its own.
#pragma once

#include <cstdint>

#include "core/device/portability.h"
#include "core/device/primitives_simple.h"
#include "core/model/ring_geometry.h"

namespace weft::device {

/// `primitives` stand over the item's connections; the rank behind the root takes from none, the
/// root gives to none. Ends early when a primitive does.
template <class Primitives, class Item>
WEFT_HD void ring_reduce(Primitives& primitives, const Item& item) {
  for (std::uint64_t base = 0; base < item.count; base += item.chunk) {
    const std::uint64_t left = item.count - base;
    const Extent extent{.offset = base, .count = left < item.chunk ? left : item.chunk};
    bool done = false;
    if (item.ring_position == 0) {
      done = primitives.recv_reduce_copy(extent);
    } else if (item.ring_position == 1) {
      done = primitives.send(extent);
    } else {
      done = primitives.recv_reduce_send(extent);
    }
    if (!done) return;
  }
}

}  // namespace weft::device
