// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Slices by a reduction that is looked up when it runs: a function for each type and operation,
// which all kernels of a source share, and memory that calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device/any_lane_loops.h"
#include "core/device/any_reduction.h"
#include "core/device/cuda/cta_policies.cuh"

namespace weft::device::cuda {

// The group and the memory of a kernel stay in its registers: functions that it calls make theirs
// anew, since a slice needs neither barriers nor counters.

/// Where a line has many elements, fewer at once: the code stays short, and there is enough to do
/// while loads are under way.
template <class T>
inline constexpr std::uint32_t kSliceLines = sizeof(T) == 1   ? 1
                                             : sizeof(T) == 2 ? kLinesInFlight / 2
                                                              : kLinesInFlight;

// Blocks of a call begin anywhere, so slices need not be aligned to lines: elements and smaller
// units are moved several at a time as well.
inline constexpr std::uint32_t kUnitsInFlight = 8;

/// Calls `make(offset)` for each unit of as many whole rounds of the CTA as `bytes` hold, and
/// stores what it answers to `first` and, unless it is null, `second`. Answers the bytes that these
/// were.
template <class Unit, class Make>
__device__ std::uint64_t for_each_unit(std::byte* first, std::byte* second, std::uint64_t bytes,
                                       const Make& make) {
  const std::uint64_t stride = std::uint64_t{blockDim.x} * sizeof(Unit);
  const std::uint64_t round = stride * kUnitsInFlight;
  const std::uint64_t whole = bytes / round * round;
  for (std::uint64_t at = threadIdx.x * sizeof(Unit); at < whole; at += round) {
    Unit units[kUnitsInFlight];
#pragma unroll
    for (std::uint32_t i = 0; i < kUnitsInFlight; ++i)
      units[i] = make(at + i * stride);
#pragma unroll
    for (std::uint32_t i = 0; i < kUnitsInFlight; ++i) {
      store_unit(first + at + i * stride, units[i]);
      if (second != nullptr) store_unit(second + at + i * stride, units[i]);
    }
  }
  return whole;
}

template <class R>
__device__ __noinline__ void reduce_slice(std::byte* first, std::byte* second, const std::byte* a,
                                          const std::byte* b, std::uint64_t count) {
  using Element = typename R::Element;
  if (Alignment(first, second, a, b).lines(count * sizeof(Element)).empty()) {
    const std::uint64_t done =
        for_each_unit<Element>(first, second, count * sizeof(Element), [a, b](std::uint64_t at) {
          return R::combine(load_unit<Element>(a + at), load_unit<Element>(b + at));
        });
    first += done;
    if (second != nullptr) second += done;
    a += done;
    b += done;
    count -= done / sizeof(Element);
  }
  CtaGroup group(nullptr);
  CudaMemory memory(nullptr, nullptr, 0);
  memory.reduce_by<kSliceLines<typename R::Element>>(R{}, group, first, second, a, b, count);
}

template <class R>
__device__ __noinline__ void finish_slice(R reduction, std::byte* first, std::byte* second,
                                          std::uint64_t count) {
  CtaGroup group(nullptr);
  CudaMemory memory(nullptr, nullptr, 0);
  memory.finish(reduction, group, first, second, count);
}

template <class S>
__device__ __noinline__ void scale_slice(S scaling, std::byte* to, const std::byte* from,
                                         std::uint64_t count) {
  CtaGroup group(nullptr);
  CudaMemory memory(nullptr, nullptr, 0);
  lane_scale(scaling, group, memory, to, from, count);
}

template <class S>
__device__ __noinline__ void scale_add_slice(S scaling, std::byte* first, std::byte* second,
                                             const std::byte* other, const std::byte* input,
                                             std::uint64_t count) {
  CtaGroup group(nullptr);
  CudaMemory memory(nullptr, nullptr, 0);
  lane_scale_add(scaling, group, memory, first, second, other, input, count);
}

__device__ __noinline__ inline void copy_slice(std::byte* first, std::byte* second,
                                               const std::byte* source, std::uint64_t bytes) {
  const Alignment alignment(first, second, source);
  if (alignment.lines(bytes).empty()) {
    const bool words = alignment.all_to(sizeof(std::uint32_t));
    const std::uint64_t done =
        words ? for_each_unit<std::uint32_t>(
                    first, second, bytes,
                    [source](std::uint64_t at) { return load_unit<std::uint32_t>(source + at); })
              : for_each_unit<std::uint8_t>(first, second, bytes, [source](std::uint64_t at) {
                  return load_unit<std::uint8_t>(source + at);
                });
    first += done;
    if (second != nullptr) second += done;
    source += done;
    bytes -= done;
  }
  CtaGroup group(nullptr);
  CudaMemory memory(nullptr, nullptr, 0);
  memory.copy(group, first, second, source, bytes);
}

__device__ __noinline__ inline void reduce_any(AnyReduction reduction, std::byte* first,
                                               std::byte* second, const std::byte* a,
                                               const std::byte* b, std::uint64_t count) {
  reduction.visit_combination([&](const auto& typed) {
    reduce_slice<std::remove_cvref_t<decltype(typed)>>(first, second, a, b, count);
  });
}

__device__ __noinline__ inline void finish_any(AnyReduction reduction, std::byte* first,
                                               std::byte* second, std::uint64_t count) {
  reduction.visit_average([&](const auto& typed) { finish_slice(typed, first, second, count); });
}

__device__ __noinline__ inline void premultiply_any(AnyReduction reduction, std::byte* to,
                                                    const std::byte* input, std::uint64_t count) {
  reduction.visit_scaling([&](const auto& scaling) { scale_slice(scaling, to, input, count); });
}

__device__ __noinline__ inline void premultiply_reduce_any(AnyReduction reduction, std::byte* first,
                                                           std::byte* second,
                                                           const std::byte* other,
                                                           const std::byte* input,
                                                           std::uint64_t count) {
  reduction.visit_scaling(
      [&](const auto& scaling) { scale_add_slice(scaling, first, second, other, input, count); });
}

/// Memory of kernels for all types and reductions.
class SliceMemory : public CudaMemory {
 public:
  using CudaMemory::CudaMemory;

  __device__ static void copy(CtaGroup& /*group*/, std::byte* first, std::byte* second,
                              const std::byte* source, std::uint64_t bytes) {
    copy_slice(first, second, source, bytes);
  }
  __device__ static void reduce(const AnyReduction& reduction, CtaGroup& /*group*/,
                                std::byte* first, std::byte* second, const std::byte* a,
                                const std::byte* b, std::uint64_t count) {
    reduce_any(reduction, first, second, a, b, count);
  }
  __device__ static void finish(const AnyReduction& reduction, CtaGroup& /*group*/,
                                std::byte* first, std::byte* second, std::uint64_t count) {
    finish_any(reduction, first, second, count);
  }
  __device__ static void premultiply_copy(const AnyReduction& reduction, CtaGroup& /*group*/,
                                          std::byte* to, const std::byte* input,
                                          std::uint64_t count) {
    premultiply_any(reduction, to, input, count);
  }
  // A sum does not ask which comes first.
  __device__ static void premultiply_reduce(const AnyReduction& reduction, CtaGroup& /*group*/,
                                            std::byte* first, std::byte* second,
                                            const std::byte* other, const std::byte* input,
                                            std::uint64_t count, bool /*input_first*/) {
    premultiply_reduce_any(reduction, first, second, other, input, count);
  }
};

/// That of an item.
__device__ inline AnyReduction reduction_of(const WorkItem& item) {
  return {item.type, item.reduction, item.ranks, item.factor, item.rounds_each};
}

}  // namespace weft::device::cuda
