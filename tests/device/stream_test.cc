// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Streams of the host device: who runs a piece of work, who is woken, who sleeps.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/wait.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

/// One rank alone: a copy, as work that blocks on nobody.
class LocalWork {
 public:
  std::vector<WorkItem> items() {
    return world_.items(0, {.count = kCount}, 0, input_.data(), output_.data());
  }
  [[nodiscard]] bool done() const { return output_ == input_; }

 private:
  static constexpr std::uint64_t kCount = 8;
  RingWorld world_{{.ranks = 1}};
  std::vector<float> input_ = std::vector<float>(kCount, 1.0F);
  std::vector<float> output_ = std::vector<float>(kCount);
};

void until_resting(HostDevice& device) {
  for (;;) {
    const HostDeviceStatistics now = device.statistics();
    if (now.threads == now.threads_resting) return;
    std::this_thread::yield();
  }
}

/// Makes synchronize() the one who claims; races against the worker until it has won often enough.
void make_caller_claim(RingRunner& runner) {
  LocalWork work;
  const auto deferred = [&] { return runner.device().statistics().pieces_deferred; };
  for (const std::uint64_t before = deferred(); deferred() == before;) {
    ASSERT_EQ(runner.launch(0, work.items()), WEFT_OK);
    ASSERT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  }
}

TEST(Stream, MakesNoThreadBeforeTheFirstLaunch) {
  RingRunner runner(3);
  EXPECT_EQ(runner.device().statistics().threads, 0U);
  LocalWork work;
  ASSERT_EQ(runner.launch(1, work.items()), WEFT_OK);
  EXPECT_EQ(runner.device().statistics().threads, 1U);
  EXPECT_EQ(runner.device().synchronize(runner.stream(1)), WEFT_OK);
  EXPECT_TRUE(work.done());
}

TEST(Stream, WorkRunsWithoutAnyoneWaiting) {
  RingRunner runner(1);
  LocalWork work;
  ASSERT_EQ(runner.launch(0, work.items()), WEFT_OK);
  while (runner.device().query(runner.stream(0)) == WEFT_IN_PROGRESS)
    std::this_thread::yield();
  EXPECT_TRUE(work.done());
  EXPECT_EQ(runner.device().statistics().pieces_by_worker, 1U);
  EXPECT_EQ(runner.device().statistics().pieces_by_caller, 0U);
}

TEST(Stream, CallersWhoSynchronizeEndUpRunningTheirWorkThemselves) {
  RingRunner runner(1);
  make_caller_claim(runner);
  const HostDeviceStatistics before = runner.device().statistics();
  LocalWork work;
  ASSERT_EQ(runner.launch(0, work.items()), WEFT_OK);
  ASSERT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  const HostDeviceStatistics after = runner.device().statistics();
  EXPECT_TRUE(work.done());
  EXPECT_EQ(after.pieces_deferred, before.pieces_deferred + 1);
  EXPECT_EQ(after.pieces_woken, before.pieces_woken);
}

TEST(Stream, ADeferredPieceIsPickedUpThoughNobodySynchronizes) {
  RingRunner runner(1);
  make_caller_claim(runner);
  const std::uint64_t before = runner.device().statistics().pieces_by_worker;
  LocalWork work;
  ASSERT_EQ(runner.launch(0, work.items()), WEFT_OK);
  while (runner.device().statistics().pieces_by_worker == before)
    std::this_thread::yield();
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  EXPECT_TRUE(work.done());
}

TEST(Stream, ADeferredPieceIsPickedUpByAWorkerThatWasAtRest) {
  RingRunner runner(1);
  make_caller_claim(runner);
  until_resting(runner.device());
  const std::uint64_t before = runner.device().statistics().pieces_by_worker;
  LocalWork work;
  ASSERT_EQ(runner.launch(0, work.items()), WEFT_OK);
  while (runner.device().statistics().pieces_by_worker == before)
    std::this_thread::yield();
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  EXPECT_TRUE(work.done());
}

