// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reduce-scatters, all-gathers and all-to-alls over mapped inboxes, by wide lines.
#include <type_traits>
#include <vector>

#include "core/device/cuda/moving_kernels.cuh"

namespace weft::device::cuda {
namespace {

// Those that know their type know plain ranges alone, which leaves them their registers.
template <std::uint32_t kRanks, class Reduction, class Memory>
using Scattering = TwoShotLL128<!std::is_same_v<Reduction, AnyReduction>, Operation::kReduceScatter,
                                kRanks, Reduction, CtaGroup, Memory>;
using WideScatterings = InboxKernels<Scattering, kWideThreads>;

// Those that only move do so by bytes.
template <bool kPlain, std::uint32_t kRanks>
using Gathering = AllGatherLL128<kPlain, kRanks, MovedBytes, CtaGroup, CudaMemory>;
template <bool kPlain, std::uint32_t kRanks>
using Exchanging = AllToAllLL128<kPlain, kRanks, MovedBytes, CtaGroup, CudaMemory>;

}  // namespace

const void* wide_blocks_kernel_for(const WorkItem& item) {
  if (item.operation == Operation::kAllGather) return MovingKernels<Gathering>::of(item);
  if (item.operation == Operation::kAllToAll) return MovingKernels<Exchanging>::of(item);
  return has_plain_ranges(item) ? WideScatterings::of(item) : WideScatterings::of_any(item);
}

std::span<const void* const> wide_blocks_kernels() {
  static const std::vector<const void*> kAll = [] {
    std::vector<const void*> kernels;
    for (const auto& some : {WideScatterings::all(), MovingKernels<Gathering>::all(),
                             MovingKernels<Exchanging>::all()}) {
      kernels.insert(kernels.end(), some.begin(), some.end());
    }
    return kernels;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
