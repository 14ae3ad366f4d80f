// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings that reduce, of the types and reductions that are called most, which their kernels know at
// compile time. Over many channels a warp of each posts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/posting_kernel.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <Operation kOperation, class Reduction>
__global__ void __launch_bounds__(kPostingThreads, 1)
    known_ring_kernel(const __grid_constant__ PackedRingArgument argument) {
  if (!has_item()) return;
  __shared__ PostBoard board;
  __shared__ Staged staged;
  const WorkItem& item = stage(staged, argument);
  await_kernel_before();
  run_posting(argument, board, [&](auto& group, auto& memory) {
    if constexpr (kOperation == Operation::kAllReduce) {
      return all_reduce_item(group, memory, item, Reduction{});
    } else {
      return reduce_scatter_item(group, memory, item, Reduction{});
    }
  });
}

/// Of several ranks.
template <class Reduction>
__global__ void __launch_bounds__(kPostingThreads, 1)
    known_reduce_kernel(const __grid_constant__ LinkedRingArgument argument) {
  if (!has_item()) return;
  __shared__ PostBoard board;
  const std::uint32_t number = item_of_cta();
  const ReduceItem item =
      unpack_reduce(argument.first, argument.items.items[number], argument.links[number]);
  await_kernel_before();
  run_posting(argument, board, [&](auto& group, auto& memory) {
    return reduce_among_ranks(group, memory, item, Reduction{});
  });
}

/// The same of launches of a few items, of all three operations, without a warp that posts.
template <class Reduction>
__global__ void __launch_bounds__(kThreads, 1)
    known_few_kernel(const __grid_constant__ RingArgument argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = stage(staged, argument.whole);
  await_kernel_before();
  let_next_begin_beside_few(items_of_launch());
  CtaGroup group(slots);
  const KernelControl& control = argument.whole.control;
  CudaMemory memory(control.abort, control.waiting, item.tag);
  KernelOutcome outcome;
  if (item.operation == Operation::kAllReduce) {
    outcome = all_reduce_item(group, memory, item, Reduction{});
  } else if (item.operation == Operation::kReduceScatter) {
    outcome = reduce_scatter_item(group, memory, item, Reduction{});
  } else {
    outcome = reduce_item(group, memory, item, Reduction{});
  }
  if (group.leader()) report(control, outcome);
}

struct Kind {
  weft_data_type type;
  weft_reduction reduction;
  friend bool operator==(const Kind&, const Kind&) = default;
};
constexpr std::array kKinds = {Kind{WEFT_FLOAT32, WEFT_SUM},  Kind{WEFT_FLOAT32, WEFT_MAX},
                               Kind{WEFT_INT32, WEFT_SUM},    Kind{WEFT_INT32, WEFT_MAX},
                               Kind{WEFT_FLOAT16, WEFT_SUM},  Kind{WEFT_FLOAT16, WEFT_MAX},
                               Kind{WEFT_BFLOAT16, WEFT_SUM}, Kind{WEFT_BFLOAT16, WEFT_MAX}};

constexpr std::array kOperations = {Operation::kAllReduce, Operation::kReduceScatter,
                                    Operation::kReduce};
// One for each of these, and the one of a few items.
constexpr std::size_t kKernelsOfAKind = kOperations.size() + 1;

template <class Reduction>
void append(std::vector<const void*>& kernels) {
  const auto add = [&](auto* kernel) { kernels.push_back(reinterpret_cast<const void*>(kernel)); };
  add(&known_ring_kernel<Operation::kAllReduce, Reduction>);
  add(&known_ring_kernel<Operation::kReduceScatter, Reduction>);
  add(&known_reduce_kernel<Reduction>);
  add(&known_few_kernel<Reduction>);
}

// Of each kind, in its order those of each operation.
const std::vector<const void*>& kernels() {
  static const auto kKernels = [] {
    std::vector<const void*> all;
    const auto of = [&]<class... Reductions>() { (append<Reductions>(all), ...); };
    of.operator()<Sum<float>, Max<float>, Sum<std::int32_t>, Max<std::int32_t>, Sum<Float16>,
                  Max<Float16>, Sum<Bfloat16>, Max<Bfloat16>>();
    return all;
  }();
  return kKernels;
}

}  // namespace

RingKernel known_ring_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.blocks != nullptr) return {};
  const auto* const operation = std::ranges::find(kOperations, item.operation);
  const auto* const kind = std::ranges::find(kKinds, Kind{item.type, item.reduction});
  if (operation == kOperations.end() || kind == kKinds.end()) return {};
  const std::size_t first = static_cast<std::size_t>(kind - kKinds.begin()) * kKernelsOfAKind;
  if (!are_packed(items)) {
    return {.address = kernels()[first + kOperations.size()],
            .threads = kThreads,
            .awaits_kernel_before = true,
            .takes = RingKernel::Takes::kAny};
  }
  const bool links = item.operation == Operation::kReduce;
  if (links && item.ranks == 1) return {};
  return {.address = kernels()[first + static_cast<std::size_t>(operation - kOperations.begin())],
          .threads = kPostingThreads,
          .awaits_kernel_before = true,
          .takes = links ? RingKernel::Takes::kLinked : RingKernel::Takes::kPacked};
}

std::span<const void* const> known_ring_kernels() {
  return kernels();
}

}  // namespace weft::device::cuda
