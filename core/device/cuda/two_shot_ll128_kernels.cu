// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The two-shot all-reduce over mapped inboxes, by wide lines.
#include <type_traits>

#include "core/device/cuda/inbox_kernels.cuh"

namespace weft::device::cuda {
namespace {

// Those that know their type know plain ranges alone, which leaves them their registers.
template <std::uint32_t kRanks, class Reduction, class Memory>
using ByLines = TwoShotLL128<!std::is_same_v<Reduction, AnyReduction>, Operation::kAllReduce,
                             kRanks, Reduction, CtaGroup, Memory>;
using WideTwoShots = InboxKernels<ByLines, kWideThreads>;

}  // namespace

const void* wide_two_shot_kernel_for(const WorkItem& item) {
  return has_plain_ranges(item) ? WideTwoShots::of(item) : WideTwoShots::of_any(item);
}

std::span<const void* const> wide_two_shot_kernels() {
  return WideTwoShots::all();
}

}  // namespace weft::device::cuda
