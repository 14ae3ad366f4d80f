// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The two-shot with 1, 8 and 32 lanes a part and several parts a rank.
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

using TwoShotReductions =
    Reductions<Sum<float>, Max<float>, Average<float>, Sum<std::int32_t>, Prod<std::int32_t>,
               Average<std::int32_t>, Min<Float16>, Max<Bfloat16>, Sum<Float16>, Prod<Float16>,
               Average<Float16>, Sum<Bfloat16>, Prod<Bfloat16>, Average<Bfloat16>>;

class TwoShotLanes : public PartLanes {
 protected:
  template <class T>
  void all_reduce(DirectWorld& world, std::uint64_t count, std::uint64_t shift, bool in_place,
                  weft_reduction reduction, std::uint64_t range_bytes = UINT64_MAX) {
    const auto [ranks, parts, lanes] = GetParam();
    const std::uint64_t sequence = sequence_++;
    const T guard = as_element<T>(77);
    std::vector<std::vector<T>> input(ranks, std::vector<T>(count + shift + 9, guard));
    std::vector<std::vector<T>> output = input;
    std::vector<WorkItem> items;
    const Task task{.type = kTypeOf<T>, .reduction = reduction, .count = count};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<T>& source = in_place ? output[rank] : input[rank];
      for (std::uint64_t i = 0; i < count; ++i)
        source[shift + i] = sample<T>(rank, i + sequence, reduction);
      items.push_back(world.two_shot_item(rank, task, sequence, source.data() + shift,
                                          output[rank].data() + shift, range_bytes));
    }
    for (const auto& of_rank : run(items)) {
      for (const KernelOutcome& outcome : of_rank)
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

  [[nodiscard]] DirectWorld make_world(std::uint64_t range_bytes) const {
    return DirectWorld(GetParam().ranks, range_bytes, kFlagPeriod, GetParam().parts);
  }

  std::uint64_t sequence_ = 0;

 private:
  KernelOutcome run_lane(const Call& call, std::size_t rank, std::uint32_t part,
                         LaneGroup& group) override {
    const WorkItem& item = call.items[rank];
    LaneMemory memory(abort_);
    return with_reduction(TwoShotReductions{}, item, [&](const auto& reduction) {
      return run_two_shot_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction, part,
                                                 call.parts);
    });
  }
};

TEST_P(TwoShotLanes, AllReduce) {
  DirectWorld world = make_world(1024);
  all_reduce<float>(world, 700, 0, false, WEFT_SUM);
  all_reduce<float>(world, 1, 0, true, WEFT_SUM);
  all_reduce<float>(world, 301, 1, true, WEFT_MAX);
  all_reduce<std::int32_t>(world, 4099, 0, true, WEFT_SUM);
  all_reduce<std::int32_t>(world, 257, 1, false, WEFT_PROD);
  all_reduce<Float16>(world, 3000, 0, false, WEFT_SUM);
  all_reduce<Bfloat16>(world, 703, 1, true, WEFT_SUM);
  all_reduce<Float16>(world, 405, 3, true, WEFT_MIN);
  all_reduce<Bfloat16>(world, 409, 2, false, WEFT_MAX);
  all_reduce<float>(world, 2500, 0, true, WEFT_AVG);
  all_reduce<std::int32_t>(world, 999, 3, false, WEFT_AVG);
}

TEST_P(TwoShotLanes, NarrowFloatsAreRoundedOnce) {
  DirectWorld world = make_world(1024);
  std::uint64_t sequence = 0;
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_AVG}) {
    const NarrowCall call{.ranks = GetParam().ranks, .reduction = reduction, .shift = 1};
    const auto item_of = [&](std::uint32_t rank, const Task& task, const void* send, void* recv) {
      return world.two_shot_item(rank, task, sequence, send, recv);
    };
    const auto run_all = [this](const std::vector<WorkItem>& items) { return run(items); };
    check_narrow<Float16>(call, item_of, run_all);
    ++sequence;
    check_narrow<Bfloat16>(call, item_of, run_all);
    ++sequence;
  }
}

// Ranges of one grain: many exchanges in a call, and shares of parts that are empty.
TEST_P(TwoShotLanes, ManyPieces) {
  DirectWorld world = make_world(256);
  for (const std::uint64_t range_bytes : {64U, 192U}) {
    all_reduce<float>(world, 1200, 0, false, WEFT_SUM, range_bytes);
    all_reduce<float>(world, 1201, 1, true, WEFT_SUM, range_bytes);
  }
}

