// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The direct kernels with 1, 8 and 32 lanes a part and several parts a rank, by lines and by wide
// lines.
#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_model.h"
#include "tests/device/narrow_sums.h"
#include "tests/device/part_lanes.h"
#include "tests/device/ring_world.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {
namespace {

struct Shape {
  std::uint32_t ranks;
  std::uint32_t parts;
  std::uint32_t lanes;
  Protocol protocol = Protocol::kLL;
};

using DirectReductions =
    Reductions<Sum<float>, Max<float>, Sum<std::int32_t>, Max<std::int32_t>, Max<Float16>,
               Max<Bfloat16>, Sum<Float16>, Prod<Float16>, Average<Float16>, Sum<Bfloat16>,
               Prod<Bfloat16>, Average<Bfloat16>>;

class DirectLanes : public ::testing::TestWithParam<Shape> {
 protected:
  using Outcomes = PartOutcomes;

  /// As run_part_lanes. Answers the leaders' outcomes of each call.
  std::vector<Outcomes> run_calls(const std::vector<std::vector<WorkItem>>& calls) {
    const auto& [ranks, parts, lanes, protocol] = GetParam();
    const bool wide = protocol == Protocol::kLL128;
    return run_part_lanes(
        {.calls = calls.size(),
         .ranks = calls.front().size(),
         .parts = parts,
         .lanes = lanes,
         .comes_late = comes_late_,
         .abort = aborts_ ? &abort_ : nullptr},
        [&](std::size_t call, std::size_t rank, std::uint32_t part, LaneGroup& group) {
          const WorkItem& now = calls[call][rank];
          LaneMemory memory(abort_);
          return with_reduction(DirectReductions{}, now, [&](const auto& reduction) {
            return wide ? run_wide_item<kMostDirectRanks>(group, memory, now, *now.direct,
                                                          reduction, part, GetParam().parts)
                        : run_direct_item<kMostDirectRanks>(group, memory, now, *now.direct,
                                                            reduction, part, GetParam().parts);
          });
        });
  }

  Outcomes run(const std::vector<WorkItem>& items) { return run_calls({items}).front(); }

  [[nodiscard]] static WorkItem item(const DirectWorld& world, std::uint32_t rank, const Task& task,
                                     std::uint64_t sequence, const void* send, void* recv) {
    WorkItem made = world.item(rank, task, sequence, send, recv);
    made.protocol = GetParam().protocol;
    return made;
  }
  [[nodiscard]] static std::vector<std::uint64_t> calls_so_far(const DirectWorld& world,
                                                               std::uint32_t rank) {
    if (GetParam().protocol == Protocol::kLL128) return world.wide_positions(rank);
    return {world.positions(rank).begin(), world.positions(rank).end()};
  }

  template <class T>
  void all_reduce(DirectWorld& world, std::uint64_t count, std::uint64_t shift, bool in_place,
                  weft_reduction reduction, std::uint64_t sequence) {
    const std::uint32_t ranks = GetParam().ranks;
    const T guard = as_element<T>(77);
    std::vector<std::vector<T>> input(ranks, std::vector<T>(count + shift + 9, guard));
    std::vector<std::vector<T>> output = input;
    std::vector<WorkItem> items;
    const Task task{.type = kTypeOf<T>, .reduction = reduction, .count = count};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<T>& source = in_place ? output[rank] : input[rank];
      for (std::uint64_t i = 0; i < count; ++i)
        source[shift + i] = sample<T>(rank, i + sequence);
      items.push_back(
          item(world, rank, task, sequence, source.data() + shift, output[rank].data() + shift));
    }
    for (const auto& parts : run(items)) {
      for (const KernelOutcome& outcome : parts)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint64_t i = 0; i < output[rank].size(); ++i) {
        const bool inside = i >= shift && i < shift + count;
        const T wanted =
            inside ? expected_sample<T>(ranks, i - shift + sequence, reduction) : guard;
        ASSERT_EQ(output[rank][i], wanted) << "rank " << rank << " element " << i << " of " << count
                                           << " from " << shift << ", call " << sequence;
      }
    }
  }

  std::atomic<std::uint32_t> abort_{0};
  bool comes_late_ = false;  // each rank but the first
  bool aborts_ = false;      // the lanes, when all have waited for a while
};

