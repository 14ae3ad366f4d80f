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
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"
#include "core/model/output_table.h"

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

__global__ void __launch_bounds__(kThreads, 1)
    ring_kernel(const __grid_constant__ RingArgumentWithOutputs argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = stage(staged, argument);
  await_kernel_before();
  let_next_begin_beside_few(items_of_launch());
  if (argument.agrees) {
    // It fills no outputs, and offers none: all ranks go by slots. The barrier also parts that of
    // the first warp from the same one of all lanes.
    __shared__ bool goes;
    OutputCta cta{.control = control_of(argument)};
    const OutputWay way =
        enter_outputs(cta, item, argument.outputs.call, argument.outputs.peers, false, nullptr);
    if (cta.is_first_thread()) goes = way != OutputWay::kNone;
    __syncthreads();
    if (!goes) return;
  }
  run_staged(control_of(argument), item, slots);
}

const std::array<const void*, 1>& all_kernels() {
  static const std::array kKernel = {reinterpret_cast<const void*>(&ring_kernel)};
  return kKernel;
}

}  // namespace

RingKernel kernel_for(const WorkItem& item, std::uint32_t items, bool agrees) {
  if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return {};
  if (!kernel_exists(item)) return {};
  if (kPrefersKnownReductions && !agrees) {
    const RingKernel few = few_ring_kernel_for(item, items);
    if (few.address != nullptr) return few;
    const RingKernel known = known_ring_kernel_for(item, items);
    if (known.address != nullptr) return known;
  }
  return {.address = all_kernels()[0],
          .threads = kThreads,
          .for_outputs = all_kernels()[0],
          .awaits_kernel_before = true,
          .takes = RingKernel::Takes::kAnyWithOutputs};
}

std::span<const void* const> ring_kernels() {
  return all_kernels();
}

}  // namespace weft::device::cuda
