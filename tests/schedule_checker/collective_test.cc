// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Every operation, algorithm, protocol and number of channels for all numbers of ranks up to 64.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/direct_peers.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

class Collectives : public ::testing::Test {
 protected:
  void check(const Plan& plan, const Execution& execution) {
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ++executions_;
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
  }
  /// In place and not; a seed and turns that differ from case to case, both alike for all of
  /// `all_turns`.
  void check_ways(const Plan& plan, Execution execution, bool all_turns) {
    for (const bool in_place : {false, true}) {
      execution.in_place = in_place;
      if (!all_turns) {
        ASSERT_NO_FATAL_FAILURE(check_a_way(plan, execution));
      } else {
        for (const Turns turns : kAllTurns) {
          execution.turns = turns;
          execution.seed = ++seed_;
          ASSERT_NO_FATAL_FAILURE(check(plan, execution));
        }
      }
    }
  }
  /// By a seed and turns that differ from case to case.
  void check_a_way(const Plan& plan, Execution execution) {
    execution.turns = kAllTurns[++seed_ % std::size(kAllTurns)];
    execution.seed = seed_;
    ASSERT_NO_FATAL_FAILURE(check(plan, execution));
  }
  void TearDown() override { EXPECT_GT(executions_, 0U); }

  Stacks stacks_;
  std::uint64_t seed_ = 20261122;
  std::uint64_t executions_ = 0;
};

/// What to cut a call of so many ranks into: one element; less than a chunk for each rank; a loop
/// and a rest; several loops, channels and steps a chunk, with a rest of 1 to 3 elements.
std::vector<Shape> shapes(Operation operation, std::uint32_t ranks) {
  const std::uint64_t spread = operation == Operation::kAllReduce ? ranks : 1;
  return {
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 1},
      {.steps = 2, .step_grains = 1, .channels = 2, .count = 2 * kGrain * spread + 3},
      {.steps = 3, .step_grains = 2, .channels = 3, .count = 3 * 2 * kGrain * spread + kGrain + 2},
      {.steps = 8, .step_grains = 1, .channels = 1, .count = 9 * kGrain * spread + 1},
      {.steps = 4, .step_grains = 1, .channels = 4, .count = 4 * 3 * kGrain * spread + 5},
  };
}

TEST_F(Collectives, RingsOfAllNumbersOfRanks) {
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kCollectives) {
      for (const Shape& shape : shapes(operation, ranks)) {
        const Task task = task_of(operation, shape.count, ranks / 2);
        const Plan plan = plan_of(task, topology, Algorithm::kRing, shape);
        // One after another for a part of the numbers: the time grows with their square.
        const std::uint32_t calls = ranks > kMostRanksOfAll / 2 ? 1 : 2;
        const Execution execution{.calls = shape.count == 1 ? calls + 1 : calls};
        ASSERT_NO_FATAL_FAILURE(check_ways(plan, execution, ranks <= 16));
      }
    }
  }
}

// By numbers of slots that the steps at the other end come to lie in in turn, and that they do not.
TEST_F(Collectives, RingsByBothEnds) {
  const Topology topology = test::one_host(2);
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce}) {
    for (const std::uint32_t root : {0U, 1U}) {
      for (const std::uint32_t steps : {2U, 3U, 4U, 8U}) {
        for (const std::uint32_t channels : {1U, 3U}) {
          const Shape shape{.steps = steps,
                            .step_grains = 2,
                            .channels = channels,
                            .count = channels * 11 * kGrain + 3,
                            .both_ends = true};
          const Plan plan =
              plan_of(task_of(operation, shape.count, root), topology, Algorithm::kRing, shape);
          ASSERT_TRUE(plan.both_ends);
          ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 4}, true));
        }
      }
    }
  }
}

/// Numbers of ranks whose rings by lines are executed in all ways, others in one: the rings are
/// those of Simple, and the time grows with the square.
bool takes_all_ways(std::uint32_t ranks) {
  return ranks <= 16 || ranks % 12 <= 1 || ranks == kMostRanksOfAll;
}

