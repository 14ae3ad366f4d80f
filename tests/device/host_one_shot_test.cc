// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The direct one-shot between CPUs: ranks are threads that write into each other's inboxes.
#include "core/device/host/host_one_shot.h"

#include <algorithm>
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

class HostOneShotOf : public HostDirect {
 protected:
  WorkItem item_of(const DirectWorld& world, std::uint32_t rank, const Task& task,
                   std::uint64_t sequence, const void* send, void* recv) override {
    return world.item(rank, task, sequence, send, recv);
  }

  /// One operation on random-looking input, everything else of the buffers checked to be left
  /// alone.
  template <class T>
  void move(DirectWorld& world, Operation operation, std::uint64_t count, bool in_place,
            weft_reduction reduction = WEFT_SUM) {
    constexpr std::uint64_t kGuards = 5;
    const std::uint32_t ranks = GetParam();
    const std::uint64_t sequence = sequence_++;
    const std::uint64_t sent = operation == Operation::kReduceScatter ? count * ranks : count;
    const std::uint64_t received = operation == Operation::kAllGather ? count * ranks : count;
    const T guard = as_element<T>(77);
    std::vector<std::vector<T>> input(ranks);
    std::vector<std::vector<T>> output(ranks);
    std::vector<WorkItem> items;
    const Task task{.operation = operation,
                    .type = kTypeOf<T>,
                    .reduction = reduces(operation) ? reduction : WEFT_SUM,
                    .count = count};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::uint64_t own_block = rank * count;
      output[rank].assign((in_place ? std::max(sent, received) : received) + kGuards, guard);
      input[rank].assign(sent, guard);
      T* source = input[rank].data();
      T* target = output[rank].data();
      if (in_place) {
        source = target + (operation == Operation::kAllGather ? own_block : 0);
        target += operation == Operation::kReduceScatter ? own_block : 0;
      }
      for (std::uint64_t i = 0; i < sent; ++i)
        source[i] = sample<T>(rank, i + sequence, task.reduction);
      items.push_back(world.item(rank, task, sequence, source, target));
    }
    for (const KernelOutcome& outcome : run(items))
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const bool scattered_in_place = in_place && operation == Operation::kReduceScatter;
      for (std::uint64_t i = 0; i < output[rank].size(); ++i) {
        T wanted = guard;
        if (operation == Operation::kAllGather) {
          if (i < received) {
            wanted = sample<T>(static_cast<std::uint32_t>(i / count), i % count + sequence);
          }
        } else if (operation == Operation::kAllReduce) {
          if (i < count) wanted = expected_sample<T>(ranks, i + sequence, reduction);
        } else if (!scattered_in_place) {
          if (i < count) {
            wanted = expected_sample<T>(ranks, rank * count + i + sequence, reduction);
          }
        } else if (i / count == rank && i < sent) {
          wanted = expected_sample<T>(ranks, i + sequence, reduction);
        } else if (i < sent) {
          wanted = sample<T>(rank, i + sequence, reduction);  // its own input, untouched
        }
        ASSERT_EQ(output[rank][i], wanted)
            << operation_name(operation) << ", rank " << rank << ", element " << i << " of "
            << count << (in_place ? ", in place" : "");
      }
    }
  }
};

TEST_P(HostOneShotOf, AllOperationsOnOneSetOfInboxes) {
  DirectWorld world(GetParam(), 4096);
  for (const bool in_place : {false, true}) {
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
      for (const std::uint64_t count : {1, 2, 13, 300, 1024})
        move<float>(world, operation, count, in_place);
      move<std::int32_t>(world, operation, 257, in_place, WEFT_MAX);
      move<Float16>(world, operation, 2047, in_place);
      move<Bfloat16>(world, operation, 405, in_place, WEFT_MIN);
      move<Float8E4M3>(world, operation, 1001, in_place);
      move<Float8E5M2>(world, operation, 333, in_place, WEFT_PROD);
      move<float>(world, operation, 100, in_place, WEFT_AVG);
    }
  }
}

