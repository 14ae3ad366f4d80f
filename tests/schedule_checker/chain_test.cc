// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Chains, and what deterministic plans promise: each element is combined by rank numbers, from
// rank 0 on, whatever algorithm is chosen, whatever the topology. Plans that promise it and do not
// keep it are rejected.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "core/model/chain_links.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

constexpr Operation kReducing[] = {Operation::kAllReduce, Operation::kReduce,
                                   Operation::kReduceScatter};

/// A task in which the order tells.
Task real_task(Operation operation, std::uint64_t count, std::uint32_t root = 0,
               weft_reduction reduction = WEFT_SUM) {
  Task task = task_of(operation, count, root, reduction);
  task.type = WEFT_FLOAT64;
  return task;
}

/// One chunk; fewer chunks than slots; many times round all slots, with a rest.
std::vector<Shape> chain_shapes() {
  return {
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 1},
      {.steps = 4, .step_grains = 1, .channels = 2, .count = 4 * kGrain + 3},
      {.steps = 2, .step_grains = 1, .channels = 2, .count = 23 * kGrain + 3},
      {.steps = 3, .step_grains = 2, .channels = 3, .count = 41 * kGrain + 5},
  };
}

class Chains : public ::testing::Test {
 protected:
  void check(const Plan& plan, const Topology& topology, Execution execution) {
    ASSERT_TRUE(validate(plan, topology)) << describe(plan, execution);
    ASSERT_TRUE(plan.by_rank) << describe(plan, execution);
    execution.turns = turns_.value_or(kAllTurns[++seed_ % std::size(kAllTurns)]);
    execution.seed = seed_;
    execution.in_place = seed_ / std::size(kAllTurns) % 2 == 1;
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ++executions_;
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
  }
  void check(const Task& task, const Topology& topology, const Shape& shape, Execution execution) {
    const Plan plan = plan_of(task, topology, Algorithm::kChain, shape);
    ASSERT_EQ(plan.algorithm, Algorithm::kChain);
    check(plan, topology, std::move(execution));
  }
  /// Blocks of up to `longest` elements, a third of them empty.
  void check_blocks(const Topology& topology, std::uint64_t longest, std::uint32_t calls) {
    check_blocks(topology, 1 + static_cast<std::uint32_t>(random_() % 3), 1 + random_() % longest,
                 calls);
  }
  /// The longest might have `count`.
  void check_blocks(const Topology& topology, std::uint32_t channels, std::uint64_t count,
                    std::uint32_t calls) {
    const std::uint32_t ranks = topology.rank_count();
    const Shape shape{.steps = 2 + static_cast<std::uint32_t>(random_() % 3),
                      .step_grains = 1,
                      .channels = channels,
                      .count = count};
    Plan plan = plan_of(real_task(Operation::kReduceScatterV, shape.count), topology,
                        Algorithm::kChain, shape);
    std::uint64_t up = 0;
    std::uint64_t down = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::uint64_t drawn = random_();
      const std::uint64_t count = drawn % 3 == 0 ? 0 : (drawn >> 8) % (shape.count + 1);
      plan.blocks.push_back({.offset = rank * shape.count, .count = count});
      up += count * (ranks - 1);
      down += count * (ranks - 1 - rank);
    }
    Bound bound = bound_of(plan, Algorithm::kChain).value();
    bound.bytes = (up + down) * sizeof(Value);
    ASSERT_NO_FATAL_FAILURE(check(plan, topology, {.calls = calls, .declared = bound}));
  }
  void expect(Rule rule, const Plan& plan, Execution execution) {
    for (const Turns turns : kAllTurns) {
      execution.turns = turns;
      const Verdict verdict = execute_one(stacks_, plan, execution);
      ASSERT_FALSE(verdict.report.empty()) << "nothing was found, wanted: " << rule_name(rule);
      EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
          << verdict.report.text();
    }
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_GT(executions_, 0U);
    }
  }

  Stacks stacks_;
  std::optional<Turns> turns_;  // those of all executions
  std::mt19937_64 random_{20261122};
  std::uint64_t seed_ = 20261122;
  std::uint64_t executions_ = 0;
};

