// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong plans and wrong kernels of parallel aggregated trees, which must be rejected. A wrong
// kernel is the product's with one thing changed: its memory or its item.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kPatRanks = 11;
/// Some ranks do wrong, the others do not.
constexpr std::uint32_t kWrongPatRank = 4;
constexpr Operation kAll[] = {Operation::kAllGather, Operation::kReduceScatter,
                              Operation::kAllReduce};
constexpr Operation kSums[] = {Operation::kReduceScatter, Operation::kAllReduce};

/// Elements of a call whose blocks, or ranges, have so many.
std::uint64_t count_of(Operation operation, std::uint64_t block) {
  return operation == Operation::kAllReduce ? block * kPatRanks : block;
}

/// An item's halves that its operation has.
std::vector<const PatHalf*> halves_of(const WorkItem& item) {
  std::vector<const PatHalf*> halves;
  const Operation moved = pat_operation(item.operation, item.gathers_inputs);
  if (pat_scatters(moved)) halves.push_back(&item.pat->scatter);
  if (pat_gathers(moved)) halves.push_back(&item.pat->gather);
  return halves;
}

class PlantedPat : public ::testing::Test {
 protected:
  /// Two blocks a message, six messages over the least distance; so often that slots are used
  /// again.
  [[nodiscard]] Plan plan(Operation operation, weft_reduction reduction = WEFT_SUM) const {
    const Shape shape{
        .steps = 2, .step_grains = 2, .channels = 1, .count = count_of(operation, kGrain)};
    return plan_of(task_of(operation, shape.count, 0, reduction), topology_, Algorithm::kPat,
                   shape);
  }
  /// Of an all-reduce whose inputs are gathered.
  [[nodiscard]] Plan plan_of_inputs(weft_reduction reduction = WEFT_SUM) const {
    const Shape shape{.steps = 2,
                      .step_grains = kPatRanks,
                      .channels = 1,
                      .count = kGrain,
                      .gathers_inputs = true};
    Plan plan = plan_of(task_of(Operation::kAllReduce, shape.count, 0, reduction), topology_,
                        Algorithm::kPat, shape);
    EXPECT_TRUE(plan.gathers_inputs);
    return plan;
  }
  void expect(Rule rule, const Plan& plan, const Execution& execution) {
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_FALSE(verdict.report.empty()) << "nothing was found, wanted: " << rule_name(rule);
    EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
        << verdict.report.text();
  }
  /// With the product's kernel nothing is wrong, with this one it is.
  void expect_of_kernel(Rule rule, const Plan& plan, const Kernel& kernel,
                        std::span<const Turns> orders = kAllTurns) {
    for (const Turns turns : orders) {
      const Verdict sound = execute_one(stacks_, plan, {.calls = 2, .turns = turns});
      EXPECT_TRUE(sound.report.empty()) << sound.report.text();
      expect(rule, plan, {.calls = 2, .turns = turns, .kernel = kernel});
    }
  }

  Stacks stacks_;
  const Topology topology_ = test::one_host(kPatRanks);
};

/// A memory that does all as it should.
class SoundPat : public SymbolicMemory {
 public:
  explicit SoundPat(const KernelCall& call)
      : SymbolicMemory(call.memory),
        halves_(halves_of(call.item)),
        levels_(call.item.pat->levels),
        wrong_(call.rank == kWrongPatRank) {}

 protected:
  /// Of a connection from another rank.
  [[nodiscard]] std::optional<std::uint32_t> level_of_head(const std::uint64_t* counter) const {
    for (const PatHalf* const half : halves_) {
      for (std::uint32_t level = 0; wrong_ && level < levels_; ++level) {
        if (half->from[level].head == counter) return level;
      }
    }
    return std::nullopt;
  }

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes)
  const std::vector<const PatHalf*> halves_;
  const std::uint32_t levels_;
  const bool wrong_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)
};

template <class Memory>
KernelOutcome run_pat_with(const KernelCall& call) {
  Memory memory(call);
  GatheredInputs gathered;
  return device::run_pat_item(call.group, memory, call.item, call.reduction, gathered.place());
}

struct ForgetsItsInput : SoundPat {
  using SoundPat::SoundPat;
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    if (wrong_ && first != a) return copy(group, first, second, a, count * sizeof(Value));
    SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
  }
};

/// Of the sums that came over two distances.
struct ForgetsTheNearerSum : SoundPat {
  using SoundPat::SoundPat;
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    if (wrong_ && first == a) return;
    SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
  }
};

TEST_F(PlantedPat, AMissingContribution) {
  for (const Operation operation : kSums) {
    expect_of_kernel(Rule::kMissing, plan(operation), run_pat_with<ForgetsItsInput>);
    expect_of_kernel(Rule::kMissing, plan(operation), run_pat_with<ForgetsTheNearerSum>);
  }
  expect_of_kernel(Rule::kMissing, plan_of_inputs(), run_pat_with<ForgetsItsInput>);
  expect_of_kernel(Rule::kMissing, plan_of_inputs(), run_pat_with<ForgetsTheNearerSum>);
}

struct AddsTwiceToASum : SoundPat {
  using SoundPat::SoundPat;
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
    if (wrong_ && first == a) {
      SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
    }
  }
};

TEST_F(PlantedPat, AContributionTwice) {
  for (const Operation operation : kSums)
    expect_of_kernel(Rule::kTwice, plan(operation), run_pat_with<AddsTwiceToASum>);
  expect_of_kernel(Rule::kTwice, plan_of_inputs(), run_pat_with<AddsTwiceToASum>);
}