TEST(Stream, PollingStartsADeferredPiece) {
  RingRunner runner(1);
  make_caller_claim(runner);
  LocalWork work;
  ASSERT_EQ(runner.launch(0, work.items()), WEFT_OK);
  while (runner.device().query(runner.stream(0)) == WEFT_IN_PROGRESS)
    std::this_thread::yield();
  EXPECT_TRUE(work.done());
}

TEST(Stream, BlockingInOneStreamStartsTheDeferredWorkOfOthers) {
  // Both streams are made to defer; then rank 0 blocks on rank 1, whose piece nobody else claims.
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  LocalWork work;
  std::vector<float> data[2] = {std::vector<float>(64, 1.0F), std::vector<float>(64, 2.0F)};
  // Again and again, until the worker's own look was not the one that came first.
  for (std::uint64_t sequence = 0; runner.device().statistics().handed_over == 0; ++sequence) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 6; ++i) {
        ASSERT_EQ(runner.launch(rank, work.items()), WEFT_OK);
        ASSERT_EQ(runner.device().synchronize(runner.stream(rank)), WEFT_OK);
      }
    }
    const auto results = runner.run([&](std::uint32_t rank) {
      return world.items(rank, {.count = 64}, sequence, data[rank].data(), data[rank].data());
    });
    ASSERT_EQ(results, std::vector<weft_result>(2, WEFT_OK));
  }
}

TEST(Stream, PiecesRunInOrder) {
  RingRunner runner(1);
  RingWorld world({.ranks = 1});
  std::vector<float> cells(101, 0.0F);
  cells[0] = 5.0F;
  for (std::size_t i = 0; i < 100; ++i) {  // each copies what the one before wrote
    ASSERT_EQ(runner.launch(0, world.items(0, {.count = 1}, i, &cells[i], &cells[i + 1])), WEFT_OK);
  }
  ASSERT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  EXPECT_EQ(cells.back(), 5.0F);
  EXPECT_EQ(runner.endings(0), 100U);
}

TEST(Stream, AllItemsOfAPieceRunAtOnce) {
  // One piece holds both ranks of a ring on three channels: six items that block on each other.
  RingWorld world({.ranks = 2, .channels = 3});
  RingRunner runner(1);
  std::vector<float> data[2] = {std::vector<float>(3000, 1.0F), std::vector<float>(3000, 2.0F)};
  std::vector<WorkItem> items[2];
  Launch launches[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    items[rank] = world.items(rank, {.count = 3000}, 0, data[rank].data(), data[rank].data());
    launches[rank].items = items[rank];
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(runner.device().launch(runner.stream(0), launches), WEFT_OK);
    ASSERT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  }
  EXPECT_EQ(data[0], std::vector<float>(3000, 12.0F));
  EXPECT_EQ(data[1], data[0]);
  EXPECT_EQ(runner.device().statistics().threads, 1U + 5U) << "workers are used again";
}

TEST(Stream, ManyStreamsAtOnce) {
  constexpr std::uint32_t kRanks = 24;
  RingWorld world({.ranks = kRanks});
  RingRunner runner(kRanks);
  check_all_reduce<std::int32_t>(world, runner, 5000, WEFT_SUM, {});
}

TEST(Stream, IdleThreadsRest) {
  RingWorld world({.ranks = 3, .channels = 2});
  RingRunner runner(3);
  check_all_reduce<float>(world, runner, 1000, WEFT_SUM, {});
  make_caller_claim(runner);
  until_resting(runner.device());
  EXPECT_GT(runner.device().statistics().threads, 3U);
}

TEST(Stream, DestroyWaitsForWhatIsQueued) {
  HostDevice device;
  DeviceStream* stream = nullptr;
  ASSERT_EQ(device.create_stream(&stream), WEFT_OK);
  LocalWork work;
  Launch launch;
  const auto items = work.items();
  launch.items = items;
  ASSERT_EQ(device.launch(stream, {&launch, 1}), WEFT_OK);
  device.destroy_stream(stream);
  EXPECT_TRUE(work.done());
  EXPECT_EQ(device.statistics().threads, 0U);
  device.destroy_stream(nullptr);
}

