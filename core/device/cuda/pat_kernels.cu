// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Parallel aggregated trees.
#include "core/device/cuda/edge_kernel.cuh"

namespace weft::device::cuda {

struct PatEdges {
  using Links = PatLinks;
  using Memory = SliceMemory;
  __device__ static const Links*& links(WorkItem& item) { return item.pat; }

  __device__ static KernelOutcome run(CtaGroup& group, SliceMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    __shared__ alignas(Line) std::byte gathered[kMostGatheredBytes];
    return run_pat_item(group, memory, item, reduction, gathered);
  }
};

RingKernel pat_kernel_for(const WorkItem& item) {
  if (item.algorithm != Algorithm::kPat || item.protocol != Protocol::kSimple) return {};
  return EdgeKernel<PatEdges>::for_item(item);
}

std::span<const void* const> pat_kernels() {
  return EdgeKernel<PatEdges>::all();
}

}  // namespace weft::device::cuda