// A rank may be an exchange ahead of another, and parts of a rank may be far apart; calls have
// other numbers of parts, so places of parts move between them.
TEST_P(TwoShotLanes, RanksRunAhead) {
  constexpr std::uint32_t kCalls = 60;
  const auto [ranks, parts, lanes] = GetParam();
  DirectWorld world = make_world(256);
  const std::uint64_t count = 3 * 64 * ranks + 5;
  std::vector<std::vector<std::int32_t>> data(ranks, std::vector<std::int32_t>(kCalls * count));
  std::vector<Call> calls(kCalls);
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    calls[call].parts = 1 + call % parts;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::int32_t* const own = data[rank].data() + call * count;
      for (std::uint64_t i = 0; i < count; ++i)
        own[i] = static_cast<std::int32_t>(call * rank + i);
      calls[call].items.push_back(
          world.two_shot_item(rank, {.type = WEFT_INT32, .count = count}, call, own, own));
    }
  }
  for (const Outcomes& call : run_calls(calls)) {
    for (const auto& of_rank : call) {
      for (const KernelOutcome& outcome : of_rank)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
  }
  const std::uint64_t sum_of_ranks = std::uint64_t{ranks} * (ranks - 1) / 2;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t i = 0; i < data[rank].size(); ++i) {
      ASSERT_EQ(data[rank][i],
                static_cast<std::int32_t>(i / count * sum_of_ranks + i % count * ranks))
          << "rank " << rank << ", call " << i / count << ", element " << i % count;
    }
    for (const std::uint64_t word : world.plain_positions(rank))
      ASSERT_EQ(word, world.plain_positions(0)[0]);
  }
}

// What plain payload leaves behind lies where no flag is looked for, whatever it is.
TEST_P(TwoShotLanes, PayloadIsNoFlag) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world = make_world(256);
  const DirectPeers before = world.peers(0);
  EXPECT_GE(before.plain_begin, kDirectHalves * before.half_bytes);
  std::vector<std::vector<std::int32_t>> data(ranks, std::vector<std::int32_t>(64 * ranks, 1));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    items.push_back(world.two_shot_item(rank, {.type = WEFT_INT32, .count = 64 * ranks}, 0,
                                        data[rank].data(), data[rank].data()));
  }
  run(items);
  for (std::uint32_t peer = 1; peer < ranks; ++peer) {
    const std::byte* box = before.inbox[peer];
    for (std::uint64_t i = 0; i < std::uint64_t{kDirectHalves} * before.half_bytes; ++i)
      ASSERT_EQ(box[i], std::byte{0});
  }
}

TEST_P(TwoShotLanes, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world = make_world(1024);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Task task{.reduction = rank == 0 ? WEFT_MAX : WEFT_SUM, .count = 1000};
    items.push_back(world.two_shot_item(rank, task, 0, data[rank].data(), data[rank].data()));
  }
  expect_all_leave(items);
}

TEST_P(TwoShotLanes, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world = make_world(1024);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {  // the last never comes
    items.push_back(
        world.two_shot_item(rank, {.count = 1000}, 0, data[rank].data(), data[rank].data()));
  }
  expect_all_leave_when_aborted(world, items);
}

TEST_P(TwoShotLanes, AllLeaveWhenPeersGaveUp) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world = make_world(1024);
  std::vector<float> data(1000);
  for (std::uint32_t peer = 1; peer < ranks; ++peer)
    world.error(0, peer) = 7;
  const auto outcomes = run({world.two_shot_item(0, {.count = 1000}, 0, data.data(), data.data())});
  for (const KernelOutcome& outcome : outcomes[0]) {
    EXPECT_EQ(outcome.end, KernelEnd::kPeerError);
    EXPECT_EQ(outcome.found, 7U);
  }
}

TEST_P(TwoShotLanes, WhatDoesNotFitIsRefused) {
  DirectWorld world = make_world(1024);
  std::vector<float> data(1000);
  WorkItem item = world.two_shot_item(0, {.count = 1000}, 0, data.data(), data.data());
  const auto refused = [&] { return run({item})[0][0].end == KernelEnd::kUnsupported; };
  item.chunk = 1024;  // elements of 4 bytes
  EXPECT_TRUE(refused()) << "ranges larger than halves";
  item.chunk = 17;
  EXPECT_TRUE(refused()) << "no whole grains";
  item.chunk = 0;
  EXPECT_TRUE(refused());
  item.chunk = 16;
  item.operation = Operation::kAllGather;
  EXPECT_TRUE(refused());
}

INSTANTIATE_TEST_SUITE_P(Shapes, TwoShotLanes,
                         ::testing::Values(PartsShape{2, 1, 1}, PartsShape{2, 1, 8},
                                           PartsShape{2, 3, 4}, PartsShape{3, 2, 8},
                                           PartsShape{5, 1, 3}, PartsShape{8, 2, 2},
                                           PartsShape{2, 1, 32}),
                         parts_name);

}  // namespace
}  // namespace weft::device::testing
