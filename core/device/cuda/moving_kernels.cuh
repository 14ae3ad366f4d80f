// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Kernels over mapped inboxes, by wide lines, of calls that only move: by bytes, so that one does
// for all types.
#pragma once

#include <cstdint>
#include <span>

#include "core/device/cuda/inbox_kernels.cuh"

namespace weft::device::cuda {

/// Plain ones of each size of ranks, and one for anything; `Call` is the template of core/device.
template <template <bool kPlain, std::uint32_t kRanks> class Call>
class MovingKernels {
 public:
  [[nodiscard]] static const void* of(const WorkItem& item) {
    return all()[has_plain_ranges(item) ? size_of_ranks(item.direct->ranks) : kSizesOfRanks];
  }
  [[nodiscard]] static std::span<const void* const> all() {
    static const void* const kAll[kSizesOfRanks + 1] = {
        kernel<Call<true, 2>>(), kernel<Call<true, 4>>(), kernel<Call<true, kMostDirectRanks>>(),
        kernel<Call<false, kMostDirectRanks>>()};
    return kAll;
  }

 private:
  template <class Made>
  static const void* kernel() {
    return reinterpret_cast<const void*>(&inbox_kernel<Made, CudaMemory, MovedBytes, kWideThreads>);
  }
};

}  // namespace weft::device::cuda
