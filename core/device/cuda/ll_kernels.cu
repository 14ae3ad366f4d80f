// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings and trees by LL, of all operations, types and reductions: the templates of core/device, one
// CTA an item, a line a thread.
#include "core/device/any_payload_loops.h"
#include "core/device/cuda/line_kernels.cuh"
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
class LineMemory : public PostingLineMemory {
 public:
  using CudaMemory::copy;  // of groups, as device_memory has it
  using PostingLineMemory::PostingLineMemory;
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
  // A sum does not ask which comes first.
  __device__ static void premultiply_reduce(const AnyReduction& reduction, SingleLane& /*lane*/,
                                            std::byte* first, std::byte* second,
                                            const std::byte* other, const std::byte* input,
                                            std::uint64_t count, bool /*input_first*/) {
    premultiply_reduce_payload(reduction, first, second, other, input, count);
  }
};

RingKernel ll_kernel_for(const WorkItem& item) {
  return LineKernels<LineMemory>::for_item(item);
}

std::span<const void* const> ll_kernels() {
  return LineKernels<LineMemory>::all();
}

}  // namespace weft::device::cuda
