// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element loops spread over the lanes of a group: 16-byte lines where all pointers are equally far
// from one, elements before and behind them and where they are not. For groups of several lanes; a
// group of one has faster ones of its own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"

namespace weft::device {

/// Which bytes of a range go by lines; what lies before and behind are its edges.
struct LineRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] WEFT_HD bool empty() const { return begin == end; }
};

/// How pointers lie that are moved along together.
class Alignment {
 public:
  template <class... Pointers>
  WEFT_HD explicit Alignment(Pointers... pointers) {
    (add(pointers), ...);
  }
  /// Null is ignored.
  WEFT_HD void add(const std::byte* pointer) {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    if (at == 0) return;
    if (some_ == 0) some_ = at;
    apart_ |= at ^ some_;
  }

  /// Whether all are aligned to `bytes`, a power of two.
  [[nodiscard]] WEFT_HD bool all_to(std::uintptr_t bytes) const {
    return ((some_ | apart_) & (bytes - 1)) == 0;
  }
  /// The lines of `bytes` bytes at each: from the first place on where all of them are aligned to
  /// one, which there is where all are equally far from one.
  [[nodiscard]] WEFT_HD LineRange lines(std::uint64_t bytes) const {
    if ((apart_ & (sizeof(Line) - 1)) != 0) return {};
    const std::uint64_t head = (0 - some_) & (sizeof(Line) - 1);
    if (head >= bytes) return {};
    return {.begin = head, .end = head + (bytes - head) / sizeof(Line) * sizeof(Line)};
  }

 private:
  std::uintptr_t some_ = 0;
  std::uintptr_t apart_ = 0;
};

template <class Unit>
WEFT_HD Unit load_unit(const std::byte* from) {
  return *reinterpret_cast<const Unit*>(from);
}

template <class Unit>
WEFT_HD void store_unit(std::byte* to, Unit value) {
  *reinterpret_cast<Unit*>(to) = value;
}

/// Calls `move(at)` for this lane's units of `bytes` bytes from `begin` to `end`.
template <class G, class Move>
WEFT_HD void lane_units(G& group, std::uint64_t bytes, std::uint64_t begin, std::uint64_t end,
                        const Move& move) {
  for (std::uint64_t at = begin + group.rank() * bytes; at < end; at += group.size() * bytes)
    move(at);
}

template <class Unit, class G>
WEFT_HD void lane_copy_units(G& group, std::byte* first, std::byte* second, const std::byte* source,
                             std::uint64_t begin, std::uint64_t end) {
  lane_units(group, sizeof(Unit), begin, end, [&](std::uint64_t at) {
    const Unit value = load_unit<Unit>(source + at);
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  });
}

/// Copies `bytes` bytes to `first` and, unless it is null, to `second`.
template <class G, class M>
WEFT_HD void lane_copy(G& group, M& memory, std::byte* first, std::byte* second,
                       const std::byte* source, std::uint64_t bytes) {
  const Alignment alignment(first, second, source);
  LineRange done = alignment.lines(bytes);
  if (!done.empty()) {
    lane_units(group, sizeof(Line), done.begin, done.end, [&](std::uint64_t at) {
      const Line line = memory.load_line(source + at);
      memory.store_line(first + at, line);
      if (second != nullptr) memory.store_line(second + at, line);
    });
  } else if (alignment.all_to(sizeof(std::uint32_t))) {
    done = {.begin = 0, .end = bytes / sizeof(std::uint32_t) * sizeof(std::uint32_t)};
    lane_copy_units<std::uint32_t>(group, first, second, source, 0, done.end);
  }
  lane_copy_units<std::uint8_t>(group, first, second, source, 0, done.begin);
  lane_copy_units<std::uint8_t>(group, first, second, source, done.end, bytes);
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

/// Combines the elements of `a` and `b` from byte `begin` to byte `end`.
template <class R, class G>
WEFT_HD void lane_reduce_elements(G& group, std::byte* first, std::byte* second, const std::byte* a,
                                  const std::byte* b, std::uint64_t begin, std::uint64_t end) {
  using Element = typename R::Element;
  lane_units(group, sizeof(Element), begin, end, [&](std::uint64_t at) {
    const Element value = R::combine(load_unit<Element>(a + at), load_unit<Element>(b + at));
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  });
}

/// Combines `count` elements of `a` and `b` into `first` and, unless it is null, `second`.
template <class R, class G, class M>
WEFT_HD void lane_reduce(const R& /*reduction*/, G& group, M& memory, std::byte* first,
                         std::byte* second, const std::byte* a, const std::byte* b,
                         std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(typename R::Element);
  const LineRange lines = Alignment(first, second, a, b).lines(bytes);
  lane_units(group, sizeof(Line), lines.begin, lines.end, [&](std::uint64_t at) {
    const Line line = combine_lines<R>(memory.load_line(a + at), memory.load_line(b + at));
    memory.store_line(first + at, line);
    if (second != nullptr) memory.store_line(second + at, line);
  });
  lane_reduce_elements<R>(group, first, second, a, b, 0, lines.begin);
  lane_reduce_elements<R>(group, first, second, a, b, lines.end, bytes);
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
  const std::uint64_t bytes = count * sizeof(Element);
  const LineRange lines = Alignment(first, second).lines(bytes);
  lane_units(group, sizeof(Line), lines.begin, lines.end, [&](std::uint64_t at) {
    const Line line = finish_line(reduction, load_unit<Line>(first + at));
    store_unit(first + at, line);
    if (second != nullptr) store_unit(second + at, line);
  });
  const auto finish_element = [&](std::uint64_t at) {
    const Element value = reduction.finish(load_unit<Element>(first + at));
    store_unit(first + at, value);
    if (second != nullptr) store_unit(second + at, value);
  };
  lane_units(group, sizeof(Element), 0, lines.begin, finish_element);
  lane_units(group, sizeof(Element), lines.end, bytes, finish_element);
}

/// Copies bytes[r] bytes from from[r] to to[r] for each r; none where bytes[r] is 0. What is loaded
/// for all of them is under way together.
template <std::uint32_t kRanks, class G, class M>
WEFT_HD void lane_copy_each(G& group, M& memory, std::byte* const (&to)[kRanks],
                            const std::byte* const (&from)[kRanks],
                            const std::uint64_t (&bytes)[kRanks]) {
  Alignment alignment;
  std::uint64_t most = 0;
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (bytes[r] == 0) continue;
    alignment.add(to[r]);
    alignment.add(from[r]);
    most = bytes[r] > most ? bytes[r] : most;
  }
  const LineRange lines = alignment.lines(most);
  for (std::uint64_t at = lines.begin + group.rank() * sizeof(Line); at < lines.end;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
    Line lines_at[kRanks];
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (at + sizeof(Line) <= bytes[r]) lines_at[r] = memory.load_line(from[r] + at);
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (at + sizeof(Line) <= bytes[r]) memory.store_line(to[r] + at, lines_at[r]);
  }
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (bytes[r] == 0) continue;
    const LineRange own = alignment.lines(bytes[r]);
    lane_copy_units<std::uint8_t>(group, to[r], nullptr, from[r], 0, own.begin);
    lane_copy(group, memory, to[r] + own.end, nullptr, from[r] + own.end, bytes[r] - own.end);
  }
}

