// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Compiled by nvcc with all warnings as errors, for the oldest architecture that is supported: all
// kernels over CUDA's policies.
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/work_item_kernel.h"
#include "tests/device/typed_dispatch.h"

using weft::device::cuda::CtaGroup;
using weft::device::cuda::CudaMemory;

__global__ void run_work_items(const weft::WorkItem* items, weft::KernelOutcome* outcomes,
                               const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::WorkItem& item = items[blockIdx.x];
  const weft::KernelOutcome outcome =
      weft::device::testing::with_reduction(item, [&](const auto& reduction) {
        return weft::device::run_work_item(group, memory, item, reduction);
      });
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}

__global__ void run_direct_item(const weft::WorkItem* item, const weft::DirectPeers* peers,
                                weft::KernelOutcome* outcomes, const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::KernelOutcome outcome =
      weft::device::testing::with_reduction(*item, [&](const auto& reduction) {
        return weft::device::run_direct_item<weft::kMostDirectRanks>(
            group, memory, *item, *peers, reduction, blockIdx.x, gridDim.x);
      });
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}

// Kernels of GPUs choose lines over reductions that are looked up; these know theirs.
template <weft::Protocol kProtocol>
__device__ weft::KernelOutcome run_lines(CtaGroup& group, CudaMemory& memory,
                                         const weft::WorkItem& item) {
  using Reduction = weft::device::Average<float>;
  if (item.tree != nullptr) {
    return weft::device::LineTreeWalk<kProtocol, CtaGroup, CudaMemory, Reduction>(
               group, memory, item, Reduction{.divisor = item.ranks}, sizeof(float), 1)
        .run();
  }
  weft::device::LinePrimitives<kProtocol, CtaGroup, CudaMemory, Reduction> primitives(
      group, memory, item, Reduction{.divisor = item.ranks}, sizeof(float), true, true);
  weft::device::ring_all_reduce(primitives, item, sizeof(float));
  return primitives.finish();
}

__global__ void run_by_lines(const weft::WorkItem* items, weft::KernelOutcome* outcomes,
                             const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::WorkItem& item = items[blockIdx.x];
  const weft::KernelOutcome outcome = item.protocol == weft::Protocol::kLL
                                          ? run_lines<weft::Protocol::kLL>(group, memory, item)
                                          : run_lines<weft::Protocol::kLL128>(group, memory, item);
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}

__global__ void run_trees(const weft::WorkItem* items, weft::KernelOutcome* outcomes,
                          const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::WorkItem& item = items[blockIdx.x];
  const weft::KernelOutcome outcome =
      weft::device::testing::with_reduction(item, [&](const auto& reduction) {
        if (item.chain != nullptr) {
          return weft::device::run_chain_item(group, memory, item, reduction);
        }
        return item.tree != nullptr ? weft::device::run_tree_item(group, memory, item, reduction)
                                    : weft::device::run_pat_item(group, memory, item, reduction);
      });
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}

__global__ void run_two_shot_item(const weft::WorkItem* item, const weft::DirectPeers* peers,
                                  weft::KernelOutcome* outcomes, const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::device::Average<float> reduction{.divisor = item->ranks};
  const weft::KernelOutcome outcome = weft::device::run_two_shot_item<weft::kMostDirectRanks>(
      group, memory, *item, *peers, reduction, blockIdx.x, gridDim.x);
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}
