// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Groups of sends and receives: no order in which ranks name their partners locks them up.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/pair_calls.h"
#include "core/transport/net_devices.h"
#include "tests/schedule_checker/pair_checker.h"
#include "tests/schedule_checker/plans.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

/// One group of all ranks in which each of `messages` random messages is sent and received; each
/// rank calls them in an order of its own.
std::vector<PairGroup> any_groups(std::uint32_t ranks, std::uint32_t messages,
                                  std::uint64_t most_elements, std::mt19937_64& random) {
  std::vector<PairGroup> groups(ranks);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> counts;
  for (std::uint32_t i = 0; i < messages; ++i) {
    const auto from = static_cast<std::uint32_t>(random() % ranks);
    const auto to = static_cast<std::uint32_t>(random() % ranks);
    const std::uint64_t count = random() % (most_elements + 1);
    counts[{from, to}].push_back(count);
    groups[from].push_back({.sends = true, .partner = to});
    groups[to].push_back({.sends = false, .partner = from});
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::ranges::shuffle(groups[rank], random);
    // Whatever the order, the n-th call of a pair and a direction is for its n-th message.
    std::map<std::pair<std::uint32_t, bool>, std::size_t> next;
    for (PairCall& call : groups[rank]) {
      const auto& of_pair =
          call.sends ? counts[{rank, call.partner}] : counts[{call.partner, rank}];
      call.count = of_pair[next[{call.partner, call.sends}]++];
    }
  }
  return groups;
}

/// One of each kind, one after the other, with blocks of up to `count` elements.
std::vector<std::variant<PairGroups, ExchangeCall>> each_exchange(std::uint32_t ranks,
                                                                  std::uint64_t count,
                                                                  std::mt19937_64& random) {
  ExchangeCall differ{.operation = Operation::kAllToAllV};
  for (std::uint32_t i = 0; i < ranks * ranks; ++i)
    differ.counts.push_back(random() % (count + 1));
  return {ExchangeCall{.operation = Operation::kAllToAll, .count = count}, differ,
          ExchangeCall{.operation = Operation::kGather, .root = 1, .count = count},
          ExchangeCall{.operation = Operation::kScatter, .count = count}};
}

class Pairs : public ::testing::Test {
 protected:
  void check(const PairExecution& execution) {
    const Verdict verdict = execute_pairs(stacks_, execution);
    ASSERT_TRUE(verdict.report.empty())
        << execution.ranks << " ranks, " << execution.steps << " slots, " << execution.rounds.size()
        << " rounds, seed " << execution.seed << "\n"
        << verdict.report.text();
  }
  /// One of each kind in turn, for blocks of `counts` elements and fewer, in several orders of
  /// turns.
  void check_exchanges(PairExecution execution, std::initializer_list<std::uint64_t> counts) {
    std::mt19937_64 random(20261123);
    for (const std::uint32_t ranks : {2U, 3U, 8U, 21U}) {
      for (const std::uint64_t count : counts) {
        execution.ranks = ranks;
        execution.rounds = each_exchange(ranks, count, random);
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
          execution.turns = Turns::kShuffled;
          execution.seed = seed;
          ASSERT_NO_FATAL_FAILURE(check(execution));
        }
      }
    }
  }
  void expect(Rule rule, const PairExecution& execution) {
    const Verdict verdict = execute_pairs(stacks_, execution);
    ASSERT_FALSE(verdict.report.empty());
    EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
        << verdict.report.text();
  }
  Stacks stacks_;
};

TEST_F(Pairs, AnyMixOfAllNumbersOfRanks) {
  constexpr std::uint32_t kMostRanksOfAll = 64;
  std::mt19937_64 random(20261122);
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    for (const Turns turns : kAllTurns) {
      PairExecution execution{.ranks = ranks,
                              .steps = 1 + static_cast<std::uint32_t>(random() % 4),
                              .step_bytes = 64 * (1 + static_cast<std::uint32_t>(random() % 2)),
                              .turns = turns,
                              .seed = random()};
      for (int round = 0; round < 3; ++round)
        execution.rounds.push_back(any_groups(ranks, 3 * ranks, 60, random));
      ASSERT_NO_FATAL_FAILURE(check(execution));
    }
  }
}

// Messages by lines, longer ones with a header there, and many of each on one connection.
TEST_F(Pairs, AnyMixByLinesOfAllNumbersOfRanks) {
  constexpr std::uint32_t kMostRanksOfAll = 64;
  constexpr std::uint64_t kMostElements = 12;  // of which 8 fit into a step of lines
  std::mt19937_64 random(20261123);
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    for (const Turns turns : kAllTurns) {
      for (const std::uint64_t line_bytes : {8U, 40U, 64U}) {
        PairExecution execution{.ranks = ranks,
                                .steps = 1 + static_cast<std::uint32_t>(random() % 4),
                                .step_bytes = 256,
                                .line_bytes = line_bytes,
                                .turns = turns,
                                .seed = random()};
        for (int round = 0; round < 3; ++round)
          execution.rounds.push_back(any_groups(ranks, 5 * ranks, kMostElements, random));
        ASSERT_NO_FATAL_FAILURE(check(execution));
      }
    }
  }
}