TEST_F(Collectives, RingsByLines) {
  for (std::uint32_t ranks = 2; ranks <= kMostRanksOfAll; ++ranks) {
    if (!takes_all_numbers() && !takes_all_ways(ranks)) continue;
    const Topology topology = ranks % 2 == 0 ? test::one_host(ranks) : scattered(ranks, 3);
    // Slots are used again and again: flags must tell their steps apart.
    Execution execution{.calls = ranks > kMostRanksOfAll / 4 ? 1U : 3U};
    for (const Operation operation : kCollectives) {
      for (Shape shape : shapes(operation, ranks)) {
        for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128}) {
          const bool in_turn =
              protocol == ((ranks + shape.channels) % 2 == 0 ? Protocol::kLL : Protocol::kLL128);
          if (!takes_all_numbers() && !in_turn && ranks > 16) continue;
          shape.protocol = protocol;
          const Task task = task_of(operation, shape.count, ranks / 2,
                                    ranks % 3 == 0 ? WEFT_AVG : weft_reduction{kPremulSum});
          const Plan plan = plan_of(task, topology, Algorithm::kRing, shape);
          EXPECT_EQ(plan.protocol, protocol);
          if (in_turn && takes_all_ways(ranks)) {
            ASSERT_NO_FATAL_FAILURE(check_ways(plan, execution, ranks <= 8));
          } else {
            execution.in_place = (ranks + shape.channels) % 4 < 2;
            ASSERT_NO_FATAL_FAILURE(check_a_way(plan, execution));
          }
        }
      }
    }
  }
}

TEST_F(Collectives, LinesInAnyOrderOfTurns) {
  constexpr int kSeeds = 25;
  for (const std::uint32_t ranks : {2U, 3U, 5U}) {
    for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128}) {
      for (const Operation operation : kCollectives) {
        const Plan plan = plan_of(task_of(operation, 5 * kGrain * ranks + 3), test::one_host(ranks),
                                  Algorithm::kRing,
                                  {.steps = 2,
                                   .step_grains = 1,
                                   .channels = 2,
                                   .count = 5 * kGrain * ranks + 3,
                                   .protocol = protocol});
        for (int i = 0; i < kSeeds; ++i) {
          const Execution execution{
              .in_place = i % 2 == 1, .calls = 3, .turns = Turns::kShuffled, .seed = ++seed_};
          ASSERT_NO_FATAL_FAILURE(check(plan, execution));
        }
      }
    }
  }
}

TEST_F(Collectives, EveryNumberOfChannels) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 13U, 40U}) {
    if (ranks > kMostRanksOfAll) break;
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kCollectives) {
      const std::uint64_t spread = operation == Operation::kAllReduce ? ranks : 1;
      for (std::uint32_t channels = 1; channels <= 8; ++channels) {
        const Shape shape{.steps = 4,
                          .step_grains = 1,
                          .channels = channels,
                          .count = (channels * 2 + 1) * kGrain * spread + 3};
        const Plan plan =
            plan_of(task_of(operation, shape.count), topology, Algorithm::kRing, shape);
        EXPECT_EQ(plan.channels.size(), channels);
        ASSERT_NO_FATAL_FAILURE(check_ways(plan, {}, false));
      }
    }
  }
}

constexpr std::uint32_t kMostChannels = 64;

/// All ways that go over channels.
struct WayOverChannels {
  Algorithm algorithm;
  Protocol protocol;
  bool (*knows)(Operation operation);
};
constexpr WayOverChannels kWaysOverChannels[] = {
    {Algorithm::kRing, Protocol::kSimple, [](Operation) { return true; }},
    {Algorithm::kRing, Protocol::kLL, [](Operation) { return true; }},
    {Algorithm::kRing, Protocol::kLL128, [](Operation) { return true; }},
    {Algorithm::kTree, Protocol::kSimple, [](Operation it) { return !has_blocks(it); }},
    {Algorithm::kTree, Protocol::kLL, [](Operation it) { return !has_blocks(it); }},
    {Algorithm::kTree, Protocol::kLL128, [](Operation it) { return !has_blocks(it); }},
    {Algorithm::kPat, Protocol::kSimple, [](Operation it) { return fits_pat(it); }},
    {Algorithm::kChain, Protocol::kSimple, [](Operation it) { return reduces(it); }},
};