/// Combines `count` elements of from[0] to from[ranks - 1] in that order, finishes them and writes
/// them to each to[r]: one destination, or one for each rank. A destination may be the very address
/// of a source.
template <std::uint32_t kRanks, class R, std::uint32_t kTo, class G, class M>
WEFT_HD void lane_reduce_ranks(const R& reduction, G& group, M& memory, std::byte* const (&to)[kTo],
                               const std::byte* const (&from)[kRanks], std::uint32_t ranks,
                               std::uint64_t count) {
  using Element = typename R::Element;
  Alignment alignment;
  WEFT_UNROLL
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    if (r >= ranks) continue;
    if (r < kTo) alignment.add(to[r]);
    alignment.add(from[r]);
  }
  const std::uint64_t bytes = count * sizeof(Element);
  const LineRange lines = alignment.lines(bytes);
  for (std::uint64_t at = lines.begin + group.rank() * sizeof(Line); at < lines.end;
       at += static_cast<std::uint64_t>(group.size()) * sizeof(Line)) {
    Line arrived[kRanks];
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kRanks; ++r)
      if (r < ranks) arrived[r] = memory.load_line(from[r] + at);
    Line sum = arrived[0];
    if constexpr (may_accumulate<R>) {
      sum = reduction.template accumulate_ranks<kRanks>(
          ranks, [&arrived](std::uint32_t r) { return arrived[r]; });
    } else {
      WEFT_UNROLL
      for (std::uint32_t r = 1; r < kRanks; ++r)
        if (r < ranks) sum = combine_lines<R>(sum, arrived[r]);
      if (reduction.finishes()) sum = finish_line(reduction, sum);
    }
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kTo; ++r)
      if (r < ranks) memory.store_line(to[r] + at, sum);
  }
  const auto reduce_element = [&](std::uint64_t at) {
    Element sum = load_unit<Element>(from[0] + at);
    if constexpr (may_accumulate<R>) {
      sum = reduction.template accumulate_ranks<kRanks>(
          ranks, [&from, at](std::uint32_t r) { return load_unit<Element>(from[r] + at); });
    } else {
      WEFT_UNROLL
      for (std::uint32_t r = 1; r < kRanks; ++r)
        if (r < ranks) sum = R::combine(sum, load_unit<Element>(from[r] + at));
      if (reduction.finishes()) sum = reduction.finish(sum);
    }
    WEFT_UNROLL
    for (std::uint32_t r = 0; r < kTo; ++r)
      if (r < ranks) store_unit(to[r] + at, sum);
  };
  lane_units(group, sizeof(Element), 0, lines.begin, reduce_element);
  lane_units(group, sizeof(Element), lines.end, bytes, reduce_element);
}

}  // namespace weft::device
