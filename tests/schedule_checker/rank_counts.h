// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How many ranks the checker's tests take.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace weft::checker {

/// Whether a test takes all numbers of ranks: by `scripts/test --long`, which sets
/// CHECK_ALL_RANKS.
inline bool takes_all_numbers() {
  return std::getenv("CHECK_ALL_RANKS") != nullptr;
}

/// The numbers of ranks from `least` to `most` that a test of all of them takes; without
/// takes_all_numbers() those where rings and trees change their shape.
inline std::vector<std::uint32_t> numbers_of_ranks(std::uint32_t least, std::uint32_t most) {
  const bool all = takes_all_numbers();
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t ranks = least; ranks <= most; ++ranks) {
    const bool beside_a_power = std::has_single_bit(ranks) || std::has_single_bit(ranks + 1) ||
                                std::has_single_bit(ranks - 1);
    if (all || beside_a_power || ranks % 11 == 0) numbers.push_back(ranks);
  }
  return numbers;
}

}  // namespace weft::checker
