// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Broadcasts and reduces by wide lines with several lanes and parts, alone and among other calls by
// such lines; and what only moves by bytes, as kernels of GPUs do it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/any_reduction.h"
#include "core/device/work_item_kernel.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_teams.h"
#include "tests/device/narrow_sums.h"
#include "tests/device/ring_world.h"
#include "tests/device/wide_lanes.h"

namespace weft::device::testing {
namespace {

class RootedLanes : public WideLanes {
 protected:
  static WorkItem item(const DirectWorld& world, std::uint32_t rank, const Task& task,
                       std::uint64_t sequence, const void* send, void* recv) {
    if (has_blocks(task.operation)) {
      return world.wide_ranges_item(rank, task, sequence, send, recv, 128);
    }
    WorkItem made = world.item(rank, task, sequence, send, recv);
    made.protocol = Protocol::kLL128;
    made.ring_position = (rank + made.ranks - task.root) % made.ranks;
    return made;
  }

  /// Runs a call on samples and compares all of each rank's memory. Who does not get the result has
  /// an output all the same, or an input, where it reads and writes nothing.
  template <class T>
  void call(const DirectWorld& world, Task task, std::uint64_t shift, bool in_place,
            std::uint64_t sequence) {
    const std::uint32_t ranks = GetParam().ranks;
    const bool broadcasts = task.operation == Operation::kBroadcast;
    task.type = kTypeOf<T>;
    const T guard = as_element<T>(77);
    std::vector<std::vector<T>> input(ranks, std::vector<T>(task.count + shift + 9, guard));
    std::vector<std::vector<T>> output = input;
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const bool one_buffer = in_place && rank == task.root;
      std::vector<T>& source = one_buffer ? output[rank] : input[rank];
      for (std::uint64_t i = 0; i < task.count && (!broadcasts || rank == task.root); ++i)
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
        T wanted = guard;
        if (i >= shift && i < shift + task.count && (broadcasts || rank == task.root)) {
          const std::uint64_t at = i - shift + sequence;
          wanted = broadcasts ? sample<T>(task.root, at) : expected_sample<T>(ranks, at, WEFT_SUM);
        }
        ASSERT_EQ(output[rank][i], wanted)
            << operation_name(task.operation) << " of root " << task.root << ", rank " << rank
            << " element " << i << " of " << task.count << " from " << shift << ", call "
            << sequence;
      }
    }
  }
};

constexpr Operation kRootedOperations[] = {Operation::kBroadcast, Operation::kReduce};

// One element; a pair of lines, one element less and one more; several pairs of each lane.
TEST_P(RootedLanes, Results) {
  const DirectWorld world(GetParam().ranks, 4096);
  std::uint64_t sequence = 0;
  for (by_bytes_ = false;; by_bytes_ = true) {
    for (const Operation operation : kRootedOperations) {
      for (std::uint32_t root = 0; root < GetParam().ranks; ++root) {
        const auto task = [&](std::uint64_t count) {
          return Task{.operation = operation, .root = root, .count = count};
        };
        call<float>(world, task(1), 0, false, sequence++);
        call<float>(world, task(59), 0, true, sequence++);
        call<float>(world, task(60), 0, false, sequence++);
        call<float>(world, task(61), 1, true, sequence++);
        call<std::int32_t>(world, task(700), 0, root % 2 == 0, sequence++);
        call<Bfloat16>(world, task(703), 3, false, sequence++);
      }
    }
    if (by_bytes_) break;
  }
}

TEST_P(RootedLanes, NarrowFloatsAreRoundedOnce) {
  const DirectWorld world(GetParam().ranks, 1024);
  std::uint64_t sequence = 0;
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_AVG}) {
    const NarrowCall call{.ranks = GetParam().ranks,
                          .operation = Operation::kReduce,
                          .reduction = reduction,
                          .shift = 1};
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

// Ranks that only send go on as soon as the others have come; who gets payload of two calls must
// still find that of the first. Among them are calls of several exchanges, and roots change.
TEST_P(RootedLanes, RanksRunAheadThroughAllKindsOfCalls) {
  constexpr std::uint32_t kCalls = 120;
  constexpr Operation kKinds[] = {Operation::kBroadcast, Operation::kBroadcast, Operation::kReduce,
                                  Operation::kAllToAll,  Operation::kReduce,    Operation::kReduce,
                                  Operation::kAllReduce, Operation::kAllGather};
  const std::uint32_t ranks = GetParam().ranks;
  const DirectWorld world(ranks, 4096);
  const std::uint64_t count = 211;
  const auto task_of = [&](std::uint32_t call) {
    const Operation operation = kKinds[call % std::size(kKinds)];
    return Task{.operation = operation,
                .root = has_root(operation) ? call / 3 % ranks : 0,
                .count = call % 5 == 4 ? 7 : count};
  };
  std::vector<std::vector<float>> input(kCalls, std::vector<float>(count * ranks));
  for (std::uint32_t call = 0; call < kCalls; ++call)
    std::ranges::fill(input[call], static_cast<float>(call + 1));
  std::vector<std::vector<float>> output(std::size_t{kCalls} * ranks,
                                         std::vector<float>(count * ranks, -1));
  std::uint64_t exchanges = 0;
  std::vector<std::vector<WorkItem>> calls(kCalls);
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    const Task task = task_of(call);
    const std::uint64_t bytes = task.count * sizeof(float);
    exchanges += has_blocks(task.operation) ? (bytes + 127) / 128 : 1;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      calls[call].push_back(
          item(world, rank, task, call, input[call].data(), output[call * ranks + rank].data()));
    }
  }
  for (const PartOutcomes& call : run_calls(calls)) {
    for (const auto& of_rank : call) {
      for (const KernelOutcome& outcome : of_rank)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (const std::uint64_t word : world.wide_positions(rank))
      ASSERT_EQ(word, exchanges);
    for (std::uint32_t call = 0; call < kCalls; ++call) {
      const Task task = task_of(call);
      const std::uint64_t blocks = has_blocks(task.operation) ? ranks : 1;
      const bool gets = task.operation != Operation::kReduce || rank == task.root;
      const auto one = static_cast<float>(call + 1);
      for (std::uint64_t i = 0; i < count * ranks; ++i) {
        const bool inside = gets && i < blocks * task.count;
        const float result = reduces(task.operation) ? one * static_cast<float>(ranks) : one;
        ASSERT_EQ(output[call * ranks + rank][i], inside ? result : -1.F)
            << operation_name(task.operation) << ", rank " << rank << ", call " << call
            << ", element " << i;
      }
    }
  }
}