TEST_P(HostOneShotOf, NarrowFloatsAreRoundedOnceOrInEachStep) {
  DirectWorld world(GetParam(), 4096);
  const auto item_of = [&](auto&&... call) { return world.item(call...); };
  for (const Rounding rounding : {Rounding::kOnce, Rounding::kEachStep}) {
    for_each_narrow([&]<class T>(weft_reduction reduction) {
      NarrowCall call{.ranks = GetParam(), .reduction = reduction, .rounding = rounding};
      narrow<T>(call, item_of);
      call.in_place = true;
      call.count = 1031;
      call.shift = 1;
      narrow<T>(call, item_of);
      call.in_place = false;
      call.operation = Operation::kReduceScatter;
      narrow<T>(call, item_of);
    });
  }
}

TEST_P(HostOneShotOf, SleepersAreWoken) {
  DirectWorld world(GetParam(), 1024);
  late_ = std::chrono::milliseconds(5);  // longer than anybody yields
  for (int i = 0; i < 3; ++i)
    move<float>(world, Operation::kAllReduce, 200, true);
}

// A rank may be a call ahead of another, which must still find what it was sent.
TEST_P(HostOneShotOf, RanksRunAheadByOneCall) {
  DirectWorld world(GetParam(), 1024);
  sum_in_a_row(500, 100, [&](std::uint32_t call, std::uint32_t rank, const Task& task, void* own) {
    return world.item(rank, task, call, own, own);
  });
}

TEST_P(HostOneShotOf, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam();
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Task task{.count = rank == 0 ? 10U : 1000U};
    items.push_back(world.item(rank, task, 0, data[rank].data(), data[rank].data()));
  }
  const Outcomes outcomes = run(items);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(outcomes[rank].end, KernelEnd::kTagMismatch) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].expected, items[rank].tag);
    EXPECT_EQ(outcomes[rank].found, items[outcomes[rank].peer].tag);
    EXPECT_NE(outcomes[rank].found, outcomes[rank].expected);
  }
}

TEST_P(HostOneShotOf, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam();
  DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank)  // the last never comes
    items.push_back(world.item(rank, {.count = 1000}, 0, data[rank].data(), data[rank].data()));
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    abort_.store(1);
  });
  for (const KernelOutcome& outcome : run(items))
    EXPECT_EQ(outcome.end, KernelEnd::kAborted);
  aborter.join();
}

TEST_P(HostOneShotOf, LeavesWhenAPeerGaveUp) {
  const std::uint32_t ranks = GetParam();
  DirectWorld world(ranks, 4096);
  std::vector<float> data(1000);
  for (std::uint32_t peer = 1; peer < ranks; ++peer)
    world.error(0, peer) = 7;
  const KernelOutcome outcome =
      run({world.item(0, {.count = 1000}, 0, data.data(), data.data())})[0];
  EXPECT_EQ(outcome.end, KernelEnd::kPeerError);
  EXPECT_EQ(outcome.peer, 1U);
  EXPECT_EQ(outcome.found, 7U);
}

TEST_P(HostOneShotOf, WhatItCannotDoIsRefused) {
  DirectWorld world(GetParam(), 1024);
  std::vector<float> data(1000);
  const auto refused = [&](const Task& task) {
    return run({world.item(0, task, 0, data.data(), data.data())})[0].end ==
           KernelEnd::kUnsupported;
  };
  EXPECT_TRUE(refused({.count = 1000})) << "it does not fit";
  EXPECT_TRUE(refused({.count = 0}));
  EXPECT_TRUE(refused({.operation = Operation::kBroadcast, .count = 1}));
  EXPECT_TRUE(refused({.operation = Operation::kReduce, .count = 1}));
  EXPECT_TRUE(refused({.type = 99, .count = 1}));
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostOneShotOf, ::testing::Values(2, 3, 5, 8));

}  // namespace
}  // namespace weft::device::testing
