// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One-shots and two-shots by wide lines, whose lanes store and load each line together, broadcasts
// and reduces among them; and all-to-alls, which no planner has to do with.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker {
namespace {

class WideCalls : public ::testing::Test {
 protected:
  void check(const Plan& plan, Execution execution) {
    ASSERT_EQ(plan.protocol, Protocol::kLL128);
    execution.turns = kAllTurns[++seed_ % std::size(kAllTurns)];
    execution.seed = seed_;
    execution.in_place = seed_ / std::size(kAllTurns) % 2 == 1;
    const Verdict verdict = execute_one(stacks_, plan, execution);
    ASSERT_TRUE(verdict.report.empty()) << describe(plan, execution) << "\n"
                                        << verdict.report.text();
  }
  /// Nothing is wrong with the product's kernel, whatever the turns, and with this one it is found,
  /// by that rule or by the other.
  void expect(Rule rule, const Plan& plan, const WideKernel& kernel, std::uint32_t calls = 1,
              std::optional<Rule> other = {}) {
    std::size_t found = 0;
    for (const Turns turns : kAllTurns) {
      for (std::uint64_t seed = 1; seed <= (turns == Turns::kShuffled ? 100 : 1); ++seed) {
        Execution execution{.calls = calls, .turns = turns, .seed = seed};
        const Verdict sound = execute_one(stacks_, plan, execution);
        ASSERT_TRUE(sound.report.empty()) << sound.report.text();
        execution.wide_kernel = kernel;
        const Verdict verdict = execute_one(stacks_, plan, execution);
        if (verdict.report.empty()) continue;
        ++found;
        const Rule broken = verdict.report.violations().front().rule;
        if (broken == other) continue;
        EXPECT_EQ(rule_name(broken), rule_name(rule)) << verdict.report.text();
      }
    }
    EXPECT_GT(found, 0U);
  }

  Stacks stacks_;
  std::uint64_t seed_ = 20261122;
};

class WideOneShots : public WideCalls {
 protected:
  [[nodiscard]] static Plan plan_for(std::uint32_t ranks, std::uint64_t count,
                                     weft_reduction reduction = WEFT_SUM) {
    return plan_of(task_of(Operation::kAllReduce, count, 0, reduction), test::one_host(ranks),
                   Algorithm::kDirect, {.protocol = Protocol::kLL128});
  }
};

class WideRanges : public WideCalls {
 protected:
  /// Ranges of up to `grains` times 8 elements.
  [[nodiscard]] static Plan plan_for(Operation operation, std::uint32_t ranks, std::uint64_t count,
                                     std::uint32_t grains, weft_reduction reduction = WEFT_SUM) {
    const bool blocks = operation != Operation::kAllReduce;
    const Task task = task_of(operation, count, 0, reduction);
    Plan plan = plan_of(is_planned(operation) ? task : task_of(Operation::kAllGather, count),
                        test::one_host(ranks), blocks ? Algorithm::kDirect : Algorithm::kTwoShot,
                        {.step_grains = grains, .protocol = Protocol::kLL128});
    plan.task = task;
    return plan;
  }
  static constexpr Operation kOperations[] = {Operation::kAllReduce, Operation::kReduceScatter,
                                              Operation::kAllGather, Operation::kAllToAll};
};

class WideRooted : public WideCalls {
 protected:
  [[nodiscard]] static Plan plan_for(Operation operation, std::uint32_t ranks, std::uint64_t count,
                                     std::uint32_t root, weft_reduction reduction = WEFT_SUM) {
    return plan_of(task_of(operation, count, root, reduction), test::one_host(ranks),
                   Algorithm::kDirect, {.protocol = Protocol::kLL128});
  }
  static constexpr Operation kOperations[] = {Operation::kBroadcast, Operation::kReduce};
};

// One element; a lane's share and a half; a pair of lines; several and a rest.
TEST_F(WideOneShots, OfAllNumbersOfRanks) {
  constexpr int kSeeds = 4;
  for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
    for (const std::uint64_t count : {1U, 3U, 30U, 97U}) {
      for (const weft_reduction reduction :
           std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
        const Plan plan = plan_for(ranks, count, reduction);
        for (int i = 0; i < kSeeds; ++i)
          ASSERT_NO_FATAL_FAILURE(check(plan, {.calls = 5}));
      }
    }
  }
}

