// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong plans and wrong kernels, at least one for each rule, which must be rejected by that rule. A
// wrong kernel is the product's with one thing changed: its memory, its reduction or its item.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "core/device/host/host_one_shot.h"
#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kRanks = 5;
/// Some ranks do wrong, the others do not.
constexpr std::uint32_t kWrongRank = 2;

class Planted : public ::testing::Test {
 protected:
  [[nodiscard]] Plan ring_plan(Operation operation) const {
    const std::uint64_t spread = operation == Operation::kAllReduce ? kRanks : 1;
    const Shape shape{
        .steps = 4, .step_grains = 1, .channels = 1, .count = 9 * kGrain * spread + 3};
    return plan_of(task_of(operation, shape.count), topology_, Algorithm::kRing, shape);
  }
  [[nodiscard]] Plan direct_plan(Operation operation) const {
    return plan_of(task_of(operation, 3), topology_, Algorithm::kDirect, {});
  }
  void expect(Rule rule, const Plan& plan, const Execution& execution) {
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_FALSE(verdict.report.empty()) << "nothing was found, wanted: " << rule_name(rule);
    EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
        << verdict.report.text();
  }
  /// With the product's kernel nothing is wrong, with this one it is: whatever the turns.
  void expect_of_kernel(Rule rule, const Plan& plan, Execution execution, const Kernel& kernel) {
    for (const Turns turns :
         {Turns::kInOrder, Turns::kShuffled, Turns::kLateReceivers, Turns::kEarlyReceivers}) {
      execution.turns = turns;
      execution.kernel = run_kernel;
      const Verdict sound = execute_one(stacks_, plan, execution);
      EXPECT_TRUE(sound.report.empty()) << sound.report.text();
      execution.kernel = kernel;
      expect(rule, plan, execution);
    }
  }

  template <class Change>
  void expect_of_lines(Rule rule, Operation operation, Change change);

  Stacks stacks_;
  const Topology topology_ = test::one_host(kRanks);
};

/// A memory that does all as it should.
class Sound : public SymbolicMemory {
 public:
  explicit Sound(const KernelCall& call)
      : SymbolicMemory(call.memory), item_(call.item), wrong_(call.rank == kWrongRank) {}

 protected:
  // NOLINTBEGIN(misc-non-private-member-variables-in-classes)
  const WorkItem& item_;
  const bool wrong_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)
};

template <class Memory>
KernelOutcome run_with(const KernelCall& call) {
  Memory memory(call);
  if (call.item.direct != nullptr) {
    return device::HostOneShot(call.group, memory, call.item, call.reduction).run();
  }
  return device::run_work_item(call.group, memory, call.item, call.reduction);
}

/// The product's kernel for an item that `change` spoils.
template <class Change>
Kernel with_item(Change change, const Kernel& product = run_kernel) {
  return [change, product](const KernelCall& call) {
    WorkItem item = call.item;
    change(item, call.rank);
    return product(call.with(item));
  };
}

// What results are made of.

struct LeavesItsOwnOut : Sound {
  using Sound::Sound;
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    if (wrong_) return copy(group, first, second, a, count * sizeof(Value));
    SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
  }
};

TEST_F(Planted, AMissingContribution) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kReduceScatter, Operation::kReduce}) {
    expect_of_kernel(Rule::kMissing, ring_plan(operation), {}, run_with<LeavesItsOwnOut>);
  }
  expect_of_kernel(Rule::kMissing, direct_plan(Operation::kAllReduce), {},
                   run_with<LeavesItsOwnOut>);
}

struct AddsTwice : Sound {
  using Sound::Sound;
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
    // What lies in the output can be read again.
    if (wrong_ && first == item_.recv) {
      SymbolicMemory::reduce(reduction, group, first, nullptr, first, b, count);
    }
  }
};

TEST_F(Planted, AContributionTwice) {
  expect_of_kernel(Rule::kTwice, ring_plan(Operation::kReduceScatter), {}, run_with<AddsTwice>);
  expect_of_kernel(Rule::kTwice, direct_plan(Operation::kAllReduce), {}, run_with<AddsTwice>);
}

struct DividesTwice : Sound {
  using Sound::Sound;
  template <class R>
  void finish(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              std::uint64_t count) {
    SymbolicMemory::finish(reduction, group, first, second, count);
    if (wrong_) SymbolicMemory::finish(reduction, group, first, second, count);
  }
};

