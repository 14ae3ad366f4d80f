// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A CTA's item and the tables it points to, in shared memory: host memory answers after a
// microsecond and more, so it is asked once, for all of it, and only where nothing was carried.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/spread.cuh"
#include "core/device/packed_item.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {

struct Staged {
  alignas(WorkItem) std::byte item[sizeof(WorkItem)];
  alignas(Extent) std::byte blocks[kMostStagedRanks * sizeof(Extent)];
  std::uint32_t ring[kMostStagedRanks];
};

/// By all threads of the CTA, with barriers.
template <std::size_t kItems>
__device__ WorkItem& stage(Staged& staged, const WholeItems<kItems>& argument) {
  const WorkItem& given = argument.items[item_of_cta()];
  const CarriedTables& carried = argument.tables[item_of_cta()];
  auto* const item = reinterpret_cast<WorkItem*>(staged.item);
  auto* const blocks = reinterpret_cast<Extent*>(staged.blocks);
  constexpr auto kWords = static_cast<std::uint32_t>(sizeof(WorkItem) / sizeof(std::uint32_t));
  for (std::uint32_t i = threadIdx.x; i < kWords; i += blockDim.x)
    reinterpret_cast<std::uint32_t*>(item)[i] = reinterpret_cast<const std::uint32_t*>(&given)[i];
  const std::uint32_t ranks = given.ranks;
  const bool has_ring = given.ring != nullptr && ranks <= kMostStagedRanks;
  const bool has_table = given.blocks != nullptr && ranks <= kMostStagedRanks;
  for (std::uint32_t i = threadIdx.x; i < ranks && i < kMostStagedRanks; i += blockDim.x) {
    const bool is_carried = ranks <= kMostCarriedRanks;
    if (has_ring) staged.ring[i] = is_carried ? carried.ring[i] : given.ring[i];
    if (!has_table) continue;
    blocks[i] = is_carried ? Extent{.offset = carried.blocks[i][0], .count = carried.blocks[i][1]}
                           : given.blocks[i];
  }
  __syncthreads();
  if (threadIdx.x == 0 && has_ring) item->ring = staged.ring;
  if (threadIdx.x == 0 && has_table) item->blocks = blocks;
  __syncthreads();
  return *item;
}

/// Likewise. Connections are in the device's memory, which answers sooner than the host's.
__device__ inline WorkItem& stage(Staged& staged, const PackedRingArgument& argument) {
  auto* const item = reinterpret_cast<WorkItem*>(staged.item);
  AllThreads threads;
  unpack_item(
      threads, argument.first, argument.items, item_of_cta(),
      {.item = item, .blocks = reinterpret_cast<Extent*>(staged.blocks), .ring = staged.ring});
  return *item;
}

/// Either.
__device__ inline WorkItem& stage(Staged& staged, const RingArgument& argument) {
  return argument.is_packed ? stage(staged, argument.packed) : stage(staged, argument.whole);
}

}  // namespace weft::device::cuda
