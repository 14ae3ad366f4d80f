// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that several parts of a rank carry out, each a team of lanes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/work_item.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"

namespace weft::device::testing {

struct PartsShape {
  std::uint32_t ranks;
  std::uint32_t parts;
  std::uint32_t lanes;
};

inline std::string parts_name(const ::testing::TestParamInfo<PartsShape>& info) {
  return std::to_string(info.param.ranks) + "Ranks" + std::to_string(info.param.parts) + "Parts" +
         std::to_string(info.param.lanes) + "Lanes";
}

using PartOutcomes = std::vector<std::vector<KernelOutcome>>;  // by rank, then by part

/// Calls as a device makes them, one after another: all lanes of a rank meet between two calls, the
/// ranks do not.
struct PartCalls {
  std::size_t calls;
  std::size_t ranks;
  std::uint32_t parts;
  std::uint32_t lanes;
  bool comes_late = false;                      ///< Each rank but the first.
  std::atomic<std::uint32_t>* abort = nullptr;  ///< Is raised when all have waited for a while.
};

/// So many looks at what does not come.
inline constexpr int kAWhile = 50;

/// Answers, by call, what the leader of each part got from `run_lane(call, rank, part, group)`.
template <class RunLane>
std::vector<PartOutcomes> run_part_lanes(const PartCalls& of, const RunLane& run_lane) {
  std::vector<PartOutcomes> outcomes(of.calls,
                                     PartOutcomes(of.ranks, std::vector<KernelOutcome>(of.parts)));
  LaneTeams teams;
  std::vector<std::unique_ptr<LaneBarrier>> between_calls;
  for (std::size_t rank = 0; rank < of.ranks; ++rank) {
    LaneBarrier& next_call =
        *between_calls.emplace_back(std::make_unique<LaneBarrier>(of.parts * of.lanes));
    for (std::uint32_t part = 0; part < of.parts; ++part) {
      teams.add(rank_name(rank) + " part " + std::to_string(part), of.lanes,
                [&, rank, part](LaneGroup& group) {
                  for (int look = 0; of.comes_late && rank > 0 && look < kAWhile; ++look)
                    LaneFibers::look_again({.what = "its time to come"});
                  for (std::size_t call = 0; call < of.calls; ++call) {
                    const KernelOutcome outcome = run_lane(call, rank, part, group);
                    if (group.leader()) outcomes[call][rank][part] = outcome;
                    next_call.arrive_and_wait();
                  }
                });
    }
  }
  if (of.abort != nullptr)
    teams.add_abort(*of.abort, [look = 0]() mutable { return ++look > kAWhile; });
  teams.run();
  return outcomes;
}

class PartLanes : public ::testing::TestWithParam<PartsShape> {
 protected:
  struct Call {
    std::vector<WorkItem> items;  // by rank; a rank that is left out at the end does not come
    std::uint32_t parts;
  };
  using Outcomes = PartOutcomes;

  /// As run_part_lanes. Answers the leaders' outcomes of each call.
  std::vector<Outcomes> run_calls(const std::vector<Call>& calls) {
    const auto [all_ranks, most_parts, lanes] = GetParam();
    return run_part_lanes(
        {.calls = calls.size(),
         .ranks = calls.front().items.size(),
         .parts = most_parts,
         .lanes = lanes,
         .abort = aborts_ ? &abort_ : nullptr},
        [&](std::size_t call, std::size_t rank, std::uint32_t part, LaneGroup& group) {
          return part < calls[call].parts ? run_lane(calls[call], rank, part, group)
                                          : KernelOutcome{};
        });
  }
  Outcomes run(std::vector<WorkItem> items) {
    return run_calls({{.items = std::move(items), .parts = GetParam().parts}}).front();
  }

  /// Of calls whose tags differ between rank 0 and the others: all leave, and who can tell does.
  void expect_all_leave(const std::vector<WorkItem>& items) {
    const Outcomes outcomes = run(items);
    std::uint32_t found = 0;
    for (std::uint32_t rank = 0; rank < outcomes.size(); ++rank) {
      const KernelOutcome& first = outcomes[rank][0];
      // A rank's second part may give up, for another rank, before its first one has posted a tag.
      if (GetParam().parts > 1 && first.end == KernelEnd::kPeerError) continue;
      ++found;
      EXPECT_EQ(first.end, KernelEnd::kTagMismatch) << "rank " << rank;
      EXPECT_EQ(first.expected, items[rank].tag);
      EXPECT_EQ(first.found, items[first.peer].tag);
      EXPECT_NE(first.found, first.expected);
    }
    EXPECT_GE(found, 1U);
  }
  /// `items` are those of all ranks but the last, which never comes: all leave when that is
  /// aborted, and have told the last.
  void expect_all_leave_when_aborted(DirectWorld& world, const std::vector<WorkItem>& items) {
    aborts_ = true;
    const Outcomes outcomes = run(items);
    for (const auto& of_rank : outcomes) {
      for (const KernelOutcome& outcome : of_rank)
        EXPECT_TRUE(outcome.end == KernelEnd::kAborted || outcome.end == KernelEnd::kPeerError);
    }
    for (std::uint32_t rank = 0; rank < items.size(); ++rank) {
      EXPECT_NE(world.error(static_cast<std::uint32_t>(items.size()), rank), 0U)
          << "rank " << rank << " told the last nothing";
    }
  }

  /// What a lane of a part does.
  virtual KernelOutcome run_lane(const Call& call, std::size_t rank, std::uint32_t part,
                                 LaneGroup& group) = 0;

  std::atomic<std::uint32_t> abort_{0};
  bool aborts_ = false;  // the lanes, when all have waited for a while
};

}  // namespace weft::device::testing
