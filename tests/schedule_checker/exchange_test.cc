// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Exchanges of all numbers of ranks, executed symbolically: every block arrives, once and where it
// must, over one connection, whatever the order of turns and however few slots there are.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/schedule_checker/pair_checker.h"
#include "tests/schedule_checker/rank_counts.h"

namespace weft::checker {
namespace {

constexpr Operation kOperations[] = {Operation::kAllToAll, Operation::kAllToAllV,
                                     Operation::kGather, Operation::kScatter};
constexpr Turns kTurns[] = {Turns::kInOrder, Turns::kShuffled, Turns::kLateReceivers,
                            Turns::kEarlyReceivers};
constexpr std::uint32_t kMostRanksOfAll = 64;
/// Used without distributions, so that a case follows from the seed alone.
using Random = std::mt19937_64;

ExchangeCall any_call(Operation operation, std::uint32_t ranks, std::uint64_t most_elements,
                      Random& random) {
  ExchangeCall call{.operation = operation,
                    .root = static_cast<std::uint32_t>(random() % ranks),
                    .count = 1 + random() % most_elements};
  call.in_place = has_root(operation) && random() % 2 == 0;
  if (operation != Operation::kAllToAllV) return call;
  // A third of the blocks are empty.
  for (std::uint64_t i = 0; i < std::uint64_t{ranks} * ranks; ++i)
    call.counts.push_back(random() % 3 == 0 ? 0 : random() % (most_elements + 1));
  call.count = 0;
  return call;
}

/// Everybody sends to the next rank and gets from the one before, in one group.
PairGroups round_the_ring(std::uint32_t ranks, std::uint64_t count) {
  PairGroups groups(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    groups[rank] = {{.sends = true, .partner = (rank + 1) % ranks, .count = count},
                    {.sends = false, .partner = (rank + ranks - 1) % ranks, .count = count}};
  }
  return groups;
}

class Exchanges : public ::testing::Test {
 protected:
  void check(const PairExecution& execution, const std::string& what) {
    const Verdict verdict = execute_pairs(stacks_, execution);
    ASSERT_TRUE(verdict.report.empty())
        << what << ", " << execution.ranks << " ranks, " << execution.steps << " slots of "
        << execution.step_bytes << " bytes, turns " << static_cast<std::uint32_t>(execution.turns)
        << ", seed " << execution.seed << "\n"
        << verdict.report.text();
  }
  Stacks stacks_;
};

/// Two calls of blocks of several steps each, and so several rounds of the slots.
PairExecution any_two(Operation operation, std::uint32_t ranks, Turns turns, Random& random) {
  PairExecution execution{.ranks = ranks,
                          .steps = 1 + static_cast<std::uint32_t>(random() % 3),
                          .step_bytes = 64,
                          .turns = turns,
                          .seed = random()};
  execution.rounds = {any_call(operation, ranks, 40, random),
                      any_call(operation, ranks, 40, random)};
  return execution;
}

TEST_F(Exchanges, OfAllNumbersOfRanks) {
  Random random(20261122);
  std::size_t number = 0;
  for (const std::uint32_t ranks : numbers_of_ranks(1, kMostRanksOfAll)) {
    ++number;
    for (const Operation operation : kOperations) {
      const Turns turns = kTurns[number++ % std::size(kTurns)];
      ASSERT_NO_FATAL_FAILURE(
          check(any_two(operation, ranks, turns, random), std::string(operation_name(operation))));
    }
  }
}

TEST_F(Exchanges, LongOfAllNumbersOfRanksInAllTurns) {
  Random random(20261123);
  for (std::uint32_t ranks = 1; ranks <= kMostRanksOfAll; ++ranks) {
    for (const Operation operation : kOperations) {
      for (const Turns turns : kTurns) {
        ASSERT_NO_FATAL_FAILURE(check(any_two(operation, ranks, turns, random),
                                      std::string(operation_name(operation))));
      }
    }
  }
}

TEST_F(Exchanges, AmongEachOtherAndWithSendsAndReceives) {
  Random random(5);
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U, 13U}) {
    for (const Turns turns : kTurns) {
      PairExecution execution{
          .ranks = ranks, .steps = 2, .step_bytes = 64, .turns = turns, .seed = random()};
      for (int i = 0; i < 4; ++i) {
        for (const Operation operation : kOperations)
          execution.rounds.emplace_back(any_call(operation, ranks, 30, random));
        execution.rounds.emplace_back(round_the_ring(ranks, 30));
      }
      std::ranges::shuffle(execution.rounds, random);
      ASSERT_NO_FATAL_FAILURE(check(execution, "a mix"));
    }
  }
}

// The rounds are an order in which a kernel looks; that nothing locks up does not rest on it.
TEST_F(Exchanges, NoOrderOfTransfersLocksThemUp) {
  Random random(6);
  const Kernel in_any_order = [&random](const KernelCall& call) {
    std::shuffle(call.item.transfers, call.item.transfers + call.item.transfer_count, random);
    return run_kernel(call);
  };
  for (const std::uint32_t ranks : {2U, 3U, 6U, 11U, 24U}) {
    for (int i = 0; i < 8; ++i) {
      const ExchangeCall call =
          any_call(i % 2 == 0 ? Operation::kAllToAll : Operation::kAllToAllV, ranks, 40, random);
      ASSERT_NO_FATAL_FAILURE(check({.ranks = ranks,
                                     .steps = 1,
                                     .step_bytes = 64,
                                     .rounds = {call, call},
                                     .turns = Turns::kShuffled,
                                     .seed = random(),
                                     .kernel = in_any_order},
                                    "any order"));
    }
  }
}