TEST_F(Planted, AnAverageDividedTwice) {
  const Plan plan =
      plan_of(task_of(Operation::kAllReduce, kGrain * kRanks, 0, WEFT_AVG), topology_,
              Algorithm::kRing, {.steps = 4, .step_grains = 1, .channels = 1, .count = 0});
  expect_of_kernel(Rule::kTwice, plan, {}, run_with<DividesTwice>);
}

/// Passes its input on as it is.
struct MultipliesNothing : Sound {
  using Sound::Sound;
  template <class R>
  void premultiply_copy(const R& reduction, device::SingleLane& group, std::byte* to,
                        const std::byte* input, std::uint64_t count) {
    if (wrong_) return copy(group, to, nullptr, input, count * sizeof(Value));
    SymbolicMemory::premultiply_copy(reduction, group, to, input, count);
  }
};

/// Multiplies again what it has of others.
struct MultipliesWhatArrived : Sound {
  using Sound::Sound;
  template <class R>
  void premultiply_reduce(const R& reduction, device::SingleLane& group, std::byte* first,
                          std::byte* second, const std::byte* other, const std::byte* input,
                          std::uint64_t count, bool input_first) {
    if (wrong_) std::swap(other, input);
    SymbolicMemory::premultiply_reduce(reduction, group, first, second, other, input, count,
                                       input_first);
  }
};

TEST_F(Planted, AnInputNotMultipliedOrMultipliedTwice) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kReduceScatter, Operation::kReduce}) {
    Plan plan = ring_plan(operation);
    plan.task.reduction = kPremulSum;
    // Whoever adds to what was not multiplied finds it.
    if (operation != Operation::kReduce) {
      expect_of_kernel(Rule::kMissing, plan, {}, run_with<MultipliesNothing>);
    }
    expect_of_kernel(Rule::kTwice, plan, {}, run_with<MultipliesWhatArrived>);
  }
  Plan direct = direct_plan(Operation::kAllReduce);
  direct.task.reduction = kPremulSum;
  expect_of_kernel(Rule::kMissing, direct, {}, run_with<MultipliesNothing>);
  expect_of_kernel(Rule::kTwice, direct, {}, run_with<MultipliesWhatArrived>);
}

struct SwapsElements : Sound {
  using Sound::Sound;
  void copy(device::SingleLane& group, std::byte* first, std::byte* second, const std::byte* source,
            std::uint64_t bytes) {
    SymbolicMemory::copy(group, first, second, source, bytes);
    auto* values = reinterpret_cast<Value*>(first);
    if (wrong_ && bytes >= 2 * sizeof(Value)) std::swap(values[0], values[1]);
  }
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    SymbolicMemory::reduce(reduction, group, first, second, a, b, count);
    auto* values = reinterpret_cast<Value*>(first);
    if (wrong_ && count >= 2) std::swap(values[0], values[1]);
  }
};

TEST_F(Planted, AnotherElement) {
  for (const Operation operation : kCollectives)
    expect_of_kernel(Rule::kWrongElement, ring_plan(operation), {}, run_with<SwapsElements>);
  expect_of_kernel(Rule::kWrongElement, direct_plan(Operation::kAllGather), {},
                   run_with<SwapsElements>);
}

TEST_F(Planted, BlocksOfOtherRanks) {
  static constexpr std::uint32_t kTurned[kRanks] = {1, 2, 3, 4, 0};
  expect_of_kernel(Rule::kWrongElement, ring_plan(Operation::kAllGather), {},
                   with_item([](WorkItem& item, std::uint32_t) { item.ring = kTurned; }));
}

/// `b` with `a`, everywhere or on one rank alone.
template <bool kEverywhere>
struct SwapsOperands : Sound {
  using Sound::Sound;
  template <class R>
  void reduce(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    const bool swaps = kEverywhere || wrong_;
    SymbolicMemory::reduce(reduction, group, first, second, swaps ? b : a, swaps ? a : b, count);
  }
};

TEST_F(Planted, AnotherOrderThanThePromised) {
  for (const Operation operation : {Operation::kAllReduce, Operation::kReduceScatter}) {
    expect_of_kernel(Rule::kOrder, ring_plan(operation), {}, run_with<SwapsOperands<true>>);
    expect_of_kernel(Rule::kOrder, direct_plan(operation), {}, run_with<SwapsOperands<false>>);
  }
}

