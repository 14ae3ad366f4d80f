// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ring all-reduces over many channels of the types and reductions that are called most, which their
// kernels know at compile time.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/posting.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <class Reduction>
__global__ void __launch_bounds__(kPostingThreads, 1)
    all_reduce_kernel(const __grid_constant__ KernelArgument<kMostItems> argument) {
  __shared__ std::uint64_t slots[2];
  __shared__ PostBoard board;
  if (threadIdx.x >= kThreads) return serve_posts(board, kThreads);
  const WorkItem& item = argument.items[blockIdx.x];
  CtaGroup group(slots, kThreads);
  Posting<CudaMemory> memory(argument.control.abort, argument.control.waiting, item.tag, board);
  const KernelOutcome outcome = all_reduce_item(group, memory, item, Reduction{});
  memory.dismiss(group);
  if (group.leader()) report(argument.control, outcome);
}

template <class Reduction>
const void* pointer() {
  return reinterpret_cast<const void*>(&all_reduce_kernel<Reduction>);
}

struct Kind {
  weft_data_type type;
  weft_reduction reduction;
};
constexpr std::array kKinds = {Kind{WEFT_FLOAT32, WEFT_SUM},  Kind{WEFT_FLOAT32, WEFT_MAX},
                               Kind{WEFT_INT32, WEFT_SUM},    Kind{WEFT_INT32, WEFT_MAX},
                               Kind{WEFT_FLOAT16, WEFT_SUM},  Kind{WEFT_FLOAT16, WEFT_MAX},
                               Kind{WEFT_BFLOAT16, WEFT_SUM}, Kind{WEFT_BFLOAT16, WEFT_MAX}};

// Of each kind.
const auto& kernels() {
  static const std::array<const void*, kKinds.size()> kKernels = {
      pointer<Sum<float>>(),        pointer<Max<float>>(),   pointer<Sum<std::int32_t>>(),
      pointer<Max<std::int32_t>>(), pointer<Sum<Float16>>(), pointer<Max<Float16>>(),
      pointer<Sum<Bfloat16>>(),     pointer<Max<Bfloat16>>()};
  return kKernels;
}

}  // namespace

const void* all_reduce_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.operation != Operation::kAllReduce || argument_items(items) != kMostItems) {
    return nullptr;
  }
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].type == item.type && kKinds[i].reduction == item.reduction) return kernels()[i];
  }
  return nullptr;
}

std::span<const void* const> all_reduce_kernels() {
  return kernels();
}

}  // namespace weft::device::cuda
