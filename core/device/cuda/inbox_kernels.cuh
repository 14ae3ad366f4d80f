// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Kernels over mapped inboxes, whichever their template: a CTA a part, one kernel for each type,
// reduction and bound of ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {

template <class Call, class Reduction>
__global__ void __launch_bounds__(kThreads, 1)
    inbox_kernel(const __grid_constant__ DirectArgument argument) {
  overlap_launches();
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(argument.control.abort, argument.control.waiting, argument.item.tag);
  Call call(group, memory, argument.item, argument.peers, Reduction{}, blockIdx.x, gridDim.x);
  const KernelOutcome outcome = call.run();
  if (group.leader()) report(argument.control, outcome);
}

/// `Call<kRanks, Reduction>` is the template of core/device, for a CTA.
template <template <std::uint32_t kRanks, class Reduction> class Call>
class InboxKernels {
 public:
  /// Null where there is none for the item's type and reduction.
  [[nodiscard]] static const void* of(const WorkItem& item) {
    const std::size_t size = item.direct->ranks <= 2 ? 0 : item.direct->ranks <= 4 ? 1 : 2;
    for (const Entry& one : entries()) {
      if (one.type == item.type && one.reduction == item.reduction) return one.by_ranks[size];
    }
    return nullptr;
  }

  [[nodiscard]] static std::span<const void* const> all() {
    static const auto kAll = [] {
      std::array<const void*, kKinds * kSizes> kernels{};
      std::size_t next = 0;
      for (const Entry& one : entries())
        for (const void* kernel : one.by_ranks)
          kernels[next++] = kernel;
      return kernels;
    }();
    return kAll;
  }

 private:
  static constexpr std::size_t kKinds = 8;
  static constexpr std::size_t kSizes = 3;

  struct Entry {
    weft_data_type type;
    weft_reduction reduction;
    const void* by_ranks[kSizes];  // for 2, 4 and kMostDirectRanks ranks at most
  };

  template <std::uint32_t kRanks, class R>
  static const void* kernel() {
    return reinterpret_cast<const void*>(&inbox_kernel<Call<kRanks, R>, R>);
  }

  template <class R>
  static Entry entry(weft_data_type type, weft_reduction reduction) {
    return {.type = type,
            .reduction = reduction,
            .by_ranks = {kernel<2, R>(), kernel<4, R>(), kernel<kMostDirectRanks, R>()}};
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
