// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Broadcasts and reduces over mapped inboxes, by wide lines.
#include <type_traits>
#include <vector>

#include "core/device/cuda/moving_kernels.cuh"

namespace weft::device::cuda {
namespace {

// Those that know their type know plain calls alone, which leaves them their registers.
template <std::uint32_t kRanks, class Reduction, class Memory>
using Reducing = RootedLL128<!std::is_same_v<Reduction, AnyReduction>, Operation::kReduce, kRanks,
                             Reduction, CtaGroup, Memory>;
using WideReduces = InboxKernels<Reducing, kWideThreads>;

template <bool kPlain, std::uint32_t kRanks>
using Broadcasting =
    RootedLL128<kPlain, Operation::kBroadcast, kRanks, MovedBytes, CtaGroup, CudaMemory>;

}  // namespace

const void* wide_rooted_kernel_for(const WorkItem& item) {
  if (item.operation == Operation::kBroadcast) return MovingKernels<Broadcasting>::of(item);
  return has_plain_ranges(item) ? WideReduces::of(item) : WideReduces::of_any(item);
}

std::span<const void* const> wide_rooted_kernels() {
  static const std::vector<const void*> kAll = [] {
    std::vector<const void*> kernels;
    for (const auto& some : {WideReduces::all(), MovingKernels<Broadcasting>::all()})
      kernels.insert(kernels.end(), some.begin(), some.end());
    return kernels;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
