// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element loops spread over the lanes of a group: 16-byte lines where every pointer is aligned to
// one, elements otherwise. For groups of several lanes; a group of one has faster ones of its own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"

namespace weft::device {

WEFT_HD inline bool all_aligned(std::uintptr_t joined, std::uintptr_t bytes) {
  return (joined & (bytes - 1)) == 0;
}

template <class Unit>
WEFT_HD Unit load_unit(const std::byte* from) {
  return *reinterpret_cast<const Unit*>(from);
}

template <class Unit>
WEFT_HD void store_unit(std::byte* to, Unit value) {
  *reinterpret_cast<Unit*>(to) = value;
}

template <class Unit, class G>
WEFT_HD void lane_copy_units(G& group, std::byte* first, std::byte* second, const std::byte* source,
                             std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t at = begin + group.rank() * sizeof(Unit); at + sizeof(Unit) <= end;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Unit)) {
    const Unit value = load_unit<Unit>(source + at);
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  }
}

/// Copies `bytes` bytes to `first` and, unless it is null, to `second`.
template <class G, class M>
WEFT_HD void lane_copy(G& group, M& memory, std::byte* first, std::byte* second,
                       const std::byte* source, std::uint64_t bytes) {
  const std::uintptr_t joined = reinterpret_cast<std::uintptr_t>(first) |
                                reinterpret_cast<std::uintptr_t>(second) |
                                reinterpret_cast<std::uintptr_t>(source);
  std::uint64_t whole = 0;
  if (all_aligned(joined, sizeof(Line))) {
    whole = bytes / sizeof(Line) * sizeof(Line);
    for (std::uint64_t at = group.rank() * sizeof(Line); at < whole;
         at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
      const Line line = memory.load_line(source + at);
      memory.store_line(first + at, line);
      if (second != nullptr) memory.store_line(second + at, line);
    }
  } else if (all_aligned(joined, sizeof(std::uint32_t))) {
    whole = bytes / sizeof(std::uint32_t) * sizeof(std::uint32_t);
    lane_copy_units<std::uint32_t>(group, first, second, source, 0, whole);
  }
  lane_copy_units<std::uint8_t>(group, first, second, source, whole, bytes);
}

template <class R>
WEFT_HD Line combine_lines(const Line& a, const Line& b) {
  struct Elements {
    typename R::Element element[sizeof(Line) / sizeof(typename R::Element)];
  };
  const auto left = std::bit_cast<Elements>(a);
  const auto right = std::bit_cast<Elements>(b);
  Elements result;
  for (std::uint32_t i = 0; i < sizeof(Line) / sizeof(typename R::Element); ++i) {
    result.element[i] = R::combine(left.element[i], right.element[i]);
  }
  return std::bit_cast<Line>(result);
}

/// Combines `count` elements of `a` and `b` into `first` and, unless it is null, `second`.
template <class R, class G, class M>
WEFT_HD void lane_reduce(const R& /*reduction*/, G& group, M& memory, std::byte* first,
                         std::byte* second, const std::byte* a, const std::byte* b,
                         std::uint64_t count) {
  using Element = typename R::Element;
  const std::uint64_t bytes = count * sizeof(Element);
  const std::uintptr_t joined =
      reinterpret_cast<std::uintptr_t>(first) | reinterpret_cast<std::uintptr_t>(second) |
      reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  std::uint64_t whole = 0;
  if (all_aligned(joined, sizeof(Line))) {
    whole = bytes / sizeof(Line) * sizeof(Line);
    for (std::uint64_t at = group.rank() * sizeof(Line); at < whole;
         at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
      const Line line = combine_lines<R>(memory.load_line(a + at), memory.load_line(b + at));
      memory.store_line(first + at, line);
      if (second != nullptr) memory.store_line(second + at, line);
    }
  }
  for (std::uint64_t at = whole + group.rank() * sizeof(Element); at < bytes;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Element)) {
    const Element value = R::combine(load_unit<Element>(a + at), load_unit<Element>(b + at));
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  }
}

template <class R>
WEFT_HD Line finish_line(const R& reduction, const Line& line) {
  struct Elements {
    typename R::Element element[sizeof(Line) / sizeof(typename R::Element)];
  };
  auto elements = std::bit_cast<Elements>(line);
  for (typename R::Element& element : elements.element)
    element = reduction.finish(element);
  return std::bit_cast<Line>(elements);
}

