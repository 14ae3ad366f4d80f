// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Trees: all numbers of ranks up to 64 and samples up to 4096, on one host and on several.
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "core/model/tree_links.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

constexpr Operation kTreeOperations[] = {Operation::kAllReduce, Operation::kBroadcast,
                                         Operation::kReduce};

/// One chunk; fewer chunks than slots; as many as a rank sends up before it takes one; many times
/// round all slots, with a rest.
std::vector<Shape> tree_shapes() {
  return {
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 1},
      {.steps = 4, .step_grains = 1, .channels = 2, .count = 4 * kGrain + 3},
      {.steps = 2, .step_grains = 1, .channels = 1, .count = 4 * kGrain},
      {.steps = 2, .step_grains = 1, .channels = 2, .count = 23 * kGrain + 3},
      {.steps = 3, .step_grains = 2, .channels = 3, .count = 41 * kGrain + 5},
      {.steps = 8, .step_grains = 1, .channels = 4, .count = 90 * kGrain + 1},
  };
}

class Trees : public ::testing::TestWithParam<Protocol> {
 protected:
  [[nodiscard]] static Plan tree_of(const Task& task, const Topology& topology, Shape shape) {
    shape.protocol = GetParam();
    return plan_of(task, topology, Algorithm::kTree, shape);
  }
  void check(const Task& task, const Topology& topology, const Shape& shape, Execution execution) {
    const Plan plan = tree_of(task, topology, shape);
    ASSERT_EQ(plan.protocol, GetParam());
    ASSERT_TRUE(validate(plan, topology)) << describe(plan, execution);
    execution.spread = spread_of(topology);
    execution.turns = kAllTurns[++seed_ % std::size(kAllTurns)];
    execution.seed = seed_;
    execution.in_place = seed_ / std::size(kAllTurns) % 2 == 1;
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ++executions_;
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_GT(executions_, 0U);
    }
  }

  Stacks stacks_;
  std::uint64_t seed_ = 20261122;
  std::uint64_t executions_ = 0;
};

TEST_P(Trees, AllNumbersOfRanks) {
  const int most = GetParam() == Protocol::kSimple ? 8 : 4;  // Lines take long to execute.
  for (const std::uint32_t ranks : numbers_of_ranks(2, kMostRanksOfAll)) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kTreeOperations) {
      for (const Shape& shape : tree_shapes()) {
        for (int i = 0; i < (ranks <= 16 ? most : most / 4); ++i) {
          ASSERT_NO_FATAL_FAILURE(check(task_of(operation, shape.count, ranks / 2), topology, shape,
                                        {.calls = shape.count == 1 ? 3U : 2U}));
        }
      }
    }
  }
}

TEST_P(Trees, EveryRoot) {
  for (const std::uint32_t ranks : {2U, 5U, 16U}) {
    for (const Topology& topology : {test::one_host(ranks), scattered(ranks, 2)}) {
      for (const Operation operation : {Operation::kBroadcast, Operation::kReduce}) {
        for (std::uint32_t root = 0; root < ranks; ++root) {
          const Shape shape{.steps = 3, .step_grains = 1, .channels = 2, .count = 9 * kGrain + 1};
          for (int i = 0; i < 4; ++i) {
            ASSERT_NO_FATAL_FAILURE(
                check(task_of(operation, shape.count, root), topology, shape, {.calls = 2}));
          }
        }
      }
    }
  }
}

TEST_P(Trees, OverSeveralHosts) {
  for (const std::uint32_t ranks : {4U, 7U, 12U, 33U, 64U}) {
    if (ranks > kMostRanksOfAll) break;
    for (const std::uint32_t hosts : {2U, 3U, 4U, ranks}) {
      for (const Operation operation : kTreeOperations) {
        for (const Shape& shape : tree_shapes()) {
          ASSERT_NO_FATAL_FAILURE(check(task_of(operation, shape.count, ranks - 1),
                                        scattered(ranks, hosts), shape, {.calls = 2}));
        }
      }
    }
  }
}

