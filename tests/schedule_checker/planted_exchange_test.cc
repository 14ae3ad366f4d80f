// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong exchanges, one for each rule that applies: nothing is combined here, so none of what is
// missing of a sum, of its order, or of ranks whose plans differ.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/pair_checker.h"
#include "tests/schedule_checker/planted_pairs.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kWrongRank = 2;
/// Five steps of 64 bytes, over two slots.
constexpr std::uint64_t kPlantedCount = 40;

class WrongMemory : public SymbolicMemory {
 public:
  explicit WrongMemory(const KernelCall& call) : SymbolicMemory(call.memory), item_(&call.item) {}

 protected:
  /// The transfer whose connection has this counter, a head of sends or a tail of receives; null:
  /// none.
  const PairTransfer* waits_for(const std::uint64_t* counter, bool sends) const {
    for (std::uint32_t i = 0; i < item_->transfer_count; ++i) {
      const PairTransfer& one = item_->transfers[i];
      if ((one.to == nullptr) == sends && (sends ? one.view.head : one.view.tail) == counter)
        return &one;
    }
    return nullptr;
  }

 private:
  const WorkItem* item_;
};

class PlantedExchange : public ::testing::Test {
 protected:
  void expect(Rule rule, const Kernel& kernel, ExchangeCall call = all_to_all()) {
    for (const Turns turns :
         {Turns::kInOrder, Turns::kShuffled, Turns::kLateReceivers, Turns::kEarlyReceivers}) {
      PairExecution execution{.ranks = kRanks, .rounds = {call, call}, .turns = turns, .seed = 3};
      const Verdict sound = execute_pairs(stacks_, execution);
      ASSERT_TRUE(sound.report.empty()) << sound.report.text();
      execution.kernel = kernel;
      const Verdict verdict = execute_pairs(stacks_, execution);
      ASSERT_FALSE(verdict.report.empty()) << "nothing was found, wanted: " << rule_name(rule);
      EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
          << verdict.report.text();
    }
  }
  static ExchangeCall all_to_all() {
    return {.operation = Operation::kAllToAll, .count = kPlantedCount};
  }
  Stacks stacks_;
};

bool is_copy(const PairTransfer& transfer) {
  return transfer.from != nullptr && transfer.to != nullptr;
}

TEST_F(PlantedExchange, BlocksForOneRankGoToAnother) {
  expect(Rule::kWrongElement, with_transfers<kWrongRank>([](Transfers& transfers) {
           // A send, its receive, the next send.
           std::swap(transfers[0].from, transfers[2].from);
         }));
}

TEST_F(PlantedExchange, ABlockIsLeftOut) {
  expect(Rule::kNotWritten, with_transfers<kWrongRank>(
                                [](Transfers& transfers) { std::erase_if(transfers, is_copy); }));
}

TEST_F(PlantedExchange, ABlockLandsTwice) {
  expect(Rule::kTwice, with_transfers<kWrongRank>([](Transfers& transfers) {
           for (const PairTransfer& transfer : Transfers(transfers))
             if (is_copy(transfer)) transfers.push_back(transfer);
         }));
}

TEST_F(PlantedExchange, ABlockLandsInAnothersPlace) {
  expect(Rule::kTwice, with_transfers<kWrongRank>(
                           [](Transfers& transfers) { transfers[1].to = transfers[3].to; }));
}

TEST_F(PlantedExchange, ABlockLandsBesideTheOutput) {
  expect(Rule::kOutside, with_transfers<kWrongRank>([](Transfers& transfers) {
           for (PairTransfer& transfer : transfers)
             if (transfer.from == nullptr) transfer.to += kRanks * kPlantedCount * sizeof(Value);
         }));
}

TEST_F(PlantedExchange, WhatLiesBetweenBlocksIsWritten) {
  ExchangeCall call{.operation = Operation::kAllToAllV};
  call.counts.assign(std::size_t{kRanks} * kRanks, 2);
  expect(Rule::kOutside, with_transfers<kWrongRank>([](Transfers& transfers) {
           PairTransfer beside = transfers.back();
           beside.to += beside.bytes;
           beside.bytes = sizeof(Value);
           transfers.push_back(beside);
         }),
         call);
}

TEST_F(PlantedExchange, ARankThatLeavesAPartnerOut) {
  expect(Rule::kDeadlock, with_transfers<kWrongRank>(
                              [](Transfers& transfers) { transfers.erase(transfers.begin()); }));
}

