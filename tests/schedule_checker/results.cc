// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/results.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::checker {
namespace {

/// A few of them.
std::string some(std::span<const std::uint32_t> ranks) {
  constexpr std::size_t kMost = 16;
  const std::string text =
      fmt::format("{}", fmt::join(ranks.first(std::min(kMost, ranks.size())), ", "));
  return ranks.size() > kMost ? text + ", ..." : text;
}

Violation violation(Rule rule, std::string text) {
  return {.rule = rule, .text = std::move(text)};
}

}  // namespace

std::optional<Violation> Results::judge(Value value, const Due& due) {
  if (!is_value(value)) return violation(Rule::kOutside, "is no element");
  const Expression expression = expression_of(value);
  if (expression == kNothing) return violation(Rule::kNotWritten, "was never written");
  if (element_of(value) != due.element) {
    return violation(Rule::kWrongElement,
                     fmt::format("is element {} instead of {}", element_of(value), due.element));
  }
  if (due.of_rank) {
    if (expression == expressions_.leaf(*due.of_rank)) return std::nullopt;
    return violation(
        Rule::kWrongElement,
        fmt::format("is made of ranks {} instead of rank {}",
                    some(expressions_.shape_of(expression, ring_.size()).ranks), *due.of_rank));
  }
  if (expression == latest_sound_) return std::nullopt;
  auto known = judged_.find(expression);
  if (known == judged_.end()) {
    known = judged_.emplace(expression, judge_sum(expression, due.finished)).first;
  }
  if (!known->second) latest_sound_ = expression;
  return known->second;
}

std::optional<Violation> Results::judge_sum(Expression expression, bool finished) const {
  const auto ranks = static_cast<std::uint32_t>(ring_.size());
  const Expressions::Shape shape = expressions_.shape_of(expression, ranks + 1);
  std::vector<std::uint32_t> counts(ranks);
  for (const std::uint32_t rank : shape.ranks)
    ++counts[rank];
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (counts[rank] == 1) continue;
    return violation(counts[rank] == 0 ? Rule::kMissing : Rule::kTwice,
                     fmt::format("has the contribution of rank {} {} times; it is made of ranks {}",
                                 rank, counts[rank], some(shape.ranks)));
  }
  if (shape.raw) return violation(Rule::kMissing, "has inputs that were not multiplied");
  if (shape.finished_within) return violation(Rule::kTwice, "has parts that were finished");
  if (shape.finished != finished) {
    return violation(Rule::kMissing, finished ? "was not divided" : "was divided");
  }
  if (order_ != Promise::kNone && (!shape.left_to_right || !in_order(shape.ranks))) {
    return violation(Rule::kOrder,
                     fmt::format("combines ranks {}{}", some(shape.ranks),
                                 shape.left_to_right ? "" : ", not from left to right"));
  }
  return std::nullopt;
}

bool Results::in_order(std::span<const std::uint32_t> ranks) const {
  if (order_ == Promise::kByRank) {
    for (std::uint32_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] != i) return false;
    return true;
  }
  const auto begin = static_cast<std::size_t>(std::ranges::find(ring_, ranks[0]) - ring_.begin());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != ring_[(begin + i) % ring_.size()]) return false;
  return true;
}

}  // namespace weft::checker