TEST_P(Trees, AveragesAreDividedOnceAndFactorsMultiplyOnce) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 31U}) {
    for (const Operation operation : {Operation::kAllReduce, Operation::kReduce}) {
      for (const Shape& shape : tree_shapes()) {
        for (const weft_reduction reduction :
             {weft_reduction{WEFT_AVG}, weft_reduction{kPremulSum}}) {
          for (const Topology& topology : {test::one_host(ranks), scattered(ranks, 2)}) {
            ASSERT_NO_FATAL_FAILURE(
                check(task_of(operation, shape.count, 0, reduction), topology, shape, {}));
          }
        }
      }
    }
  }
}

// Many orders in which kernels get on, over few slots and several calls.
TEST_P(Trees, AnyOrderOfTurns) {
  constexpr int kSeeds = 100;
  for (const std::uint32_t ranks : {2U, 3U, 6U, 11U}) {
    for (const Operation operation : kTreeOperations) {
      const Shape shape{.steps = 2, .step_grains = 1, .channels = 2, .count = 17 * kGrain + 3};
      for (int i = 0; i < kSeeds; ++i) {
        ASSERT_NO_FATAL_FAILURE(
            check(task_of(operation, shape.count), test::one_host(ranks), shape, {.calls = 3}));
      }
    }
  }
}

TEST_P(Trees, ManyRanks) {
  const std::vector<std::uint32_t> all = {65, 127, 128, 129, 1000, 4095, 4096};
  const std::vector<std::uint32_t> some = {65, 129, 4096};
  for (const std::uint32_t ranks : takes_all_numbers() ? all : some) {
    const Topology topology = test::one_host(ranks);
    for (const Operation operation : kTreeOperations) {
      const Shape shape{.steps = 3, .step_grains = 1, .channels = 2, .count = 12 * kGrain + 3};
      ASSERT_NO_FATAL_FAILURE(
          check(task_of(operation, shape.count, ranks / 3), topology, shape, {}));
    }
  }
}

template <Protocol kProtocol>
using LineWalk = device::LineTreeWalk<kProtocol, device::SingleLane, TestMemory, SymbolicReduction>;

/// As the product's, but for how far down is behind up.
template <std::uint64_t kMore>
KernelOutcome run_behind(const KernelCall& call) {
  const WorkItem& item = call.item;
  TestMemory memory(call.memory);
  const std::uint64_t lag = item.tree->root ? 0 : tree_lag(item.tree->to_parent.steps) + kMore;
  const auto run = [&]<class Walk>(std::type_identity<Walk>) {
    return Walk(call.group, memory, item, call.reduction, sizeof(Value), lag).run();
  };
  switch (item.protocol) {
    case Protocol::kLL:
      return run(std::type_identity<LineWalk<Protocol::kLL>>());
    case Protocol::kLL128:
      return run(std::type_identity<LineWalk<Protocol::kLL128>>());
    default:
      return device::TreeWalk(call.group, memory, item, call.reduction, sizeof(Value), lag).run();
  }
}

// The lag is as long as it can be.
TEST_P(Trees, AChunkMoreBehindLocksUp) {
  for (const std::uint32_t ranks : {2U, 3U, 7U, 20U}) {
    for (const std::uint32_t steps : {2U, 3U, 8U}) {
      const Shape shape{.steps = steps, .step_grains = 1, .channels = 1, .count = 60 * kGrain};
      const Task task = task_of(Operation::kAllReduce, shape.count);
      ASSERT_NO_FATAL_FAILURE(check(task, test::one_host(ranks), shape, {.kernel = run_behind<0>}));
      const Plan plan = tree_of(task, test::one_host(ranks), shape);
      const Verdict verdict = execute_one(stacks_, plan, {.kernel = run_behind<1>});
      ASSERT_FALSE(verdict.report.empty()) << ranks << " ranks, " << steps << " slots";
      EXPECT_EQ(verdict.report.violations().front().rule, Rule::kDeadlock) << verdict.report.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Protocols, Trees,
                         ::testing::Values(Protocol::kSimple, Protocol::kLL, Protocol::kLL128),
                         [](const auto& info) { return std::string(protocol_name(info.param)); });

}  // namespace
}  // namespace weft::checker
