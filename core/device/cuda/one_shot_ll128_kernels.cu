// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The one-shot all-reduce over wide lines: the template of core/device, a CTA a part.
#include <array>
#include <type_traits>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <class Reduction, std::uint32_t kRanks>
__global__ void __launch_bounds__(kThreads, 1)
    one_shot_ll128_kernel(const __grid_constant__ DirectArgument argument) {
  overlap_launches();
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(argument.control.abort, argument.control.waiting, argument.item.tag);
  OneShotLL128<kRanks, Reduction, CtaGroup, CudaMemory> call(
      group, memory, argument.item, argument.peers, Reduction{}, blockIdx.x, gridDim.x);
  const KernelOutcome outcome = call.run();
  if (group.leader()) report(argument.control, outcome);
}

struct Entry {
  weft_data_type type;
  weft_reduction reduction;
  const void* by_ranks[3];  // for 2, 4 and kMostDirectRanks ranks at most
};

template <class R>
Entry entry(weft_data_type type, weft_reduction reduction) {
  return {.type = type,
          .reduction = reduction,
          .by_ranks = {reinterpret_cast<const void*>(&one_shot_ll128_kernel<R, 2>),
                       reinterpret_cast<const void*>(&one_shot_ll128_kernel<R, 4>),
                       reinterpret_cast<const void*>(&one_shot_ll128_kernel<R, kMostDirectRanks>)}};
}

const auto& entries() {
  static const std::array kEntries = {
      entry<Sum<float>>(WEFT_FLOAT32, WEFT_SUM),
      entry<Max<float>>(WEFT_FLOAT32, WEFT_MAX),
      entry<Sum<std::int32_t>>(WEFT_INT32, WEFT_SUM),
      entry<Max<std::int32_t>>(WEFT_INT32, WEFT_MAX),
      entry<Sum<Float16>>(WEFT_FLOAT16, WEFT_SUM),
      entry<Max<Float16>>(WEFT_FLOAT16, WEFT_MAX),
      entry<Sum<Bfloat16>>(WEFT_BFLOAT16, WEFT_SUM),
      entry<Max<Bfloat16>>(WEFT_BFLOAT16, WEFT_MAX),
  };
  return kEntries;
}

}  // namespace

const void* wide_kernel_for(const WorkItem& item) {
  if (!fits_wide_lines(item, *item.direct, kMostDirectRanks)) return nullptr;
  const std::size_t size = item.direct->ranks <= 2 ? 0 : item.direct->ranks <= 4 ? 1 : 2;
  for (const Entry& one : entries()) {
    if (one.type == item.type && one.reduction == item.reduction) return one.by_ranks[size];
  }
  return nullptr;
}

std::span<const void* const> wide_kernels() {
  static const auto kAll = [] {
    std::array<const void*, 3 * std::tuple_size_v<std::remove_cvref_t<decltype(entries())>>> all{};
    std::size_t next = 0;
    for (const Entry& one : entries())
      for (const void* kernel : one.by_ranks)
        all[next++] = kernel;
    return all;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
