// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that several parts of a rank carry out, each a team of lanes as threads.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/work_item.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_model.h"

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

/// Runs so many calls as a device does, one after another: all lanes of a rank meet between two
/// calls, the ranks do not. All ranks but the first come `late`. Answers, by call, what the leader
/// of each part got from `run_lane(call, rank, part, team, lane)`.
template <class RunLane>
std::vector<PartOutcomes> run_part_lanes(std::size_t calls, std::size_t ranks, std::uint32_t parts,
                                         std::uint32_t lanes, std::chrono::microseconds late,
                                         const RunLane& run_lane) {
  std::vector<PartOutcomes> outcomes(calls, PartOutcomes(ranks, std::vector<KernelOutcome>(parts)));
  std::vector<std::unique_ptr<LaneTeam>> teams;
  std::vector<std::unique_ptr<std::barrier<>>> between_calls;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    between_calls.push_back(std::make_unique<std::barrier<>>(parts * lanes));
    for (std::uint32_t part = 0; part < parts; ++part) {
      teams.push_back(std::make_unique<LaneTeam>(lanes));
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        threads.emplace_back([&, rank, part, lane, team = teams.back().get(),
                              next_call = between_calls.back().get()] {
          if (rank > 0) std::this_thread::sleep_for(late);
          for (std::size_t call = 0; call < calls; ++call) {
            const KernelOutcome outcome = run_lane(call, rank, part, *team, lane);
            if (lane == 0) outcomes[call][rank][part] = outcome;
            next_call->arrive_and_wait();
          }
        });
      }
    }
  }
  for (std::thread& thread : threads)
    thread.join();
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
    return run_part_lanes(calls.size(), calls.front().items.size(), most_parts, lanes, late_,
                          [&](std::size_t call, std::size_t rank, std::uint32_t part,
                              LaneTeam& team, std::uint32_t lane) {
                            return part < calls[call].parts
                                       ? run_lane(calls[call], rank, part, team, lane)
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
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      abort_.store(1);
    });
    const Outcomes outcomes = run(items);
    aborter.join();
    for (const auto& of_rank : outcomes) {
      for (const KernelOutcome& outcome : of_rank)
        EXPECT_TRUE(outcome.end == KernelEnd::kAborted || outcome.end == KernelEnd::kPeerError);
    }
    for (std::uint32_t rank = 0; rank < items.size(); ++rank) {
      EXPECT_NE(world.error(static_cast<std::uint32_t>(items.size()), rank), 0U)
          << "rank " << rank << " told the last nothing";
    }
  }

  /// What lane `lane` of a part does.
  virtual KernelOutcome run_lane(const Call& call, std::size_t rank, std::uint32_t part,
                                 LaneTeam& team, std::uint32_t lane) = 0;

  std::atomic<std::uint32_t> abort_{0};
  std::chrono::microseconds late_{0};  // all ranks but the first come so late
};

}  // namespace weft::device::testing
