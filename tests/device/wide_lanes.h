// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls by wide lines with several lanes and parts, as kernels run them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
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

}  // namespace weft::device::testing
