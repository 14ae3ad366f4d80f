// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong sends and receives by lines, which must be rejected: of the transfers that a rank is given,
// or of what its kernel's memory does.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"
#include "core/device/work_item_kernel.h"
#include "core/model/step_lines.h"
#include "tests/schedule_checker/pair_checker.h"
#include "tests/schedule_checker/planted_pairs.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kLinePairRanks = 3;
constexpr std::uint32_t kWrongLinePair = 1;
/// A step of lines, and one more than fits there.
constexpr std::uint64_t kSmallCount = 8;
constexpr std::uint64_t kLargeCount = 9;

class PairMemory : public SymbolicMemory {
 public:
  explicit PairMemory(const KernelCall& call) : SymbolicMemory(call.memory), item_(&call.item) {}

 protected:
  /// Whether it is the head of a connection of lines, that is sent over or received from.
  [[nodiscard]] bool is_head(const std::uint64_t* counter, bool sends) const {
    for (std::uint32_t i = 0; i < item_->transfer_count; ++i) {
      const PairTransfer& one = item_->transfers[i];
      if (one.payload != PairPayload::kSteps && (one.to == nullptr) == sends &&
          one.view.head == counter) {
        return true;
      }
    }
    return false;
  }
  /// The receive that lines at `at` are for; null where there is none.
  [[nodiscard]] const PairTransfer* receive_of(const std::byte* at) const {
    for (std::uint32_t i = 0; i < item_->transfer_count; ++i) {
      const PairTransfer& one = item_->transfers[i];
      const std::size_t size = std::size_t{one.view.steps} * one.view.step_bytes;
      if (one.payload != PairPayload::kSteps && one.from == nullptr && one.complete == 0 &&
          at >= one.view.buffer && at < one.view.buffer + size) {
        return &one;
      }
    }
    return nullptr;
  }

 private:
  const WorkItem* item_;
};

class PlantedPairLines : public ::testing::Test {
 protected:
  static PairExecution rounds_of(std::uint64_t count) {
    PairExecution execution{
        .ranks = kLinePairRanks, .step_bytes = 256, .line_bytes = kSmallCount * sizeof(Value)};
    for (int i = 0; i < 5; ++i)
      execution.rounds.emplace_back(
          ExchangeCall{.operation = Operation::kAllToAll, .count = count});
    return execution;
  }
  Rule rule_of(const Verdict& verdict) { return verdict.report.violations().front().rule; }
  /// In some order of turns it does; the product's kernel does not in any.
  void expect(Rule rule, const Kernel& kernel, std::uint64_t count = kSmallCount) {
    constexpr std::uint64_t kSeeds = 100;
    std::string others;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      PairExecution execution = rounds_of(count);
      execution.turns = Turns::kShuffled;
      execution.seed = seed;
      const Verdict sound = execute_pairs(stacks_, execution);
      ASSERT_TRUE(sound.report.empty()) << sound.report.text();
      execution.kernel = kernel;
      const Verdict verdict = execute_pairs(stacks_, execution);
      if (verdict.report.has(rule)) return;
      others = verdict.report.text();
    }
    FAIL() << "not found in " << kSeeds << " orders: " << rule_name(rule) << "; but " << others;
  }

  Stacks stacks_;
};

TEST_F(PlantedPairLines, AMessageByStepsWhereLinesAreAwaited) {
  expect(Rule::kDeadlock, with_transfers<kWrongLinePair>([](Transfers& transfers) {
           for (PairTransfer& transfer : transfers)
             if (transfer.from != nullptr && transfer.to == nullptr)
               transfer.payload = PairPayload::kSteps;
         }));
}

TEST_F(PlantedPairLines, AHeaderThatIsNotSent) {
  expect(Rule::kDeadlock, with_transfers<kWrongLinePair>([](Transfers& transfers) {
           std::erase_if(transfers, [](const PairTransfer& transfer) {
             return transfer.payload == PairPayload::kHeader && transfer.to == nullptr;
           });
           for (PairTransfer& transfer : transfers)
             transfer.after = kNoTransfer;
         }),
         kLargeCount);
}

TEST_F(PlantedPairLines, AHeaderThatIsNotTaken) {
  expect(Rule::kDeadlock, with_transfers<kWrongLinePair>([](Transfers& transfers) {
           std::erase_if(transfers, [](const PairTransfer& transfer) {
             return transfer.payload == PairPayload::kHeader && transfer.from == nullptr;
           });
           for (PairTransfer& transfer : transfers)
             transfer.after = kNoTransfer;
         }),
         kLargeCount);
}

TEST_F(PlantedPairLines, BlocksForOneRankGoToAnother) {
  expect(Rule::kWrongElement, with_transfers<kWrongLinePair>([](Transfers& transfers) {
           std::vector<PairTransfer*> sends;
           for (PairTransfer& transfer : transfers)
             if (transfer.to == nullptr) sends.push_back(&transfer);
           std::swap(sends.at(0)->from, sends.at(1)->from);
         }));
}

TEST_F(PlantedPairLines, ARankThatCallsAnother) {
  expect(Rule::kKernel, with_transfers<kWrongLinePair>([](Transfers& transfers) {
           for (PairTransfer& transfer : transfers)
             ++transfer.tag;
         }));
}

struct TakesAnySlotOfLines : PairMemory {
  using PairMemory::PairMemory;
  std::uint64_t load_acquire(std::uint64_t* counter) {
    return is_head(counter, true) ? UINT64_MAX / 2 : SymbolicMemory::load_acquire(counter);
  }
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    if (is_head(counter, true)) return {.status = device::WaitStatus::kReady, .value = threshold};
    return SymbolicMemory::wait_at_least(counter, waiters, threshold, error);
  }
};

TEST_F(PlantedPairLines, ASlotFilledBeforeItIsFree) {
  expect(Rule::kOverwritten, with_memory<kWrongLinePair, TakesAnySlotOfLines>);
}

struct KeepsSlotsOfLines : PairMemory {
  using PairMemory::PairMemory;
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    if (!is_head(counter, false)) SymbolicMemory::post(counter, waiters, value);
  }
};

TEST_F(PlantedPairLines, SlotsThatAreNotGivenBack) {
  expect(Rule::kDeadlock, with_memory<kWrongLinePair, KeepsSlotsOfLines>);
}

struct GivesBackTwoAtOnce : PairMemory {
  using PairMemory::PairMemory;
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    SymbolicMemory::post(counter, waiters, is_head(counter, false) ? value + 1 : value);
  }
};

TEST_F(PlantedPairLines, ASlotGivenBackBeforeItsStepHasCome) {
  expect(Rule::kReadTooEarly, with_memory<kWrongLinePair, GivesBackTwoAtOnce>);
}

/// Takes every line for one of the step, but for those that begin it.
struct BelievesAnyLine : PairMemory {
  using PairMemory::PairMemory;
  device::Line load_words(const std::byte* from) {
    const device::Line line = SymbolicMemory::load_words(from);
    const PairTransfer* const transfer = receive_of(from);
    if (transfer == nullptr) return line;
    const ConnectionView& view = transfer->view;
    const auto place = static_cast<std::size_t>(from - view.buffer) % view.step_bytes;
    if (place < 2 * sizeof(line)) return line;
    return device::flagged_line(device::payload_of(line), step_flag(view.cursor->step));
  }
};

TEST_F(PlantedPairLines, ALineReadBeforeItHasCome) {
  expect(Rule::kWrongElement, with_memory<kWrongLinePair, BelievesAnyLine>);
}

}  // namespace
}  // namespace weft::checker
