// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls by wide lines with several lanes and parts, as kernels run them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/part_lanes.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {

using WideReductions =
    Reductions<Sum<float>, Sum<std::int32_t>, Sum<Float16>, Prod<Float16>, Average<Float16>,
               Sum<Bfloat16>, Prod<Bfloat16>, Average<Bfloat16>>;

/// The kernel for calls that only move, as GPUs have it.
template <bool kPlain>
KernelOutcome run_moving(LaneGroup& group, LaneMemory& memory, const WorkItem& item,
                         std::uint32_t part, std::uint32_t parts) {
  const auto run = [&]<class Call>() {
    return Call(group, memory, item, *item.direct, MovedBytes{}, part, parts).run();
  };
  switch (item.operation) {
    case Operation::kBroadcast:
      return run.template operator()<RootedLL128<kPlain, Operation::kBroadcast, kMostDirectRanks,
                                                 MovedBytes, LaneGroup, LaneMemory>>();
    case Operation::kAllGather:
      return run.template
      operator()<AllGatherLL128<kPlain, kMostDirectRanks, MovedBytes, LaneGroup, LaneMemory>>();
    case Operation::kAllToAll:
      return run.template
      operator()<AllToAllLL128<kPlain, kMostDirectRanks, MovedBytes, LaneGroup, LaneMemory>>();
    default:
      return unsupported();
  }
}

/// Of calls by wide lines of any kind.
class WideLanes : public ::testing::TestWithParam<PartsShape> {
 protected:
  std::vector<PartOutcomes> run_calls(const std::vector<std::vector<WorkItem>>& calls) {
    const auto& [ranks, parts, lanes] = GetParam();
    return run_part_lanes(
        {.calls = calls.size(),
         .ranks = calls.front().size(),
         .parts = parts,
         .lanes = lanes,
         .abort = aborts_ ? &abort_ : nullptr},
        [&](std::size_t call, std::size_t rank, std::uint32_t part, LaneGroup& group) {
          const WorkItem& now = calls[call][rank];
          LaneMemory memory(abort_);
          if (by_bytes_ && !reduces(now.operation)) {
            return has_plain_ranges(now)
                       ? run_moving<true>(group, memory, now, part, GetParam().parts)
                       : run_moving<false>(group, memory, now, part, GetParam().parts);
          }
          return with_reduction(WideReductions{}, now, [&](const auto& reduction) {
            return run_wide_item<kMostDirectRanks>(group, memory, now, *now.direct, reduction, part,
                                                   GetParam().parts);
          });
        });
  }
  PartOutcomes run(const std::vector<WorkItem>& items) { return run_calls({items}).front(); }

  std::atomic<std::uint32_t> abort_{0};
  bool aborts_ = false;    // the lanes, when all have waited for a while
  bool by_bytes_ = false;  // what only moves
};

/// A lane of a group of several gangs of eight.
class GangLane {
 public:
  GangLane(LaneGroup& all, LaneTeam& gang) : all_(all), gang_(gang, all.rank() % kWideLineLanes) {}
  [[nodiscard]] std::uint32_t rank() const { return all_.rank(); }
  [[nodiscard]] std::uint32_t size() const { return all_.size(); }
  [[nodiscard]] bool leader() const { return all_.leader(); }
  void sync() { all_.sync(); }
  std::uint64_t broadcast(std::uint64_t value) { return all_.broadcast(value); }
  bool any(bool flag) { return all_.any(flag); }
  [[nodiscard]] static std::uint32_t gang_size() { return kWideLineLanes; }
  bool any_of_gang(bool flag) { return gang_.any(flag); }
  static void gather_gang() {}  // looks gather lanes by themselves
  [[nodiscard]] LaneGroup& gang() { return gang_; }

 private:
  LaneGroup& all_;
  LaneGroup gang_;
};

struct GangMemory : LaneMemory {
  using LaneMemory::LaneMemory;
  void store_wide(GangLane& lane, std::byte* to, Line share, bool last) const {
    LaneMemory::store_wide(lane.gang(), to, share, last);
  }
  static Line load_wide(GangLane& lane, const std::byte* from, std::uint64_t flag, bool last) {
    return LaneMemory::load_wide(lane.gang(), from, flag, last);
  }
};

/// A call of float32 by sum, each rank's part one group of so many gangs. Answers the leaders'
/// outcomes, by rank.
inline std::vector<KernelOutcome> run_gangs(const std::vector<WorkItem>& items,
                                            std::uint32_t gangs) {
  const std::atomic<std::uint32_t> abort{0};
  std::deque<LaneTeam> gang_teams;
  for (std::size_t gang = 0; gang < items.size() * gangs; ++gang)
    gang_teams.emplace_back(kWideLineLanes);
  std::vector<KernelOutcome> outcomes(items.size());
  LaneTeams teams;
  for (std::size_t rank = 0; rank < items.size(); ++rank) {
    teams.add(rank_name(rank), gangs * kWideLineLanes, [&, rank](LaneGroup& all) {
      GangLane lane(all, gang_teams[rank * gangs + all.rank() / kWideLineLanes]);
      GangMemory memory(abort);
      const WorkItem& item = items[rank];
      const KernelOutcome outcome =
          run_wide_item<kMostDirectRanks>(lane, memory, item, *item.direct, Sum<float>{}, 0, 1);
      if (all.leader()) outcomes[rank] = outcome;
    });
  }
  teams.run();
  return outcomes;
}

}  // namespace weft::device::testing
