// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings whose blocks differ: all numbers of ranks up to 64, any lengths of blocks, some of them
// nothing. As many steps and bytes as the blocks have, not as the longest one would.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

constexpr Operation kUneven[] = {Operation::kAllGatherV, Operation::kReduceScatterV};

/// Blocks of up to `longest` elements, one of which has that many.
std::vector<Extent> any_blocks(std::uint32_t ranks, std::uint64_t longest,
                               std::mt19937_64& random) {
  std::vector<Extent> blocks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t drawn = random();
    blocks.push_back(
        {.offset = rank * longest, .count = drawn % 4 == 0 ? 0 : (drawn >> 8) % (longest + 1)});
  }
  blocks[random() % ranks].count = longest;
  return blocks;
}

Bound bound_of_blocks(const Plan& plan) {
  std::uint64_t elements = 0;
  for (const Extent& block : plan.blocks)
    elements += block.count;
  Bound bound = bound_of(plan, Algorithm::kRing).value();
  bound.bytes = (plan.ranks - 1) * elements * element_size(plan.task.type);
  return bound;
}

class UnevenRings : public ::testing::Test {
 protected:
  Plan draw(Operation operation, std::uint32_t ranks, const Topology& topology) {
    return draw(operation, ranks, topology, 1 + static_cast<std::uint32_t>(random_() % 4),
                1 + random_() % (12 * kGrain));
  }
  Plan draw(Operation operation, std::uint32_t ranks, const Topology& topology,
            std::uint32_t channels, std::uint64_t count) {
    const Shape shape{.steps = 2 + static_cast<std::uint32_t>(random_() % 4),
                      .step_grains = 1 + static_cast<std::uint32_t>(random_() % 2),
                      .channels = channels,
                      .count = count};
    Plan plan = plan_of(task_of(operation, shape.count), topology, Algorithm::kRing, shape);
    plan.blocks = any_blocks(ranks, shape.count, random_);
    return plan;
  }
  Execution drawn_execution(const Plan& plan) {
    Execution execution{.in_place = random_() % 2 == 0, .calls = calls_};
    execution.turns = kAllTurns[random_() % std::size(kAllTurns)];
    if (!shuffles_) execution.turns = Turns::kLateReceivers;
    execution.seed = random_();
    execution.declared = bound_of_blocks(plan);
    return execution;
  }
  void check(const Plan& plan, const Topology& topology) {
    ASSERT_TRUE(validate(plan, topology));
    const Execution execution = drawn_execution(plan);
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
    EXPECT_EQ(verdict.measures.bytes, execution.declared->bytes);
  }
  /// The same of few elements a block and one call, for many ranks.
  void check_many(Operation operation, std::uint32_t ranks, const Shape& shape) {
    const Topology topology = test::one_host(ranks);
    Plan plan = plan_of(task_of(operation, shape.count), topology, Algorithm::kRing, shape);
    plan.blocks = any_blocks(ranks, shape.count, random_);
    calls_ = 1;
    // Whoever goes on by chance, or does little each time, finds nothing of what it needs in the
    // processor's caches.
    shuffles_ = ranks <= 1000;
    ASSERT_NO_FATAL_FAILURE(check(plan, topology));
  }
  Stacks stacks_;
  std::mt19937_64 random_{20261122};
  std::uint32_t calls_ = 2;
  bool shuffles_ = true;
};

TEST_F(UnevenRings, AllNumbersOfRanks) {
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kUneven) {
      for (int i = 0; i < (ranks <= 16 ? 16 : 2); ++i) {
        ASSERT_NO_FATAL_FAILURE(check(draw(operation, ranks, topology), topology));
      }
    }
  }
}

// Most blocks leave some channels nothing.
TEST_F(UnevenRings, EveryNumberOfChannels) {
  for (const std::uint32_t ranks : {2U, 3U, 6U}) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kUneven) {
      for (std::uint32_t channels = 1; channels <= 64; ++channels) {
        const Plan plan = draw(operation, ranks, topology, channels, channels * kGrain + 3);
        ASSERT_EQ(plan.channels.size(), channels);
        ASSERT_NO_FATAL_FAILURE(check(plan, topology));
      }
    }
  }
}

TEST_F(UnevenRings, OfManyRanks) {
  for (const std::uint32_t ranks : {65U, 127U, 128U, 257U}) {
    for (const Operation operation : kUneven) {
      ASSERT_NO_FATAL_FAILURE(
          check_many(operation, ranks,
                     {.steps = 3, .step_grains = 1, .channels = 2, .count = 2 * kGrain + 3}));
    }
  }
}

TEST_F(UnevenRings, LongOfMostRanks) {
  for (const std::uint32_t ranks : {1000U, 4096U}) {
    for (const Operation operation : kUneven) {
      ASSERT_NO_FATAL_FAILURE(check_many(
          operation, ranks,
          {.steps = ranks > 1000 ? 32U : 2U, .step_grains = 1, .channels = 1, .count = 3}));
    }
  }
}

// Ranks that do not name the same blocks, one of them an element shorter.
TEST_F(UnevenRings, BlocksThatDifferBetweenRanksAreFound) {
  const Topology topology = test::one_host(3);
  for (const Operation operation : kUneven) {
    Plan plan = plan_of(task_of(operation, 20), topology, Algorithm::kRing, {.count = 20});
    plan.blocks = {{.offset = 0, .count = 20}, {.offset = 20, .count = 7}, {.offset = 40}};
    Plan other = plan;
    --other.blocks[1].count;
    const Plan* const plans[] = {&plan, &plan, &other};
    const Verdict verdict = execute(stacks_, plans, {.declared = bound_of_blocks(plan)});
    ASSERT_FALSE(verdict.report.empty());
    EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(Rule::kAgreement));
  }
}

TEST_F(UnevenRings, BlocksMustFitTheirPlan) {
  const Topology topology = test::one_host(2);
  Plan plan = plan_of(task_of(Operation::kAllGatherV, 8), topology, Algorithm::kRing, {.count = 8});
  EXPECT_FALSE(validate(plan, topology)) << "there are none";
  plan.blocks = {{.offset = 0, .count = 8}, {.offset = 8, .count = 3}};
  EXPECT_TRUE(validate(plan, topology));
  plan.blocks[1].count = 9;
  EXPECT_FALSE(validate(plan, topology)) << "longer than the longest";
}

}  // namespace
}  // namespace weft::checker
