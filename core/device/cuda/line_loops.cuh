// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element loops of a CTA: several lines of 16 bytes are loaded before the first is stored, since
// one load at a time does not fill a link. What is not aligned to lines goes by lane_loops.h.
#pragma once

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/lane_loops.h"

namespace weft::device::cuda {

/// Calls `make(offset)` for each line of `bytes` (a multiple of 16) and stores what it answers to
/// `first` and, unless it is null, `second`. Sources and destinations of one line may be the same.
template <class Make>
__device__ void for_each_line(CtaGroup& group, std::byte* first, std::byte* second,
                              std::uint64_t bytes, Make&& make) {
  constexpr std::uint64_t kLine = sizeof(Line);
  const std::uint64_t stride = static_cast<std::uint64_t>(group.size()) * kLine;
  const std::uint64_t round = stride * kLinesInFlight;
  std::uint64_t at = group.rank() * kLine;
  const std::uint64_t whole = bytes / round * round;
  for (; at < whole; at += round) {
    Line lines[kLinesInFlight];
#pragma unroll
    for (std::uint32_t i = 0; i < kLinesInFlight; ++i)
      lines[i] = make(at + i * stride);
#pragma unroll
    for (std::uint32_t i = 0; i < kLinesInFlight; ++i)
      CudaMemory::store_line(first + at + i * stride, lines[i]);
    if (second == nullptr) continue;
#pragma unroll
    for (std::uint32_t i = 0; i < kLinesInFlight; ++i)
      CudaMemory::store_line(second + at + i * stride, lines[i]);
  }
  for (; at < bytes; at += stride) {
    const Line line = make(at);
    CudaMemory::store_line(first + at, line);
    if (second != nullptr) CudaMemory::store_line(second + at, line);
  }
}

__device__ inline void CudaMemory::copy(CtaGroup& group, std::byte* first, std::byte* second,
                                        const std::byte* source, std::uint64_t bytes) {
  const std::uintptr_t joined = reinterpret_cast<std::uintptr_t>(first) |
                                reinterpret_cast<std::uintptr_t>(second) |
                                reinterpret_cast<std::uintptr_t>(source);
  if (!all_aligned(joined, sizeof(Line))) {
    lane_copy(group, *this, first, second, source, bytes);
    return;
  }
  const std::uint64_t whole = bytes / sizeof(Line) * sizeof(Line);
  for_each_line(group, first, second, whole,
                [source](std::uint64_t at) { return load_line(source + at); });
  lane_copy_units<std::uint8_t>(group, first, second, source, whole, bytes);
}

template <class R>
__device__ void CudaMemory::reduce(const R& reduction, CtaGroup& group, std::byte* first,
                                   std::byte* second, const std::byte* a, const std::byte* b,
                                   std::uint64_t count) {
  const std::uintptr_t joined =
      reinterpret_cast<std::uintptr_t>(first) | reinterpret_cast<std::uintptr_t>(second) |
      reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  const std::uint64_t bytes = count * sizeof(typename R::Element);
  if (!all_aligned(joined, sizeof(Line))) {
    lane_reduce(reduction, group, *this, first, second, a, b, count);
    return;
  }
  const std::uint64_t whole = bytes / sizeof(Line) * sizeof(Line);
  for_each_line(group, first, second, whole, [a, b](std::uint64_t at) {
    return combine_lines<R>(load_line(a + at), load_line(b + at));
  });
  lane_reduce(reduction, group, *this, first == nullptr ? nullptr : first + whole,
              second == nullptr ? nullptr : second + whole, a + whole, b + whole,
              (bytes - whole) / sizeof(typename R::Element));
}

template <class R>
__device__ void CudaMemory::finish(const R& reduction, CtaGroup& group, std::byte* first,
                                   std::byte* second, std::uint64_t count) {
  lane_finish(reduction, group, first, second, count);
}

}  // namespace weft::device::cuda