// Where no order is promised, all must have the same all the same.
TEST_F(Planted, RanksWithDifferentSums) {
  const Plan plan = direct_plan(Operation::kAllReduce);
  Bound bound = bound_of(plan.algorithm, plan.task, plan.ranks).value();
  bound.order = Promise::kNone;
  expect_of_kernel(Rule::kAgreement, plan, {.declared = bound}, run_with<SwapsOperands<false>>);
}

TEST_F(Planted, RanksWithDifferentPlans) {
  const Plan plan = ring_plan(Operation::kAllReduce);
  Plan other = plan;
  std::swap(other.channels[0].ring[0], other.channels[0].ring[1]);
  const Plan* const plans[kRanks] = {&plan, &plan, &other, &plan, &plan};
  const Verdict verdict = execute(stacks_, plans, {});
  EXPECT_TRUE(verdict.report.has(Rule::kAgreement)) << verdict.report.text();
}

// Slots.

KernelOutcome unchecked_all_reduce(const KernelCall& call) {
  TestMemory memory(call.memory);
  device::SimplePrimitives<device::SingleLane, TestMemory, SymbolicReduction> primitives(
      call.group, memory, call.item, call.reduction, sizeof(Value), true, true);
  device::ring_all_reduce(primitives, call.item, sizeof(Value));
  return primitives.finish();
}

TEST_F(Planted, AChunkOfAsManyStepsAsSlots) {
  Plan plan = plan_of(task_of(Operation::kAllReduce, 4 * 4 * kGrain * kRanks), topology_,
                      Algorithm::kRing, {.steps = 8, .step_grains = 1, .channels = 1, .count = 0});
  ASSERT_EQ(plan.chunk_steps, 4U);
  plan.steps = 5;
  Execution execution{.kernel = unchecked_all_reduce};
  EXPECT_TRUE(execute_one(stacks_, plan, execution).report.empty());
  plan.steps = 4;
  expect(Rule::kDeadlock, plan, execution);
  // The product's kernel sees it itself.
  execution.kernel = run_kernel;
  expect(Rule::kKernel, plan, execution);
}

struct GivesNothingBack : Sound {
  using Sound::Sound;
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    if (!wrong_ || counter != item_.from_previous.head) {
      SymbolicMemory::post(counter, waiters, value);
    }
  }
};

TEST_F(Planted, SlotsThatAreNotGivenBack) {
  for (const Operation operation : kCollectives)
    expect_of_kernel(Rule::kDeadlock, ring_plan(operation), {}, run_with<GivesNothingBack>);
}

struct WaitsForNoFreeSlot : Sound {
  using Sound::Sound;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    if (wrong_ && counter == item_.to_next.head) {
      return {.status = device::WaitStatus::kReady, .value = threshold};
    }
    return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
  }
};

TEST_F(Planted, ASlotFilledBeforeItIsFree) {
  for (const Operation operation : kCollectives)
    expect_of_kernel(Rule::kOverwritten, ring_plan(operation), {}, run_with<WaitsForNoFreeSlot>);
}

struct WaitsForNoData : Sound {
  using Sound::Sound;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    const ConnectionView& from = item_.from_previous;
    if (!wrong_ || counter != from.tail) {
      return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
    }
    // As if tag and size had come: they alone would show it.
    from.slots[(threshold - 1) % from.steps] = {
        .size = from.step_bytes, .offset = 0, .tag = item_.tag};
    return {.status = device::WaitStatus::kReady, .value = threshold};
  }
};

TEST_F(Planted, ASlotReadBeforeItIsFilled) {
  for (const Operation operation : kCollectives) {
    // Whole steps, as that memory has it.
    const Plan plan = plan_of(task_of(operation, 10 * kGrain * kRanks), topology_, Algorithm::kRing,
                              {.steps = 4, .step_grains = 1, .channels = 1, .count = 0});
    expect_of_kernel(Rule::kReadTooEarly, plan, {}, run_with<WaitsForNoData>);
  }
}

struct GivesBackTooEarly : Sound {
  using Sound::Sound;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    const auto result = SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
    if (wrong_ && counter == item_.from_previous.tail) {
      SymbolicMemory::post(item_.from_previous.head, nullptr, threshold);
    }
    return result;
  }
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    if (!wrong_ || counter != item_.from_previous.head) {
      SymbolicMemory::post(counter, waiters, value);
    }
  }
};

