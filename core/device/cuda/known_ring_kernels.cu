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
#include "core/device/cuda/known_reductions.cuh"
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

/// Of items that are not packed, of all three operations, without a warp that posts.
template <class Reduction>
__global__ void __launch_bounds__(kThreads, 1)
    known_whole_kernel(const __grid_constant__ RingArgument argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  const WorkItem& item = stage(staged, argument.whole);
  await_kernel_before();
  run_known_reduction<Reduction>(argument.whole.control, item);
}

constexpr std::array kOperations = {Operation::kAllReduce, Operation::kReduceScatter,
                                    Operation::kReduce};
// One for each of these, and the one of items that are not packed.
constexpr std::size_t kKernelsOfAReduction = kOperations.size() + 1;

// Of each reduction, in its order those of each operation.
const std::vector<const void*>& kernels() {
  static const auto kKernels = [] {
    std::vector<const void*> all;
    const auto add = [&](auto* kernel) { all.push_back(reinterpret_cast<const void*>(kernel)); };
    for_each_known_reduction([&]<class Reduction>() {
      add(&known_ring_kernel<Operation::kAllReduce, Reduction>);
      add(&known_ring_kernel<Operation::kReduceScatter, Reduction>);
      add(&known_reduce_kernel<Reduction>);
      add(&known_whole_kernel<Reduction>);
    });
    return all;
  }();
  return kKernels;
}

}  // namespace

RingKernel known_ring_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.blocks != nullptr) return {};
  const auto* const operation = std::ranges::find(kOperations, item.operation);
  const auto reduction = place_of_reduction(item);
  if (operation == kOperations.end() || !reduction) return {};
  const std::size_t first = *reduction * kKernelsOfAReduction;
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
