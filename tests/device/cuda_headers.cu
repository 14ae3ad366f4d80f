// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Compiled by nvcc with all warnings as errors, for the oldest architecture that is supported: all
// kernels over CUDA's policies.
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/work_item_kernel.h"

using weft::device::cuda::CtaGroup;
using weft::device::cuda::CudaMemory;

__global__ void run_work_items(const weft::WorkItem* items, weft::KernelOutcome* outcomes,
                               const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::KernelOutcome outcome = weft::device::run_work_item(group, memory, items[blockIdx.x]);
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}

__global__ void run_direct_item(const weft::WorkItem* item, const weft::DirectPeers* peers,
                                weft::KernelOutcome* outcomes, const std::uint32_t* abort) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(abort, nullptr, 0);
  const weft::KernelOutcome outcome = weft::device::run_direct_item<weft::kMostDirectRanks>(
      group, memory, *item, *peers, blockIdx.x, gridDim.x);
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}
