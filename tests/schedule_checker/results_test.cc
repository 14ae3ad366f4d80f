// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What sums are judged by, apart from any kernel.
#include "tests/schedule_checker/results.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace weft::checker {
namespace {

class SumsOf : public ::testing::Test {
 protected:
  std::optional<Rule> judge(Expression expression, Promise order = Promise::kNone) {
    Results results(expressions_, ring_, order);
    const auto violation = results.judge(make_value(expression, 7), {.element = 7});
    return violation ? std::optional(violation->rule) : std::nullopt;
  }
  Expression sum(const std::vector<std::uint32_t>& ranks) {
    Expression so_far = expressions_.leaf(ranks.front());
    for (std::size_t i = 1; i < ranks.size(); ++i)
      so_far = expressions_.combine(so_far, expressions_.leaf(ranks[i]));
    return so_far;
  }
  const std::vector<std::uint32_t> ring_ = {2, 0, 3, 1};
  Expressions expressions_{ring_};
};

TEST_F(SumsOf, EachRankOnce) {
  EXPECT_EQ(judge(sum({0, 1, 2, 3})), std::nullopt);
  EXPECT_EQ(judge(sum({2, 0, 3, 1})), std::nullopt);
  EXPECT_EQ(judge(sum({0, 0, 2, 3})), Rule::kTwice);  // as many as there should be
  EXPECT_EQ(judge(sum({3, 1, 2, 2})), Rule::kMissing);
  EXPECT_EQ(judge(sum({2, 0, 3})), Rule::kMissing);
  EXPECT_EQ(judge(expressions_.finished(sum({2, 0, 3, 1}))), Rule::kMissing);  // was divided
}

TEST_F(SumsOf, InThePromisedOrder) {
  EXPECT_EQ(judge(sum({0, 3, 1, 2}), Promise::kAlongRing), std::nullopt);
  EXPECT_EQ(judge(sum({0, 1, 2, 3}), Promise::kAlongRing), Rule::kOrder);
  EXPECT_EQ(judge(sum({0, 1, 2, 3}), Promise::kByRank), std::nullopt);
  EXPECT_EQ(judge(sum({1, 2, 3, 0}), Promise::kByRank), Rule::kOrder);
  const Expression pairs = expressions_.combine(sum({0, 1}), sum({2, 3}));
  EXPECT_EQ(judge(pairs), std::nullopt);
  EXPECT_EQ(judge(pairs, Promise::kByRank), Rule::kOrder);
}

TEST_F(SumsOf, EqualTreesHaveEqualNumbers) {
  EXPECT_EQ(sum({0, 1, 2, 3}), sum({0, 1, 2, 3}));
  EXPECT_EQ(sum({2, 0, 3, 1}), sum({2, 0, 3, 1}));
  EXPECT_NE(sum({2, 0, 3, 1}), sum({0, 3, 1, 2}));
  EXPECT_NE(sum({0, 1}), sum({1, 0}));
  EXPECT_NE(sum({0}), expressions_.finished(sum({0})));
}

}  // namespace
}  // namespace weft::checker