TEST_F(Chains, AllNumbersOfRanks) {
  for (const std::uint32_t ranks : numbers_of_ranks(2, kMostRanksOfAll)) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kReducing) {
      for (const Shape& shape : chain_shapes()) {
        // Of blocks the time grows with the square of the ranks.
        const bool long_takes = ranks > 20 && operation == Operation::kReduceScatter;
        if (long_takes && shape.steps == 3) break;
        const std::uint32_t calls = shape.count == 1 ? 3 : long_takes ? 1 : 2;
        for (int i = 0; i < (ranks <= 12 ? 8 : 1); ++i) {
          ASSERT_NO_FATAL_FAILURE(check(real_task(operation, shape.count, ranks / 2), topology,
                                        shape, {.calls = calls}));
        }
      }
    }
  }
}

TEST_F(Chains, EveryRoot) {
  for (const std::uint32_t ranks : {2U, 3U, 5U, 16U}) {
    for (const Topology& topology : {test::one_host(ranks), scattered(ranks, 2)}) {
      for (std::uint32_t root = 0; root < ranks; ++root) {
        const Shape shape{.steps = 3, .step_grains = 1, .channels = 2, .count = 9 * kGrain + 1};
        for (int i = 0; i < 4; ++i) {
          ASSERT_NO_FATAL_FAILURE(check(real_task(Operation::kReduce, shape.count, root), topology,
                                        shape, {.calls = 2}));
        }
      }
    }
  }
}

TEST_F(Chains, AveragesAreDividedOnceAndFactorsMultiplyOnce) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 17U}) {
    for (const Operation operation : kReducing) {
      for (const Shape& shape : chain_shapes()) {
        for (const weft_reduction reduction :
             {weft_reduction{WEFT_AVG}, weft_reduction{kPremulSum}}) {
          ASSERT_NO_FATAL_FAILURE(check(real_task(operation, shape.count, 0, reduction),
                                        scattered(ranks, 2), shape, {}));
        }
      }
    }
  }
}

// Many orders in which kernels get on, over few slots and several calls.
TEST_F(Chains, AnyOrderOfTurns) {
  constexpr int kSeeds = 60;
  for (const std::uint32_t ranks : {2U, 3U, 6U}) {
    for (const Operation operation : kReducing) {
      const Shape shape{.steps = 2, .step_grains = 1, .channels = 2, .count = 17 * kGrain + 3};
      for (int i = 0; i < kSeeds; ++i) {
        ASSERT_NO_FATAL_FAILURE(check(real_task(operation, shape.count, ranks - 1),
                                      test::one_host(ranks), shape, {.calls = 3}));
      }
    }
  }
}

TEST_F(Chains, BlocksThatDiffer) {
  for (const std::uint32_t ranks : {2U, 3U, 4U, 7U, 12U}) {
    const Topology topology = test::one_host(ranks);
    for (int i = 0; i < 40; ++i)
      ASSERT_NO_FATAL_FAILURE(check_blocks(topology, 12 * kGrain, 2));
  }
}

TEST_F(Chains, BlocksThatDifferOverEveryNumberOfChannels) {
  for (const std::uint32_t ranks : {2U, 3U, 5U}) {
    const Topology topology = test::one_host(ranks);
    for (std::uint32_t channels = 1; channels <= 64; ++channels)
      ASSERT_NO_FATAL_FAILURE(check_blocks(topology, channels, channels * kGrain + 3, 1));
  }
}

TEST_F(Chains, BlocksThatDifferOfAllNumbersOfRanks) {
  for (const std::uint32_t ranks : numbers_of_ranks(2, kMostRanksOfAll)) {
    const Topology topology = test::one_host(ranks);
    for (int i = 0; i < 2; ++i)
      ASSERT_NO_FATAL_FAILURE(check_blocks(topology, 12 * kGrain, 1));
  }
}

TEST_F(Chains, BlocksOfManyRanks) {
  for (const std::uint32_t ranks : {65U, 128U, 257U}) {
    const Topology topology = test::one_host(ranks);
    ASSERT_NO_FATAL_FAILURE(check_blocks(topology, 3 * kGrain, 1));
    const Shape shape{.steps = 3, .step_grains = 1, .channels = 1, .count = kGrain + 3};
    ASSERT_NO_FATAL_FAILURE(
        check(real_task(Operation::kReduceScatter, shape.count), topology, shape, {}));
  }
}

TEST_F(Chains, LongBlocksOfMoreRanks) {
  const Topology topology = test::one_host(1000);
  ASSERT_NO_FATAL_FAILURE(check_blocks(topology, 3, 1));
  const Shape shape{.steps = 8, .step_grains = 1, .channels = 1, .count = 1};
  ASSERT_NO_FATAL_FAILURE(
      check(real_task(Operation::kReduceScatter, shape.count), topology, shape, {}));
}

