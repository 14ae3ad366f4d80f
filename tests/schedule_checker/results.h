// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Whether elements are what a rank must end with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tests/schedule_checker/bounds.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

/// What an output element must be.
struct Due {
  std::optional<std::uint32_t> of_rank{};  ///< That rank's alone; nullopt: of all ranks.
  std::uint32_t element = 0;               ///< Its number.
  bool finished = false;                   ///< Divided once.
};

/// Judges results of one channel.
class Results {
 public:
  Results(const Expressions& expressions, std::span<const std::uint32_t> ring, Promise order)
      : expressions_(expressions), ring_(ring), order_(order) {}

  /// Whether it is, beyond doubt: as the one before, of another element.
  [[nodiscard]] bool is_as_before(Value value, const Due& due) const {
    return expression_of(value) ==
               (due.of_rank ? expressions_.leaf(*due.of_rank) : latest_sound_) &&
           element_of(value) == due.element && value >= kFirstSomething;
  }
  /// nullopt: it is what is due.
  [[nodiscard]] std::optional<Violation> judge(Value value, const Due& due);

 private:
  [[nodiscard]] std::optional<Violation> judge_sum(Expression expression, bool finished) const;
  [[nodiscard]] bool in_order(std::span<const std::uint32_t> ranks) const;

  const Expressions& expressions_;
  std::span<const std::uint32_t> ring_;
  Promise order_;
  std::unordered_map<Expression, std::optional<Violation>> judged_;
  Expression latest_sound_ = kNothing;  // elements of a chunk are alike
};

}  // namespace weft::checker
