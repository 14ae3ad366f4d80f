// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Parallel aggregated trees: all numbers of ranks up to 64 and samples up to 4096, from all blocks
// in one message to one block in several.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

constexpr Operation kPatOperations[] = {Operation::kAllGather, Operation::kReduceScatter,
                                        Operation::kAllReduce};

/// The same of the ranges of an all-reduce: most of them empty, half of them, the last one shorter,
/// all alike, several rounds with a rest.
std::vector<Shape> range_shapes(std::uint32_t ranks) {
  const std::uint64_t all = ranks * kGrain;
  return {
      {.steps = 2, .step_grains = 8, .channels = 1, .count = 1},
      {.steps = 3, .step_grains = 4, .channels = 1, .count = all + 3},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 3 * kGrain + 3},
      {.steps = 8, .step_grains = 4, .channels = 1, .count = all - 3},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = all},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 2 * all + 3 * kGrain + 3},
      {.steps = 4, .step_grains = 3, .channels = 2, .count = 10 * all + 5},
  };
}

/// All blocks in a message, for as many ranks as that goes; a few; one; parts of one, with a rest.
std::vector<Shape> pat_shapes(Operation operation, std::uint32_t ranks) {
  if (operation == Operation::kAllReduce) return range_shapes(ranks);
  return {
      {.steps = 2, .step_grains = 8, .channels = 1, .count = 1},
      {.steps = 3, .step_grains = 4, .channels = 1, .count = 7},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 3},
      {.steps = 8, .step_grains = 1, .channels = 1, .count = 4},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = kGrain},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 3 * kGrain + 3},
      {.steps = 4, .step_grains = 3, .channels = 2, .count = 10 * kGrain + 5},
  };
}

/// All inputs of a distance in a message, as many as there is room for among them; of few ranks one
/// in each, where that pays still.
std::vector<Shape> input_shapes(std::uint32_t ranks) {
  const std::uint64_t most = kMostGatheredBytes / sizeof(Value) / ranks;
  const auto shape = [](std::uint32_t steps, std::uint64_t step_grains, std::uint64_t count) {
    return Shape{.steps = steps,
                 .step_grains = static_cast<std::uint32_t>(step_grains),
                 .channels = 1,
                 .count = count,
                 .gathers_inputs = true};
  };
  std::vector<Shape> shapes = {shape(2, ranks, 1),
                               shape(3, ranks, std::min<std::uint64_t>(7, most)),
                               shape(2, (most / kGrain + 1) * ranks, most)};
  if (ranks <= 4) {
    shapes.push_back(shape(2, 1, kGrain));
    shapes.push_back(shape(8, 2, kGrain + 3));
  }
  return shapes;
}

class Pat : public ::testing::Test {
 protected:
  Verdict run(const Task& task, const Topology& topology, const Shape& shape, Execution execution) {
    plan_ = plan_of(task, topology, Algorithm::kPat, shape);
    EXPECT_EQ(plan_.algorithm, Algorithm::kPat);
    EXPECT_TRUE(validate(plan_, topology)) << describe(plan_, execution);
    ++executions_;
    return execute_one(stacks_, plan_, execution);
  }
  void check(const Task& task, const Topology& topology, const Shape& shape, Execution execution) {
    execution.turns = kAllTurns[++seed_ % std::size(kAllTurns)];
    execution.seed = seed_;
    execution.in_place = seed_ / std::size(kAllTurns) % 2 == 1;
    const Verdict verdict = run(task, topology, shape, execution);
    ASSERT_TRUE(verdict.report.empty()) << describe(plan_, execution) << "\n"
                                        << verdict.report.text();
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_GT(executions_, 0U);
    }
  }

  Stacks stacks_;
  Plan plan_;
  std::uint64_t seed_ = 20261122;
  std::uint64_t executions_ = 0;
};

TEST_F(Pat, AllNumbersOfRanks) {
  for (const std::uint32_t ranks : numbers_of_ranks(2, kMostRanksOfAll)) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kPatOperations) {
      for (const Shape& shape : pat_shapes(operation, ranks)) {
        for (int i = 0; i < (ranks <= 17 ? 8 : 1); ++i) {
          ASSERT_NO_FATAL_FAILURE(
              check(task_of(operation, shape.count), topology, shape, {.calls = 2}));
        }
      }
    }
  }
}