class LineLanes : public DirectLanes {};

TEST_P(DirectLanes, AllReduce) {
  DirectWorld world(GetParam().ranks, 4096);
  all_reduce<float>(world, 700, 0, false, WEFT_SUM, 0);
  all_reduce<float>(world, 301, 1, true, WEFT_MAX, 1);
  all_reduce<std::int32_t>(world, 1024, 0, true, WEFT_SUM, 2);
  all_reduce<std::int32_t>(world, 257, 1, false, WEFT_MAX, 3);
  all_reduce<Float16>(world, 700, 0, false, WEFT_SUM, 4);
  all_reduce<Bfloat16>(world, 703, 1, true, WEFT_SUM, 5);
  all_reduce<Float16>(world, 405, 3, true, WEFT_MAX, 6);
  all_reduce<Bfloat16>(world, 409, 2, false, WEFT_MAX, 7);
}

// A call of one part follows one of several and the other way round: all words must keep up.
TEST_P(DirectLanes, SmallAndLargeCallsMix) {
  const std::uint32_t parts = GetParam().parts;
  DirectWorld world(GetParam().ranks, 4096);
  for (std::uint32_t call = 0; call < 6; ++call) {
    const std::uint64_t count = call % 2 == 0 ? 1000 : 2 * (parts * GetParam().lanes) + call;
    all_reduce<float>(world, count, 0, call % 3 == 0, WEFT_SUM, call);
    for (std::uint32_t rank = 0; rank < GetParam().ranks; ++rank) {
      for (const std::uint64_t word : calls_so_far(world, rank))
        ASSERT_EQ(word, call + 1);
    }
  }
}

// A rank may be a call ahead of another, which must still find the lines of the call that it is in.
TEST_P(DirectLanes, RanksRunAheadByOneCall) {
  constexpr std::uint32_t kCalls = 200;
  const auto [ranks, parts, lanes, protocol] = GetParam();
  DirectWorld world(ranks, 4096);
  const std::uint64_t count = 2 * parts * lanes + 3;
  std::vector<std::vector<float>> data(ranks, std::vector<float>(count, 1));
  std::vector<std::vector<float>> output(ranks, std::vector<float>(kCalls * count));
  std::vector<std::vector<WorkItem>> calls(kCalls);
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      calls[call].push_back(item(world, rank, {.count = count}, call, data[rank].data(),
                                 output[rank].data() + call * count));
    }
  }
  for (const Outcomes& call : run_calls(calls)) {
    for (const auto& of_rank : call) {
      for (const KernelOutcome& outcome : of_rank)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    ASSERT_EQ(output[rank], std::vector<float>(kCalls * count, static_cast<float>(ranks)));
}

// Old lines have the flags of calls to come: each must be gone before its flag is in use again.
// Most lanes have a line in long calls alone, and look at it before the other ranks have come.
TEST_P(LineLanes, FlagsBeginAgain) {
  constexpr std::uint32_t kPeriod = 6;
  const auto [ranks, parts, lanes, protocol] = GetParam();
  DirectWorld world(ranks, 4096, kPeriod);
  comes_late_ = true;
  const std::uint64_t long_call = 2 * (parts * lanes - 1) + 2;
  const std::uint64_t short_call = 2 * ((parts - 1) * lanes) + 2;
  for (std::uint32_t call = 0; call < 3 * kPeriod + 1; ++call) {
    const bool is_long = call % kPeriod + 2 >= kPeriod;
    all_reduce<std::int32_t>(world, is_long ? long_call : short_call, 0, false, WEFT_SUM, call);
    ASSERT_EQ(world.positions(0)[0], (call + 1) % kPeriod);
  }
}

TEST_P(LineLanes, FlagsBeginAgainAtTheTrueEnd) {
  DirectWorld world(GetParam().ranks, 1024);
  world.go_to(kFlagPeriod - 3);
  for (std::uint32_t call = 0; call < 6; ++call)
    all_reduce<float>(world, 200, 0, false, WEFT_SUM, call);
  EXPECT_EQ(world.positions(0)[0], 3U);
}

TEST_P(DirectLanes, NarrowFloatsAreRoundedOnce) {
  DirectWorld world(GetParam().ranks, 1024);
  std::uint64_t sequence = 0;
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_AVG}) {
    const NarrowCall call{.ranks = GetParam().ranks, .reduction = reduction, .shift = 1};
    const auto item_of = [&](std::uint32_t rank, const Task& task, const void* send, void* recv) {
      return item(world, rank, task, sequence, send, recv);
    };
    const auto run_all = [this](const std::vector<WorkItem>& items) { return run(items); };
    check_narrow<Float16>(call, item_of, run_all);
    ++sequence;
    check_narrow<Bfloat16>(call, item_of, run_all);
    ++sequence;
  }
}

