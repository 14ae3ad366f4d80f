// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ring all-reduces of the types and reductions that are called most, which their kernels know at
// compile time.
#include <array>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <class Reduction, std::uint32_t kItems>
__global__ void __launch_bounds__(kThreads, 1)
    all_reduce_kernel(const __grid_constant__ KernelArgument<kItems> argument) {
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = argument.items[blockIdx.x];
  CtaGroup group(slots);
  CudaMemory memory(argument.control.abort, argument.control.waiting, item.tag);
  const KernelOutcome outcome = all_reduce_item(group, memory, item, Reduction{});
  if (group.leader()) report(argument.control, outcome);
}

struct Entry {
  weft_data_type type;
  weft_reduction reduction;
  const void* by_size[kSizes];  // of the argument
};

template <class R>
Entry all_reduce_entry(weft_data_type type, weft_reduction reduction) {
  return {.type = type,
          .reduction = reduction,
          .by_size = {reinterpret_cast<const void*>(&all_reduce_kernel<R, 8>),
                      reinterpret_cast<const void*>(&all_reduce_kernel<R, kMostItems>)}};
}

const auto& entries() {
  static const std::array kEntries = {
      all_reduce_entry<Sum<float>>(WEFT_FLOAT32, WEFT_SUM),
      all_reduce_entry<Max<float>>(WEFT_FLOAT32, WEFT_MAX),
      all_reduce_entry<Sum<std::int32_t>>(WEFT_INT32, WEFT_SUM),
      all_reduce_entry<Max<std::int32_t>>(WEFT_INT32, WEFT_MAX),
      all_reduce_entry<Sum<Float16>>(WEFT_FLOAT16, WEFT_SUM),
      all_reduce_entry<Max<Float16>>(WEFT_FLOAT16, WEFT_MAX),
      all_reduce_entry<Sum<Bfloat16>>(WEFT_BFLOAT16, WEFT_SUM),
      all_reduce_entry<Max<Bfloat16>>(WEFT_BFLOAT16, WEFT_MAX),
  };
  return kEntries;
}

}  // namespace

const void* all_reduce_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.operation != Operation::kAllReduce) return nullptr;
  for (const Entry& entry : entries()) {
    if (entry.type == item.type && entry.reduction == item.reduction) {
      return entry.by_size[size_index(items)];
    }
  }
  return nullptr;
}

std::span<const void* const> all_reduce_kernels() {
  static const auto kAll = [] {
    std::array<const void*, kSizes * std::tuple_size_v<std::remove_cvref_t<decltype(entries())>>>
        all{};
    std::size_t next = 0;
    for (const Entry& entry : entries())
      for (const void* kernel : entry.by_size)
        all[next++] = kernel;
    return all;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
