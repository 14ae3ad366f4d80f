// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The two-shot between CPUs: ranks are threads that write into each other's inboxes.
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/direct_world.h"
#include "tests/device/host_direct.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

class HostTwoShotOf : public HostDirect {
 protected:
  WorkItem item_of(const DirectWorld& world, std::uint32_t rank, const Task& task,
                   std::uint64_t sequence, const void* send, void* recv) override {
    return world.two_shot_item(rank, task, sequence, send, recv);
  }
};

TEST_P(HostTwoShotOf, AllSizesOnOneSetOfInboxes) {
  DirectWorld world(GetParam(), 256);  // ranges of 512 bytes
  for (const bool in_place : {false, true}) {
    for (const std::size_t shift : {0U, 4U, 20U}) {
      for (const std::uint64_t count : {1, 15, 16, 17, 128, 129, 1000, 1024, 5003})
        all_reduce<float>(world, count, shift, in_place);
    }
    // Elements that lie nowhere in particular.
    all_reduce<float>(world, 2001, 1, in_place);
    all_reduce<double>(world, 555, 3, in_place);
  }
}

TEST_P(HostTwoShotOf, AllTypesAndReductions) {
  DirectWorld world(GetParam(), 256);
  const auto each = [&]<class T>(T /*type*/) {
    for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG}) {
      all_reduce<T>(world, 1501, 0, false, reduction);
      all_reduce<T>(world, 333, sizeof(T), true, reduction);
    }
  };
  each(std::int8_t{});
  each(std::uint8_t{});
  each(std::int32_t{});
  each(std::uint32_t{});
  each(std::int64_t{});
  each(std::uint64_t{});
  each(Float16{});
  each(Bfloat16{});
  each(float{});
  each(double{});
  each(Float8E4M3{});
  each(Float8E5M2{});
}

TEST_P(HostTwoShotOf, InputsAreMultipliedOnce) {
  DirectWorld world(GetParam(), 256);
  for (const bool in_place : {false, true}) {
    all_reduce<float>(world, 2000, 0, in_place, kPremulSum);
    all_reduce<std::int32_t>(world, 77, 4, in_place, kPremulSum);
    all_reduce<Bfloat16>(world, 901, 2, in_place, kPremulSum);
  }
}

TEST_P(HostTwoShotOf, NarrowFloatsAreRoundedOnceOrInEachStep) {
  DirectWorld world(GetParam(), 4096);
  const auto item_of = [&](auto&&... call) { return world.two_shot_item(call...); };
  for (const Rounding rounding : {Rounding::kOnce, Rounding::kEachStep}) {
    for_each_narrow([&]<class T>(weft_reduction reduction) {
      NarrowCall call{.ranks = GetParam(), .reduction = reduction, .rounding = rounding};
      call.count = 9001;  // more than a tile each
      narrow<T>(call, item_of);
      call.in_place = true;
      call.shift = 3;
      narrow<T>(call, item_of);
    });
  }
}

TEST_P(HostTwoShotOf, SleepersAreWoken) {
  DirectWorld world(GetParam(), 1024);
  late_ = std::chrono::milliseconds(5);  // longer than anybody yields
  for (int i = 0; i < 3; ++i)
    all_reduce<float>(world, 2000, 0, true);
}

// Between one-shots, which take the same halves; a rank may be a call ahead of another.
TEST_P(HostTwoShotOf, MixesWithOneShots) {
  DirectWorld world(GetParam(), 256);
  sum_in_a_row(300, 60, [&](std::uint32_t call, std::uint32_t rank, const Task& task, void* own) {
    return call % 3 == 0 ? world.item(rank, task, call, own, own)
                         : world.two_shot_item(rank, task, call, own, own, 64);
  });
}

TEST_P(HostTwoShotOf, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam();
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(100000));
  for (const bool one_shot : {false, true}) {
    DirectWorld fresh(ranks, 4096);
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Task task{.count = rank == 0 ? 10U : 100000U};
      float* own = data[rank].data();
      items.push_back(rank == 0 && one_shot ? fresh.item(rank, task, 0, own, own)
                                            : fresh.two_shot_item(rank, task, 0, own, own));
    }
    const Outcomes outcomes = run(items);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(outcomes[rank].end, KernelEnd::kTagMismatch) << "rank " << rank;
      EXPECT_EQ(outcomes[rank].expected, items[rank].tag);
      EXPECT_EQ(outcomes[rank].found, items[outcomes[rank].peer].tag);
      EXPECT_NE(outcomes[rank].found, outcomes[rank].expected);
    }
  }
}

TEST_P(HostTwoShotOf, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam();
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {  // the last never comes
    items.push_back(
        world.two_shot_item(rank, {.count = 1000}, 0, data[rank].data(), data[rank].data()));
  }
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    abort_.store(1);
  });
  for (const KernelOutcome& outcome : run(items))
    EXPECT_EQ(outcome.end, KernelEnd::kAborted);
  aborter.join();
}

TEST_P(HostTwoShotOf, LeavesWhenAPeerGaveUp) {
  const std::uint32_t ranks = GetParam();
  DirectWorld world(ranks, 4096);
  std::vector<float> data(1000);
  for (std::uint32_t peer = 1; peer < ranks; ++peer)
    world.error(0, peer) = 7;
  const KernelOutcome outcome =
      run({world.two_shot_item(0, {.count = 1000}, 0, data.data(), data.data())})[0];
  EXPECT_EQ(outcome.end, KernelEnd::kPeerError);
  EXPECT_EQ(outcome.peer, 1U);
  EXPECT_EQ(outcome.found, 7U);
}

TEST_P(HostTwoShotOf, WhatItCannotDoIsRefused) {
  DirectWorld world(GetParam(), 1024);
  std::vector<float> data(1000);
  const auto refused = [&](const Task& task, std::uint64_t chunk) {
    WorkItem item = world.two_shot_item(0, {.count = 1}, 0, data.data(), data.data());
    item.operation = task.operation;
    item.type = task.type;
    item.count = task.count;
    item.chunk = chunk;
    return run({item})[0].end == KernelEnd::kUnsupported;
  };
  EXPECT_TRUE(refused({.count = 1000}, 1024)) << "ranges larger than halves";
  EXPECT_TRUE(refused({.count = 1000}, 15)) << "ranges of no whole grains";
  EXPECT_TRUE(refused({.count = 0}, 16));
  EXPECT_TRUE(refused({.operation = Operation::kAllGather, .count = 1}, 16));
  EXPECT_TRUE(refused({.operation = Operation::kReduce, .count = 1}, 16));
  EXPECT_TRUE(refused({.type = 99, .count = 1}, 16));
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostTwoShotOf, ::testing::Values(2, 3, 5, 8));

}  // namespace
}  // namespace weft::device::testing