TEST_F(PlantedExchange, ARankThatMovesOneBlockAfterTheOther) {
  // All of them do, in rounds: everybody sends and nobody takes what is more than the slots hold.
  const Kernel one_by_one = [](const KernelCall& call) {
    for (std::uint32_t i = 0; i < call.item.transfer_count; ++i) {
      WorkItem item = call.item;
      item.transfers += i;
      item.transfer_count = 1;
      const KernelOutcome outcome = run_kernel(call.with(item));
      if (outcome.end != KernelEnd::kDone) return outcome;
    }
    return KernelOutcome{};
  };
  expect(Rule::kDeadlock, one_by_one);
}

struct TakesSlotsForFree : WrongMemory {
  using WrongMemory::WrongMemory;
  std::uint64_t load_acquire(std::uint64_t* counter) {
    if (waits_for(counter, true) != nullptr) return UINT64_MAX;
    return SymbolicMemory::load_acquire(counter);
  }
};

TEST_F(PlantedExchange, ASlotFilledBeforeItIsFree) {
  expect(Rule::kOverwritten, with_memory<kWrongRank, TakesSlotsForFree>);
}

struct TakesSlotsForFilled : WrongMemory {
  using WrongMemory::WrongMemory;
  std::uint64_t load_acquire(std::uint64_t* counter) {
    const PairTransfer* const transfer = waits_for(counter, false);
    if (transfer == nullptr) return SymbolicMemory::load_acquire(counter);
    // As if tag and size had come: they alone would show it.
    const ConnectionView& view = transfer->view;
    for (std::uint32_t i = 0; i < view.steps; ++i)
      view.slots[i] = {.size = view.step_bytes, .offset = 0, .tag = transfer->tag};
    return UINT64_MAX;
  }
};

TEST_F(PlantedExchange, ASlotReadBeforeItIsFilled) {
  expect(Rule::kReadTooEarly, with_memory<kWrongRank, TakesSlotsForFilled>);
}

struct GivesBackFirst : WrongMemory {
  using WrongMemory::WrongMemory;
  std::uint64_t load_acquire(std::uint64_t* counter) {
    const std::uint64_t tail = SymbolicMemory::load_acquire(counter);
    const PairTransfer* const transfer = waits_for(counter, false);
    if (transfer != nullptr && tail > *transfer->view.head) {
      SymbolicMemory::post(transfer->view.head, nullptr, *transfer->view.head + 1);
    }
    return tail;
  }
};

TEST_F(PlantedExchange, ASlotReadAfterItWasGivenBack) {
  expect(Rule::kReadTooLate, with_memory<kWrongRank, GivesBackFirst>);
}

TEST_F(PlantedExchange, ABlockCutOtherwise) {
  expect(Rule::kTraffic,
         [](const KernelCall& call) {
           // Between two ranks alike, so that no other rule sees it: each block as two.
           Transfers transfers;
           for (std::uint32_t i = 0; i < call.item.transfer_count; ++i) {
             const PairTransfer whole = call.item.transfers[i];
             if (is_copy(whole)) {
               transfers.push_back(whole);
               continue;
             }
             PairTransfer first = whole;
             PairTransfer rest = whole;
             first.bytes = sizeof(Value);
             rest.bytes -= first.bytes;
             if (rest.from != nullptr) rest.from += first.bytes;
             if (rest.to != nullptr) rest.to += first.bytes;
             rest.after = static_cast<std::uint32_t>(transfers.size());
             transfers.push_back(first);
             transfers.push_back(rest);
           }
           WorkItem item = call.item;
           item.transfers = transfers.data();
           item.transfer_count = static_cast<std::uint32_t>(transfers.size());
           return run_kernel(call.with(item));
         },
         {.operation = Operation::kAllToAll, .count = 8});
}

struct PassesOneMore : WrongMemory {
  using WrongMemory::WrongMemory;
  void copy(device::SingleLane& group, std::byte* first, std::byte* second, const std::byte* source,
            std::uint64_t bytes) {
    SymbolicMemory::copy(group, first, second, source, bytes);
    // What leaves has passed one connection, what came and what stays has none to pass any more.
    for (std::uint64_t i = 0; i < bytes / sizeof(Value); ++i) {
      Value& value = reinterpret_cast<Value*>(first)[i];
      if (hops_of(value) == 1) ++value;
    }
  }
};

TEST_F(PlantedExchange, ABlockThatGoesADetour) {
  expect(Rule::kBound, with_memory<kWrongRank, PassesOneMore>);
}

TEST_F(PlantedExchange, ARankThatCallsAnother) {
  expect(Rule::kKernel, with_transfers<kWrongRank>([](Transfers& transfers) {
           for (PairTransfer& transfer : transfers)
             ++transfer.tag;
         }));
}

}  // namespace
}  // namespace weft::checker