TEST_F(Planted, ASlotReadAfterItWasGivenBack) {
  for (const Operation operation : kCollectives) {
    Execution execution{.turns = Turns::kLateReceivers, .kernel = run_with<GivesBackTooEarly>};
    expect(Rule::kReadTooLate, ring_plan(operation), execution);
  }
}

/// Goes from call to call without taking what came.
KernelOutcome pushes_alone(const KernelCall& call) {
  if (call.rank != kWrongRank) return run_kernel(call);
  const DirectPeers& peers = *call.item.direct;
  std::uint64_t number = 0;
  std::memcpy(&number, peers.positions, sizeof(number));
  ++number;
  for (std::uint32_t peer = 0; peer < peers.ranks; ++peer) {
    if (peer == peers.rank) continue;
    auto* header = reinterpret_cast<DirectHeader*>(peers.outbox[peer] +
                                                   number % kDirectHalves * peers.half_bytes);
    call.memory.copy(call.group, reinterpret_cast<std::byte*>(header + 1), nullptr, call.item.send,
                     call.item.count * sizeof(Value));
    header->tag = call.item.tag;
    call.memory.post(&header->call, &header->waiters, number);
  }
  std::memcpy(peers.positions, &number, sizeof(number));
  return {};
}

TEST_F(Planted, AHalfOfAnInboxWrittenTooEarly) {
  expect_of_kernel(Rule::kOverwritten, direct_plan(Operation::kAllReduce), {.calls = 4},
                   pushes_alone);
}

/// The same of GPUs.
template <class Change>
void Planted::expect_of_lines(Rule rule, Operation operation, Change change) {
  const Plan plan = direct_plan(operation);
  Execution execution{.calls = 2, .kernel = run_line_kernel};
  const Verdict sound = execute_one(stacks_, plan, execution);
  EXPECT_TRUE(sound.report.empty()) << sound.report.text();
  execution.kernel = with_item(change, run_line_kernel);
  expect(rule, plan, execution);
}

TEST_F(Planted, ARootThatOthersTakeAnotherFor) {
  const auto another_root = [](WorkItem& item, std::uint32_t rank) {
    if (rank == kWrongRank) item.ring_position = (item.ring_position + 1) % kRanks;
  };
  expect_of_lines(Rule::kDeadlock, Operation::kBroadcast, another_root);
  expect_of_lines(Rule::kDeadlock, Operation::kReduce, another_root);
}

TEST_F(Planted, ABlockOfTheInputWrittenToAnother) {
  const auto one_off = [](WorkItem& item, std::uint32_t rank) {
    if (rank == kWrongRank) item.send -= sizeof(Value);
  };
  expect_of_lines(Rule::kOutside, Operation::kReduceScatter, one_off);
  expect_of_lines(Rule::kOutside, Operation::kAllGather, one_off);
}

// Buffers.

TEST_F(Planted, AnOutputWithAHole) {
  // All leave the same out.
  expect_of_kernel(Rule::kNotWritten, ring_plan(Operation::kBroadcast), {},
                   with_item([](WorkItem& item, std::uint32_t) { item.count -= 1; }));
}

TEST_F(Planted, WhatIsNotTheOutput) {
  for (const Operation operation : kCollectives) {
    const Plan plan = ring_plan(operation);
    const auto past_the_end = [](WorkItem& item, std::uint32_t) {
      if (item.recv != nullptr) item.recv += sizeof(Value);
    };
    expect_of_kernel(Rule::kOutside, plan, {}, with_item(past_the_end));
    if (has_root(operation)) continue;
    const auto into_the_input = [](WorkItem& item, std::uint32_t rank) {
      if (rank == kWrongRank) item.recv = const_cast<std::byte*>(item.send);
    };
    expect_of_kernel(Rule::kOutside, plan, {}, with_item(into_the_input));
  }
}

TEST_F(Planted, TheOutputOfAnotherChannel) {
  Plan plan = plan_of(task_of(Operation::kBroadcast, 8 * kGrain), topology_, Algorithm::kRing,
                      {.steps = 4, .step_grains = 1, .channels = 2, .count = 0});
  ASSERT_EQ(plan.channels.size(), 2U);
  const auto longer = [count = plan.channels[0].count](WorkItem& item, std::uint32_t) {
    item.count = count + 1;
  };
  expect_of_kernel(Rule::kOutside, plan, {}, with_item(longer));
}