TEST_F(Exchanges, WithoutElements) {
  for (const Operation operation : kOperations) {
    ExchangeCall nothing{.operation = operation};
    nothing.counts.assign(9, 0);
    check({.ranks = 3, .rounds = {nothing}}, "nothing");
  }
}

TEST_F(Exchanges, OfMoreRanks) {
  Random random(7);
  for (const std::uint32_t ranks : {96U, 160U}) {
    for (const Operation operation : kOperations) {
      check({.ranks = ranks,
             .steps = 2,
             .step_bytes = 64,
             .rounds = {any_call(operation, ranks, 12, random)},
             .turns = Turns::kShuffled,
             .seed = random()},
            std::string(operation_name(operation)));
    }
  }
}

/// How messages go.
struct Way {
  const char* name;
  std::uint32_t step_bytes = 64;
  std::uint64_t line_bytes = 0;
  std::uint64_t least_lent_bytes = UINT64_MAX;
};
constexpr Way kWays[] = {{.name = "steps"},
                         {.name = "lines", .step_bytes = 256, .line_bytes = 64},
                         {.name = "lent", .least_lent_bytes = 8}};

PairExecution sample(const ExchangeCall& call, std::uint32_t ranks, const Way& way) {
  return {.ranks = ranks,
          .steps = 1,
          .step_bytes = way.step_bytes,
          .line_bytes = way.line_bytes,
          .least_lent_bytes = way.least_lent_bytes,
          .rounds = {call}};
}

std::string name_of(const ExchangeCall& call, const Way& way) {
  return std::string(operation_name(call.operation)) + " by " + way.name;
}

TEST_F(Exchanges, LongOfManyRanksInAnyOrder) {
  Random random(8);
  for (const std::uint32_t ranks : {384U, 640U}) {
    for (const Operation operation : {Operation::kAllToAll, Operation::kAllToAllV}) {
      ASSERT_NO_FATAL_FAILURE(check({.ranks = ranks,
                                     .steps = 2,
                                     .step_bytes = 64,
                                     .rounds = {any_call(operation, ranks, 10, random)},
                                     .turns = Turns::kShuffled,
                                     .seed = random()},
                                    std::string(operation_name(operation))));
    }
  }
}

// Of the most ranks each has something for a few others only: what all have for all takes far more,
// see FarExchanges.
TEST_F(Exchanges, LongOfMostRanks) {
  constexpr std::uint32_t kPartners = 12;
  constexpr std::uint64_t kMostElements = 10;
  Random random(9);
  for (const std::uint32_t ranks : {1000U, 4096U}) {
    ExchangeCall few{.operation = Operation::kAllToAllV};
    few.counts.assign(std::size_t{ranks} * ranks, 0);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t i = 0; i < kPartners; ++i)
        few.counts[std::size_t{rank} * ranks + random() % ranks] = 1 + random() % kMostElements;
    }
    for (const Way& way : kWays) {
      ASSERT_NO_FATAL_FAILURE(check(sample(few, ranks, way), name_of(few, way)));
      for (const Operation operation : {Operation::kGather, Operation::kScatter}) {
        const ExchangeCall call = any_call(operation, ranks, kMostElements, random);
        ASSERT_NO_FATAL_FAILURE(check(sample(call, ranks, way), name_of(call, way)));
      }
    }
  }
}

// One block from each of the most ranks to each: nearly 17 million, and 7 to 11 GB of memory. All
// ranks are in the call until the last has come, and what a kernel is told of each block is more
// than the block.
class FarExchanges : public Exchanges, public ::testing::WithParamInterface<Way> {
 protected:
  /// With the smallest slots: of most ranks there are 17 million.
  [[nodiscard]] static Way small_way() {
    Way way = GetParam();
    way.step_bytes = way.line_bytes == 0 ? 2 * sizeof(Value) : 160;
    if (way.line_bytes != 0) way.line_bytes = 2 * sizeof(Value);
    return way;
  }
};

TEST_P(FarExchanges, OfAllWithAll) {
  constexpr std::uint32_t kRanks = 4096;
  const ExchangeCall call{.operation = Operation::kAllToAll, .count = 1};
  ASSERT_NO_FATAL_FAILURE(check(sample(call, kRanks, small_way()), name_of(call, GetParam())));
}

TEST_P(FarExchanges, OfBlocksThatDiffer) {
  constexpr std::uint32_t kRanks = 4096;
  Random random(10);
  ExchangeCall call{.operation = Operation::kAllToAllV};
  for (std::uint64_t i = 0; i < std::uint64_t{kRanks} * kRanks; ++i)
    call.counts.push_back(random() % 3);
  ASSERT_NO_FATAL_FAILURE(check(sample(call, kRanks, small_way()), name_of(call, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Ways, FarExchanges, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::checker
