// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings over nets: senders lend what lies in a buffer of the caller, and complete chunks of an
// all-reduce land in the output. Steps are as long as it takes for that; those of rests are shorter
// and go by the slots.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/primitives_simple.h"
#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

/// Of a step of kLeastLentBytes.
constexpr std::uint32_t kLentGrains = device::kLeastLentBytes / 64;
constexpr std::uint64_t kLentElements = device::kLeastLentBytes / sizeof(Value);

class RingsOverNets : public ::testing::Test {
 protected:
  [[nodiscard]] static Plan ring_of(const Task& task, const Topology& topology,
                                    std::uint32_t channels) {
    return plan_of(task, topology, Algorithm::kRing,
                   {.steps = 4, .step_grains = kLentGrains, .channels = channels});
  }
  void check(const Plan& plan, Execution execution) {
    execution.kernel = run_lending_kernel;
    execution.over_nets = true;
    execution.seed = ++seed_;
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
  }
  /// The product's kernel with a change of it, or of where things land, by some order of turns; by
  /// none without it.
  void expect(Rule rule, const Plan& plan, const Execution& wrong) {
    std::size_t found = 0;
    for (const Turns turns : kAllTurns) {
      ASSERT_NO_FATAL_FAILURE(check(plan, {.calls = wrong.calls, .turns = turns}));
      Execution execution = wrong;
      execution.over_nets = true;
      execution.turns = turns;
      const Verdict verdict = execute_one(stacks_, plan, execution);
      if (verdict.report.empty()) continue;
      ++found;
      EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
          << verdict.report.text();
    }
    EXPECT_GT(found, 0U);
  }

  Stacks stacks_;
  std::uint64_t seed_ = 20261122;
};

TEST_F(RingsOverNets, OfSeveralNumbersOfRanks) {
  std::vector<std::uint32_t> numbers = {2, 3, 4, 5, 8};
  if (takes_all_numbers()) numbers.insert(numbers.end(), {6, 7, 12, 16, 33, 64});
  for (const std::uint32_t ranks : numbers) {
    const Topology topology = scattered(ranks, 2);
    for (const Operation operation : kCollectives) {
      const std::uint64_t spread = operation == Operation::kAllReduce ? ranks : 1;
      // Several loops and a rest; above 8 ranks one.
      const std::uint64_t loops = ranks <= 8 ? 3 : 1;
      const Task task = task_of(operation, loops * kLentElements * spread + 11, ranks - 1,
                                ranks % 2 == 0 ? WEFT_AVG : weft_reduction{kPremulSum});
      const Plan plan = ring_of(task, topology, ranks <= 8 ? 2 : 1);
      for (const Turns turns : kAllTurns) {
        if (ranks > 8 && turns != kAllTurns[ranks % std::size(kAllTurns)]) continue;
        const bool in_place = (ranks + static_cast<std::uint32_t>(turns)) % 2 == 0;
        ASSERT_NO_FATAL_FAILURE(
            check(plan, {.in_place = in_place, .calls = ranks <= 8 ? 2U : 1U, .turns = turns}));
      }
    }
  }
}

/// A memory that lends and does not wait until the last step was taken.
struct HastyMemory : SymbolicMemory {
  static constexpr bool kLendsPayloads = true;
  explicit HastyMemory(const KernelCall& call) : SymbolicMemory(call.memory), item_(&call.item) {}
  static constexpr bool runs(Protocol protocol) { return protocol == Protocol::kSimple; }
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    if (counter == item_->to_next.head && threshold == *item_->to_next.tail) {
      return {.status = device::WaitStatus::kReady, .value = threshold};
    }
    return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
  }

 private:
  const WorkItem* item_;
};

KernelOutcome run_hasty(const KernelCall& call) {
  HastyMemory memory(call);
  return device::run_ring_item(call.group, memory, call.item, call.reduction);
}

TEST_F(RingsOverNets, ASenderThatEndsBeforeWhatItLentWasTaken) {
  const Topology topology = test::one_host(3);
  for (const Operation operation : {Operation::kBroadcast, Operation::kAllGather}) {
    expect(Rule::kReadTooLate, ring_of(task_of(operation, kLentElements), topology, 1),
           {.kernel = run_hasty});
  }
}

TEST_F(RingsOverNets, WhatLandsInAnotherPlace) {
  const Plan plan =
      ring_of(task_of(Operation::kAllReduce, 6 * kLentElements), test::one_host(3), 1);
  expect(
      Rule::kNotWritten, plan,
      {.kernel = run_lending_kernel, .change_landing = [](LandingWalk& walk, std::uint32_t rank) {
         if (rank == 1) walk.position = (walk.position + 1) % walk.ranks;
       }});
}

TEST_F(RingsOverNets, WhatLandsOutsideOfTheOutput) {
  const Plan plan =
      ring_of(task_of(Operation::kAllReduce, 6 * kLentElements), test::one_host(3), 1);
  expect(
      Rule::kOutside, plan,
      {.kernel = run_lending_kernel, .change_landing = [](LandingWalk& walk, std::uint32_t rank) {
         if (rank == 1) walk.output -= walk.count * sizeof(Value);
       }});
}

// Before a chunk is complete it must not be where the rank's input may lie.
TEST_F(RingsOverNets, WhatLandsBeforeItIsComplete) {
  const Plan plan =
      ring_of(task_of(Operation::kAllReduce, 6 * kLentElements), test::one_host(3), 1);
  expect(
      Rule::kKernel, plan,
      {.kernel = run_lending_kernel, .change_landing = [](LandingWalk& walk, std::uint32_t rank) {
         if (rank == 1) walk.hop = walk.ranks;
       }});
}

}  // namespace
}  // namespace weft::checker
