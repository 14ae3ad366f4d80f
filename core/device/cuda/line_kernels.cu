// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings and trees by LL, of all operations, types and reductions: the templates of core/device, one
// CTA an item, a line a thread.
#include "core/device/any_payload_loops.h"
#include "core/device/cuda/edge_kernel.cuh"
#include "core/device/single_lane.h"

namespace weft::device::cuda {

// What a thread does with the payload of a line; outlined, since every step of every algorithm does
// some of it.

__device__ __noinline__ void copy_payload(std::byte* first, std::byte* second,
                                          const std::byte* source, std::uint64_t bytes) {
  payload_copy(first, second, source, bytes);
}

__device__ __noinline__ void reduce_payload(AnyReduction reduction, std::byte* first,
                                            std::byte* second, const std::byte* a,
                                            const std::byte* b, std::uint64_t count) {
  payload_reduce(reduction, first, second, a, b, count);
}

__device__ __noinline__ void finish_payload(AnyReduction reduction, std::byte* complete,
                                            std::byte* second, std::uint64_t count) {
  payload_finish(reduction, complete, second, count);
}

__device__ __noinline__ void premultiply_payload(AnyReduction reduction, std::byte* to,
                                                 const std::byte* input, std::uint64_t count) {
  payload_premultiply(reduction, to, input, count);
}

__device__ __noinline__ void premultiply_reduce_payload(AnyReduction reduction, std::byte* first,
                                                        std::byte* second, const std::byte* other,
                                                        const std::byte* input,
                                                        std::uint64_t count) {
  payload_premultiply_reduce(reduction, first, second, other, input, count);
}

/// Memory of kernels by LL alone, whose threads work alone.
class LineMemory : public CudaMemory {
 public:
  using CudaMemory::copy;
  using CudaMemory::CudaMemory;
  static constexpr std::uint32_t kLineBytesAtOnce = 0;
  [[nodiscard]] static constexpr bool runs(Protocol protocol) { return protocol == Protocol::kLL; }

  __device__ static void copy(SingleLane& /*lane*/, std::byte* first, std::byte* second,
                              const std::byte* source, std::uint64_t bytes) {
    copy_payload(first, second, source, bytes);
  }
  __device__ static void reduce(const AnyReduction& reduction, SingleLane& /*lane*/,
                                std::byte* first, std::byte* second, const std::byte* a,
                                const std::byte* b, std::uint64_t count) {
    reduce_payload(reduction, first, second, a, b, count);
  }
  __device__ static void finish(const AnyReduction& reduction, SingleLane& /*lane*/,
                                std::byte* complete, std::byte* second, std::uint64_t count) {
    finish_payload(reduction, complete, second, count);
  }
  __device__ static void premultiply_copy(const AnyReduction& reduction, SingleLane& /*lane*/,
                                          std::byte* to, const std::byte* input,
                                          std::uint64_t count) {
    premultiply_payload(reduction, to, input, count);
  }
  /// Of one rank alone, which has no lines to wait for.
  __device__ static void premultiply_copy(const AnyReduction& reduction, CtaGroup& group,
                                          std::byte* to, const std::byte* input,
                                          std::uint64_t count) {
    if (group.leader()) premultiply_payload(reduction, to, input, count);
  }
  // A sum does not ask which comes first.
  __device__ static void premultiply_reduce(const AnyReduction& reduction, SingleLane& /*lane*/,
                                            std::byte* first, std::byte* second,
                                            const std::byte* other, const std::byte* input,
                                            std::uint64_t count, bool /*input_first*/) {
    premultiply_reduce_payload(reduction, first, second, other, input, count);
  }
};

struct LineTreeEdges {
  using Links = TreeLinks;
  using Memory = LineMemory;
  __device__ static const Links*& links(WorkItem& item) { return item.tree; }

  __device__ static KernelOutcome run(CtaGroup& group, LineMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    return run_tree_item(group, memory, item, reduction);
  }
};

struct LineRing {
  using Links = NoLinks;
  using Memory = LineMemory;

  __device__ static KernelOutcome run(CtaGroup& group, LineMemory& memory, const WorkItem& item,
                                      const AnyReduction& reduction) {
    return run_ring_item(group, memory, item, reduction);
  }
};

RingKernel line_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.protocol != Protocol::kLL) return {};
  if (item.algorithm == Algorithm::kRing) return EdgeKernel<LineRing>::for_item(item, items);
  if (item.algorithm == Algorithm::kTree) return EdgeKernel<LineTreeEdges>::for_item(item, items);
  return {};
}

std::span<const void* const> line_kernels() {
  static const std::array<const void*, 2 * kSizes> kKernels = {
      EdgeKernel<LineRing>::all()[0], EdgeKernel<LineRing>::all()[1],
      EdgeKernel<LineTreeEdges>::all()[0], EdgeKernel<LineTreeEdges>::all()[1]};
  return kKernels;
}

}  // namespace weft::device::cuda
