// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings of all operations, types and reductions: the templates of core/device, one CTA an item.
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/device/cuda/any_reduction.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/enter_outputs.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

/// Whether all-reduces take the kernel that knows their type and reduction, where there is one.
constexpr bool kPrefersKnownReductions = true;

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
  if (argument.outputs.call.table != nullptr) {
    // It fills no outputs, and offers none: all ranks go by slots. The barrier parts that of the
    // first warp from the same one of all lanes.
    enter_outputs(argument.all.control, item, argument.outputs, nullptr);
    __syncthreads();
  }
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
  if (!kernel_exists(item)) return {};
  const void* known = kPrefersKnownReductions ? all_reduce_kernel_for(item, items) : nullptr;
  if (known != nullptr) return {.address = known, .threads = kPostingThreads};
  return {.address = by_size()[size_index(items)], .threads = kThreads};
}

std::span<const void* const> ring_kernels() {
  return by_size();
}

}  // namespace weft::device::cuda