struct MultipliesNoneOfIt : SoundPat {
  using SoundPat::SoundPat;
  template <class R>
  void premultiply_copy(const R& reduction, device::SingleLane& group, std::byte* to,
                        const std::byte* input, std::uint64_t count) {
    if (wrong_) return copy(group, to, nullptr, input, count * sizeof(Value));
    SymbolicMemory::premultiply_copy(reduction, group, to, input, count);
  }
};

TEST_F(PlantedPat, AnInputNotMultiplied) {
  for (const Operation operation : kSums) {
    expect_of_kernel(Rule::kMissing, plan(operation, kPremulSum), run_pat_with<MultipliesNoneOfIt>);
  }
  expect_of_kernel(Rule::kMissing, plan_of_inputs(kPremulSum), run_pat_with<MultipliesNoneOfIt>);
}

TEST_F(PlantedPat, BlocksOfOtherRanks) {
  static constexpr std::uint32_t kTurned[kPatRanks] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0};
  const auto turned = [](const KernelCall& call) {
    WorkItem item = call.item;
    item.ring = kTurned;
    return run_kernel(call.with(item));
  };
  expect_of_kernel(Rule::kWrongElement, plan(Operation::kAllGather), turned);
  expect_of_kernel(Rule::kWrongElement, plan(Operation::kReduceScatter), turned);
  // Ranges go by places: it is enough that one rank takes itself for another.
  expect_of_kernel(Rule::kWrongElement, plan(Operation::kAllReduce), [](const KernelCall& call) {
    WorkItem item = call.item;
    if (call.rank == kWrongPatRank) item.ring_position = (item.ring_position + 1) % kPatRanks;
    return run_kernel(call.with(item));
  });
}

struct FillsWithoutWaiting : SoundPat {
  using SoundPat::SoundPat;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    const bool of_slots = std::ranges::any_of(halves_, [&](const PatHalf* half) {
      return std::any_of(half->to, half->to + levels_,
                         [&](const ConnectionView& view) { return view.head == counter; });
    });
    if (wrong_ && of_slots) return {.status = device::WaitStatus::kReady, .value = threshold};
    return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
  }
};

TEST_F(PlantedPat, ASlotFilledBeforeItIsFree) {
  for (const Operation operation : kAll) {
    constexpr Turns kTurns[] = {Turns::kLateReceivers};
    expect_of_kernel(Rule::kOverwritten, plan(operation), run_pat_with<FillsWithoutWaiting>,
                     kTurns);
  }
}

/// Sums lie in slots until those of the next distance have come.
struct GivesSumsBack : SoundPat {
  using SoundPat::SoundPat;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    const auto result = SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
    for (const PatHalf* const half : halves_) {
      for (std::uint32_t level = 0; wrong_ && level < levels_; ++level) {
        if (half->from[level].tail == counter) {
          SymbolicMemory::post(half->from[level].head, nullptr, threshold);
        }
      }
    }
    return result;
  }
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    if (!level_of_head(counter)) SymbolicMemory::post(counter, waiters, value);
  }
};

TEST_F(PlantedPat, ASlotReadAfterItWasGivenBack) {
  for (const Operation operation : kAll) {
    constexpr Turns kTurns[] = {Turns::kLateReceivers};
    expect_of_kernel(Rule::kReadTooLate, plan(operation), run_pat_with<GivesSumsBack>, kTurns);
  }
}

/// Gives nothing back before the round ends: two slots are not enough then.
struct KeepsAllSums : SoundPat {
  using SoundPat::SoundPat;
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    const std::optional<std::uint32_t> level = level_of_head(counter);
    const PatRound round{.ranks = kPatRanks, .blocks = 2};
    if (!level || value % round.messages_over(*level) == 0) {
      SymbolicMemory::post(counter, waiters, value);
    }
  }
};

TEST_F(PlantedPat, SumsKeptForTooLong) {
  for (const Operation operation : kAll)
    expect_of_kernel(Rule::kDeadlock, plan(operation), run_pat_with<KeepsAllSums>);
}

TEST_F(PlantedPat, AnothersConnection) {
  for (const Operation operation : kAll) {
    expect_of_kernel(Rule::kOutside, plan(operation), [](const KernelCall& call) {
      PatLinks links = *call.item.pat;
      WorkItem item = call.item;
      item.pat = &links;
      PatHalf& half = pat_gathers(item.operation) ? links.gather : links.scatter;
      if (call.rank == kWrongPatRank) std::swap(half.to[1], half.from[1]);
      return run_kernel(call.with(item));
    });
  }
}

TEST_F(PlantedPat, MoreStepsThanAnnounced) {
  for (const Operation operation : kAll) {
    expect_of_kernel(Rule::kTraffic, plan(operation), [](const KernelCall& call) {
      WorkItem item = call.item;
      item.chunk = kGrain - 3;
      return run_kernel(call.with(item));
    });
  }
}

// It may announce them, but then it is not PAT.
TEST_F(PlantedPat, BlocksThatCouldGoTogether) {
  for (const Operation operation : kAll) {
    const Shape shape{.steps = 2,
                      .step_grains = 2 * kPatRanks,
                      .channels = 1,
                      .count = count_of(operation, 3 * kGrain)};
    Plan plan = plan_of(task_of(operation, shape.count), topology_, Algorithm::kPat, shape);
    EXPECT_TRUE(execute_one(stacks_, plan, {}).report.empty());
    plan.channels[0].chunk = kGrain;
    expect(Rule::kBound, plan, {});
  }
}

}  // namespace
}  // namespace weft::checker
