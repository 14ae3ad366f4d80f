// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong kernels of calls into outputs, at least one for each rule that they can break. A wrong one
// is the product's over a memory, or a group, that does one thing otherwise.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"
#include "tests/schedule_checker/output_kernels.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker::planted_bulk_copies {
namespace {

constexpr std::uint32_t kRanks = 5;
/// One rank does wrong, the others do not.
constexpr std::uint32_t kWrongRank = 2;
constexpr Operation kCopies[] = {Operation::kBroadcast, Operation::kAllGather};

template <class Thread>
void run_planted(const BulkCall& call) {
  if (call.thread.rank() != kWrongRank) return run_bulk_kernel(call);
  run_bulk_with(Thread(call.thread), call);
}

/// A thread whose memory is another one.
template <class Memory>
struct With : BulkThread {
  explicit With(const BulkThread& thread) : BulkThread(thread) {}
  [[nodiscard]] Memory memory(std::uint64_t /*tag*/) const { return Memory(context()); }
};

struct Sound : BulkMemory {
  explicit Sound(const Context& context) : BulkMemory(context), all_(context) {}

 protected:
  // NOLINTNEXTLINE(misc-non-private-member-variables-in-classes)
  const Context all_;
};

class PlantedOutputs : public ::testing::Test {
 protected:
  [[nodiscard]] Plan plan(Operation operation, std::uint32_t channels = 1,
                          std::uint32_t root = 0) const {
    const Shape shape{.steps = 3,
                      .step_grains = 2,
                      .channels = channels,
                      .count = 9 * kGrain * channels + 4,
                      .into_outputs = true};
    return plan_of(task_of(operation, shape.count, root), topology_, Algorithm::kRing, shape);
  }
  /// Nothing is wrong with the product's kernel; with this one it is.
  void expect(Rule rule, const Plan& plan, Execution execution, const BulkKernel& kernel) {
    execution.outputs->kernel = run_bulk_kernel;
    const Verdict sound = execute_one(stacks_, plan, execution);
    EXPECT_TRUE(sound.report.empty()) << sound.report.text();
    execution.outputs->kernel = kernel;
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_FALSE(verdict.report.empty()) << "nothing was found, wanted: " << rule_name(rule);
    EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
        << verdict.report.text();
  }
  /// Of copies that happen as late as they may.
  template <class Memory>
  void expect_of_memory(Rule rule, Operation operation) {
    expect(rule, plan(operation),
           {.calls = 2, .turns = Turns::kLateReceivers, .outputs = IntoOutputs{}},
           run_planted<With<Memory>>);
  }

  /// Orders of turns, of many, in which a wrong root or rank is rejected by the rule.
  template <class Thread>
  std::uint32_t orders_that_break(Rule rule, Operation operation) {
    std::uint32_t orders = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Execution execution{
          .calls = 3, .turns = Turns::kShuffled, .seed = seed, .outputs = IntoOutputs{}};
      const Plan plan = this->plan(operation, 1, kWrongRank);
      const Verdict sound = execute_one(stacks_, plan, execution);
      EXPECT_TRUE(sound.report.empty()) << sound.report.text();
      execution.outputs->kernel = run_planted<Thread>;
      orders += execute_one(stacks_, plan, execution).report.has(rule) ? 1 : 0;
    }
    return orders;
  }

  Stacks stacks_;
  const Topology topology_ = test::one_host(kRanks);
};

// Who may write, and when.

/// Goes by what the others offered for the call before, without waiting for them.
struct KeepsLastOffers : Sound {
  using Sound::Sound;
  [[nodiscard]] device::Line load_words(const std::byte* from) {
    const device::Line line = BulkMemory::load_words(from);
    if (all_.rank.agreements == 0) return line;
    const DirectPeers& peers = all_.world.inboxes->peers(kWrongRank);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers.inbox[rank] == nullptr || from < peers.inbox[rank]) continue;
      const std::uint64_t at = static_cast<std::uint64_t>(from - peers.inbox[rank]);
      if (at >= 2 * peers.half_bytes) continue;
      const bool is_header = at % peers.half_bytes == 0;
      return device::flagged_line(is_header ? all_.item.tag : all_.rank.table.offers[rank],
                                  peers.positions[0] + 1);
    }
    return line;
  }
};

TEST_F(PlantedOutputs, AnOutputWrittenBeforeItsRankHasCome) {
  for (const Operation operation : kCopies) {
    EXPECT_GT(orders_that_break<With<KeepsLastOffers>>(Rule::kAway, operation), 0U);
  }
}

/// Takes a refusal for an offer, which it makes up.
struct MissesRefusals : Sound {
  using Sound::Sound;
  [[nodiscard]] device::Line load_words(const std::byte* from) {
    device::Line line = BulkMemory::load_words(from);
    const auto flag = all_.world.inboxes->peers(kWrongRank).positions[0] + 1;
    if (device::flag_difference(line, flag) != 0 || device::payload_of(line) != 0) return line;
    return device::flagged_line(device::kBulkGrain, flag);
  }
};

