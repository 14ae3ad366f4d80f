// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that several parts of a rank carry out, each a team of lanes as threads.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/work_item.h"
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

class PartLanes : public ::testing::TestWithParam<PartsShape> {
 protected:
  struct Call {
    std::vector<WorkItem> items;  // by rank; a rank that is left out at the end does not come
    std::uint32_t parts;
  };
  using Outcomes = std::vector<std::vector<KernelOutcome>>;  // by rank, then by part

  /// Runs each call after the one before as a device does: all lanes of a rank meet between two
  /// calls, the ranks do not. Answers the leaders' outcomes of each.
  std::vector<Outcomes> run_calls(const std::vector<Call>& calls) {
    const auto [all_ranks, most_parts, lanes] = GetParam();
    const std::size_t ranks = calls.front().items.size();
    std::vector<Outcomes> outcomes(calls.size(),
                                   Outcomes(ranks, std::vector<KernelOutcome>(most_parts)));
    std::vector<std::unique_ptr<LaneTeam>> teams;
    std::vector<std::unique_ptr<std::barrier<>>> between_calls;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      between_calls.push_back(std::make_unique<std::barrier<>>(most_parts * lanes));
      for (std::uint32_t part = 0; part < most_parts; ++part) {
        teams.push_back(std::make_unique<LaneTeam>(lanes));
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
          threads.emplace_back([&, rank, part, lane, team = teams.back().get(),
                                next_call = between_calls.back().get()] {
            if (rank > 0) std::this_thread::sleep_for(late_);
            for (std::size_t call = 0; call < calls.size(); ++call) {
              if (part < calls[call].parts) {
                const KernelOutcome outcome = run_lane(calls[call], rank, part, *team, lane);
                if (lane == 0) outcomes[call][rank][part] = outcome;
              }
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
  Outcomes run(std::vector<WorkItem> items) {
    return run_calls({{.items = std::move(items), .parts = GetParam().parts}}).front();
  }

  /// What lane `lane` of a part does.
  virtual KernelOutcome run_lane(const Call& call, std::size_t rank, std::uint32_t part,
                                 LaneTeam& team, std::uint32_t lane) = 0;

  std::atomic<std::uint32_t> abort_{0};
  std::chrono::microseconds late_{0};  // all ranks but the first come so late
};

}  // namespace weft::device::testing
