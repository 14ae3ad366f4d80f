// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Input of the benchmark, and what must come out. Values depend on rank, position and round, so a
// lost, doubled or misplaced chunk shows; they are small integers, few enough at each position, so
// sums of floats are exact whatever the order. The expectation is computed from the formula, never
// from what was sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <weft/types.h>

#include "core/device/half.h"

namespace weft::tool {

/// How many integers of -8 to 7 this type surely adds exactly: it holds all integers of up to as
/// many digits as its significand has.
template <typename T>
inline constexpr std::uint32_t kMostSummed = 1U << 20;
template <>
inline constexpr std::uint32_t kMostSummed<device::Float16> = (1U << 11) / 8;
template <>
inline constexpr std::uint32_t kMostSummed<device::Bfloat16> = (1U << 8) / 8;

class Pattern {
 public:
  /// At no position more than `most_summed` ranks contribute anything but 0.
  constexpr Pattern(std::uint32_t ranks, std::uint32_t round, std::uint32_t most_summed)
      : ranks_(ranks), round_(round), stride_((ranks + most_summed - 1) / most_summed) {}

  /// The integer that `rank` contributes at `index`: -8 to 7.
  [[nodiscard]] constexpr std::int32_t contribution(std::uint32_t rank, std::uint64_t index) const {
    if (stride_ > 1 && (index + rank) % stride_ != 0) return 0;
    std::uint64_t mixed = index + (static_cast<std::uint64_t>(rank) << 40) +
                          (static_cast<std::uint64_t>(round_) << 52);
    // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    mixed ^= mixed >> 31;
    return static_cast<std::int32_t>(mixed & 0xF) - 8;
  }

  /// The integer that every rank must hold at `index` after an all-reduce.
  [[nodiscard]] constexpr std::int32_t reduced(std::uint64_t index,
                                               weft_reduction reduction) const {
    std::int32_t value = contribution(0, index);
    for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
      const std::int32_t other = contribution(rank, index);
      if (reduction == WEFT_MAX) {
        value = other > value ? other : value;
      } else {
        value += other;
      }
    }
    return value;
  }

  /// Fills `out` with what `rank` contributes.
  template <typename T>
  void fill(std::span<T> out, std::uint32_t rank) const;

 private:
  std::uint32_t ranks_;
  std::uint32_t round_;
  std::uint32_t stride_;
};

template <typename T>
constexpr T as_element(std::int32_t value) {
  if constexpr (device::half_float<T>) {
    return device::from_float<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
void Pattern::fill(std::span<T> out, std::uint32_t rank) const {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = as_element<T>(contribution(rank, i));
}

/// How many elements are not `expected(index)`.
template <typename T, typename Expected>
std::uint64_t count_wrong(std::span<const T> found, Expected&& expected) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(found[i] == as_element<T>(expected(i)))) ++wrong;
  }
  return wrong;
}

}  // namespace weft::tool