TEST_F(PlantedOutputs, AnOutputWrittenThatIsNotOpen) {
  expect(Rule::kAway, plan(Operation::kAllGather),
         {.outputs = IntoOutputs{.steps = {{.refuses = kWrongRank + 2}}}},
         run_planted<With<MissesRefusals>>);
}

/// Of three groups, each takes itself for the last one.
struct TellsTheEndEarly : BulkThread {
  explicit TellsTheEndEarly(const BulkThread& thread) : BulkThread(thread) {}
  [[nodiscard]] std::uint32_t add(std::uint32_t* word, std::uint32_t value) const {
    const std::uint32_t before = BulkThread::add(word, value);
    return word == &context().rank.table.ended ? count() - 1 : before;
  }
};
/// None does.
struct TellsNoEnd : BulkThread {
  explicit TellsNoEnd(const BulkThread& thread) : BulkThread(thread) {}
  [[nodiscard]] std::uint32_t add(std::uint32_t* word, std::uint32_t value) const {
    return word == &context().rank.table.ended ? 0 : BulkThread::add(word, value);
  }
};
/// Nobody puts the table back.
struct LeavesTheTable : BulkThread {
  explicit LeavesTheTable(const BulkThread& thread) : BulkThread(thread) {}
  [[nodiscard]] std::uint32_t add(std::uint32_t* word, std::uint32_t value) const {
    return 0 * BulkThread::add(word, value);
  }
};

TEST_F(PlantedOutputs, AnEndThatTheHostIsToldTooEarlyOrNever) {
  const Plan three = plan(Operation::kAllGather, 3);
  const Execution execution{.calls = 2, .outputs = IntoOutputs{.between_processes = true}};
  expect(Rule::kAway, three, execution, run_planted<TellsTheEndEarly>);
  expect(Rule::kAway, three, execution, run_planted<TellsNoEnd>);
  expect(Rule::kKernel, three, execution, run_planted<LeavesTheTable>);
}

TEST_F(PlantedOutputs, APlaceThatNobodyShared) {
  const auto another_generation = [](OutputCall& call, std::uint32_t rank, std::uint32_t) {
    if (rank != kWrongRank) return;
    OutputPlace place = place_of(call.offer);
    ++place.generation;
    call.offer = offer_of(place);
  };
  const Verdict verdict = execute_one(
      stacks_, plan(Operation::kAllGather),
      {.outputs = IntoOutputs{.between_processes = true, .change = another_generation}});
  EXPECT_TRUE(verdict.report.has(Rule::kKernel)) << verdict.report.text();
}

// Where it writes.

template <class Change>
BulkKernel with_item(Change change) {
  return [change](const BulkCall& call) {
    WorkItem item = call.item;
    OutputCall outputs = call.outputs;
    if (call.thread.rank() == kWrongRank) change(item, outputs);
    run_bulk_with(With<Sound>(call.thread), {.thread = call.thread,
                                             .item = item,
                                             .way = call.way,
                                             .outputs = outputs,
                                             .peers = call.peers,
                                             .next = call.next,
                                             .board = call.board});
  };
}

TEST_F(PlantedOutputs, AnotherPlaceOfTheNextOutput) {
  const Execution execution{.calls = 2, .outputs = IntoOutputs{}};
  const auto past_the_end = [](WorkItem&, OutputCall& call) { call.begin -= device::kBulkGrain; };
  // The next rank is the last one of this ring, and reads nothing of what is missing.
  const std::uint32_t root = (kWrongRank + 2) % kRanks;
  expect(Rule::kOutside, plan(Operation::kBroadcast, 1, root), execution, with_item(past_the_end));
  expect(Rule::kOutside, plan(Operation::kBroadcast, 2, root), execution, with_item(past_the_end));
  const auto within_a_line = [](WorkItem&, OutputCall& call) { call.begin += sizeof(Value); };
  expect(Rule::kOutside, plan(Operation::kBroadcast), execution, with_item(within_a_line));
}

TEST_F(PlantedOutputs, TheOutputOfARankThatIsNotTheNext) {
  for (const Operation operation : kCopies) {
    expect(Rule::kOutside, plan(operation), {.outputs = IntoOutputs{}},
           with_item([](WorkItem& item, OutputCall&) {
             item.to_next.peer = (item.to_next.peer + 1) % kRanks;
           }));
  }
}

struct StoresTwice : Sound {
  using Sound::Sound;
  void bulk_store(std::byte* to, const std::byte* piece, std::uint32_t bytes) {
    BulkMemory::bulk_store(to, piece, bytes);
    BulkMemory::bulk_store(to, piece, bytes);
  }
};

TEST_F(PlantedOutputs, AnElementWrittenTwice) {
  for (const Operation operation : kCopies)
    expect_of_memory<StoresTwice>(Rule::kTwice, operation);
}

// What is waited for.

