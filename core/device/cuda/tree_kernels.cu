// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Trees.
#include "core/device/cuda/edge_kernel.cuh"

namespace weft::device::cuda {

struct TreeEdges {
  using Links = TreeLinks;
  using Memory = SliceMemory;
  __device__ static const Links*& links(WorkItem& item) { return item.tree; }

  __device__ static KernelOutcome run(CtaGroup& group, SliceMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    return run_tree_item(group, memory, item, reduction);
  }
};

RingKernel tree_kernel_for(const WorkItem& item) {
  if (item.algorithm != Algorithm::kTree || item.protocol != Protocol::kSimple) return {};
  return EdgeKernel<TreeEdges>::for_item(item);
}

std::span<const void* const> tree_kernels() {
  return EdgeKernel<TreeEdges>::all();
}

}  // namespace weft::device::cuda
