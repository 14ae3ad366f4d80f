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
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

/// Whether calls take the kernel that knows their type and reduction, where there is one.
constexpr bool kPrefersKnownReductions = true;

// Outlined, though each kernel has a copy of its own.
__device__ __noinline__ void run_staged(KernelControl control, const WorkItem& item,
                                        std::uint64_t* slots) {
  CtaGroup group(slots);
  SliceMemory memory(control.abort, control.waiting, item.tag);
  const KernelOutcome outcome = run_ring_item(group, memory, item, reduction_of(item));
  if (group.leader()) report(control, outcome);
}

/// `Argument` is one of whole or of packed items, maybe WithOutputs.
template <class Argument>
__global__ void __launch_bounds__(kThreads, 1)
    ring_kernel(const __grid_constant__ Argument argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = stage(staged, argument);
  if constexpr (agrees_on_outputs<Argument>) {
    // It fills no outputs, and offers none: all ranks go by slots. The barrier parts that of the
    // first warp from the same one of all lanes.
    OutputCta cta{.control = argument.control};
    enter_outputs(cta, item, argument.outputs.call, argument.outputs.peers, false, nullptr);
    __syncthreads();
  }
  run_staged(argument.control, item, slots);
}

template <class Argument>
const void* pointer() {
  return reinterpret_cast<const void*>(&ring_kernel<Argument>);
}

/// By size, then those that agree on outputs.
const auto& all_kernels() {
  static const std::array kKernels = {pointer<RingArgument>(), pointer<PackedRingArgument>(),
                                      pointer<WithOutputs<RingArgument>>(),
                                      pointer<WithOutputs<PackedRingArgument>>()};
  return kKernels;
}

}  // namespace

RingKernel kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return {};
  if (!kernel_exists(item)) return {};
  if constexpr (kPrefersKnownReductions) {
    const RingKernel known = known_ring_kernel_for(item, items);
    if (known.address != nullptr) return known;
  }
  const std::size_t size = size_index(items);
  return {.address = all_kernels()[size],
          .threads = kThreads,
          .for_outputs = all_kernels()[kSizes + size]};
}

std::span<const void* const> ring_kernels() {
  return all_kernels();
}

}  // namespace weft::device::cuda