/// Takes stores for ended that are the latest but a few.
struct PostsBeforeStoresEnd : Sound {
  using Sound::Sound;
  template <int kLeft>
  void await_stores() {
    BulkMemory::await_stores<kLeft + 2>();
  }
};

TEST_F(PlantedOutputs, AStepPostedBeforeItHasLanded) {
  for (const Operation operation : kCopies)
    expect_of_memory<PostsBeforeStoresEnd>(Rule::kNotWritten, operation);
}

/// Ends when it has posted all, though its last stores are under way.
struct LeavesStoresBehind : Sound {
  using Sound::Sound;
  template <int kLeft>
  void await_stores() {
    if (kLeft != 0) BulkMemory::await_stores<kLeft>();
  }
};

TEST_F(PlantedOutputs, ACallThatEndsBeforeItsStores) {
  // To the last rank of a ring, where nobody but the caller reads it.
  const Plan last =
      plan_of(task_of(Operation::kBroadcast, 4, kWrongRank + 2), topology_, Algorithm::kRing,
              {.steps = 2, .step_grains = 1, .count = 4, .into_outputs = true});
  expect(Rule::kAway, last, {.turns = Turns::kLateReceivers, .outputs = IntoOutputs{}},
         run_planted<With<LeavesStoresBehind>>);
}

struct TakesPiecesForRead : Sound {
  using Sound::Sound;
  template <int kLeft>
  void await_reads() {}
};

// Only where the loader comes to its turn between stores.
TEST_F(PlantedOutputs, APieceFilledBeforeItWasRead) {
  for (const Operation operation : kCopies) {
    EXPECT_GT(orders_that_break<With<TakesPiecesForRead>>(Rule::kWrongElement, operation), 0U);
  }
}

/// Of the storer: takes any piece for full.
struct TakesPiecesForFull : Sound {
  using Sound::Sound;
  [[nodiscard]] bool has_completed(std::uint64_t* barrier, std::uint32_t parity) {
    return all_.actor.lane == 1 || BulkMemory::has_completed(barrier, parity);
  }
};

TEST_F(PlantedOutputs, APieceStoredBeforeItIsFull) {
  for (const Operation operation : kCopies)
    expect_of_memory<TakesPiecesForFull>(Rule::kReadTooEarly, operation);
}

struct WaitsForNoFreeSlot : Sound {
  using Sound::Sound;
  [[nodiscard]] std::uint64_t load_acquire(std::uint64_t* counter) {
    return counter == all_.item.to_next.head ? UINT64_MAX : BulkMemory::load_acquire(counter);
  }
};

TEST_F(PlantedOutputs, AStepPostedBeforeItsSlotIsFree) {
  for (const Operation operation : kCopies)
    expect_of_memory<WaitsForNoFreeSlot>(Rule::kOverwritten, operation);
}

/// As if each step had come, with its tag and its bytes.
struct WaitsForNoStep : Sound {
  using Sound::Sound;
  [[nodiscard]] std::uint64_t load_acquire(std::uint64_t* counter) {
    const std::uint64_t seen = BulkMemory::load_acquire(counter);
    const ConnectionView& from = all_.item.from_previous;
    if (counter != from.tail) return seen;
    for (std::uint32_t slot = 0; slot < from.steps; ++slot)
      from.slots[slot] = {.size = from.step_bytes, .offset = 0, .tag = all_.item.tag};
    return UINT64_MAX;
  }
};

TEST_F(PlantedOutputs, AStepTakenBeforeItHasLanded) {
  expect_of_memory<WaitsForNoStep>(Rule::kNotWritten, Operation::kBroadcast);
  // What it takes there it also gives back.
  expect_of_memory<WaitsForNoStep>(Rule::kReadTooEarly, Operation::kAllGather);
}

struct GivesNothingBack : Sound {
  using Sound::Sound;
  static void give_back(std::uint64_t* /*head*/, std::uint64_t /*value*/) {}
};

TEST_F(PlantedOutputs, StepsThatAreNotGivenBack) {
  for (const Operation operation : kCopies)
    expect_of_memory<GivesNothingBack>(Rule::kDeadlock, operation);
}

// Orders of memory that cost an instruction each.

struct OrdersNoCopies : Sound {
  using Sound::Sound;
  static void order_bulk_after_loads() {}
};
/// The same of the storer alone.
struct OrdersNoStores : Sound {
  using Sound::Sound;
  void order_bulk_after_loads() {
    if (all_.actor.lane != 1) BulkMemory::order_bulk_after_loads();
  }
};
struct PostsInNoOrder : Sound {
  using Sound::Sound;
  static void fence() {}
};

TEST_F(PlantedOutputs, WhatIsInNoOrder) {
  expect_of_memory<OrdersNoCopies>(Rule::kReadTooEarly, Operation::kBroadcast);
  for (const Operation operation : kCopies) {
    expect_of_memory<OrdersNoStores>(Rule::kOverwritten, operation);
    expect_of_memory<PostsInNoOrder>(Rule::kReadTooEarly, operation);
  }
}

}  // namespace
}  // namespace weft::checker::planted_bulk_copies
