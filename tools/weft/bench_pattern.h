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
#include <type_traits>

#include <weft/types.h>

#include "core/device/narrow_float.h"

namespace weft::tool {

/// How many integers of -8 to 7 (0 to 15 of unsigned types) this type surely adds exactly: floats
/// hold all integers of up to as many digits as their significand has.
template <typename T>
inline constexpr std::uint32_t kMostSummed = 1U << 20;
template <>
inline constexpr std::uint32_t kMostSummed<std::int8_t> = 127 / 8;
template <>
inline constexpr std::uint32_t kMostSummed<std::uint8_t> = 255 / 15;
template <>
inline constexpr std::uint32_t kMostSummed<device::Float16> = (1U << 11) / 8;
template <>
inline constexpr std::uint32_t kMostSummed<device::Bfloat16> = (1U << 8) / 8;
template <>
inline constexpr std::uint32_t kMostSummed<device::Float8E4M3> = (1U << 4) / 8;
template <>
inline constexpr std::uint32_t kMostSummed<device::Float8E5M2> = (1U << 3) / 8;

template <typename T>
constexpr T as_element(double value) {
  if constexpr (device::narrow_float<T>) {
    return device::from_float<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The elements of one check; `T` is their type.
template <typename T>
class Pattern {
 public:
  /// At no position more than kMostSummed<T> ranks contribute anything but 0 to a sum.
  constexpr Pattern(std::uint32_t ranks, std::uint32_t round, weft_reduction reduction)
      : ranks_(ranks),
        round_(round),
        reduction_(reduction),
        stride_((ranks + kMostSummed<T> - 1) / kMostSummed<T>) {}

  [[nodiscard]] constexpr T contribution(std::uint32_t rank, std::uint64_t index) const {
    return as_element<T>(number(rank, index));
  }

  /// What must stand at `index` where all ranks' elements there were reduced.
  [[nodiscard]] constexpr T reduced(std::uint64_t index) const {
    std::int64_t value = number(0, index);
    for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
      const std::int64_t other = number(rank, index);
      if (reduction_ == WEFT_MAX) {
        value = other > value ? other : value;
      } else if (reduction_ == WEFT_MIN) {
        value = other < value ? other : value;
      } else if (reduction_ == WEFT_PROD) {
        value *= other;
      } else {
        value += other;
      }
    }
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(reduction_ == WEFT_AVG ? value / static_cast<std::int64_t>(ranks_)
                                                   : value);
    } else {
      const auto whole = static_cast<double>(value);
      return as_element<T>(reduction_ == WEFT_AVG ? whole / ranks_ : whole);
    }
  }

  /// Fills `out` with what `rank` contributes.
  void fill(std::span<T> out, std::uint32_t rank) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = contribution(rank, i);
  }

 private:
  [[nodiscard]] constexpr std::int32_t number(std::uint32_t rank, std::uint64_t index) const {
    constexpr bool kUnsigned = std::is_unsigned_v<T>;
    std::uint64_t mixed = index + (static_cast<std::uint64_t>(rank) << 40) +
                          (static_cast<std::uint64_t>(round_) << 52);
    // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    mixed ^= mixed >> 31;
    const auto drawn = static_cast<std::int32_t>(mixed & 0xF);
    // Products stay below 2^33.
    if (reduction_ == WEFT_PROD) {
      if (drawn == 0 && rank < 32) return 2;
      return drawn % 2 == 0 || kUnsigned ? 1 : -1;
    }
    if (stride_ > 1 && (index + rank) % stride_ != 0) return 0;
    return kUnsigned ? drawn : drawn - 8;
  }

  std::uint32_t ranks_;
  std::uint32_t round_;
  weft_reduction reduction_;
  std::uint32_t stride_;
};

/// How many elements are not `expected(index)`.
template <typename T, typename Expected>
std::uint64_t count_wrong(std::span<const T> found, Expected&& expected) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(found[i] == expected(i))) ++wrong;
  }
  return wrong;
}

}  // namespace weft::tool
