// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How kernels end when something is wrong: they say what, with whom, and leave.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

void wait_for_sleeper(std::uint32_t* waiters) {
  while (std::atomic_ref<std::uint32_t>(*waiters).load() == 0)
    std::this_thread::yield();
}

TEST(Failure, AbortEndsABlockedKernel) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  std::vector<float> data(100);
  const auto items = world.items(0, {.count = 100}, 0, data.data(), data.data());
  std::thread aborter([&] {
    wait_for_sleeper(items[0].from_previous.tail_waiters);
    runner.abort().store(1);
  });
  ASSERT_EQ(runner.launch(0, items), WEFT_OK);
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_ERROR_PEER);
  aborter.join();
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kAborted);
  EXPECT_EQ(runner.endings(0), 1U);
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK) << "reported once";
}

TEST(Failure, AbortEndsAKernelWithoutSleepers) {
  RingWorld world({.ranks = 2, .sleepers = false});
  RingRunner runner(2);
  std::vector<float> data(100);
  ASSERT_EQ(runner.launch(0, world.items(0, {.count = 100}, 0, data.data(), data.data())), WEFT_OK);
  std::thread aborter([&] { runner.abort().store(1); });
  runner.device().synchronize(runner.stream(0));
  aborter.join();
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kAborted);
}

TEST(Failure, AbortBeforeTheLaunchIsSeenAtTheFirstWait) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  runner.abort().store(1);
  std::vector<float> data(100);
  runner.run([&](std::uint32_t rank) {
    return world.items(rank, {.count = 100}, 0, data.data(), data.data());
  });
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kAborted);
  EXPECT_EQ(runner.outcome(1).end, KernelEnd::kAborted);
}

TEST(Failure, TheErrorWordOfAConnectionEndsTheWait) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  std::vector<float> data(100);
  const auto items = world.items(0, {.count = 100}, 0, data.data(), data.data());
  std::thread peer([&] {
    wait_for_sleeper(items[0].from_previous.tail_waiters);
    std::atomic_ref<std::uint32_t>(world.link(1).receiver_error()).store(5);
  });
  ASSERT_EQ(runner.launch(0, items), WEFT_OK);
  runner.device().synchronize(runner.stream(0));
  peer.join();
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kPeerError);
  EXPECT_EQ(runner.outcome(0).peer, 1U);
  EXPECT_EQ(runner.outcome(0).found, 5U);
}

TEST(Failure, AFullConnectionToAPeerThatGaveUpEnds) {
  RingWorld world({.ranks = 2, .steps = 2});
  RingRunner runner(2);
  std::vector<float> data(10000);
  const Task task{.operation = Operation::kBroadcast, .count = data.size()};
  const auto items = world.items(0, task, 0, data.data(), data.data());
  std::thread peer([&] {
    wait_for_sleeper(items[0].to_next.head_waiters);
    std::atomic_ref<std::uint32_t>(world.link(0).sender_error()).store(9);
  });
  ASSERT_EQ(runner.launch(0, items), WEFT_OK);
  runner.device().synchronize(runner.stream(0));
  peer.join();
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kPeerError);
  EXPECT_EQ(runner.outcome(0).found, 9U);
}

TEST(Failure, DifferentCallsEndOnBothSidesWithBothTags) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(200));
  const Task tasks[] = {{.count = 200}, {.reduction = WEFT_MAX, .count = 200}};  // two chunks
  runner.run([&](std::uint32_t rank) {
    return world.items(rank, tasks[rank], 3, data[rank].data(), data[rank].data());
  });
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(runner.outcome(rank).end, KernelEnd::kTagMismatch);
    EXPECT_EQ(runner.outcome(rank).peer, 1 - rank);
    EXPECT_EQ(runner.outcome(rank).expected, make_operation_tag(tasks[rank], 3));
    EXPECT_EQ(runner.outcome(rank).found, make_operation_tag(tasks[1 - rank], 3));
    EXPECT_EQ(runner.endings(rank), 1U);
  }
}

TEST(Failure, DifferentSizesUnderOneTagEndOnBothSides) {
  RingWorld world({.ranks = 2, .step_bytes = 16384});
  RingRunner runner(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(5000));
  runner.run([&](std::uint32_t rank) {
    auto items = world.items(rank, {.count = 5000}, 0, data[rank].data(), data[rank].data());
    if (rank == 1) items[0].count = 4500;
    return items;
  });
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kSizeMismatch);
  EXPECT_EQ(runner.outcome(1).end, KernelEnd::kSizeMismatch);
  // Rank 0 cuts 2512 + 2488 elements and expects the second chunk; rank 1 cuts 2256 + 2244 and
  // sends it.
  EXPECT_EQ(runner.outcome(0).expected, 2488U * 4);
  EXPECT_EQ(runner.outcome(0).found, 2244U * 4);
  EXPECT_EQ(runner.outcome(1).expected, 2256U * 4);
  EXPECT_EQ(runner.outcome(1).found, 2512U * 4);
}

