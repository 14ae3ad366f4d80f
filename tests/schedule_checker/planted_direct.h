// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Defects of all-reduces that meet by exchanges, planted in one rank or in all.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker {

inline constexpr std::uint32_t kPlantedRanks = 5;
/// Some ranks do wrong, the others do not.
inline constexpr std::uint32_t kRankInTheWrong = 2;

class PlantedDirect : public ::testing::Test {
 protected:
  [[nodiscard]] Plan plan(Algorithm algorithm, std::uint64_t count, std::uint32_t grains) const {
    return plan_of(task_of(Operation::kAllReduce, count), topology_, algorithm,
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
  const Topology topology_ = test::one_host(kPlantedRanks);
};

/// Memory whose rank may take headers for seen that have not come.
struct WrongMemory : SymbolicMemory {
  explicit WrongMemory(const KernelCall& call) : SymbolicMemory(call.memory), tag(call.item.tag) {}

 protected:
  [[nodiscard]] device::WaitResult pass(std::uint64_t* counter, std::uint64_t threshold) const {
    auto* header = reinterpret_cast<DirectHeader*>(counter);
    if (header->tag == 0) header->tag = tag;
    return {.status = device::WaitStatus::kReady, .value = threshold};
  }

 private:
  OperationTag tag;
};

struct WritesNothing : WrongMemory {
  using WrongMemory::WrongMemory;
  static void copy(device::SingleLane& /*group*/, std::byte* /*first*/, std::byte* /*second*/,
                   const std::byte* /*source*/, std::uint64_t /*bytes*/) {}
};

/// The product's kernel over a memory that does wrong on one rank.
template <class Memory>
KernelOutcome run_over(const KernelCall& call) {
  if (call.rank != kRankInTheWrong) return run_kernel(call);
  Memory memory(call);
  if (call.item.algorithm == Algorithm::kMulticast) {
    return device::run_multicast_item(call.group, memory, call.item, *call.item.direct,
                                      *call.item.direct->multicast, call.reduction, call.part,
                                      call.parts);
  }
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

}  // namespace weft::checker