// Of which none is summed up before it has come, so each rank comes to the same.
TEST_F(Pat, InputsThatAreGathered) {
  for (const std::uint32_t ranks : numbers_of_ranks(2, kMostRanksOfAll)) {
    const bool rows = ranks % 4 == 0;
    const Topology topology = rows ? scattered(ranks, ranks / 2) : test::one_host(ranks);
    for (const Shape& shape : input_shapes(ranks)) {
      for (int i = 0; i < (ranks <= 17 ? 8 : 1); ++i) {
        const weft_reduction reduction = i % 2 == 0 ? WEFT_SUM : kPremulSum;
        ASSERT_NO_FATAL_FAILURE(check(task_of(Operation::kAllReduce, shape.count, 0, reduction),
                                      topology, shape, {.calls = 2}));
        ASSERT_TRUE(plan_.gathers_inputs) << ranks << " ranks";
      }
    }
  }
}

// As many steps as the number of ranks doubles, whatever it is, if half of the blocks fit into one.
TEST_F(Pat, OneStepForEachDoubling) {
  for (std::uint32_t ranks = 2; ranks <= kMostRanksOfAll; ++ranks) {
    for (const Operation operation : kPatOperations) {
      const bool both = operation == Operation::kAllReduce;
      const Shape shape{.steps = 2,
                        .step_grains = ranks,
                        .channels = 1,
                        .count = 2 * kGrain * (both ? ranks : 1)};
      const Verdict verdict =
          run(task_of(operation, shape.count), test::one_host(ranks), shape, {});
      ASSERT_TRUE(verdict.report.empty()) << describe(plan_, {}) << verdict.report.text();
      const std::uint64_t doublings = std::bit_width(ranks - 1);
      EXPECT_EQ(verdict.measures.steps, both ? 2 * doublings : doublings) << ranks << " ranks";
      EXPECT_LE(verdict.measures.hops, both ? 2 * doublings : doublings);
    }
  }
}

// Rows, which are as long as a power of two whatever the numbers of ranks and of hosts are, on all
// numbers of hosts that have them.
TEST_F(Pat, RowsOfAllNumbersOfRanks) {
  std::size_t number = 0;
  for (const std::uint32_t ranks : numbers_of_ranks(4, kMostRanksOfAll)) {
    for (std::uint32_t hosts = 2; hosts <= ranks / 2; ++hosts) {
      const std::uint32_t on_each = ranks / hosts;
      if (ranks % hosts != 0 || on_each % 2 != 0) continue;
      const Topology topology = scattered(ranks, hosts);
      for (const Operation operation : kPatOperations) {
        const std::vector<Shape> shapes = pat_shapes(operation, ranks);
        // Each case has two of the shapes, the next case the next.
        for (int i = 0; i < 2; ++i) {
          const Shape& shape = shapes[++number % shapes.size()];
          ASSERT_NO_FATAL_FAILURE(
              check(task_of(operation, shape.count), topology, shape, {.calls = 2}));
          EXPECT_EQ(plan_.pat_row, 1U << std::countr_zero(on_each));
        }
      }
    }
  }
}

TEST_F(Pat, OverSeveralHosts) {
  for (const std::uint32_t ranks : {4U, 7U, 8U, 12U, 24U, 33U}) {
    if (ranks > kMostRanksOfAll) break;
    for (const std::uint32_t hosts : {2U, 3U, ranks}) {
      for (const Operation operation : kPatOperations) {
        for (const Shape& shape : pat_shapes(operation, ranks)) {
          ASSERT_NO_FATAL_FAILURE(
              check(task_of(operation, shape.count), scattered(ranks, hosts), shape, {.calls = 2}));
        }
      }
    }
  }
}