// Messages in parts, each over a connection of its own, by steps, by lines, and by both.
TEST_F(Pairs, AnyMixOverChannelsOfAllNumbersOfRanks) {
  constexpr std::uint32_t kMostRanksOfAll = 64;
  constexpr std::uint64_t kMostElements = 90;  // 16 are the least of a part
  std::mt19937_64 random(20261126);
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    for (const Turns turns : kAllTurns) {
      for (const bool lines : {false, true}) {
        PairExecution execution{.ranks = ranks,
                                .steps = 1 + static_cast<std::uint32_t>(random() % 4),
                                .step_bytes = lines ? 512U : 64U,
                                .line_bytes = lines ? 128U : 0U,
                                .channels = 2 + static_cast<std::uint32_t>(random() % 5),
                                .line_channels = 1 + static_cast<std::uint32_t>(random() % 4),
                                .turns = turns,
                                .seed = random()};
        if (!lines && random() % 2 == 0) execution.least_lent_bytes = 200;
        for (int round = 0; round < 2; ++round)
          execution.rounds.push_back(any_groups(ranks, 3 * ranks, kMostElements, random));
        ASSERT_NO_FATAL_FAILURE(check(execution));
      }
    }
  }
}

// As many channels as a message may have, of steps and of lines, the last part shorter; exchanges,
// too.
TEST_F(Pairs, EveryNumberOfChannels) {
  constexpr std::uint64_t kPartElements = 16;
  constexpr std::uint64_t kPartBytes = kPartElements * sizeof(Value);
  std::mt19937_64 random(20261127);
  for (std::uint32_t channels = 1; channels <= kMostPairChannels; ++channels) {
    for (std::uint32_t lines = 0; lines <= kMostPairLineChannels; ++lines) {
      const std::uint64_t most = kPartElements * (channels - 1) + 5;
      const PairCut cut =
          cut_message(most * sizeof(Value), {.channels = channels,
                                             .least_bytes = 1,
                                             .line_bytes = lines == 0 ? 0 : kPartBytes,
                                             .line_channels = std::max(lines, 1U)});
      ASSERT_EQ(cut.goes_by_lines() ? cut.line_channels : cut.channels, channels);
      PairExecution execution{.ranks = 2 + channels % 3,
                              .steps = 1 + channels % 2,
                              .step_bytes = lines == 0 ? 64U : 512U,
                              .line_bytes = lines == 0 ? 0 : kPartBytes,
                              .channels = channels,
                              .line_channels = std::max(lines, 1U),
                              .turns = Turns::kShuffled,
                              .seed = random()};
      execution.rounds = each_exchange(execution.ranks, most, random);
      execution.rounds.emplace_back(any_groups(execution.ranks, 9, most, random));
      ASSERT_NO_FATAL_FAILURE(check(execution));
    }
  }
}

TEST_F(Pairs, AnyMixOfMoreRanks) {
  std::mt19937_64 random(20261124);
  for (const std::uint32_t ranks : {100U, 256U}) {
    for (const Turns turns : {Turns::kShuffled, Turns::kLateReceivers}) {
      PairExecution execution{.ranks = ranks, .turns = turns, .seed = random()};
      for (int round = 0; round < 2; ++round)
        execution.rounds.push_back(any_groups(ranks, 4 * ranks, 30, random));
      ASSERT_NO_FATAL_FAILURE(check(execution));
      execution.step_bytes = 256;
      execution.line_bytes = 64;
      ASSERT_NO_FATAL_FAILURE(check(execution));
      execution.step_bytes = 64;
      execution.line_bytes = 0;
      execution.least_lent_bytes = 64;
      ASSERT_NO_FATAL_FAILURE(check(execution));
    }
  }
}

TEST_F(Pairs, LongMixOfMostRanks) {
  constexpr std::uint32_t kRanks = 4096;
  std::mt19937_64 random(20261125);
  PairExecution execution{.ranks = kRanks, .turns = Turns::kShuffled, .seed = random()};
  execution.rounds.push_back(any_groups(kRanks, 4 * kRanks, 30, random));
  ASSERT_NO_FATAL_FAILURE(check(execution));
  execution.step_bytes = 256;
  execution.line_bytes = 64;
  ASSERT_NO_FATAL_FAILURE(check(execution));
  execution.step_bytes = 64;
  execution.line_bytes = 0;
  execution.least_lent_bytes = 64;
  ASSERT_NO_FATAL_FAILURE(check(execution));
}

