// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What arguments of kernels of rings and edges hold of a launch: host code, pure. Of an argument
// that nobody has set, all that its kernel looks at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/device_runtime.h"
#include "core/device/cuda/kernels.h"

namespace weft::device::cuda {

[[nodiscard]] inline KernelControl control_of(const Launch& launch) {
  return {.abort = reinterpret_cast<const std::uint32_t*>(launch.abort),
          .outcome = launch.outcome,
          .waiting = launch.waiting};
}

inline void carry(const WorkItem& item, CarriedTables& tables) {
  if (item.ranks > kMostCarriedRanks) return;
  for (std::uint32_t i = 0; i < item.ranks; ++i) {
    if (item.ring != nullptr) tables.ring[i] = static_cast<std::uint16_t>(item.ring[i]);
    if (item.blocks == nullptr) continue;
    tables.blocks[i][0] = item.blocks[i].offset;
    tables.blocks[i][1] = item.blocks[i].count;
  }
}

/// Of kItems or fewer.
template <std::size_t kItems>
void fill(const Launch& launch, WholeItems<kItems>& argument) {
  argument.control = control_of(launch);
  std::copy(launch.items.begin(), launch.items.end(), argument.items);
  for (std::size_t i = 0; i < launch.items.size(); ++i)
    carry(launch.items[i], argument.tables[i]);
}

/// Of more, which are packed.
inline void fill(const Launch& launch, PackedRingArgument& argument) {
  argument.control = control_of(launch);
  argument.first = launch.items.front();
  argument.items.links = launch.packed->links;
  std::copy_n(launch.packed->blocks, kMostCarriedRanks, argument.items.blocks);
  std::copy_n(launch.packed->items, launch.items.size(), argument.items.items);
}

inline void fill(const Launch& launch, RingArgument& argument) {
  argument.is_packed = are_packed(launch.items.size());
  argument.is_bounded = launch.is_bounded;
  if (argument.is_packed) {
    fill(launch, argument.packed);
  } else {
    fill(launch, argument.whole);
  }
}

/// Packed, with their connections.
inline void fill(const Launch& launch, LinkedRingArgument& argument) {
  fill(launch, static_cast<PackedRingArgument&>(argument));
  std::copy_n(launch.links, launch.items.size(), argument.links);
}

}  // namespace weft::device::cuda
