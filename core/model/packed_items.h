// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The items of a plan of many channels, as arguments of a GPU's kernels hold them: a launch costs
// what its argument weighs, and each item for itself would be ten times as much. What all have in
// common is in the first item, and the connections, which are the same in all calls, lie in memory
// of the device.
#pragma once

#include <cstdint>

#include "core/model/connection_view.h"
#include "core/model/ring_geometry.h"
#include "core/model/work_item.h"

namespace weft {

/// Launches of up to so many items carry them as they are.
inline constexpr std::uint32_t kMostWholeItems = 8;
/// There are no launches of more.
inline constexpr std::uint32_t kMostPackedItems = 64;

/// A rank's ends on one channel of a ring.
struct RingLinks {
  ConnectionView from_previous;
  ConnectionView to_next;
};

/// What an item has for itself.
struct PackedItem {
  std::uint64_t offset = 0;  ///< Elements that its buffers begin behind those of the first item.
  std::uint64_t count = 0;
  std::uint64_t chunk = 0;
  std::uint32_t ring_position = 0;
  std::uint8_t ring[kMostCarriedRanks]{};  ///< WorkItem::ring, of no more ranks than that.
  BothEnds both_ends = BothEnds::kNo;
};

/// Items without what a call sets, which the first item has. Tables of more ranks, and links of
/// edges, lie behind each other: those of item i are the i-th from where the first one points to.
struct PackedItems {
  /// Of rings of several ranks: of each item; memory of the device. Else null, and items have
  /// their connections from the first one.
  const RingLinks* links = nullptr;
  /// Where blocks differ, of no more ranks than that: Plan::blocks.
  Extent blocks[kMostCarriedRanks]{};
  PackedItem items[kMostPackedItems]{};
};

}  // namespace weft