/// Finishes `count` elements at `first` in place, and copies them to `second` unless it is null.
template <class R, class G>
WEFT_HD void lane_finish(const R& reduction, G& group, std::byte* first, std::byte* second,
                         std::uint64_t count) {
  using Element = typename R::Element;
  const std::uintptr_t joined =
      reinterpret_cast<std::uintptr_t>(first) | reinterpret_cast<std::uintptr_t>(second);
  const std::uint64_t bytes = count * sizeof(Element);
  std::uint64_t whole = 0;
  if (all_aligned(joined, sizeof(Line))) {
    whole = bytes / sizeof(Line) * sizeof(Line);
    for (std::uint64_t at = group.rank() * sizeof(Line); at < whole;
         at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
      const Line line = finish_line(reduction, load_unit<Line>(first + at));
      store_unit(first + at, line);
      if (second != nullptr) store_unit(second + at, line);
    }
  }
  for (std::uint64_t at = whole + group.rank() * sizeof(Element); at < bytes;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Element)) {
    const Element value = reduction.finish(load_unit<Element>(first + at));
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  }
}

/// Copies bytes[r] bytes from from[r] to to[r] for each r; none where bytes[r] is 0. What is loaded
/// for all of them is under way together.
template <std::uint32_t kRanks, class G, class M>
WEFT_HD void lane_copy_each(G& group, M& memory, std::byte* const (&to)[kRanks],
                            const std::byte* const (&from)[kRanks],
                            const std::uint64_t (&bytes)[kRanks]) {
  std::uintptr_t joined = 0;
  std::uint64_t most = 0;
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (bytes[r] == 0) continue;
    joined |= reinterpret_cast<std::uintptr_t>(to[r]) | reinterpret_cast<std::uintptr_t>(from[r]);
    most = bytes[r] > most ? bytes[r] : most;
  }
  const bool by_lines = all_aligned(joined, sizeof(Line));
  for (std::uint64_t at = group.rank() * sizeof(Line); by_lines && at + sizeof(Line) <= most;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
    Line lines[kRanks];
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (at + sizeof(Line) <= bytes[r]) lines[r] = memory.load_line(from[r] + at);
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (at + sizeof(Line) <= bytes[r]) memory.store_line(to[r] + at, lines[r]);
  }
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (bytes[r] == 0) continue;
    const std::uint64_t whole = by_lines ? bytes[r] / sizeof(Line) * sizeof(Line) : 0;
    lane_copy(group, memory, to[r] + whole, nullptr, from[r] + whole, bytes[r] - whole);
  }
}

/// Combines `count` elements of from[0] to from[ranks - 1] in that order, finishes them and writes
/// them to each to[r]. A destination may be the very address of a source.
template <std::uint32_t kRanks, class R, class G, class M>
WEFT_HD void lane_reduce_ranks(const R& reduction, G& group, M& memory,
                               std::byte* const (&to)[kRanks],
                               const std::byte* const (&from)[kRanks], std::uint32_t ranks,
                               std::uint64_t count) {
  using Element = typename R::Element;
  std::uintptr_t joined = 0;
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (r >= ranks) continue;
    joined |= reinterpret_cast<std::uintptr_t>(to[r]) | reinterpret_cast<std::uintptr_t>(from[r]);
  }
  const std::uint64_t bytes = count * sizeof(Element);
  std::uint64_t whole = 0;
  if (all_aligned(joined, sizeof(Line))) {
    whole = bytes / sizeof(Line) * sizeof(Line);
    for (std::uint64_t at = group.rank() * sizeof(Line); at < whole;
         at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
      Line lines[kRanks];
      WEFT_UNROLL
      for (std::uint32_t r = 0; r < kRanks; ++r)
        if (r < ranks) lines[r] = memory.load_line(from[r] + at);
      Line sum = lines[0];
      WEFT_UNROLL
      for (std::uint32_t r = 1; r < kRanks; ++r)
        if (r < ranks) sum = combine_lines<R>(sum, lines[r]);
      if (reduction.finishes()) sum = finish_line(reduction, sum);
      WEFT_UNROLL
      for (std::uint32_t r = 0; r < kRanks; ++r)
        if (r < ranks) memory.store_line(to[r] + at, sum);
    }
  }
  for (std::uint64_t at = whole + group.rank() * sizeof(Element); at < bytes;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Element)) {
    Element sum = load_unit<Element>(from[0] + at);
    WEFT_UNROLL
    for (std::uint32_t r = 1; r < kRanks; ++r)
      if (r < ranks) sum = R::combine(sum, load_unit<Element>(from[r] + at));
    if (reduction.finishes()) sum = reduction.finish(sum);
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (r < ranks) store_unit(to[r] + at, sum);
  }
}

}  // namespace weft::device
