// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element loops of a CTA: several lines of 16 bytes are loaded before the first is stored, since
// one load at a time does not fill a link. What is not aligned to lines goes by lane_loops.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/lane_loops.h"

namespace weft::device::cuda {

/// Calls `make(offset)` for each line of as many whole rounds of the group as `bytes` hold, and
/// stores what it answers to `first` and, unless it is null, `second`. Sources and destinations of
/// one line may be the same. Answers the bytes that this were.
template <std::uint32_t kLines, class Make>
__device__ std::uint64_t for_each_round(CtaGroup& group, std::byte* first, std::byte* second,
                                        std::uint64_t bytes, Make&& make) {
  constexpr std::uint64_t kLine = sizeof(Line);
  const std::uint64_t stride = static_cast<std::uint64_t>(group.size()) * kLine;
  const std::uint64_t round = stride * kLines;
  const std::uint64_t whole = bytes / round * round;
  for (std::uint64_t at = group.rank() * kLine; at < whole; at += round) {
    Line lines[kLines];
#pragma unroll
    for (std::uint32_t i = 0; i < kLines; ++i)
      lines[i] = make(at + i * stride);
#pragma unroll
    for (std::uint32_t i = 0; i < kLines; ++i)
      CudaMemory::store_line(first + at + i * stride, lines[i]);
    if (second == nullptr) continue;
#pragma unroll
    for (std::uint32_t i = 0; i < kLines; ++i)
      CudaMemory::store_line(second + at + i * stride, lines[i]);
  }
  return whole;
}

__device__ inline void CudaMemory::copy(CtaGroup& group, std::byte* first, std::byte* second,
                                        const std::byte* source, std::uint64_t bytes) {
  const LineRange lines = Alignment(first, second, source).lines(bytes);
  std::uint64_t done = 0;
  if (!lines.empty()) {
    done = lines.begin;
    lane_copy_units<std::uint8_t>(group, first, second, source, 0, done);
    std::byte* const also = second == nullptr ? nullptr : second + done;
    done += for_each_round<kLinesInFlight>(
        group, first + done, also, lines.end - lines.begin,
        [from = source + done](std::uint64_t at) { return load_line(from + at); });
  }
  lane_copy(group, *this, first + done, second == nullptr ? nullptr : second + done, source + done,
            bytes - done);
}

template <std::uint32_t kLines, class R>
__device__ void CudaMemory::reduce_by(const R& reduction, CtaGroup& group, std::byte* first,
                                      std::byte* second, const std::byte* a, const std::byte* b,
                                      std::uint64_t count) {
  constexpr std::uint64_t kElement = sizeof(typename R::Element);
  std::uint64_t done = 0;
  if constexpr (kLines > 1) {  // lane_reduce has one under way
    const LineRange lines = Alignment(first, second, a, b).lines(count * kElement);
    if (!lines.empty()) {
      done = lines.begin;
      lane_reduce_elements<R>(group, first, second, a, b, 0, done);
      std::byte* const also = second == nullptr ? nullptr : second + done;
      done +=
          for_each_round<kLines>(group, first + done, also, lines.end - lines.begin,
                                 [a = a + done, b = b + done](std::uint64_t at) {
                                   return combine_lines<R>(load_line(a + at), load_line(b + at));
                                 });
    }
  }
  lane_reduce(reduction, group, *this, first + done, second == nullptr ? nullptr : second + done,
              a + done, b + done, count - done / kElement);
}

template <class R>
__device__ void CudaMemory::reduce(const R& reduction, CtaGroup& group, std::byte* first,
                                   std::byte* second, const std::byte* a, const std::byte* b,
                                   std::uint64_t count) {
  reduce_by<kLinesInFlight>(reduction, group, first, second, a, b, count);
}

template <class R>
__device__ void CudaMemory::finish(const R& reduction, CtaGroup& group, std::byte* first,
                                   std::byte* second, std::uint64_t count) {
  lane_finish(reduction, group, first, second, count);
}

}  // namespace weft::device::cuda
