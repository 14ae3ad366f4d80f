// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of several lanes that make calls one after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/operation_tag.h"
#include "core/model/work_item.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {

/// Each lane's outcome, by rank.
using LaneOutcomes = std::vector<std::vector<KernelOutcome>>;

struct LaneCalls {
  std::uint32_t ranks;
  std::uint32_t lanes;
  std::uint32_t calls = 3;
  std::uint32_t wrong_rank = UINT32_MAX;  ///< Has other tags.
};

/// The items of the calls are `world.item(rank, tag)`; `run(group, memory, item, reduction)` is the
/// kernel. All lanes are ended when one has found that something is wrong.
template <class Memory = LaneMemory, class World, class These, class Run>
LaneOutcomes run_lanes(World& world, const LaneCalls& of, These reductions, const Run& run) {
  LaneOutcomes outcomes(of.ranks, std::vector<KernelOutcome>(of.lanes));
  LaneTeams teams;
  std::atomic<std::uint32_t> abort = 0;
  for (std::uint32_t rank = 0; rank < of.ranks; ++rank) {
    teams.add(rank_name(rank), of.lanes, [&, rank](LaneGroup& group) {
      Memory memory(abort);
      for (OperationTag tag = 1; tag <= of.calls; ++tag) {
        const WorkItem item = world.item(rank, rank == of.wrong_rank ? tag + 76 : tag);
        KernelOutcome& outcome = outcomes[rank][group.rank()];
        outcome = with_reduction(reductions, item, [&](const auto& reduction) {
          return run(group, memory, item, reduction);
        });
        if (outcome.end != KernelEnd::kDone) {
          abort.store(1);
          return;
        }
        group.sync();
      }
    });
  }
  teams.run();
  return outcomes;
}

inline void expect_all_done(const LaneOutcomes& outcomes) {
  for (const auto& rank : outcomes) {
    for (const KernelOutcome& outcome : rank)
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
  }
}

/// Of calls with a wrong tag: the lanes of a rank agree, and some rank has found it.
inline void expect_tag_found(const LaneOutcomes& outcomes) {
  std::uint32_t found = 0;
  for (const auto& rank : outcomes) {
    if (rank[0].end == KernelEnd::kTagMismatch) ++found;
    for (const KernelOutcome& outcome : rank)
      EXPECT_EQ(outcome.end, rank[0].end) << "lanes differ";
  }
  EXPECT_GE(found, 1U);
}

}  // namespace weft::device::testing
