// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings of all operations, types and reductions: the templates of core/device, one CTA an item.
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/device/cuda/any_reduction.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

/// Whether all-reduces take the kernel that knows their type and reduction, where there is one.
constexpr bool kPrefersKnownReductions = true;

/// Tables of up to this many ranks are copied at once; longer ones stay in host memory.
constexpr std::uint32_t kMostStagedRanks = 64;

/// A CTA's item and the tables it points to, in shared memory: host memory answers after a
/// microsecond and more, so it is asked once, for all of it, and only where nothing was carried.
struct Staged {
  alignas(WorkItem) std::byte item[sizeof(WorkItem)];
  alignas(Extent) std::byte blocks[kMostStagedRanks * sizeof(Extent)];
  std::uint32_t ring[kMostStagedRanks];
};

__device__ const WorkItem& stage(Staged& staged, const WorkItem& given,
                                 const CarriedTables& carried) {
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

// Outlined: the sizes of the argument share it.
__device__ __noinline__ void run_staged(KernelControl control, const WorkItem& item,
                                        std::uint64_t* slots) {
  CtaGroup group(slots);
  SliceMemory memory(control.abort, control.waiting, item.tag);
  const KernelOutcome outcome = run_ring_item(group, memory, item, reduction_of(item));
  if (group.leader()) report(control, outcome);
}

template <std::uint32_t kItems>
__global__ void __launch_bounds__(kThreads, 1)
    ring_kernel(const __grid_constant__ RingArgument<kItems> argument) {
  __shared__ Staged staged;
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = stage(staged, argument.all.items[blockIdx.x], argument.tables[blockIdx.x]);
  run_staged(argument.all.control, item, slots);
}

template <std::uint32_t kItems>
const void* pointer() {
  return reinterpret_cast<const void*>(&ring_kernel<kItems>);
}

const auto& by_size() {
  static const std::array<const void*, kSizes> kKernels = {pointer<8>(), pointer<kMostItems>()};
  return kKernels;
}

}  // namespace

RingKernel kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return {};
  if (!kernel_exists({.operation = item.operation,
                      .type = item.type,
                      .reduction = item.reduction,
                      .root = 0,
                      .count = item.count})) {
    return {};
  }
  const void* known = kPrefersKnownReductions ? all_reduce_kernel_for(item, items) : nullptr;
  if (known != nullptr) return {.address = known, .threads = kPostingThreads};
  return {.address = by_size()[size_index(items)], .threads = kThreads};
}

std::span<const void* const> ring_kernels() {
  return by_size();
}

}  // namespace weft::device::cuda
