// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Kernels over mapped inboxes, whichever their template: a CTA a part. One kernel for each bound
// of ranks of the types and reductions that are called most, and one for all others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/device/cuda/any_reduction.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {

template <class Reduction>
__device__ Reduction reduction_for(const WorkItem& item) {
  if constexpr (std::is_same_v<Reduction, AnyReduction>) {
    return reduction_of(item);
  } else {
    return {};
  }
}

template <class Call, class Memory, class Reduction, std::uint32_t kMostThreads = kThreads>
__global__ void __launch_bounds__(kMostThreads, 1)
    inbox_kernel(const __grid_constant__ DirectArgument argument) {
  __shared__ std::uint64_t slots[2];
  // Calls read no memory when they are made, but for a factor, which the kernel before this one may
  // write: so all else is set up beside that.
  constexpr bool kWaitsFirst = std::is_same_v<Reduction, AnyReduction>;
  if constexpr (kWaitsFirst) overlap_launches();
  CtaGroup group(slots);
  Memory memory(argument.control.abort, argument.control.waiting, argument.item.tag);
  Call call(group, memory, argument.item, argument.peers, reduction_for<Reduction>(argument.item),
            blockIdx.x, gridDim.x);
  if constexpr (!kWaitsFirst) overlap_launches();
  const KernelOutcome outcome = call.run();
  if (group.leader()) report(argument.control, outcome);
}

/// Kernels are for 2, 4 and kMostDirectRanks ranks at most: which of them.
inline constexpr std::size_t kSizesOfRanks = 3;
[[nodiscard]] constexpr std::size_t size_of_ranks(std::uint32_t ranks) {
  return ranks <= 2 ? 0 : ranks <= 4 ? 1 : 2;
}

/// `Call<kRanks, Reduction, Memory>` is the template of core/device, for a CTA.
template <template <std::uint32_t kRanks, class Reduction, class Memory> class Call,
          std::uint32_t kMostThreads = kThreads>
class InboxKernels {
 public:
  /// One that knows the item's type and reduction at compile time, or the one for all: that alone
  /// can do without accumulating.
  [[nodiscard]] static const void* of(const WorkItem& item) {
    if (!kernel_exists(item)) return nullptr;
    if (item.rounds_each && accumulates(item.type, item.reduction)) return for_any();
    for (const Entry& one : entries()) {
      if (one.type == item.type && one.reduction == item.reduction) {
        return one.by_ranks[size_of_ranks(item.direct->ranks)];
      }
    }
    return for_any();
  }
  [[nodiscard]] static const void* of_any(const WorkItem& item) {
    return kernel_exists(item) ? for_any() : nullptr;
  }

  [[nodiscard]] static std::span<const void* const> all() {
    static const auto kAll = [] {
      std::array<const void*, kKinds * kSizesOfRanks + 1> kernels{};
      std::size_t next = 0;
      for (const Entry& one : entries())
        for (const void* kernel : one.by_ranks)
          kernels[next++] = kernel;
      kernels[next] = for_any();
      return kernels;
    }();
    return kAll;
  }

 private:
  // Of one size: what it takes to tell the types apart is more than what fewer ranks save.
  static const void* for_any() { return kernel<kMostDirectRanks, AnyReduction, SliceMemory>(); }

  static constexpr std::size_t kKinds = 8;

  struct Entry {
    weft_data_type type;
    weft_reduction reduction;
    const void* by_ranks[kSizesOfRanks];
  };

  template <std::uint32_t kRanks, class R, class M>
  static const void* kernel() {
    return reinterpret_cast<const void*>(&inbox_kernel<Call<kRanks, R, M>, M, R, kMostThreads>);
  }
  template <class R>
  static Entry entry(weft_data_type type, weft_reduction reduction) {
    return {.type = type,
            .reduction = reduction,
            .by_ranks = {kernel<2, R, CudaMemory>(), kernel<4, R, CudaMemory>(),
                         kernel<kMostDirectRanks, R, CudaMemory>()}};
  }

  static const std::array<Entry, kKinds>& entries() {
    static const std::array<Entry, kKinds> kEntries = {
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
};

}  // namespace weft::device::cuda
