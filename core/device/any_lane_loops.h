// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The loops of lane_loops.h for a reduction that is looked up when it runs, and those that multiply
// what they read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/any_reduction.h"
#include "core/device/lane_loops.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"

namespace weft::device {

// The loops over elements that are scaled; as those of lane_loops.h.

template <class T, class G, class M>
WEFT_HD void lane_scale(const Scaling<T>& scaling, G& group, M& memory, std::byte* to,
                        const std::byte* from, std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(T);
  const LineRange lines = Alignment(to, from).lines(bytes);
  for (std::uint64_t at = lines.begin + group.rank() * sizeof(Line); at < lines.end;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
    memory.store_line(to + at, scaling.scale(memory.load_line(from + at)));
  }
  const auto scale_element = [&](std::uint64_t at) {
    store_unit(to + at, scaling.scale(load_unit<T>(from + at)));
  };
  lane_units(group, sizeof(T), 0, lines.begin, scale_element);
  lane_units(group, sizeof(T), lines.end, bytes, scale_element);
}

template <class T, class G, class M>
WEFT_HD void lane_scale_add(const Scaling<T>& scaling, G& group, M& memory, std::byte* first,
                            std::byte* second, const std::byte* other, const std::byte* input,
                            std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(T);
  const LineRange lines = Alignment(first, second, other, input).lines(bytes);
  for (std::uint64_t at = lines.begin + group.rank() * sizeof(Line); at < lines.end;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
    const Line scaled = scaling.scale(memory.load_line(input + at));
    const Line line = combine_lines<Sum<T>>(memory.load_line(other + at), scaled);
    memory.store_line(first + at, line);
    if (second != nullptr) memory.store_line(second + at, line);
  }
  const auto add_element = [&](std::uint64_t at) {
    const T scaled = scaling.scale(load_unit<T>(input + at));
    const T value = Sum<T>::combine(load_unit<T>(other + at), scaled);
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  };
  lane_units(group, sizeof(T), 0, lines.begin, add_element);
  lane_units(group, sizeof(T), lines.end, bytes, add_element);
}

// The loops of lane_loops.h over it.

template <class G, class M>
WEFT_HD void lane_reduce(const AnyReduction& reduction, G& group, M& memory, std::byte* first,
                         std::byte* second, const std::byte* a, const std::byte* b,
                         std::uint64_t count) {
  reduction.visit_combination(
      [&](const auto& typed) { lane_reduce(typed, group, memory, first, second, a, b, count); });
}

template <class G>
WEFT_HD void lane_finish(const AnyReduction& reduction, G& group, std::byte* first,
                         std::byte* second, std::uint64_t count) {
  reduction.visit_average(
      [&](const auto& typed) { lane_finish(typed, group, first, second, count); });
}

/// Asks for the operation once a line: what arrives from 8 ranks stays in registers, and a loop for
/// each type and operation would be a lot of code.
template <std::uint32_t kRanks, std::uint32_t kTo, class G, class M>
WEFT_HD void lane_reduce_ranks(const AnyReduction& reduction, G& group, M& memory,
                               std::byte* const (&to)[kTo], const std::byte* const (&from)[kRanks],
                               std::uint32_t ranks, std::uint64_t count) {
  Alignment alignment;
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (r >= ranks) continue;
    if (r < kTo) alignment.add(to[r]);
    alignment.add(from[r]);
  }
  const std::uint64_t element_bytes = reduction.element_bytes();
  const std::uint64_t bytes = count * element_bytes;
  const LineRange lines = alignment.lines(bytes);
  for (std::uint64_t at = lines.begin + group.rank() * sizeof(Line); at < lines.end;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
    Line arrived[kRanks];
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (r < ranks) arrived[r] = memory.load_line(from[r] + at);
    Line sum = arrived[0];
    if (reduction.accumulates()) {
      sum.low = reduction.accumulate_ranks<kRanks>(
          ranks, [&arrived](std::uint32_t r) { return arrived[r].low; });
      sum.high = reduction.accumulate_ranks<kRanks>(
          ranks, [&arrived](std::uint32_t r) { return arrived[r].high; });
    } else {
      WEFT_UNROLL
      for (std::uint32_t r = 1; r < kRanks; ++r)
        if (r < ranks) sum = reduction.combine_lines(sum, arrived[r]);
      sum = {.low = reduction.finish_payload(sum.low), .high = reduction.finish_payload(sum.high)};
    }
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kTo; ++r)
      if (r < ranks) memory.store_line(to[r] + at, sum);
  }
  // Where there are no lines it is all that there is: by payloads, each a call for all its
  // elements.
  const std::uint64_t unit = lines.empty() ? kLinePayload : element_bytes;
  const auto reduce_unit = [&](std::uint64_t at) {
    const std::uint64_t left = bytes - at < unit ? bytes - at : unit;
    const auto input = [&](std::uint32_t r) {
      return AnyReduction::load_payload(from[r] + at, left);
    };
    std::uint64_t sum = 0;
    if (reduction.accumulates()) {
      sum = reduction.accumulate_ranks<kRanks>(ranks, input);
    } else {
      sum = input(0);
      WEFT_UNROLL
      for (std::uint32_t r = 1; r < kRanks; ++r)
        if (r < ranks) sum = reduction.combine_payloads(sum, input(r));
      sum = reduction.finish_payload(sum);
    }
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kTo; ++r)
      if (r < ranks) AnyReduction::store_payload(to[r] + at, sum, left);
  };
  lane_units(group, unit, 0, lines.begin, reduce_unit);
  lane_units(group, unit, lines.end, bytes, reduce_unit);
}

/// Multiplies `count` elements at `from` and writes them to `to`, which may be the same address.
template <class G, class M>
WEFT_HD void lane_premultiply(const AnyReduction& reduction, G& group, M& memory, std::byte* to,
                              const std::byte* from, std::uint64_t count) {
  reduction.visit_scaling(
      [&](const auto& scaling) { lane_scale(scaling, group, memory, to, from, count); });
}

/// Combines `other` with the multiplied `input`, as lane_reduce. Sums do not ask which comes first.
template <class G, class M>
WEFT_HD void lane_premultiply_reduce(const AnyReduction& reduction, G& group, M& memory,
                                     std::byte* first, std::byte* second, const std::byte* other,
                                     const std::byte* input, std::uint64_t count) {
  reduction.visit_scaling([&](const auto& scaling) {
    lane_scale_add(scaling, group, memory, first, second, other, input, count);
  });
}

}  // namespace weft::device