TEST(Stream, ALaunchThatNeedsTooManyThreadsStartsNothing) {
  HostDevice device({.max_threads = 2});
  DeviceStream* stream = nullptr;
  ASSERT_EQ(device.create_stream(&stream), WEFT_OK);
  RingWorld world({.ranks = 1, .channels = 3});
  std::vector<float> input(30, 1.0F);
  std::vector<float> output(30);
  std::uint32_t endings = 0;
  const auto items = world.items(0, {.count = 30}, 0, input.data(), output.data());
  Launch launch;
  launch.items = items;
  launch.finished = [](void* context, const KernelOutcome&) -> weft_result {
    ++*static_cast<std::uint32_t*>(context);
    return WEFT_OK;
  };
  launch.finished_context = &endings;
  EXPECT_EQ(device.launch(stream, {&launch, 1}), WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(device.synchronize(stream), WEFT_OK);
  EXPECT_EQ(endings, 0U);
  EXPECT_EQ(output, std::vector<float>(30));
  launch.items = launch.items.first(2);  // fits
  EXPECT_EQ(device.launch(stream, {&launch, 1}), WEFT_OK);
  EXPECT_EQ(device.synchronize(stream), WEFT_OK);
  EXPECT_EQ(endings, 1U);
  EXPECT_EQ(device.statistics().threads, 2U);
  DeviceStream* second = nullptr;
  ASSERT_EQ(device.create_stream(&second), WEFT_OK);
  EXPECT_EQ(device.launch(second, {&launch, 1}), WEFT_ERROR_OUT_OF_RESOURCES);
  device.destroy_stream(second);
  device.destroy_stream(stream);
}

TEST(Stream, EmptyLaunchesEnd) {
  RingRunner runner(1);
  EXPECT_EQ(runner.device().launch(runner.stream(0), {}), WEFT_OK);
  EXPECT_EQ(runner.launch(0, {}), WEFT_OK);
  EXPECT_EQ(runner.device().synchronize(runner.stream(0)), WEFT_OK);
  EXPECT_EQ(runner.endings(0), 1U);
}

TEST(Stream, WaitingWorkersDriveProgress) {
  // The peer's data arrives only when progress is called.
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  const Task task{.operation = Operation::kBroadcast, .count = 1};
  float value = 0;
  const auto items = world.items(1, task, 0, &value, &value);
  struct Engine {
    Link& link;
    OperationTag tag;
    int calls = 0;
  } engine{world.link(0), items[0].tag};
  Launch launch;
  launch.items = items;
  launch.progress = [](void* raw, bool /*about_to_sleep*/) {
    auto& own = *static_cast<Engine*>(raw);
    if (++own.calls != 10) return false;
    const float sent = 6.0F;
    const ConnectionView view = own.link.sender(1);
    std::memcpy(view.buffer, &sent, sizeof(sent));
    own.link.slot(0) = {.size = sizeof(sent), .offset = 0, .tag = own.tag};
    post(view.tail, view.tail_waiters, 1);
    return true;
  };
  launch.progress_context = &engine;
  ASSERT_EQ(runner.device().launch(runner.stream(1), {&launch, 1}), WEFT_OK);
  EXPECT_EQ(runner.device().synchronize(runner.stream(1)), WEFT_OK);
  EXPECT_EQ(value, 6.0F);
}

TEST(Device, MemoryIsAlignedAndZeroed) {
  HostDevice device;
  EXPECT_EQ(device.name(), "host");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{129}}) {
    void* memory = nullptr;
    ASSERT_EQ(device.allocate(bytes, &memory), WEFT_OK);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 128, 0U);
    for (std::size_t i = 0; i < bytes; ++i)
      EXPECT_EQ(static_cast<char*>(memory)[i], 0);
    device.release(memory);
  }
  device.release(nullptr);
  void* memory = &device;
  EXPECT_EQ(device.allocate(SIZE_MAX, &memory), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(device.allocate(SIZE_MAX / 2, &memory), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);
}

}  // namespace
}  // namespace weft::device::testing