// What comes down is behind by all slots, and blocks take turns: each rank has one chunk to move
// whenever it goes on, whatever the order of turns.
TEST_F(Chains, LongBlocksOfMostRanks) {
  const Topology topology = test::one_host(4096);
  turns_ = Turns::kLateReceivers;
  const Shape shape{.steps = 8, .step_grains = 1, .channels = 1, .count = 1};
  ASSERT_NO_FATAL_FAILURE(
      check(real_task(Operation::kReduceScatter, shape.count), topology, shape, {}));
}

TEST_F(Chains, LongBlocksThatDifferOfMostRanks) {
  const Topology topology = test::one_host(4096);
  turns_ = Turns::kLateReceivers;
  ASSERT_NO_FATAL_FAILURE(check_blocks(topology, 1, 1));
}

TEST_F(Chains, ManyRanks) {
  for (const std::uint32_t ranks : {65U, 128U, 1000U, 4096U}) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : {Operation::kAllReduce, Operation::kReduce}) {
      const Shape shape{.steps = 3, .step_grains = 1, .channels = 1, .count = 3 * kGrain + 3};
      ASSERT_NO_FATAL_FAILURE(
          check(real_task(operation, shape.count, ranks / 3), topology, shape, {}));
    }
  }
}

/// As the product's, but for how far down is behind up.
template <std::uint64_t kMore>
KernelOutcome run_chain_behind(const KernelCall& call) {
  const std::uint64_t lag = chain_lag(call.item.chain->to_above.steps) + kMore;
  TestMemory memory(call.memory);
  return device::ChainWalk(call.group, memory, call.item, call.reduction, sizeof(Value), lag).run();
}

// The lag is as long as it can be.
TEST_F(Chains, AChunkMoreBehindLocksUp) {
  for (const std::uint32_t ranks : {2U, 3U, 7U}) {
    for (const std::uint32_t steps : {2U, 3U, 8U}) {
      const Shape shape{.steps = steps, .step_grains = 1, .channels = 1, .count = 60 * kGrain};
      const Task task = real_task(Operation::kAllReduce, shape.count);
      ASSERT_NO_FATAL_FAILURE(
          check(task, test::one_host(ranks), shape, {.kernel = run_chain_behind<0>}));
      const Plan plan = plan_of(task, test::one_host(ranks), Algorithm::kChain, shape);
      expect(Rule::kDeadlock, plan, {.kernel = run_chain_behind<1>});
    }
  }
}

/// All that the planner may choose from, with connections for all of it.
PlanInput deterministic_input(const Topology& topology, const std::vector<std::string>& names) {
  return {.topology = topology,
          .limits = {.steps = 3,
                     .step_bytes = 128,
                     .max_channels = 3,
                     .min_channel_bytes = 64,
                     .direct_bytes = 1024 + kMostDirectParts * sizeof(std::uint64_t),
                     .direct_block_bytes = 1024,
                     .direct_roots = true,
                     .two_shot_range = 128,
                     .trees = true},
          .algorithms = names,
          .deterministic = true};
}

// Every way that the planner leaves a deterministic call keeps the order, by CPUs' kernels and by
// those of GPUs.
TEST_F(Chains, AllThatADeterministicCallMayGoByKeepsTheOrder) {
  std::size_t ways = 0;
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U}) {
    for (const Topology& topology : {test::one_host(ranks), scattered(ranks, 2)}) {
      for (const Operation operation : kReducing) {
        for (std::size_t i = 0; i < kAlgorithmCount; ++i) {
          const std::string name(algorithm_name(static_cast<Algorithm>(i)));
          for (const std::uint64_t count : {std::uint64_t{1}, 7 * kGrain + 1}) {
            const auto plan = make_plan(real_task(operation, count, ranks - 1),
                                        deterministic_input(topology, {name}));
            if (!plan) continue;
            ++ways;
            const bool directly = plan->algorithm == Algorithm::kDirect;
            if (!directly || !has_root(operation)) {
              ASSERT_NO_FATAL_FAILURE(check(*plan, topology, {.calls = 2}));
            }
            if (!directly) continue;
            ASSERT_NO_FATAL_FAILURE(
                check(*plan, topology, {.calls = 2, .kernel = run_line_kernel}));
          }
        }
      }
    }
  }
  // Three of an all-reduce, two of a reduce-scatter and of a reduce.
  EXPECT_EQ(ways, 4U * 2 * 2 * 7);
}