/// Of channels that are alike one is executed: what two of them have to do with each other is seen
/// where all are, in ManyChannelsAtOnce.
class Channels : public Collectives {
 protected:
  /// A grain for each channel, another for some and less for the last. `in_place` is any number.
  void check_channels(const WayOverChannels& way, Operation operation, const Topology& topology,
                      std::uint32_t channels, std::uint32_t in_place) {
    const std::uint32_t ranks = topology.rank_count();
    const Shape shape{.steps = ranks > 32 ? 8U : 2U,
                      .step_grains = 1,
                      .channels = channels,
                      .count = channels * kGrain + 2 * kGrain - 3,
                      .protocol = way.protocol};
    Task task = task_of(operation, shape.count, ranks - 1);
    if (way.algorithm == Algorithm::kChain) task.type = WEFT_FLOAT64;  // the order tells
    const Plan plan = plan_of(task, topology, way.algorithm, shape);
    ASSERT_EQ(plan.channels.size(), channels);
    ASSERT_EQ(plan.algorithm, way.algorithm);
    check_a_way(
        plan,
        {.in_place = in_place % 2 == 0, .one_of_a_kind = true, .spread = spread_of(topology)});
  }
  static Topology topology_of(std::uint32_t ranks) {
    return ranks % 2 == 0 ? test::one_host(ranks) : scattered(ranks, 3);
  }
};

// One or two channels each way has elsewhere. Beside some that are always there the others occur in
// turn: where all numbers of ranks are taken, each of them with each way of each operation.
TEST_F(Channels, Many) {
  for (const std::uint32_t ranks :
       numbers_of_ranks(2, takes_all_numbers() ? kMostRanksOfAll : kMostRanksOfAll / 4)) {
    const Topology topology = topology_of(ranks);
    std::uint32_t number = ranks;
    for (const WayOverChannels& way : kWaysOverChannels) {
      for (const Operation operation : kCollectives) {
        if (!way.knows(operation)) continue;
        number += 7;
        const std::uint32_t any = 9 + number % 55;
        for (const std::uint32_t channels : {3U, 4U, 5U, 6U, 7U, 8U, any, 16U, 33U, 64U})
          ASSERT_NO_FATAL_FAILURE(check_channels(way, operation, topology, channels, number));
      }
    }
  }
}

// All numbers of channels with all numbers of ranks: minutes.
TEST_F(Channels, FarEachNumber) {
  for (std::uint32_t ranks = 2; ranks <= kMostRanksOfAll; ++ranks) {
    const Topology topology = topology_of(ranks);
    for (const WayOverChannels& way : kWaysOverChannels) {
      for (const Operation operation : kCollectives) {
        if (!way.knows(operation)) continue;
        for (std::uint32_t channels = 1; channels <= kMostChannels; ++channels)
          ASSERT_NO_FATAL_FAILURE(check_channels(way, operation, topology, channels, channels));
      }
    }
  }
}

// All of many channels at once.
TEST_F(Collectives, ManyChannelsAtOnce) {
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U}) {
    const Topology topology = test::one_host(ranks);
    for (const WayOverChannels& way : kWaysOverChannels) {
      for (const Operation operation : kCollectives) {
        if (!way.knows(operation)) continue;
        for (const std::uint32_t channels : {16U, 33U, 64U}) {
          const Shape shape{.steps = 2,
                            .step_grains = 1,
                            .channels = channels,
                            .count = channels * kGrain + 5,
                            .protocol = way.protocol};
          Task task = task_of(operation, shape.count, ranks - 1);
          if (way.algorithm == Algorithm::kChain) task.type = WEFT_FLOAT64;
          const Plan plan = plan_of(task, topology, way.algorithm, shape);
          ASSERT_EQ(plan.channels.size(), channels);
          ASSERT_NO_FATAL_FAILURE(check_a_way(plan, {}));
        }
      }
    }
  }
}

