// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Input of the benchmark, and what must come out. Values depend on rank, position and round, so a
// lost, doubled or misplaced chunk shows; they are small integers, so sums of floats are exact
// whatever the order (up to 2^20 ranks). The expectation is computed from the formula, never from
// what was sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <weft/types.h>

namespace weft::tool {

/// The integer that `rank` contributes at `index` in `round`: -8 to 7.
[[nodiscard]] constexpr std::int32_t contribution(std::uint32_t rank, std::uint64_t index,
                                                  std::uint32_t round) {
  std::uint64_t mixed =
      index + (static_cast<std::uint64_t>(rank) << 40) + (static_cast<std::uint64_t>(round) << 52);
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
  mixed ^= mixed >> 31;
  return static_cast<std::int32_t>(mixed & 0xF) - 8;
}

/// The integer that every rank must hold at `index` after an all-reduce.
[[nodiscard]] constexpr std::int32_t reduced(std::uint32_t ranks, std::uint64_t index,
                                             std::uint32_t round, weft_reduction reduction) {
  std::int32_t value = contribution(0, index, round);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const std::int32_t other = contribution(rank, index, round);
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
void fill_contribution(std::span<T> out, std::uint32_t rank, std::uint32_t round) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<T>(contribution(rank, i, round));
}

/// How many elements are not `expected(index)`.
template <typename T, typename Expected>
std::uint64_t count_wrong(std::span<const T> found, Expected&& expected) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(found[i] == static_cast<T>(expected(i)))) ++wrong;
  }
  return wrong;
}

}  // namespace weft::tool
