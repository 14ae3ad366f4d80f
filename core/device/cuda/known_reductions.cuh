// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The types and reductions that are called most, which kernels of rings know at compile time, and
// what those do that have few items.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/reductions.h"
#include "core/device/work_item_kernel.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {

struct KnownReduction {
  weft_data_type type;
  weft_reduction reduction;
  friend bool operator==(const KnownReduction&, const KnownReduction&) = default;
};
inline constexpr std::array kKnownReductions = {
    KnownReduction{WEFT_FLOAT32, WEFT_SUM},  KnownReduction{WEFT_FLOAT32, WEFT_MAX},
    KnownReduction{WEFT_INT32, WEFT_SUM},    KnownReduction{WEFT_INT32, WEFT_MAX},
    KnownReduction{WEFT_FLOAT16, WEFT_SUM},  KnownReduction{WEFT_FLOAT16, WEFT_MAX},
    KnownReduction{WEFT_BFLOAT16, WEFT_SUM}, KnownReduction{WEFT_BFLOAT16, WEFT_MAX}};

/// Calls `append.operator()<Reduction>()` for each of them, in that order.
template <class Append>
void for_each_known_reduction(const Append& append) {
  const auto of = [&]<class... Reductions>() { (append.template operator()<Reductions>(), ...); };
  of.template operator()<Sum<float>, Max<float>, Sum<std::int32_t>, Max<std::int32_t>, Sum<Float16>,
                         Max<Float16>, Sum<Bfloat16>, Max<Bfloat16>>();
}

/// By all threads of a CTA: a ring that reduces.
template <class Reduction>
__device__ void run_known_reduction(const KernelControl& control, const WorkItem& item) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(control.abort, control.waiting, item.tag);
  KernelOutcome outcome;
  if (item.operation == Operation::kAllReduce) {
    outcome = all_reduce_item(group, memory, item, Reduction{});
  } else if (item.operation == Operation::kReduce) {
    outcome = reduce_item(group, memory, item, Reduction{});
  } else {
    outcome = reduce_scatter_item(group, memory, item, Reduction{});
  }
  if (group.leader()) report(control, outcome);
}

/// Its place among them.
[[nodiscard]] inline std::optional<std::size_t> place_of_reduction(const WorkItem& item) {
  const auto* const known =
      std::ranges::find(kKnownReductions, KnownReduction{item.type, item.reduction});
  if (known == kKnownReductions.end()) return std::nullopt;
  return static_cast<std::size_t>(known - kKnownReductions.begin());
}

}  // namespace weft::device::cuda