TEST_F(Collectives, EveryRoot) {
  for (const std::uint32_t ranks : {2U, 5U, 16U}) {
    const Topology topology = scattered(ranks, 3);
    for (const Operation operation : {Operation::kBroadcast, Operation::kReduce}) {
      for (std::uint32_t root = 0; root < ranks; ++root) {
        const Shape shape{.steps = 3, .step_grains = 1, .channels = 2, .count = 7 * kGrain + 1};
        const Plan plan =
            plan_of(task_of(operation, shape.count, root), topology, Algorithm::kRing, shape);
        ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 2}, true));
      }
    }
  }
}

// Rings whose order is not that of the ranks' numbers.
TEST_F(Collectives, RingsOverSeveralHosts) {
  for (const std::uint32_t ranks : {4U, 7U, 12U, 33U, 64U}) {
    if (ranks > kMostRanksOfAll) break;
    const Topology topology = scattered(ranks, 4);
    for (const Operation operation : kCollectives) {
      for (const Shape& shape : shapes(operation, ranks)) {
        const Plan plan =
            plan_of(task_of(operation, shape.count, ranks - 1), topology, Algorithm::kRing, shape);
        ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 2}, ranks <= 12));
      }
    }
  }
}

// Chunks above kLeastChunkBytes: the last loop of an all-reduce cuts smaller ones.
TEST_F(Collectives, LastLoopsWithSmallerChunks) {
  constexpr std::uint32_t kStepGrains = 256;
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U}) {
    const Topology topology = test::one_host(ranks);
    const std::uint64_t chunk = 2 * kStepGrains * kGrain;
    for (const std::uint64_t share : {chunk - 1, chunk / 2 + 1, chunk / 4, std::uint64_t{11}}) {
      const Shape shape{.steps = 4,
                        .step_grains = kStepGrains,
                        .channels = 1,
                        .count = chunk * ranks + share * ranks + 1};
      const Plan plan =
          plan_of(task_of(Operation::kAllReduce, shape.count), topology, Algorithm::kRing, shape);
      EXPECT_EQ(plan.channels[0].chunk, chunk);
      ASSERT_NO_FATAL_FAILURE(check_ways(plan, {}, false));
    }
  }
}

TEST_F(Collectives, AveragesAreDividedOnce) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 31U}) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kCollectives) {
      if (!reduces(operation)) continue;
      for (const Shape& shape : shapes(operation, ranks)) {
        const Plan plan = plan_of(task_of(operation, shape.count, 0, WEFT_AVG), topology,
                                  Algorithm::kRing, shape);
        ASSERT_NO_FATAL_FAILURE(check_ways(plan, {}, false));
      }
    }
  }
}

TEST_F(Collectives, InputsAreMultipliedOnce) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 31U}) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kCollectives) {
      if (!reduces(operation)) continue;
      for (const Shape& shape : shapes(operation, ranks)) {
        const Plan plan = plan_of(task_of(operation, shape.count, 0, kPremulSum), topology,
                                  Algorithm::kRing, shape);
        ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 2}, ranks <= 8));
      }
    }
  }
}

// Many orders in which kernels get on, over few slots and several calls.
TEST_F(Collectives, AnyOrderOfTurns) {
  constexpr int kSeeds = 40;
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U}) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kCollectives) {
      const Shape shape{
          .steps = 2, .step_grains = 1, .channels = 2, .count = 5 * kGrain * ranks + 3};
      const Plan plan = plan_of(task_of(operation, shape.count), topology, Algorithm::kRing, shape);
      for (int i = 0; i < kSeeds; ++i) {
        const Execution execution{
            .in_place = i % 2 == 1, .calls = 3, .turns = Turns::kShuffled, .seed = ++seed_};
        ASSERT_NO_FATAL_FAILURE(check(plan, execution));
      }
    }
  }
}

TEST_F(Collectives, DirectlyBetweenCpus) {
  constexpr int kSeeds = 12;
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
      for (const std::uint64_t count : {1U, 3U, 17U}) {
        for (const weft_reduction reduction :
             std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
          const Plan plan =
              plan_of(task_of(operation, count, 0, reduction), topology, Algorithm::kDirect, {});
          for (int i = 0; i < kSeeds; ++i)
            ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 5}, false));
        }
      }
    }
  }
}

