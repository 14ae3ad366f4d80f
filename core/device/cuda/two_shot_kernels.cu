// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The two-shot all-reduce over mapped inboxes.
#include "core/device/cuda/inbox_kernels.cuh"

namespace weft::device::cuda {
namespace {

template <std::uint32_t kRanks, class Reduction, class Memory>
using Call = TwoShotAllReduce<kRanks, CtaGroup, Memory, Reduction>;

}  // namespace

const void* two_shot_kernel_for(const WorkItem& item, std::uint32_t parts) {
  return fits_two_shot(item, *item.direct, kMostDirectRanks, parts) ? InboxKernels<Call>::of(item)
                                                                    : nullptr;
}

std::span<const void* const> two_shot_kernels() {
  return InboxKernels<Call>::all();
}

}  // namespace weft::device::cuda
