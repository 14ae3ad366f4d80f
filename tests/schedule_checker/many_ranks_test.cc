// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Samples of up to 4096 ranks. What takes longer is in the suite `long`, by its name.
#include <cstdint>

#include <gtest/gtest.h>

#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

constexpr Protocol kByLines[] = {Protocol::kLL, Protocol::kLL128};

class ManyRanks : public ::testing::Test {
 protected:
  void check(Operation operation, std::uint32_t ranks, const Shape& shape,
             const Execution& execution) {
    const Topology& topology = topology_of(ranks);
    const Plan plan =
        plan_of(task_of(operation, shape.count, ranks / 3), topology, Algorithm::kRing, shape);
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
  }
  const Topology& topology_of(std::uint32_t ranks) {
    if (topology_.ranks.size() != ranks) topology_ = test::one_host(ranks);
    return topology_;
  }

  Stacks stacks_;
  Topology topology_;
};

// Every rank has a chunk, and there is a rest.
TEST_F(ManyRanks, AllOfARing) {
  for (const std::uint32_t ranks : {65U, 100U, 127U, 128U, 129U, 255U, 256U, 257U}) {
    for (const Operation operation : kCollectives) {
      const std::uint64_t chunks = operation == Operation::kAllReduce ? ranks : 1;
      Shape shape{
          .steps = 4, .step_grains = 1, .channels = 1, .count = chunks * kGrain + kGrain + 3};
      ASSERT_NO_FATAL_FAILURE(check(operation, ranks, shape, {.turns = Turns::kLateReceivers}));
      ASSERT_NO_FATAL_FAILURE(check(operation, ranks, shape, {.in_place = true}));
      for (const Protocol protocol : kByLines) {
        if (!takes_all_numbers() && ranks % 64 != 1) continue;
        shape.protocol = protocol;
        ASSERT_NO_FATAL_FAILURE(check(operation, ranks, shape, {.in_place = ranks % 2 == 0}));
      }
    }
  }
}

// A few chunks go all the way round.
TEST_F(ManyRanks, AFewChunks) {
  for (const std::uint32_t ranks : {1024U, 4095U, 4096U}) {
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kBroadcast, Operation::kReduce}) {
      Shape shape{.steps = 3, .step_grains = 1, .channels = 2, .count = 21 * kGrain + 3};
      ASSERT_NO_FATAL_FAILURE(check(operation, ranks, shape, {}));
      for (const Protocol protocol : kByLines) {
        if (!takes_all_numbers() || ranks == 4095) continue;
        shape.protocol = protocol;
        ASSERT_NO_FATAL_FAILURE(check(operation, ranks, shape, {}));
      }
    }
  }
}

TEST_F(ManyRanks, LongAllOfALargeRing) {
  for (const std::uint32_t ranks : {1000U, 4096U}) {
    for (const Operation operation : kCollectives) {
      // A few chunks of the others go round there in AFewChunks.
      if (ranks > 1000 && !has_blocks(operation)) continue;
      const std::uint64_t chunks = operation == Operation::kAllReduce ? ranks : 1;
      const bool blocks = has_blocks(operation);
      // Of the most ranks each has many slots, and goes on as long as it can: it does more each
      // time that its stack is fetched from memory.
      const Shape shape{.steps = ranks > 1000 ? 32U : 2U,
                        .step_grains = 1,
                        .channels = 1,
                        .count = blocks ? 1 : chunks * kGrain + 3};
      ASSERT_NO_FATAL_FAILURE(check(
          operation, ranks, shape,
          {.in_place = blocks, .turns = ranks > 1000 ? Turns::kLateReceivers : Turns::kInOrder}));
    }
  }
}

// Of blocks each rank sees those of all others, so that the time grows with the square.
TEST_F(ManyRanks, LongAllOfALargeRingByLines) {
  for (const Protocol protocol : kByLines) {
    for (const Operation operation : kCollectives) {
      const bool blocks = has_blocks(operation);
      const std::uint32_t most = protocol == Protocol::kLL ? 4096 : 2048;
      const std::uint32_t ranks = blocks ? most : 1000;
      const std::uint64_t chunks = operation == Operation::kAllReduce ? ranks : 1;
      const Shape shape{.steps = blocks ? 32U : 8U,
                        .step_grains = 1,
                        .channels = 1,
                        .count = blocks ? 1 : chunks * kGrain + 3,
                        .protocol = protocol};
      ASSERT_NO_FATAL_FAILURE(
          check(operation, ranks, shape,
                {.in_place = blocks, .turns = blocks ? Turns::kLateReceivers : Turns::kInOrder}));
    }
  }
}

TEST_F(ManyRanks, LongInAnyOrder) {
  std::uint64_t seed = 1;
  for (const std::uint32_t ranks : {100U, 256U}) {
    for (const Operation operation : kCollectives) {
      const std::uint64_t spread = operation == Operation::kAllReduce ? ranks : 1;
      const Shape shape{
          .steps = 2, .step_grains = 1, .channels = 3, .count = 3 * kGrain * spread + kGrain + 3};
      for (int i = 0; i < 4; ++i) {
        const Execution execution{
            .in_place = i % 2 == 1, .calls = 2, .turns = Turns::kShuffled, .seed = seed++};
        ASSERT_NO_FATAL_FAILURE(check(operation, ranks, shape, execution));
      }
    }
  }
}

}  // namespace
}  // namespace weft::checker
