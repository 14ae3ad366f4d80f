// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernels of rings and trees over a memory whose slots hold lines. A source for each protocol
// makes them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/device/cuda/edge_kernel.cuh"

namespace weft::device::cuda {

// Outlined: of each step of each algorithm one or two ends wait so, and seldom for long.
__device__ __noinline__ inline WaitResult wait_for_counter(CudaMemory memory,
                                                           std::uint64_t* counter,
                                                           std::uint64_t threshold,
                                                           std::uint32_t* error) {
  return memory.wait_at_least(counter, nullptr, threshold, error);
}

/// Memory of kernels by lines. A warp posts for the others: a counter waits for what was written
/// before, and who looks at lines need not.
class PostingLineMemory : public Posting<CudaMemory> {
 public:
  using Posting::Posting;

  [[nodiscard]] __device__ WaitResult wait_at_least(std::uint64_t* counter,
                                                    std::uint32_t* /*waiters*/,
                                                    std::uint64_t threshold,
                                                    std::uint32_t* error) const {
    return wait_for_counter(*this, counter, threshold, error);
  }
};

template <class LineMemory>
struct LineTree {
  using Links = TreeLinks;
  using Memory = LineMemory;
  __device__ static const Links*& links(WorkItem& item) { return item.tree; }

  __device__ static KernelOutcome run(CtaGroup& group, LineMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    return run_tree_item(group, memory, item, reduction);
  }
};

template <class LineMemory>
struct LineRing {
  using Links = NoLinks;
  using Memory = LineMemory;

  __device__ static KernelOutcome run(CtaGroup& group, LineMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    return run_ring_item(group, memory, item, reduction);
  }
};

template <class LineMemory>
class LineKernels {
  using Ring = EdgeKernel<LineRing<LineMemory>>;
  using Tree = EdgeKernel<LineTree<LineMemory>>;

 public:
  [[nodiscard]] static RingKernel for_item(const WorkItem& item) {
    if (item.algorithm == Algorithm::kRing) return Ring::for_item(item);
    if (item.algorithm == Algorithm::kTree) return Tree::for_item(item);
    return {};
  }
  [[nodiscard]] static std::span<const void* const> all() {
    static const std::array kKernels = {Ring::all()[0], Tree::all()[0]};
    return kKernels;
  }
};

}  // namespace weft::device::cuda