TEST_F(Pairs, ExchangesByLines) {
  check_exchanges({.step_bytes = 256, .line_bytes = 64}, {1, 8, 9, 70});
}

// Messages that their receivers read where they lie, mixed with ones that go by steps.
TEST_F(Pairs, AnyMixOfLentMessages) {
  constexpr std::uint32_t kMostRanksOfAll = 64;
  std::mt19937_64 random(20261123);
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    for (const Turns turns : kAllTurns) {
      for (const std::uint64_t least_lent_bytes : {8U, 160U}) {
        PairExecution execution{.ranks = ranks,
                                .steps = 1 + static_cast<std::uint32_t>(random() % 4),
                                .least_lent_bytes = least_lent_bytes,
                                .turns = turns,
                                .seed = random()};
        for (int round = 0; round < 3; ++round)
          execution.rounds.push_back(any_groups(ranks, 4 * ranks, 40, random));
        ASSERT_NO_FATAL_FAILURE(check(execution));
      }
    }
  }
}

// More than one address a message, over as few slots as there may be.
TEST_F(Pairs, LentMessagesOfSeveralSteps) {
  constexpr std::uint64_t kElements = kLentStepBytes / sizeof(Value);
  const auto groups = [](std::uint64_t count) {
    return PairGroups{
        {{.sends = true, .partner = 1, .count = count}, {.partner = 1, .count = 2 * count}},
        {{.sends = true, .partner = 0, .count = 2 * count}, {.partner = 0, .count = count}}};
  };
  for (const std::uint32_t steps : {1U, 2U, 8U}) {
    for (const std::uint64_t count : {kElements - 1, kElements, kElements + 1}) {
      ASSERT_NO_FATAL_FAILURE(
          check({.steps = steps, .least_lent_bytes = 8, .rounds = {groups(count)}}));
    }
  }
}

TEST_F(Pairs, LentExchanges) {
  check_exchanges({.least_lent_bytes = 64}, {1, 9, 70});
}

TEST_F(Pairs, AllToAll) {
  for (const std::uint32_t ranks : {2U, 7U, 16U, 48U}) {
    PairExecution execution{.ranks = ranks, .steps = 2};
    std::vector<PairGroup> groups(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t peer = 0; peer < ranks; ++peer) {
        groups[rank].push_back({.sends = true, .partner = peer, .count = 27});
        groups[rank].push_back({.sends = false, .partner = peer, .count = 27});
      }
    }
    execution.rounds = {groups, groups};
    ASSERT_NO_FATAL_FAILURE(check(execution));
  }
}

/// More than the slots hold.
constexpr std::uint64_t kCount = 40;
/// Two sends and two receives, in each order.
std::vector<PairGroup> all_orders(std::uint32_t partner) {
  std::vector<PairGroup> orders;
  for (unsigned bits = 0; bits < 16; ++bits) {
    PairGroup group;
    for (unsigned i = 0; i < 4; ++i)
      group.push_back({.sends = (bits >> i & 1U) != 0, .partner = partner, .count = kCount});
    const auto sends = std::ranges::count(group, true, &PairCall::sends);
    if (sends == 2) orders.push_back(group);
  }
  return orders;
}

TEST_F(Pairs, EveryOrderOfTwoRanks) {
  for (const PairGroup& first : all_orders(1)) {
    for (const PairGroup& second : all_orders(0)) {
      for (const std::uint32_t steps : {1U, 2U, 3U}) {
        const std::vector<PairGroup> groups = {first, second};
        ASSERT_NO_FATAL_FAILURE(check({.steps = steps, .rounds = {groups, groups}}));
        for (const std::uint64_t line_bytes : {64U, 320U}) {
          ASSERT_NO_FATAL_FAILURE(check({.steps = steps,
                                         .step_bytes = 1024,
                                         .line_bytes = line_bytes,
                                         .rounds = {groups, groups}}));
        }
      }
    }
  }
}

// What the checker must see.

KernelOutcome one_by_one(const KernelCall& call) {
  for (std::uint32_t i = 0; i < call.item.transfer_count; ++i) {
    PairTransfer alone = call.item.transfers[i];
    alone.after = kNoTransfer;
    WorkItem item = call.item;
    item.transfers = &alone;
    item.transfer_count = 1;
    const KernelOutcome outcome = run_kernel(call.with(item));
    if (outcome.end != KernelEnd::kDone) return outcome;
  }
  return {};
}