TEST_F(WideOneShots, OfSeveralPartsAndGangs) {
  for (const std::uint32_t ranks : {2U, 3U, 8U}) {
    for (const std::uint64_t count : {1U, 65U, 200U}) {
      const Plan plan = plan_for(ranks, count);
      for (const std::uint32_t parts : {1U, 2U, 3U}) {
        for (int i = 0; i < 4; ++i) {
          ASSERT_NO_FATAL_FAILURE(
              check(plan, {.calls = 3, .direct_parts = parts, .lanes = 16, .gang = 8}));
          ASSERT_NO_FATAL_FAILURE(
              check(plan, {.calls = 3, .direct_parts = parts, .lanes = 32, .gang = 16}));
        }
      }
    }
  }
}

// One element, so that ranks have none; a pair of lines and a rest; several pieces, the last of
// which is short.
TEST_F(WideRanges, OfAllNumbersOfRanks) {
  for (const Operation operation : kOperations) {
    for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
      for (const std::uint64_t count : {1U, 9U, 33U, 70U}) {
        for (const weft_reduction reduction :
             std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
          if (!reduces(operation) && reduction != WEFT_SUM) continue;
          for (const std::uint32_t grains : {1U, 5U}) {
            const Plan plan = plan_for(operation, ranks, count, grains, reduction);
            for (int i = 0; i < 2; ++i)
              ASSERT_NO_FATAL_FAILURE(check(plan, {.calls = 3}));
          }
        }
      }
    }
  }
}

TEST_F(WideRanges, OfSeveralPartsAndGangs) {
  for (const Operation operation : kOperations) {
    for (const std::uint32_t ranks : {2U, 3U, 8U}) {
      for (const std::uint64_t count : {1U, 130U, 300U}) {
        const Plan plan = plan_for(operation, ranks, count, 9);
        for (const std::uint32_t parts : {1U, 2U, 3U}) {
          ASSERT_NO_FATAL_FAILURE(
              check(plan, {.calls = 3, .direct_parts = parts, .lanes = 16, .gang = 8}));
          ASSERT_NO_FATAL_FAILURE(
              check(plan, {.calls = 3, .direct_parts = parts, .lanes = 32, .gang = 16}));
        }
      }
    }
  }
}

// One element; a lane's share and a half; a pair of lines; several and a rest.
TEST_F(WideRooted, OfAllNumbersOfRanks) {
  for (const Operation operation : kOperations) {
    for (std::uint32_t ranks = 2; ranks <= kMostDirectRanks; ++ranks) {
      for (const std::uint64_t count : {1U, 3U, 30U, 97U}) {
        for (const weft_reduction reduction :
             std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
          if (!reduces(operation) && reduction != WEFT_SUM) continue;
          for (const std::uint32_t root : {0U, ranks - 1}) {
            const Plan plan = plan_for(operation, ranks, count, root, reduction);
            for (int i = 0; i < 2; ++i)
              ASSERT_NO_FATAL_FAILURE(check(plan, {.calls = 5}));
          }
        }
      }
    }
  }
}

TEST_F(WideRooted, OfSeveralPartsAndGangs) {
  for (const Operation operation : kOperations) {
    for (const std::uint32_t ranks : {2U, 3U, 8U}) {
      for (const std::uint64_t count : {1U, 65U, 200U}) {
        const Plan plan = plan_for(operation, ranks, count, 1);
        for (const std::uint32_t parts : {1U, 2U, 3U}) {
          for (int i = 0; i < 2; ++i) {
            ASSERT_NO_FATAL_FAILURE(
                check(plan, {.calls = 4, .direct_parts = parts, .lanes = 16, .gang = 8}));
            ASSERT_NO_FATAL_FAILURE(
                check(plan, {.calls = 4, .direct_parts = parts, .lanes = 32, .gang = 16}));
          }
        }
      }
    }
  }
}

constexpr std::uint32_t kWrongWideRank = 1;