// Of other lengths, and of other roots: then two ranks wait for payload that nobody sends.
TEST_P(RootedLanes, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam().ranks;
  for (const Operation operation : kRootedOperations) {
    for (const Task& other : {Task{.operation = operation, .root = 0, .count = 100},
                              Task{.operation = operation, .root = 1, .count = 1000},
                              Task{.operation = Operation::kAllReduce, .count = 100}}) {
      const DirectWorld world(ranks, 4096);
      std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
      std::vector<WorkItem> items;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        // As root of a broadcast nobody waits for payload, nor do the others of a reduce.
        const std::uint32_t root = operation == Operation::kBroadcast ? 1 : 0;
        Task task{.operation = operation, .root = root, .count = 1000};
        if (rank == 1) task = other;
        if (rank == 1 && other.count == 1000) task.root = 1 - root;
        items.push_back(item(world, rank, task, 0, data[rank].data(), data[rank].data()));
      }
      const auto outcomes = run(items);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const KernelEnd end = outcomes[rank][0].end;
        EXPECT_TRUE(end == KernelEnd::kTagMismatch || (rank > 1 && end == KernelEnd::kPeerError))
            << "rank " << rank << ", " << operation_name(operation) << ", other "
            << operation_name(other.operation) << " of " << other.count << ": "
            << static_cast<std::uint32_t>(end);
      }
    }
  }
}

TEST_P(RootedLanes, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam().ranks;
  for (const Operation operation : kRootedOperations) {
    const DirectWorld world(ranks, 4096);
    std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {  // the last never comes
      items.push_back(item(world, rank, {.operation = operation, .count = 1000}, 0,
                           data[rank].data(), data[rank].data()));
    }
    abort_ = 0;
    aborts_ = true;
    for (const auto& parts : run(items)) {
      // Only the first part has headers, and waits for those at any rate.
      EXPECT_TRUE(parts[0].end == KernelEnd::kAborted || parts[0].end == KernelEnd::kPeerError);
    }
  }
}

TEST_P(RootedLanes, WhatDoesNotFitIsRefused) {
  const DirectWorld world(GetParam().ranks, 1024);
  std::vector<float> data(1000);
  for (const Operation operation : kRootedOperations) {
    const WorkItem long_one =
        item(world, 0, {.operation = operation, .count = 1000}, 0, data.data(), data.data());
    EXPECT_EQ(run({long_one})[0][0].end, KernelEnd::kUnsupported);
    WorkItem far_root =
        item(world, 0, {.operation = operation, .count = 10}, 0, data.data(), data.data());
    far_root.ring_position = GetParam().ranks;
    EXPECT_EQ(run({far_root})[0][0].end, KernelEnd::kUnsupported);
  }
}

// Each of two ranks takes the other for the sender, and has a gang that sees no header.
TEST(RootedGangs, EndWhereRanksNameDifferentRoots) {
  for (const Operation operation : kRootedOperations) {
    const DirectWorld world(2, 4096);
    std::vector<std::vector<float>> data(2, std::vector<float>(1000));
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const std::uint32_t root = operation == Operation::kBroadcast ? 1 - rank : rank;
      WorkItem made = world.item(rank, {.operation = operation, .root = root, .count = 1000}, 0,
                                 data[rank].data(), data[rank].data());
      made.protocol = Protocol::kLL128;
      made.ring_position = (rank + 2 - root) % 2;
      items.push_back(made);
    }
    for (const KernelOutcome& outcome : run_gangs(items, 2))
      EXPECT_EQ(outcome.end, KernelEnd::kTagMismatch) << operation_name(operation);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RootedLanes,
                         ::testing::Values(PartsShape{2, 1, 8}, PartsShape{2, 3, 8},
                                           PartsShape{3, 2, 16}, PartsShape{2, 1, 32},
                                           PartsShape{3, 1, 32}, PartsShape{8, 1, 8}),
                         parts_name);

}  // namespace
}  // namespace weft::device::testing
