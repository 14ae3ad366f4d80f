// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Chains, for sums by rank numbers.
#include "core/device/cuda/edge_kernel.cuh"

namespace weft::device::cuda {

struct ChainEdges {
  using Links = ChainLinks;
  using Memory = SliceMemory;
  __device__ static const Links*& links(WorkItem& item) { return item.chain; }

  __device__ static KernelOutcome run(CtaGroup& group, SliceMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    return run_chain_item(group, memory, item, reduction);
  }
};

RingKernel chain_kernel_for(const WorkItem& item) {
  if (item.algorithm != Algorithm::kChain || item.protocol != Protocol::kSimple) return {};
  return EdgeKernel<ChainEdges>::for_item(item);
}

std::span<const void* const> chain_kernels() {
  return EdgeKernel<ChainEdges>::all();
}

}  // namespace weft::device::cuda
