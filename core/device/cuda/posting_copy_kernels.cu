// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings that only copy, over many channels, but for what is large and copied in bulk: what was
// written arrives microseconds later, for which a warp that posts waits while the others go on.
#include <array>
#include <span>

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/posting_kernel.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <Operation kOperation>
__global__ void __launch_bounds__(kPostingThreads, 1)
    posting_copy_kernel(const __grid_constant__ PackedRingArgument argument) {
  if (!has_item()) return;
  __shared__ PostBoard board;
  __shared__ Staged staged;
  const WorkItem& item = stage(staged, argument);
  await_kernel_before();
  run_posting(argument, board, [&](auto& group, auto& memory) {
    if constexpr (kOperation == Operation::kBroadcast) {
      return broadcast_item(group, memory, item);
    } else {
      return all_gather_item(group, memory, item);
    }
  });
}

const std::array<const void*, 2>& kernels() {
  static const std::array kKernels = {
      reinterpret_cast<const void*>(&posting_copy_kernel<Operation::kBroadcast>),
      reinterpret_cast<const void*>(&posting_copy_kernel<Operation::kAllGather>)};
  return kKernels;
}

}  // namespace

RingKernel posting_copy_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (!are_packed(items)) return {};
  if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return {};
  if (item.ranks == 1) return {};
  if (item.operation != Operation::kBroadcast && item.operation != Operation::kAllGather) return {};
  return {.address = kernels()[item.operation == Operation::kBroadcast ? 0 : 1],
          .threads = kPostingThreads,
          .awaits_kernel_before = true,
          .takes = RingKernel::Takes::kPacked};
}

std::span<const void* const> posting_copy_kernels() {
  return kernels();
}

}  // namespace weft::device::cuda