TEST_F(Collectives, ByTwoShot) {
  constexpr int kSeeds = 6;
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    const Topology topology = test::one_host(ranks);
    // One element; a piece that leaves ranks without a range; full pieces and a rest.
    for (const std::uint64_t count :
         {std::uint64_t{1}, kGrain + 1, 2 * kGrain * ranks, 5 * kGrain * ranks + 3}) {
      for (const std::uint32_t parts : {1U, 2U, 3U}) {
        for (const weft_reduction reduction :
             std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
          const Plan plan = plan_of(task_of(Operation::kAllReduce, count, 0, reduction), topology,
                                    Algorithm::kTwoShot, {.step_grains = parts == 1 ? 1U : 4U});
          for (int i = 0; i < kSeeds; ++i) {
            ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 3, .direct_parts = parts}, false));
          }
        }
      }
    }
  }
}

TEST_F(Collectives, ByMulticast) {
  constexpr int kSeeds = 4;
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
      const std::uint64_t pieces = has_blocks(operation) ? 1 : ranks;
      // One element; a piece that leaves ranks without a range; full pieces and a rest.
      for (const std::uint64_t count :
           {std::uint64_t{1}, kGrain + 1, 2 * kGrain * pieces, 5 * kGrain * pieces + 3}) {
        for (const std::uint32_t parts : {1U, 2U, 3U}) {
          for (const weft_reduction reduction :
               std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
            const Plan plan = plan_of(task_of(operation, count, 0, reduction), topology,
                                      Algorithm::kMulticast, {.step_grains = parts == 1 ? 1U : 4U});
            for (int i = 0; i < kSeeds; ++i)
              ASSERT_NO_FATAL_FAILURE(check_ways(plan, {.calls = 3, .direct_parts = parts}, false));
          }
        }
      }
    }
  }
}

TEST_F(Collectives, DirectlyByLines) {
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kCollectives) {
      const int seeds = operation == Operation::kAllReduce ? 8 : 3;
      for (const std::uint64_t count : {1U, 3U, 17U}) {
        for (const std::uint32_t parts : {1U, 2U}) {
          const weft_reduction reduction = count == 3 ? WEFT_AVG : WEFT_SUM;
          const Plan plan = plan_of(task_of(operation, count, (ranks + parts) % ranks, reduction),
                                    topology, Algorithm::kDirect, {});
          // Flags begin again within these calls.
          for (int i = 0; i < seeds; ++i) {
            ASSERT_NO_FATAL_FAILURE(check_ways(
                plan,
                {.calls = 9, .kernel = run_line_kernel, .direct_parts = parts, .flag_period = 4},
                false));
          }
        }
      }
    }
  }
}

// All-to-all, gather and scatter, which no planner has to do with: a kernel moves their small
// blocks through the same inboxes.
TEST_F(Collectives, ExchangesDirectlyByLines) {
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    for (const Operation operation :
         {Operation::kAllToAll, Operation::kGather, Operation::kScatter}) {
      for (const std::uint64_t count : {1U, 3U, 17U}) {
        for (const std::uint32_t parts : {1U, 2U}) {
          Plan plan = plan_of(task_of(Operation::kAllGather, count), test::one_host(ranks),
                              Algorithm::kDirect, {});
          plan.task = task_of(operation, count, (ranks + parts) % ranks);
          for (int i = 0; i < 3; ++i) {
            ASSERT_NO_FATAL_FAILURE(check_ways(
                plan,
                {.calls = 9, .kernel = run_line_kernel, .direct_parts = parts, .flag_period = 4},
                false));
          }
        }
      }
    }
  }
}

// Parts are to calls through inboxes what channels are to others. Some have nothing but a header.
TEST_F(Collectives, DirectlyInEveryNumberOfParts) {
  for (const std::uint32_t ranks : {2U, 3U, 8U}) {
    const Topology topology = test::one_host(ranks);
    for (std::uint32_t parts = 1; parts <= kMostDirectParts; ++parts) {
      for (const Operation operation : kCollectives) {
        const Plan plan =
            plan_of(task_of(operation, 41, ranks - 1), topology, Algorithm::kDirect, {});
        ASSERT_NO_FATAL_FAILURE(check_a_way(
            plan,
            {.calls = 3, .kernel = run_line_kernel, .direct_parts = parts, .flag_period = 4}));
      }
      for (const Algorithm algorithm : {Algorithm::kTwoShot, Algorithm::kMulticast}) {
        const Plan plan = plan_of(task_of(Operation::kAllReduce, 9 * kGrain * ranks + 3), topology,
                                  algorithm, {.step_grains = 4});
        ASSERT_NO_FATAL_FAILURE(check_a_way(plan, {.calls = 2, .direct_parts = parts}));
      }
    }
  }
}

