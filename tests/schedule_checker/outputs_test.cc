// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls into outputs of other ranks, one after another and among such as go by slots. Up to 8 ranks
// agree as the product's do; of more, which never agree, the steps alone are checked.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/direct_peers.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker::bulk_copies {
namespace {

using Kind = OutputStep::Kind;

constexpr Operation kCopies[] = {Operation::kBroadcast, Operation::kAllGather};

class Outputs : public ::testing::Test {
 protected:
  void check(Operation operation, const Topology& topology, Shape shape, std::uint32_t root,
             Execution execution) {
    shape.into_outputs = true;
    const Plan plan =
        plan_of(task_of(operation, shape.count, root), topology, Algorithm::kRing, shape);
    ASSERT_TRUE(plan.into_outputs) << plan.no_outputs;
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
    ++executions_;
  }
  /// By a seed and turns that differ from case to case.
  void check_a_way(Operation operation, const Topology& topology, const Shape& shape,
                   std::uint32_t root, Execution execution) {
    execution.seed = ++seed_;
    execution.turns = kAllTurns[seed_ % std::size(kAllTurns)];
    execution.in_place = seed_ / std::size(kAllTurns) % 2 == 1;
    check(operation, topology, shape, root, execution);
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_GT(executions_, 0U);
    }
  }

  Stacks stacks_;
  std::uint64_t seed_ = 20261126;
  std::uint64_t executions_ = 0;
};

TEST_F(Outputs, ByBothEnds) {
  const Topology topology = test::one_host(2);
  for (const std::uint32_t root : {0U, 1U}) {
    for (const std::uint32_t steps : {2U, 3U, 4U, 8U}) {
      for (const Turns turns : kAllTurns) {
        const Shape shape{.steps = steps,
                          .step_grains = 4,
                          .channels = 2,
                          .count = 2 * 19 * kGrain + 3,
                          .both_ends = true};
        const Plan plan = plan_of(task_of(Operation::kBroadcast, shape.count, root), topology,
                                  Algorithm::kRing, shape);
        ASSERT_TRUE(plan.both_ends);
        const Execution execution{
            .in_place = steps % 2 == 0,
            .calls = 4,
            .turns = turns,
            .seed = ++seed_,
            .outputs = IntoOutputs{.steps = {{.kind = Kind::kSlots}, {.kind = Kind::kBoth}}}};
        const Verdict verdict = execute_one(stacks_, plan, execution);
        ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                            << verdict.report.text();
        ++executions_;
      }
    }
  }
}

/// Into outputs, and by slots for each of the reasons that there are.
IntoOutputs among_others(std::uint32_t refuses, bool between_processes) {
  return {.steps = {{.kind = Kind::kAgreed},
                    {.kind = Kind::kAgreed, .refuses = refuses},
                    {.kind = Kind::kAgreed},
                    {.kind = Kind::kAgreed},
                    {.kind = Kind::kSlots},
                    {.kind = Kind::kThreads},
                    {.kind = Kind::kAgreed},
                    {.kind = Kind::kBoth}},
          .between_processes = between_processes};
}

/// One line of a chunk; a step and a rest that no bulk copy takes; several loops, channels and
/// steps of more pieces than are under way at a time.
std::vector<Shape> shapes() {
  return {
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 2},
      {.steps = 2, .step_grains = 1, .channels = 2, .count = 2 * kGrain + 4},
      {.steps = 3, .step_grains = 4, .channels = 1, .count = 9 * kGrain + 2},
      {.steps = 4, .step_grains = 2, .channels = 3, .count = 3 * 5 * kGrain + 6},
  };
}

/// A block is a multiple of 16 bytes; what a root sends need not be.
Shape for_operation(Shape shape, Operation operation) {
  if (operation == Operation::kBroadcast) shape.count += 1;
  return shape;
}