// Where each host has as many ranks, a power of two, a rank sends to other hosts no more than it
// must if all send alike: its share of what a host lacks, however the blocks are dealt out to
// messages.
TEST_F(Pat, FewBlocksLeaveAHost) {
  for (const std::uint32_t hosts : {2U, 3U, 5U, 8U}) {
    for (const std::uint32_t on_each : {1U, 2U, 4U, 8U}) {
      const std::uint32_t ranks = hosts * on_each;
      if (ranks > kMostRanksOfAll) continue;
      const Topology topology = scattered(ranks, hosts);
      std::vector<std::uint32_t> host_of;
      for (const RankInfo& rank : topology.ranks)
        host_of.push_back(rank.host);
      for (const Operation operation : kPatOperations) {
        for (const Shape& shape : pat_shapes(operation, ranks)) {
          const Task task = task_of(operation, shape.count);
          const Execution execution{.calls = 2, .host_of = host_of};
          const Verdict verdict = run(task, topology, shape, execution);
          ASSERT_TRUE(verdict.report.empty()) << describe(plan_, execution) << "\n"
                                              << verdict.report.text();
          const std::string what =
              describe(plan_, execution) + ", " + std::to_string(hosts) + " hosts";
          if (operation != Operation::kAllReduce) {
            EXPECT_EQ(verdict.measures.most_far_bytes, (hosts - 1) * task.bytes()) << what;
          } else if (task.count % (ranks * kGrain) == 0) {
            // 2 (hosts - 1) / hosts of all, of which each rank of a host moves its part.
            EXPECT_EQ(verdict.measures.most_far_bytes, 2 * (hosts - 1) * task.bytes() / ranks)
                << what;
          }
        }
      }
    }
  }
}

TEST_F(Pat, AveragesAreDividedOnceAndFactorsMultiplyOnce) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 11U, 31U}) {
    for (const Operation operation : {Operation::kReduceScatter, Operation::kAllReduce}) {
      for (const Shape& shape : pat_shapes(operation, ranks)) {
        for (const weft_reduction reduction :
             {weft_reduction{WEFT_AVG}, weft_reduction{kPremulSum}}) {
          ASSERT_NO_FATAL_FAILURE(check(task_of(operation, shape.count, 0, reduction),
                                        test::one_host(ranks), shape, {.calls = 2}));
        }
      }
    }
  }
}

// Many orders in which kernels get on, over as few slots as there may be and several calls.
TEST_F(Pat, AnyOrderOfTurns) {
  constexpr int kSeeds = 100;
  for (const std::uint32_t ranks : {2U, 3U, 5U, 6U, 11U, 13U}) {
    for (const Operation operation : kPatOperations) {
      for (const std::uint64_t count : {std::uint64_t{3}, 2 * kGrain + 3}) {
        const Shape shape{.steps = 2, .step_grains = 1, .channels = 2, .count = count};
        for (int i = 0; i < kSeeds; ++i) {
          ASSERT_NO_FATAL_FAILURE(
              check(task_of(operation, shape.count), test::one_host(ranks), shape, {.calls = 3}));
        }
      }
    }
  }
}

TEST_F(Pat, ManyRanks) {
  for (const std::uint32_t ranks : {65U, 127U, 128U, 129U, 255U, 257U, 1000U, 1023U}) {
    // Those that are even in rows, too.
    const Topology topology = ranks % 8 == 0 ? scattered(ranks, ranks / 8) : test::one_host(ranks);
    for (const Operation operation : kPatOperations) {
      if (operation == Operation::kAllReduce && ranks == 1023) continue;  // 1000 are as many
      for (const std::uint32_t grains : {1U, 8U, 128U}) {
        const std::uint64_t count = operation == Operation::kAllReduce ? 2 * ranks : 2;
        const Shape shape{.steps = 2, .step_grains = grains, .channels = 1, .count = count};
        ASSERT_NO_FATAL_FAILURE(check(task_of(operation, shape.count), topology, shape, {}));
      }
    }
  }
}

TEST_F(Pat, LongManyRanks) {
  for (const std::uint32_t ranks : {2049U, 4095U, 4096U}) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kPatOperations) {
      if (operation == Operation::kAllReduce && ranks != 4096) continue;
      // The time grows with the square.
      if (operation == Operation::kReduceScatter && ranks == 4095) continue;
      // Where half of the blocks fit into a slot, 4096 ranks have gigabytes of those.
      const std::uint32_t grains = ranks == 4096 ? 16 : 256;
      const std::uint64_t count = operation == Operation::kAllReduce ? ranks : 1;
      const Shape shape{.steps = 2, .step_grains = grains, .channels = 1, .count = count};
      ASSERT_NO_FATAL_FAILURE(check(task_of(operation, shape.count), topology, shape, {}));
    }
  }
}

}  // namespace
}  // namespace weft::checker