template <class Memory>
KernelOutcome run_wide_over(const WideCall& call) {
  if (call.rank != kWrongWideRank) return run_wide_kernel(call);
  Memory memory(call);
  return device::run_wide_item<kMostDirectRanks>(call.group, memory, call.item, *call.item.direct,
                                                 call.reduction, call.part, call.parts);
}

class OtherWideMemory : public WideMemory {
 public:
  explicit OtherWideMemory(const WideCall& call)
      : WideMemory(call.memory), peers_(call.item.direct) {}

 protected:
  /// Whether it lies in the header of a half.
  [[nodiscard]] bool is_header(const std::byte* from) const {
    const std::uint64_t half = peers_->wide_half_bytes;
    for (const std::byte* const inbox : peers_->inbox) {
      if (inbox == nullptr || from < inbox || from >= inbox + kDirectHalves * half) continue;
      return static_cast<std::uint64_t>(from - inbox) % half < std::uint64_t{2} * kWideLineBytes;
    }
    return false;
  }

 private:
  const DirectPeers* peers_;
};

/// The flag may be seen before what the others of the eight store, which takes long.
struct FlagsFirst : OtherWideMemory {
  using OtherWideMemory::OtherWideMemory;
  void store_wide(FiberLane& group, std::byte* to, device::Line share, bool last) {
    // The tag of a header that has not come would be taken for another call's.
    if (!is_value(share.low)) return WideMemory::store_wide(group, to, share, last);
    if (to != nullptr && last) store_word_of_line(to + sizeof(Value), share.high);
    for (std::uint32_t turn = 0; turn < 50; ++turn)
      static_cast<void>(look_again(turn));
    group.any_of_eight(false);
    if (to == nullptr) return;
    store_word_of_line(to, share.low);
    if (!last) store_word_of_line(to + sizeof(Value), share.high);
  }
};

TEST_F(WideOneShots, AFlagBeforeItsPayload) {
  expect(Rule::kReadTooEarly, plan_for(3, 97), run_wide_over<FlagsFirst>);
}

/// Takes what it finds behind the header, whether its flag has come or not.
struct LooksAtNoFlag : OtherWideMemory {
  using OtherWideMemory::OtherWideMemory;
  device::Line load_wide(FiberLane& group, const std::byte* from, std::uint64_t flag, bool last) {
    if (is_header(from)) return WideMemory::load_wide(group, from, flag, last);
    device::Line share = from == nullptr ? device::Line{} : load_line(from);
    if (last) share.high = flag;
    return share;
  }
};

/// Takes long for each line.
struct Slow : OtherWideMemory {
  using OtherWideMemory::OtherWideMemory;
  void store_wide(FiberLane& group, std::byte* to, device::Line share, bool last) {
    for (std::uint32_t turn = 0; turn < 10; ++turn)
      static_cast<void>(look_again(turn));
    WideMemory::store_wide(group, to, share, last);
  }
};

TEST_F(WideOneShots, APayloadWithoutItsFlag) {
  const auto among_slow_ones = [](const WideCall& call) {
    if (call.rank == kWrongWideRank) return run_wide_over<LooksAtNoFlag>(call);
    Slow memory(call);
    return device::run_wide_item<kMostDirectRanks>(call.group, memory, call.item, *call.item.direct,
                                                   call.reduction, call.part, call.parts);
  };
  expect(Rule::kReadTooEarly, plan_for(3, 97), among_slow_ones);
}

TEST_F(WideRooted, APayloadWithoutItsFlag) {
  const auto among_slow_ones = [](const WideCall& call) {
    if (call.rank == kWrongWideRank) return run_wide_over<LooksAtNoFlag>(call);
    Slow memory(call);
    return device::run_wide_item<kMostDirectRanks>(call.group, memory, call.item, *call.item.direct,
                                                   call.reduction, call.part, call.parts);
  };
  expect(Rule::kReadTooEarly, plan_for(Operation::kBroadcast, 3, 97, 0), among_slow_ones);
  expect(Rule::kReadTooEarly, plan_for(Operation::kReduce, 3, 97, kWrongWideRank), among_slow_ones);
}

