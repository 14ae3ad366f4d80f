// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The one-shot all-reduce over mapped inboxes, by wide lines.
#include "core/device/cuda/inbox_kernels.cuh"

namespace weft::device::cuda {
namespace {

template <std::uint32_t kRanks, class Reduction, class Memory>
using Call = OneShotLL128<kRanks, Reduction, CtaGroup, Memory>;
using WideOneShots = InboxKernels<Call, kWideThreads>;

}  // namespace

const void* wide_kernel_for(const WorkItem& item) {
  if (!fits_wide_lines(item, *item.direct, kMostDirectRanks)) return nullptr;
  return has_root(item.operation) ? wide_rooted_kernel_for(item) : WideOneShots::of(item);
}

std::span<const void* const> wide_kernels() {
  return WideOneShots::all();
}

}  // namespace weft::device::cuda