TEST_F(Outputs, AllNumbersOfRanks) {
  for (const std::uint32_t ranks : numbers_of_ranks(2, kMostRanksOfAll)) {
    const Topology topology = ranks % 2 == 0 ? test::one_host(ranks) : scattered(ranks, 3);
    for (const Operation operation : kCopies) {
      for (const Shape& shape : shapes()) {
        // The time of blocks grows with the square of the ranks.
        const bool few = ranks > 16 && operation == Operation::kAllGather;
        if (few && shape.channels > 1 && ranks % 16 != 0) continue;
        ASSERT_NO_FATAL_FAILURE(check_a_way(
            operation, topology, for_operation(shape, operation), ranks / 2,
            {.calls = few ? 3U : 8U, .outputs = among_others(seed_ % ranks, seed_ / 16 % 2 == 0)}));
      }
    }
  }
}

// Ranks that agree, in many orders of turns; flags of the offers begin again.
TEST_F(Outputs, AgreedInAnyOrderOfTurns) {
  constexpr int kSeeds = 24;
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    for (const Operation operation : kCopies) {
      for (const std::uint32_t channels : {1U, 3U}) {
        const Shape shape = for_operation({.steps = 2,
                                           .step_grains = 2,
                                           .channels = channels,
                                           .count = 5 * channels * kGrain + 2},
                                          operation);
        for (int i = 0; i < kSeeds; ++i) {
          const Execution execution{
              .in_place = i % 2 == 1,
              .calls = 8,
              .turns = Turns::kShuffled,
              .seed = ++seed_,
              .flag_period = 4,
              .outputs = among_others(static_cast<std::uint32_t>(i) % ranks, i % 4 < 2)};
          ASSERT_NO_FATAL_FAILURE(
              check(operation, test::one_host(ranks), shape, ranks - 1, execution));
        }
      }
    }
  }
}

TEST_F(Outputs, EveryRootAndEveryRankThatRefuses) {
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U, 13U}) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Shape shape{.steps = 3, .step_grains = 2, .channels = 2, .count = 7 * kGrain + 1};
      ASSERT_NO_FATAL_FAILURE(check_a_way(
          Operation::kBroadcast, scattered(ranks, 3), shape, rank,
          {.calls = 8, .outputs = among_others((rank + seed_) % ranks, rank % 2 == 0)}));
    }
  }
}

TEST_F(Outputs, EveryNumberOfChannels) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 11U}) {
    for (const Operation operation : kCopies) {
      for (const std::uint32_t channels : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 16U, 33U, 64U}) {
        const Shape shape{
            .steps = 2, .step_grains = 1, .channels = channels, .count = channels * kGrain + 2};
        ASSERT_NO_FATAL_FAILURE(
            check_a_way(operation, test::one_host(ranks), shape, ranks - 1,
                        {.calls = 4, .outputs = among_others(1, channels % 2 == 0)}));
      }
    }
  }
}

TEST_F(Outputs, ManyRanks) {
  for (const std::uint32_t ranks : {65U, 127U, 129U}) {
    for (const Operation operation : kCopies) {
      const Shape shape{.steps = 4, .step_grains = 1, .channels = 1, .count = 2 * kGrain + 4};
      ASSERT_NO_FATAL_FAILURE(check_a_way(operation, test::one_host(ranks), shape, ranks / 3,
                                          {.calls = 2, .outputs = IntoOutputs{}}));
    }
  }
}

// Of blocks the time grows with the square of the ranks.
TEST_F(Outputs, LongManyRanks) {
  for (const std::uint32_t ranks : {333U, 1000U, 4095U, 4096U}) {
    const Operation operation = ranks < 1000 ? Operation::kAllGather : Operation::kBroadcast;
    const Shape shape{.steps = 4, .step_grains = 1, .channels = 1, .count = 2};
    ASSERT_NO_FATAL_FAILURE(check_a_way(operation, test::one_host(ranks),
                                        for_operation(shape, operation), ranks / 3,
                                        {.calls = 2, .outputs = IntoOutputs{}}));
  }
}

// Many slots, and senders that go on as long as they can: a rank does more each time that its
// stacks are fetched from memory.
TEST_F(Outputs, FarBlocksOfMostRanks) {
  const Shape shape{.steps = 128, .step_grains = 1, .channels = 1, .count = 2};
  ASSERT_NO_FATAL_FAILURE(check(Operation::kAllGather, test::one_host(4096), shape, 0,
                                {.turns = Turns::kEarlyReceivers, .outputs = IntoOutputs{}}));
}

}  // namespace
}  // namespace weft::checker::bulk_copies