TEST_F(Pairs, AKernelThatMovesOneAfterTheOtherLocksUp) {
  const PairGroup send_first = {{.sends = true, .partner = 1, .count = kCount},
                                {.sends = false, .partner = 1, .count = kCount}};
  const PairGroup other = {{.sends = true, .partner = 0, .count = kCount},
                           {.sends = false, .partner = 0, .count = kCount}};
  const std::vector<PairGroup> groups = {send_first, other};
  check({.rounds = {groups}});
  expect(Rule::kDeadlock, {.rounds = {groups}, .kernel = one_by_one});
  // With the other order on one side it does not.
  check({.rounds = {PairGroups{send_first, {other[1], other[0]}}}, .kernel = one_by_one});
}

TEST_F(Pairs, AReceiveThatNobodySendsToIsADeadlock) {
  const std::vector<PairGroup> groups = {
      {{.sends = false, .partner = 1, .count = 1}, {.sends = false, .partner = 1, .count = 1}},
      {{.sends = true, .partner = 0, .count = 1}}};
  expect(Rule::kDeadlock, {.rounds = {groups}});
}

TEST_F(Pairs, MessagesInTheWrongOrder) {
  const std::vector<PairGroup> groups = {
      {{.sends = true, .partner = 1, .count = 3}, {.sends = true, .partner = 1, .count = 3}},
      {{.sends = false, .partner = 0, .count = 3}, {.sends = false, .partner = 0, .count = 3}}};
  const Kernel swapped = [](const KernelCall& call) {
    if (call.rank == 0) std::swap(call.item.transfers[0].from, call.item.transfers[1].from);
    return run_kernel(call);
  };
  check({.rounds = {groups}});
  expect(Rule::kWrongElement, {.rounds = {groups}, .kernel = swapped});
}

// Whether the receiver is late depends on who gets on when: some order shows it, none shows else.
TEST_F(Pairs, ASenderThatDoesNotWaitUntilItsMemoryWasRead) {
  const std::vector<PairGroup> groups = {{{.sends = true, .partner = 1, .count = 16}},
                                         {{.sends = false, .partner = 0, .count = 16}}};
  const Kernel hasty = [](const KernelCall& call) {
    if (call.rank == 0) call.item.transfers[0].taken = 1;
    return run_kernel(call);
  };
  std::uint32_t found = 0;
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    PairExecution execution{
        .least_lent_bytes = 64, .rounds = {groups}, .turns = Turns::kShuffled, .seed = seed};
    ASSERT_NO_FATAL_FAILURE(check(execution));
    execution.kernel = hasty;
    const Verdict verdict = execute_pairs(stacks_, execution);
    if (verdict.report.empty()) continue;
    ++found;
    EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(Rule::kReadTooLate))
        << verdict.report.text();
  }
  EXPECT_GT(found, 0U);
}

TEST_F(Pairs, LentMemoryOfAnotherRank) {
  const std::vector<PairGroup> groups = {
      {{.sends = true, .partner = 1, .count = 16}, {.sends = false, .partner = 2, .count = 16}},
      {{.sends = false, .partner = 0, .count = 16}},
      {{.sends = true, .partner = 0, .count = 16}}};
  const Kernel lends_what_is_not_its_own = [](const KernelCall& call) {
    if (call.rank == 0) call.item.transfers[0].from += 8 * 1024;
    return run_kernel(call);
  };
  const PairExecution sound{.ranks = 3, .least_lent_bytes = 64, .rounds = {groups}};
  check(sound);
  PairExecution wrong = sound;
  wrong.kernel = lends_what_is_not_its_own;
  expect(Rule::kOutside, wrong);
  wrong.kernel = [](const KernelCall& call) {
    if (call.rank == 0) call.item.transfers[0].from += sizeof(Value);
    return run_kernel(call);
  };
  expect(Rule::kOutside, wrong);
}

TEST_F(Pairs, AMessageCutIntoMoreSteps) {
  const std::vector<PairGroup> groups = {{{.sends = true, .partner = 1, .count = 16}},
                                         {{.sends = false, .partner = 0, .count = 16}}};
  const Kernel finer = [](const KernelCall& call) {
    PairTransfer half = call.item.transfers[0];
    half.bytes /= 2;
    half.bytes -= sizeof(Value);
    PairTransfer rest = half;
    rest.bytes = call.item.transfers[0].bytes - half.bytes;
    if (rest.from != nullptr) rest.from += half.bytes;
    if (rest.to != nullptr) rest.to += half.bytes;
    rest.after = 0;
    PairTransfer both[] = {half, rest};
    WorkItem item = call.item;
    item.transfers = both;
    item.transfer_count = 2;
    return run_kernel(call.with(item));
  };
  expect(Rule::kTraffic, {.rounds = {groups}, .kernel = finer});
}

}  // namespace
}  // namespace weft::checker
