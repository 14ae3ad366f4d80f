// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Defects of a two-shot: each is found by its rule, whatever the turns.
#include <cstdint>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kTwoShotRanks = 5;
/// Some ranks do wrong, the others do not.
constexpr std::uint32_t kRankInTheWrong = 2;

class PlantedTwoShot : public ::testing::Test {
 protected:
  [[nodiscard]] Plan plan(std::uint64_t count, std::uint32_t grains = 2) const {
    return plan_of(task_of(Operation::kAllReduce, count), topology_, Algorithm::kTwoShot,
                   {.step_grains = grains});
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
  /// With the product's kernel nothing is wrong.
  void expect_sound(const Plan& plan, Execution execution) {
    execution.kernel = run_kernel;
    const Verdict sound = execute_one(stacks_, plan, execution);
    EXPECT_TRUE(sound.report.empty()) << sound.report.text();
  }

  Stacks stacks_;
  const Topology topology_ = test::one_host(kTwoShotRanks);
};

/// The product's kernel over a memory that does wrong on one rank.
template <class Memory>
KernelOutcome run_over(const KernelCall& call) {
  if (call.rank != kRankInTheWrong) return run_kernel(call);
  Memory memory(call.memory);
  return device::run_two_shot_item<kMostDirectRanks>(
      call.group, memory, call.item, *call.item.direct, call.reduction, call.part, call.parts);
}

/// The product's kernel for an item that `change(item, part)` spoils on all ranks.
template <class Change>
Kernel changed(Change change) {
  return [change](const KernelCall& call) {
    WorkItem item = call.item;
    change(item, call.part);
    return run_kernel(call.with(item));
  };
}

struct WaitsForNobody : SymbolicMemory {
  explicit WaitsForNobody(const SymbolicMemory& other) : SymbolicMemory(other) {}
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* /*waiters*/,
                                   std::uint64_t threshold, std::uint32_t* /*error*/) {
    auto* header = reinterpret_cast<DirectHeader*>(counter);
    if (header->tag == 0) header->tag = tag_;
    return {.status = device::WaitStatus::kReady, .value = threshold};
  }
  OperationTag tag_ = 0;
};

// The wrong rank has no range of its own, so nothing that it reads shows it.
TEST_F(PlantedTwoShot, AHalfFilledThatMayStillBeRead) {
  const Plan made = plan(kGrain);
  const Execution execution{.calls = 2, .kernel = [](const KernelCall& call) {
                              if (call.rank != kRankInTheWrong) return run_kernel(call);
                              WaitsForNobody memory(call.memory);
                              memory.tag_ = call.item.tag;
                              return device::run_two_shot_item<kMostDirectRanks>(
                                  call.group, memory, call.item, *call.item.direct, call.reduction,
                                  call.part, call.parts);
                            }};
  expect_sound(made, execution);
  expect(Rule::kOverwritten, made, execution);
}

struct WritesNothing : SymbolicMemory {
  explicit WritesNothing(const SymbolicMemory& other) : SymbolicMemory(other) {}
  static void copy(device::SingleLane& /*group*/, std::byte* /*first*/, std::byte* /*second*/,
                   const std::byte* /*source*/, std::uint64_t /*bytes*/) {}
};

TEST_F(PlantedTwoShot, AHeaderWithoutPayload) {
  const Plan made = plan(2 * kGrain * kTwoShotRanks);
  const Execution execution{.kernel = run_over<WritesNothing>};
  expect_sound(made, execution);
  expect(Rule::kReadTooEarly, made, execution);
}

// The second part of all ranks takes halves for shorter ones than the first does.
TEST_F(PlantedTwoShot, PartsThatShareAPlace) {
  const Plan made = plan(4 * kGrain * kTwoShotRanks, 4);
  const Execution execution{.kernel = changed([](WorkItem& item, std::uint32_t part) {
                              if (part == 1) item.chunk /= 2;
                            }),
                            .direct_parts = 2};
  expect_sound(made, execution);
  expect(Rule::kOverwritten, made, execution);
}

TEST_F(PlantedTwoShot, ATwoShotThatCallsItselfAOneShot) {
  const Plan made = plan(3 * kGrain * kTwoShotRanks);
  const Bound bound = bound_of(Algorithm::kDirect, made.task, kTwoShotRanks).value();
  expect(Rule::kBound, made, {.declared = bound});
}

TEST_F(PlantedTwoShot, AOneShotThatCallsItselfATwoShot) {
  const Plan made = plan_of(task_of(Operation::kAllReduce, 3), topology_, Algorithm::kDirect, {});
  expect(Rule::kBound, made, {.declared = bound_of(Algorithm::kTwoShot, made.task, kTwoShotRanks)});
}

TEST_F(PlantedTwoShot, AnOutputWithAHole) {
  expect(Rule::kNotWritten, plan(3 * kGrain * kTwoShotRanks),
         {.kernel = changed([](WorkItem& item, std::uint32_t) { item.count -= 1; })});
}

// Smaller pieces than the plan has, which give the ranges to other ranks.
TEST_F(PlantedTwoShot, OtherBytesThanAnnounced) {
  expect(Rule::kTraffic, plan(60),
         {.kernel = changed([](WorkItem& item, std::uint32_t) { item.chunk /= 2; })});
}

}  // namespace
}  // namespace weft::checker