/// A call as one of another kind from or to each root in turn, which move the same.
KernelOutcome run_by_roots(const KernelCall& call, Operation kind) {
  const std::uint64_t block = call.item.count * sizeof(Value);
  KernelOutcome outcome;
  for (std::uint32_t root = 0; root < call.item.ranks; ++root) {
    WorkItem item = call.item;
    item.operation = kind;
    item.ring_position = (call.rank + item.ranks - root) % item.ranks;
    const bool from_root = kind == Operation::kBroadcast || kind == Operation::kScatter;
    if (from_root) item.recv += root * block;
    if (!from_root) item.send += root * block;
    outcome = run_line_kernel(call.with(item));
    if (outcome.end != KernelEnd::kDone) break;
  }
  return outcome;
}

// Whoever gets nothing from others, or of one root alone, still knows when it may go on.
TEST_F(Collectives, LinesOfCallsOfDifferentKindsAndRoots) {
  constexpr int kSeeds = 20;
  struct Kinds {
    Operation all;
    std::vector<Operation> by_roots;
  };
  const Kinds mixed[] = {{Operation::kAllToAll, {Operation::kScatter, Operation::kGather}},
                         {Operation::kAllGather, {Operation::kBroadcast}},
                         {Operation::kReduceScatter, {Operation::kReduce}}};
  for (const std::uint32_t ranks : {2U, 3U, 5U, kMostDirectRanks}) {
    for (const Kinds& kinds : mixed) {
      Plan plan =
          plan_of(task_of(Operation::kAllGather, 3), test::one_host(ranks), Algorithm::kDirect, {});
      plan.task = task_of(kinds.all, 3);
      for (int i = 0; i < kSeeds; ++i) {
        // Each rank's calls so far: it goes back to the first kind with each execution.
        std::vector<std::size_t> calls(ranks);
        const auto in_turn = [&](const KernelCall& call) {
          const std::size_t kind = calls[call.rank]++ % (kinds.by_roots.size() + 1);
          return kind == 0 ? run_line_kernel(call) : run_by_roots(call, kinds.by_roots[kind - 1]);
        };
        ASSERT_NO_FATAL_FAILURE(
            check_ways(plan, {.calls = 6, .kernel = in_turn, .flag_period = 4}, false));
      }
    }
  }
}

/// One call as several of different sizes: lines of a longer one lie behind those of a shorter one.
KernelOutcome run_lines_in_pieces(const KernelCall& call) {
  KernelOutcome outcome;
  std::uint64_t begin = 0;
  for (const std::uint64_t piece : {6U, 1U, 2U, 1U, 7U}) {
    WorkItem item = call.item;
    item.send += begin * sizeof(Value);
    item.recv += begin * sizeof(Value);
    item.count = piece;
    begin += piece;
    outcome = run_line_kernel(call.with(item));
    if (outcome.end != KernelEnd::kDone) break;
  }
  return outcome;
}

TEST_F(Collectives, LinesOfCallsOfDifferentSizes) {
  constexpr int kSeeds = 20;
  for (std::uint32_t ranks = 2; ranks <= 4; ++ranks) {
    const Plan plan =
        plan_of(task_of(Operation::kAllReduce, 17), test::one_host(ranks), Algorithm::kDirect, {});
    for (const std::uint32_t period : {4U, 6U}) {
      for (int i = 0; i < kSeeds; ++i) {
        ASSERT_NO_FATAL_FAILURE(check_ways(
            plan, {.calls = 4, .kernel = run_lines_in_pieces, .flag_period = period}, false));
      }
    }
  }
}

}  // namespace
}  // namespace weft::checker
