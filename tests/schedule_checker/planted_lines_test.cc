// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong kernels of rings and trees by lines, which must be rejected. A wrong kernel is the
// product's with one thing changed: its memory.
#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"
#include "core/device/work_item_kernel.h"
#include "core/model/step_lines.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kLineRanks = 4;
/// Some ranks do wrong, the others do not.
constexpr std::uint32_t kWrongLineRank = 2;

/// The memory of the rank that does wrong.
class LineMemory : public SymbolicMemory {
 public:
  explicit LineMemory(const KernelCall& call) : SymbolicMemory(call.memory), item_(call.item) {}

 protected:
  // NOLINTBEGIN(misc-non-private-member-variables-in-classes)
  const WorkItem& item_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)
};

template <class Memory>
KernelOutcome run_lines_with(const KernelCall& call) {
  if (call.rank != kWrongLineRank) return run_kernel(call);
  Memory memory(call);
  return device::run_work_item(call.group, memory, call.item, call.reduction);
}

class PlantedLines : public ::testing::TestWithParam<Protocol> {
 protected:
  [[nodiscard]] static Plan plan(Operation operation, Algorithm algorithm = Algorithm::kRing) {
    const std::uint64_t spread = operation == Operation::kAllReduce ? kLineRanks : 1;
    const Shape shape{
        .steps = 3, .step_grains = 2, .count = 9 * kGrain * spread + 3, .protocol = GetParam()};
    return plan_of(task_of(operation, shape.count), test::one_host(kLineRanks), algorithm, shape);
  }
  /// With the product's kernel nothing is wrong, with this one it is, whatever the turns.
  void expect_of_kernel(Rule rule, const Kernel& kernel) {
    for (const Operation operation : kCollectives)
      expect_of_plan(rule, kernel, plan(operation));
  }
  void expect_of_tree(Rule rule, const Kernel& kernel) {
    for (const Operation operation : {Operation::kAllReduce, Operation::kReduce})
      expect_of_plan(rule, kernel, plan(operation, Algorithm::kTree));
  }
  void expect_of_plan(Rule rule, const Kernel& kernel, const Plan& wanted) {
    for (const Turns turns : kAllTurns) {
      const Verdict sound = execute_one(stacks_, wanted, {.calls = 2, .turns = turns});
      EXPECT_TRUE(sound.report.empty()) << sound.report.text();
      const Verdict wrong =
          execute_one(stacks_, wanted, {.calls = 2, .turns = turns, .kernel = kernel});
      ASSERT_FALSE(wrong.report.empty()) << operation_name(wanted.task.operation);
      EXPECT_EQ(rule_name(wrong.report.violations().front().rule), rule_name(rule))
          << wrong.report.text();
    }
  }
  /// In some order of turns it does.
  void expect_in_some_order(Rule rule, const Kernel& kernel) {
    constexpr std::uint64_t kSeeds = 100;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Verdict verdict =
          execute_one(stacks_, plan(Operation::kAllReduce),
                      {.calls = 2, .turns = Turns::kShuffled, .seed = seed, .kernel = kernel});
      if (verdict.report.has(rule)) return;
    }
    FAIL() << "not found in " << kSeeds << " orders: " << rule_name(rule);
  }

  Stacks stacks_;
};

struct TakesAnySlot : LineMemory {
  using LineMemory::LineMemory;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    if (counter == item_.to_next.head) {
      return {.status = device::WaitStatus::kReady, .value = threshold};
    }
    return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
  }
};

TEST_P(PlantedLines, ASlotFilledBeforeItIsFree) {
  expect_of_kernel(Rule::kOverwritten, run_lines_with<TakesAnySlot>);
}

struct KeepsSlots : LineMemory {
  using LineMemory::LineMemory;
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    if (counter != item_.from_previous.head) SymbolicMemory::post(counter, waiters, value);
  }
};

TEST_P(PlantedLines, SlotsThatAreNotGivenBack) {
  expect_of_kernel(Rule::kDeadlock, run_lines_with<KeepsSlots>);
}

/// Takes every line for one of the step, but for those that begin it.
struct BelievesLines : LineMemory {
  using LineMemory::LineMemory;
  device::Line load_words(const std::byte* from) {
    const device::Line line = SymbolicMemory::load_words(from);
    const ConnectionView& view = item_.from_previous;
    const auto place = static_cast<std::size_t>(from - view.buffer) % view.step_bytes;
    if (place < 2 * sizeof(line)) return line;
    return device::flagged_line(device::payload_of(line), step_flag(*view.head));
  }
  std::uint64_t load_acquire(std::uint64_t* counter) {
    const std::uint64_t value = SymbolicMemory::load_acquire(counter);
    const ConnectionView& view = item_.from_previous;
    const auto* const at = reinterpret_cast<const std::byte*>(counter);
    if (at < view.buffer || at >= view.buffer + std::size_t{view.steps} * view.step_bytes) {
      return value;
    }
    const auto place = static_cast<std::size_t>(at - view.buffer) % view.step_bytes;
    const bool flag = place % 128 == 120 && place > 128;
    return flag ? *view.head + 1 : value;
  }
};

TEST_P(PlantedLines, ALineReadBeforeItHasCome) {
  expect_in_some_order(Rule::kReadTooEarly, run_lines_with<BelievesLines>);
}

template <class Memory>
KernelOutcome run_tree_with(const KernelCall& call) {
  if (call.rank != kWrongLineRank) return run_kernel(call);
  Memory memory(call);
  return device::run_tree_item(call.group, memory, call.item, call.reduction);
}

struct TakesAnySlotAbove : LineMemory {
  using LineMemory::LineMemory;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    if (counter == item_.tree->to_parent.head) {
      return {.status = device::WaitStatus::kReady, .value = threshold};
    }
    return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
  }
};

TEST_P(PlantedLines, ASlotOfATreeFilledBeforeItIsFree) {
  expect_of_tree(Rule::kOverwritten, run_tree_with<TakesAnySlotAbove>);
}

struct KeepsSlotsOfTrees : LineMemory {
  using LineMemory::LineMemory;
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    if (counter != item_.tree->from_child[0].head) SymbolicMemory::post(counter, waiters, value);
  }
};

TEST_P(PlantedLines, SlotsOfATreeThatAreNotGivenBack) {
  for (const Operation operation : {Operation::kAllReduce, Operation::kReduce}) {
    const Plan wanted = plan(operation, Algorithm::kTree);
    ASSERT_FALSE(tree_place(wanted, 0, kWrongLineRank).children.empty());
  }
  expect_of_tree(Rule::kDeadlock, run_tree_with<KeepsSlotsOfTrees>);
}

INSTANTIATE_TEST_SUITE_P(Protocols, PlantedLines,
                         ::testing::Values(Protocol::kLL, Protocol::kLL128),
                         [](const auto& info) { return std::string(protocol_name(info.param)); });

}  // namespace
}  // namespace weft::checker
