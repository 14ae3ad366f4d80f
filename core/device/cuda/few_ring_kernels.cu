// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings of one or two channels: by small arguments, and kernels that have no more code than they
// need. Where a call is small a launch and the first look at code are most of it.
#include <cstdint>
#include <span>
#include <vector>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/known_reductions.cuh"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <class Reduction>
__global__ void __launch_bounds__(kThreads, 1)
    few_reductions_kernel(const __grid_constant__ FewRingArgument argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  const WorkItem& item = stage(staged, argument);
  overlap_launches();
  run_known_reduction<Reduction>(argument.control, item);
}

/// Of broadcasts and all-gathers.
__global__ void __launch_bounds__(kThreads, 1)
    few_copies_kernel(const __grid_constant__ FewRingArgument argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = stage(staged, argument);
  overlap_launches();
  const KernelControl& control = argument.control;
  CtaGroup group(slots);
  CudaMemory memory(control.abort, control.waiting, item.tag);
  const KernelOutcome outcome = item.operation == Operation::kBroadcast
                                    ? broadcast_item(group, memory, item)
                                    : all_gather_item(group, memory, item);
  if (group.leader()) report(control, outcome);
}

// The one that copies, then one for each reduction.
const std::vector<const void*>& few_kernels() {
  static const auto kKernels = [] {
    std::vector<const void*> all = {reinterpret_cast<const void*>(&few_copies_kernel)};
    for_each_known_reduction([&]<class Reduction>() {
      all.push_back(reinterpret_cast<const void*>(&few_reductions_kernel<Reduction>));
    });
    return all;
  }();
  return kKernels;
}

}  // namespace

RingKernel few_ring_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (items > kCtasThatMayComeEarly) return {};
  RingKernel kernel{
      .threads = kThreads, .awaits_kernel_before = true, .takes = RingKernel::Takes::kFew};
  if (!reduces(item.operation)) {
    kernel.address = few_kernels().front();
  } else if (const auto reduction = place_of_reduction(item)) {
    kernel.address = few_kernels()[1 + *reduction];
  }
  return kernel;
}

std::span<const void* const> few_ring_kernels() {
  return few_kernels();
}

}  // namespace weft::device::cuda