// What the promise is for: none of the others keeps it.
TEST_F(Chains, APlanThatPromisesTheOrderAndDoesNotKeepItIsRejected) {
  constexpr std::uint32_t kRanks = 5;
  const Topology topology = test::one_host(kRanks);
  const Shape shape{.steps = 4, .step_grains = 1, .channels = 1, .count = 20 * kGrain};
  for (const auto& [operation, algorithm] :
       {std::pair(Operation::kAllReduce, Algorithm::kRing),
        std::pair(Operation::kReduceScatter, Algorithm::kRing),
        std::pair(Operation::kReduce, Algorithm::kRing),
        std::pair(Operation::kAllReduce, Algorithm::kTree),
        std::pair(Operation::kReduce, Algorithm::kTree),
        std::pair(Operation::kAllReduce, Algorithm::kPat),
        std::pair(Operation::kReduceScatter, Algorithm::kPat)}) {
    Plan plan = plan_of(real_task(operation, shape.count), topology, algorithm, shape);
    const Verdict sound = execute_one(stacks_, plan, {});
    EXPECT_TRUE(sound.report.empty()) << sound.report.text();
    ++executions_;
    plan.by_rank = true;
    expect(Rule::kOrder, plan, {});
    EXPECT_FALSE(validate(plan, topology));
  }
}

/// A memory that combines the other way round on one rank.
struct OtherWayRound : SymbolicMemory {
  explicit OtherWayRound(const SymbolicMemory& sound) : SymbolicMemory(sound) {}
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    SymbolicMemory::reduce(reduction, group, first, second, b, a, count);
  }
};

KernelOutcome run_other_way_round(const KernelCall& call) {
  if (call.rank != 2) return run_kernel(call);
  OtherWayRound memory(call.memory);
  return device::run_chain_item(call.group, memory, call.item, call.reduction);
}

TEST_F(Chains, ARankThatPutsItsOwnFirstIsFound) {
  const Topology topology = test::one_host(4);
  for (const Operation operation : kReducing) {
    const Shape shape{.steps = 2, .step_grains = 1, .channels = 1, .count = 9 * kGrain};
    const Plan plan =
        plan_of(real_task(operation, shape.count, 1), topology, Algorithm::kChain, shape);
    ASSERT_NO_FATAL_FAILURE(check(plan, topology, {}));
    expect(Rule::kOrder, plan, {.kernel = run_other_way_round});
  }
}

/// A memory that does not add what one rank has.
struct LeavesOneOut : SymbolicMemory {
  explicit LeavesOneOut(const SymbolicMemory& sound) : SymbolicMemory(sound) {}
  template <class R>
  void reduce(const R& /*reduction*/, device::SingleLane& group, std::byte* first,
              std::byte* second, const std::byte* a, const std::byte* /*b*/, std::uint64_t count) {
    copy(group, first, second, a, count * sizeof(Value));
  }
};

KernelOutcome run_leaving_one_out(const KernelCall& call) {
  if (call.rank != 3) return run_kernel(call);
  LeavesOneOut memory(call.memory);
  return device::run_chain_item(call.group, memory, call.item, call.reduction);
}

TEST_F(Chains, ARankThatIsLeftOutIsFound) {
  const Topology topology = test::one_host(4);
  for (const Operation operation : kReducing) {
    const Shape shape{.steps = 2, .step_grains = 1, .channels = 1, .count = 9 * kGrain};
    const Plan plan =
        plan_of(real_task(operation, shape.count, 1), topology, Algorithm::kChain, shape);
    ASSERT_NO_FATAL_FAILURE(check(plan, topology, {}));
    expect(Rule::kMissing, plan, {.kernel = run_leaving_one_out});
  }
}

// Steps that are announced are those that are moved.
TEST_F(Chains, AnotherTrafficThanAnnouncedIsFound) {
  const Topology topology = test::one_host(4);
  const Shape shape{.steps = 2, .step_grains = 2, .channels = 1, .count = 16 * kGrain};
  const Plan plan =
      plan_of(real_task(Operation::kAllReduce, shape.count), topology, Algorithm::kChain, shape);
  ASSERT_NO_FATAL_FAILURE(check(plan, topology, {}));
  expect(Rule::kTraffic, plan, {.kernel = [](const KernelCall& call) {
           WorkItem item = call.item;
           item.chunk = kGrain;
           return run_kernel(call.with(item));
         }});
}

}  // namespace
}  // namespace weft::checker