TEST_P(DirectLanes, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Task task{.reduction = rank == 0 ? WEFT_MAX : WEFT_SUM, .count = 1000};
    items.push_back(item(world, rank, task, 0, data[rank].data(), data[rank].data()));
  }
  const auto outcomes = run(items);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const KernelOutcome& first = outcomes[rank][0];
    EXPECT_EQ(first.end, KernelEnd::kTagMismatch) << "rank " << rank;
    EXPECT_EQ(first.expected, items[rank].tag);
    EXPECT_EQ(first.found, items[first.peer].tag);
    EXPECT_NE(first.found, first.expected);
  }
}

// A shorter call on one rank: the lines that never come must not keep the others.
TEST_P(DirectLanes, AllLeaveWhenCountsDiffer) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t count = rank == 0 ? 2 * GetParam().parts * GetParam().lanes : 1000;
    items.push_back(item(world, rank, {.count = count}, 0, data[rank].data(), data[rank].data()));
  }
  for (const auto& parts : run(items)) {
    EXPECT_EQ(parts[0].end, KernelEnd::kTagMismatch);
  }
}

TEST_P(DirectLanes, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank)  // the last never comes
    items.push_back(item(world, rank, {.count = 1000}, 0, data[rank].data(), data[rank].data()));
  aborts_ = true;
  const auto outcomes = run(items);
  for (const auto& parts : outcomes) {
    for (const KernelOutcome& outcome : parts)
      EXPECT_TRUE(outcome.end == KernelEnd::kAborted || outcome.end == KernelEnd::kPeerError);
  }
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank)
    EXPECT_NE(world.error(ranks - 1, rank), 0U) << "rank " << rank << " told the last nothing";
}

TEST_P(DirectLanes, AllLeaveWhenAPeerGaveUp) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world(ranks, 4096);
  std::vector<float> data(1000);
  world.error(0, ranks - 1) = 7;
  const auto outcomes = run({item(world, 0, {.count = 1000}, 0, data.data(), data.data())});
  for (const KernelOutcome& outcome : outcomes[0]) {
    EXPECT_EQ(outcome.end, KernelEnd::kPeerError);
    EXPECT_EQ(outcome.peer, ranks - 1);
    EXPECT_EQ(outcome.found, 7U);
  }
}

TEST_P(DirectLanes, WhatDoesNotFitIsRefused) {
  DirectWorld world(GetParam().ranks, 1024);
  std::vector<float> data(1000);
  const WorkItem too_long = item(world, 0, {.count = 1000}, 0, data.data(), data.data());
  EXPECT_EQ(run({too_long})[0][0].end, KernelEnd::kUnsupported);
}

std::string shape_name(const ::testing::TestParamInfo<Shape>& info) {
  return std::to_string(info.param.ranks) + "Ranks" + std::to_string(info.param.parts) + "Parts" +
         std::to_string(info.param.lanes) + "Lanes";
}

constexpr Shape kDirectShapes[] = {{2, 1, 1}, {2, 1, 8}, {2, 3, 4}, {3, 2, 8},
                                   {5, 1, 3}, {8, 1, 2}, {2, 1, 32}};
INSTANTIATE_TEST_SUITE_P(Shapes, DirectLanes, ::testing::ValuesIn(kDirectShapes), shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, LineLanes, ::testing::ValuesIn(kDirectShapes), shape_name);
INSTANTIATE_TEST_SUITE_P(WideLines, DirectLanes,
                         ::testing::Values(Shape{2, 1, 8, Protocol::kLL128},
                                           Shape{2, 3, 8, Protocol::kLL128},
                                           Shape{3, 2, 16, Protocol::kLL128},
                                           Shape{2, 1, 32, Protocol::kLL128}),
                         shape_name);

}  // namespace
}  // namespace weft::device::testing