TEST_F(Planted, AnothersConnection) {
  const Plan plan = ring_plan(Operation::kAllReduce);
  const auto turned = [](WorkItem& item, std::uint32_t rank) {
    if (rank == kWrongRank) std::swap(item.from_previous, item.to_next);
  };
  expect_of_kernel(Rule::kOutside, plan, {}, with_item(turned));
}

TEST_F(Planted, EndsOfWhichOneTakesItsOwnSlotsAlone) {
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce}) {
    for (const std::uint32_t wrong : {0U, 1U}) {
      const Shape shape{
          .steps = 4, .step_grains = 1, .channels = 1, .count = 9 * kGrain, .both_ends = true};
      const Plan plan =
          plan_of(task_of(operation, shape.count), test::one_host(2), Algorithm::kRing, shape);
      const bool sends = (wrong == 0) == (operation == Operation::kBroadcast);
      // Its own slot has had a step of the turn before.
      expect_of_kernel(sends ? Rule::kOutside : Rule::kReadTooLate, plan, {},
                       with_item([wrong](WorkItem& item, std::uint32_t rank) {
                         if (rank == wrong) item.both_ends = BothEnds::kNo;
                       }));
    }
  }
}

// Traffic and bounds.

TEST_F(Planted, MoreStepsThanAnnounced) {
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce,
                                    Operation::kAllGather, Operation::kReduceScatter}) {
    expect_of_kernel(Rule::kTraffic, ring_plan(operation), {},
                     with_item([](WorkItem& item, std::uint32_t) { item.chunk = kGrain - 3; }));
  }
}

TEST_F(Planted, ARingThatCallsItselfPatOrTree) {
  for (const Operation operation : kCollectives) {
    const Plan plan = ring_plan(operation);
    EXPECT_TRUE(execute_one(stacks_, plan, {}).report.empty());
    if (fits_pat(operation)) {
      expect(Rule::kBound, plan, {.declared = bound_of(plan, Algorithm::kPat)});
    }
    if (!has_blocks(operation)) {
      expect(Rule::kBound, plan, {.declared = bound_of(plan, Algorithm::kTree)});
    }
  }
}

/// Over the links between neighbours alone, of which a message holds one block: as many steps as
/// the plan says, and bytes, but from rank to rank.
KernelOutcome run_ring_over_pat(const KernelCall& call) {
  WorkItem item = call.item;
  item.algorithm = Algorithm::kRing;
  item.to_next = item.pat->gather.to[0];
  item.from_previous = item.pat->gather.from[0];
  return run_kernel(call.with(item));
}

TEST_F(Planted, APatThatIsARing) {
  const Plan plan = plan_of(task_of(Operation::kAllGather, kGrain), topology_, Algorithm::kPat,
                            {.steps = 2, .step_grains = 1, .channels = 1});
  ASSERT_EQ(plan.algorithm, Algorithm::kPat);
  expect_of_kernel(Rule::kBound, plan, {}, run_ring_over_pat);
}

// They announce it, and their hops and bytes are those that they promise.
TEST_F(Planted, StepsThatAreHalfEmpty) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kChain}) {
    for (const Operation operation : kCollectives) {
      if (algorithm == Algorithm::kTree && has_blocks(operation)) continue;
      if (algorithm == Algorithm::kChain && !reduces(operation)) continue;
      Task task = task_of(operation, 40 * kGrain * kRanks);
      if (algorithm == Algorithm::kChain) task.type = WEFT_FLOAT64;  // the order tells
      Plan plan = plan_of(task, topology_, algorithm,
                          {.steps = 4, .step_grains = 4, .channels = 1, .count = task.count});
      ASSERT_EQ(plan.algorithm, algorithm);
      const Verdict sound = execute_one(stacks_, plan, {});
      EXPECT_TRUE(sound.report.empty()) << sound.report.text();
      // Small enough for a tree, too, of which no rank here has as many children as may be.
      plan.channels[0].chunk = kGrain;
      expect(Rule::kBound, plan, {});
    }
  }
}

TEST_F(Planted, ADirectCallThatCallsItselfARing) {
  const Plan plan = direct_plan(Operation::kAllReduce);
  Bound bound = bound_of(Algorithm::kRing, plan.task, kRanks).value();
  bound.order = Promise::kNone;
  expect(Rule::kBound, plan, {.declared = bound});
}

TEST_F(Planted, AnAlgorithmWithoutABound) {
  EXPECT_EQ(bound_of(static_cast<Algorithm>(kAlgorithmCount), {}, kRanks), std::nullopt);
}

}  // namespace
}  // namespace weft::checker