/// A receiver of a broadcast whose peer is the test.
class HostileSlot : public ::testing::Test {
 protected:
  KernelOutcome receive(SlotMeta meta, std::uint64_t tail = 1) {
    RingWorld world({.ranks = 2});
    RingRunner runner(2);
    std::vector<float> data(16 + 16, -1.0F);
    const auto items = world.items(1, kTask, 0, data.data(), data.data());
    world.link(0).slot(0) = meta;
    world.link(0).tail() = tail;
    EXPECT_EQ(runner.launch(1, items), WEFT_OK);
    runner.device().synchronize(runner.stream(1));
    for (std::size_t i = 16; i < data.size(); ++i)
      EXPECT_EQ(data[i], -1.0F);
    return runner.outcome(1);
  }

  static constexpr Task kTask{.operation = Operation::kBroadcast, .count = 16};
  static constexpr OperationTag kTag = make_operation_tag(kTask, 0);
};

TEST_F(HostileSlot, WellFormedPasses) {
  EXPECT_EQ(receive({.size = 64, .offset = 0, .tag = kTag}).end, KernelEnd::kDone);
  EXPECT_EQ(receive({.size = 64, .offset = 192, .tag = kTag}).end, KernelEnd::kDone);
}

TEST_F(HostileSlot, TooLargeOrTooSmall) {
  for (const std::uint32_t size : {0U, 60U, 68U, 256U, 0xFFFFFFFFU}) {
    const KernelOutcome outcome = receive({.size = size, .offset = 0, .tag = kTag});
    EXPECT_EQ(outcome.end, KernelEnd::kSizeMismatch);
    EXPECT_EQ(outcome.expected, 64U);
    EXPECT_EQ(outcome.found, size);
  }
}

TEST_F(HostileSlot, OffsetOutsideTheSlot) {
  for (const std::uint32_t offset : {193U, 208U, 256U, 0xFFFFFFC0U, 0xFFFFFFFFU}) {
    EXPECT_EQ(receive({.size = 64, .offset = offset, .tag = kTag}).end, KernelEnd::kSizeMismatch);
  }
}

TEST_F(HostileSlot, OffsetThatBreaksLines) {
  EXPECT_EQ(receive({.size = 64, .offset = 4, .tag = kTag}).end, KernelEnd::kSizeMismatch);
}

TEST_F(HostileSlot, ATailFarAheadEndsNothingBetter) {
  EXPECT_EQ(receive({.size = 64, .offset = 0, .tag = kTag}, ~0ULL).end, KernelEnd::kDone);
  EXPECT_EQ(receive({.size = 64, .offset = 0, .tag = 0x1234}, ~0ULL).end, KernelEnd::kTagMismatch);
}

TEST(Failure, OtherItemsOfTheLaunchLeaveToo) {
  // Channel 0 finds a foreign tag; channels 1 and 2 wait for a peer that never comes.
  RingWorld world({.ranks = 2, .channels = 3});
  RingRunner runner(2);
  std::vector<float> data(300);
  const auto items = world.items(0, {.count = 300}, 0, data.data(), data.data());
  world.link(1, 0).slot(0) = {.size = 4, .offset = 0, .tag = 77};
  world.link(1, 0).tail() = 1;
  ASSERT_EQ(runner.launch(0, items), WEFT_OK);
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_ERROR_PEER);
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kTagMismatch);
  EXPECT_EQ(runner.outcome(0).found, 77U);
  EXPECT_EQ(runner.endings(0), 1U);
}

TEST(Failure, OtherLaunchesOfThePieceGoOn) {
  RingWorld broken({.ranks = 2});
  RingWorld whole({.ranks = 1});
  RingRunner runner(1);
  std::vector<float> data(100);
  std::vector<float> input(100, 3.0F);
  std::vector<float> output(100);
  broken.link(1).slot(0) = {.size = 4, .offset = 0, .tag = 77};
  broken.link(1).tail() = 1;
  const auto broken_items = broken.items(0, {.count = 100}, 0, data.data(), data.data());
  const auto whole_items = whole.items(0, {.count = 100}, 0, input.data(), output.data());
  Launch launches[2];
  launches[0].items = broken_items;
  launches[1].items = whole_items;
  ASSERT_EQ(runner.device().launch(runner.stream(0), launches), WEFT_OK);
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_ERROR_MISMATCH)
      << "what a launch without a `finished` of its own answers";
  EXPECT_EQ(output, input);
}

}  // namespace
}  // namespace weft::device::testing
