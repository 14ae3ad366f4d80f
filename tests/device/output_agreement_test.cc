// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The agreement on outputs with 1, 8 and 32 lanes a rank, between other calls over the same
// inboxes.
#include "core/device/output_agreement.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/any_reduction.h"
#include "core/device/one_shot_blocks.h"
#include "core/model/output_table.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"

namespace weft::device::testing {
namespace {

struct AgreementShape {
  std::uint32_t ranks;
  std::uint32_t lanes;
};

/// What a rank does in a call.
struct OutputStep {
  std::optional<std::uint64_t> offer;  ///< None: an all-gather by lines instead.
  std::uint64_t sequence = 0;
};

class OutputAgreements : public ::testing::TestWithParam<AgreementShape> {
 protected:
  static constexpr std::uint64_t kBytes = 256;

  /// Runs `steps[call][rank]`, each rank its calls one after the other; a rank without steps does
  /// not come. Answers how each rank's last call ended.
  std::vector<KernelOutcome> run(DirectWorld& world,
                                 const std::vector<std::vector<OutputStep>>& steps) {
    const auto [ranks, lanes] = GetParam();
    std::vector<KernelOutcome> outcomes(ranks);
    LaneTeams teams;
    for (std::uint32_t rank = 0; rank < steps.front().size(); ++rank) {
      teams.add(rank_name(rank), lanes, [&, rank](LaneGroup& group) {
        for (std::size_t call = 0; call < steps.size(); ++call) {
          const KernelOutcome outcome = run_step(world, steps[call][rank], rank, call, group);
          if (group.leader()) outcomes[rank] = outcome;
          group.sync();
        }
      });
    }
    teams.run();
    return outcomes;
  }

  void reserve(std::size_t calls) {
    const std::uint32_t ranks = GetParam().ranks;
    tables_.assign(calls, std::vector<OutputTable>(ranks));
    for (auto& of_call : tables_) {
      for (OutputTable& table : of_call)
        table.way = OutputWay::kNone;
    }
    gathered_.assign(ranks, std::vector<std::uint64_t>(ranks));
  }

  std::vector<std::vector<OutputTable>> tables_;  // by call and rank
  std::vector<std::vector<std::uint64_t>> gathered_;
  std::atomic<std::uint32_t> abort_{0};

 private:
  KernelOutcome run_step(DirectWorld& world, const OutputStep& step, std::uint32_t rank,
                         std::size_t call, LaneGroup& group) {
    LaneMemory memory(abort_);
    const Task task{.operation = Operation::kAllGather, .type = WEFT_INT64, .count = 1};
    const std::uint64_t own = rank + 100;
    const WorkItem item = world.item(rank, task, step.sequence, &own, gathered_[rank].data());
    if (step.offer) {
      return OutputAgreement<kMostDirectRanks, LaneGroup, LaneMemory>(
                 group, memory, item, world.peers(rank), *step.offer, tables_[call][rank])
          .run();
    }
    return run_blocks_item<kMostDirectRanks, false>(group, memory, moved_as_bytes(item),
                                                    world.peers(rank), MovedBytes{}, 0, 1);
  }
};

TEST_P(OutputAgreements, AreTheSameOnAllRanks) {
  const std::uint32_t ranks = GetParam().ranks;
  constexpr std::uint32_t kPeriod = 6;  // so that flags begin again
  DirectWorld world(ranks, kBytes, kPeriod);
  std::vector<std::vector<OutputStep>> steps;
  const auto refused_by = [&](std::size_t call) { return call % (ranks + 1); };  // ranks: nobody
  for (std::size_t call = 0; call < 20; ++call) {
    std::vector<OutputStep> of_ranks(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::uint64_t offer = rank == refused_by(call) ? 0 : call * 1000 + rank + 1;
      of_ranks[rank] = {.offer = offer, .sequence = call};
      if (call % 4 == 3) of_ranks[rank].offer.reset();
    }
    steps.push_back(of_ranks);
  }
  reserve(steps.size());
  for (const KernelOutcome& outcome : run(world, steps))
    ASSERT_EQ(outcome.end, KernelEnd::kDone);
  for (std::size_t call = 0; call < steps.size(); ++call) {
    if (call % 4 == 3) continue;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const OutputTable& table = tables_[call][rank];
      EXPECT_EQ(table.way, refused_by(call) == ranks ? OutputWay::kOutputs : OutputWay::kSlots)
          << "call " << call << " rank " << rank;
      for (std::uint32_t other = 0; other < ranks; ++other)
        EXPECT_EQ(table.offers[other], *steps[call][other].offer) << "call " << call;
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t other = 0; other < ranks; ++other)
      EXPECT_EQ(gathered_[rank][other], other + 100);
  }
}

TEST_P(OutputAgreements, OfCallsThatDifferFail) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world(ranks, kBytes);
  std::vector<OutputStep> of_ranks(ranks, {.offer = 1, .sequence = 4});
  of_ranks.back().sequence = 5;
  reserve(1);
  for (const KernelOutcome& outcome : run(world, {of_ranks})) {
    EXPECT_TRUE(outcome.end == KernelEnd::kTagMismatch || outcome.end == KernelEnd::kPeerError)
        << static_cast<std::uint32_t>(outcome.end);
  }
  for (const OutputTable& table : tables_[0])
    EXPECT_EQ(table.way, OutputWay::kNone);
}

TEST_P(OutputAgreements, WithoutARankEndWithTheAbort) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world(ranks, kBytes);
  reserve(1);
  abort_.store(1);
  const std::vector<OutputStep> all_but_one(ranks - 1, {.offer = 1, .sequence = 0});
  const auto outcomes = run(world, {all_but_one});
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {
    EXPECT_TRUE(outcomes[rank].end == KernelEnd::kAborted ||
                outcomes[rank].end == KernelEnd::kPeerError);
    EXPECT_EQ(tables_[0][rank].way, OutputWay::kNone);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, OutputAgreements,
                         ::testing::Values(AgreementShape{2, 1}, AgreementShape{2, 32},
                                           AgreementShape{3, 8}, AgreementShape{8, 1}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + "_ranks_" +
                                  std::to_string(info.param.lanes) + "_lanes";
                         });

}  // namespace
}  // namespace weft::device::testing
