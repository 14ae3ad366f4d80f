// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reduce-scatters and all-gathers over mapped inboxes, by wide lines.
#include <array>
#include <type_traits>
#include <vector>

#include "core/device/cuda/inbox_kernels.cuh"

namespace weft::device::cuda {
namespace {

// Those that know their type know plain ranges alone, which leaves them their registers.
template <std::uint32_t kRanks, class Reduction, class Memory>
using Scattering = TwoShotLL128<!std::is_same_v<Reduction, AnyReduction>, Operation::kReduceScatter,
                                kRanks, Reduction, CtaGroup, Memory>;
using WideScatterings = InboxKernels<Scattering, kWideThreads>;

template <bool kPlain, std::uint32_t kRanks>
const void* gathering() {
  using Call = AllGatherLL128<kPlain, kRanks, MovedBytes, CtaGroup, CudaMemory>;
  return reinterpret_cast<const void*>(&inbox_kernel<Call, CudaMemory, MovedBytes, kWideThreads>);
}

const std::array<const void*, kSizesOfRanks>& plain_gatherings() {
  static const std::array<const void*, kSizesOfRanks> kAll = {
      gathering<true, 2>(), gathering<true, 4>(), gathering<true, kMostDirectRanks>()};
  return kAll;
}

}  // namespace

const void* wide_blocks_kernel_for(const WorkItem& item) {
  const bool plain = has_plain_ranges(item);
  if (item.operation == Operation::kReduceScatter) {
    return plain ? WideScatterings::of(item) : WideScatterings::of_any(item);
  }
  return plain ? plain_gatherings()[size_of_ranks(item.direct->ranks)]
               : gathering<false, kMostDirectRanks>();
}

std::span<const void* const> wide_blocks_kernels() {
  static const std::vector<const void*> kAll = [] {
    const std::span<const void* const> scattering = WideScatterings::all();
    std::vector<const void*> kernels(scattering.begin(), scattering.end());
    kernels.insert(kernels.end(), plain_gatherings().begin(), plain_gatherings().end());
    kernels.push_back(gathering<false, kMostDirectRanks>());
    return kernels;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