/// Waits for no header.
struct BelievesHeaders : OtherWideMemory {
  explicit BelievesHeaders(const WideCall& call) : OtherWideMemory(call), tag_(call.item.tag) {}
  device::Line load_wide(FiberLane& group, const std::byte* from, std::uint64_t flag, bool last) {
    if (!is_header(from)) return OtherWideMemory::load_wide(group, from, flag, last);
    return {.low = group.rank() % kWideLineLanes == 0 ? tag_ : 0, .high = last ? flag : 0};
  }

 private:
  std::uint64_t tag_;
};

// Who only sends would be two calls ahead of who gets, which may find the header of the later one.
TEST_F(WideRooted, ARankThatDoesNotWaitForHeaders) {
  for (const auto& [operation, root] :
       {std::pair{Operation::kBroadcast, kWrongWideRank}, std::pair{Operation::kReduce, 0U}}) {
    expect(Rule::kOverwritten, plan_for(operation, 3, 40, root), run_wide_over<BelievesHeaders>, 4,
           Rule::kKernel);
  }
}

TEST_F(WideOneShots, AnOutputWithAHole) {
  expect(Rule::kNotWritten, plan_for(3, 97), [](const WideCall& call) {
    WorkItem item = call.item;
    --item.count;
    const WideCall shorter{.group = call.group,
                           .memory = call.memory,
                           .item = item,
                           .reduction = call.reduction,
                           .rank = call.rank,
                           .part = call.part,
                           .parts = call.parts};
    return run_wide_kernel(shorter);
  });
}

TEST_F(WideOneShots, AnInputThatBeginsBeforeItsBuffer) {
  expect(Rule::kOutside, plan_for(3, 96), [](const WideCall& call) {
    if (call.rank != kWrongWideRank) return run_wide_kernel(call);
    WorkItem item = call.item;
    item.send -= sizeof(Value);
    const WideCall shifted{.group = call.group,
                           .memory = call.memory,
                           .item = item,
                           .reduction = call.reduction,
                           .rank = call.rank,
                           .part = call.part,
                           .parts = call.parts};
    return run_wide_kernel(shifted);
  });
}

/// Has all exchanges in the first half.
struct OneHalf : OtherWideMemory {
  explicit OneHalf(const WideCall& call) : OtherWideMemory(call), call_(&call) {}
  void store_wide(FiberLane& group, std::byte* to, device::Line share, bool last) {
    OtherWideMemory::store_wide(group, in_first(to, call_->item.direct->outbox), share, last);
  }
  device::Line load_wide(FiberLane& group, const std::byte* from, std::uint64_t flag, bool last) {
    return OtherWideMemory::load_wide(group, in_first(from, call_->item.direct->inbox), flag, last);
  }

 private:
  template <class Byte>
  [[nodiscard]] Byte* in_first(Byte* at, std::byte* const (&boxes)[kMostDirectRanks]) const {
    const std::uint64_t half = call_->item.direct->wide_half_bytes;
    for (const std::byte* const box : boxes) {
      if (box != nullptr && at >= box + half && at < box + kDirectHalves * half) return at - half;
    }
    return at;
  }

  const WideCall* call_;
};

TEST_F(WideRanges, TwoExchangesInOneHalf) {
  const auto all_in_one = [](const WideCall& call) {
    OneHalf memory(call);
    return device::run_wide_item<kMostDirectRanks>(call.group, memory, call.item, *call.item.direct,
                                                   call.reduction, call.part, call.parts);
  };
  expect(Rule::kOverwritten, plan_for(Operation::kAllReduce, 3, 97, 5), all_in_one);
}

TEST_F(WideRanges, APayloadWithoutItsFlag) {
  const auto among_slow_ones = [](const WideCall& call) {
    if (call.rank == kWrongWideRank) return run_wide_over<LooksAtNoFlag>(call);
    Slow memory(call);
    return device::run_wide_item<kMostDirectRanks>(call.group, memory, call.item, *call.item.direct,
                                                   call.reduction, call.part, call.parts);
  };
  for (const Operation operation : kOperations)
    expect(Rule::kReadTooEarly, plan_for(operation, 3, 40, 5), among_slow_ones);
}

}  // namespace
}  // namespace weft::checker
