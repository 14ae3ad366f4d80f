// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Two-shots, reduce-scatters, all-gathers and all-to-alls by wide lines with several lanes and
// parts.
#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/direct_world.h"
#include "tests/device/narrow_sums.h"
#include "tests/device/ring_world.h"
#include "tests/device/wide_lanes.h"

namespace weft::device::testing {
namespace {

class WideRangeLanes : public WideLanes {
 protected:
  /// Runs a call on samples and compares all of each rank's memory.
  template <class T>
  void call(const DirectWorld& world, Operation operation, std::uint64_t count, std::uint64_t shift,
            bool in_place, std::uint64_t sequence, std::uint64_t range_bytes = UINT64_MAX) {
    const std::uint32_t ranks = GetParam().ranks;
    const bool gathers = operation == Operation::kAllGather;
    const bool scatters = operation == Operation::kReduceScatter;
    const bool exchanges = operation == Operation::kAllToAll;
    const std::uint64_t sent = scatters || exchanges ? ranks * count : count;
    const std::uint64_t got = gathers || exchanges ? ranks * count : count;
    const std::uint64_t all = shift + ranks * count + 9;
    const T guard = as_element<T>(77);
    std::vector<std::vector<T>> input(ranks, std::vector<T>(all, guard));
    std::vector<std::vector<T>> output = input;
    std::vector<WorkItem> items;
    const Task task{
        .operation = operation, .type = kTypeOf<T>, .reduction = WEFT_SUM, .count = count};
    // In place a rank's block lies where it does in all of them.
    const auto own_block = [&](std::uint32_t rank) { return in_place ? rank * count : 0; };
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<T>& source = in_place ? output[rank] : input[rank];
      const std::uint64_t from = shift + (gathers ? own_block(rank) : 0);
      const std::uint64_t to = shift + (scatters ? own_block(rank) : 0);
      for (std::uint64_t i = 0; i < sent; ++i)
        source[from + i] = sample<T>(rank, i + sequence);
      items.push_back(world.wide_ranges_item(rank, task, sequence, source.data() + from,
                                             output[rank].data() + to, range_bytes));
    }
    for (const auto& parts : run(items)) {
      for (const KernelOutcome& outcome : parts)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::uint64_t to = shift + (scatters ? own_block(rank) : 0);
      for (std::uint64_t i = 0; i < all; ++i) {
        T wanted = guard;
        if (i >= to && i < to + got) {
          const std::uint64_t at = i - to;
          if (gathers || exchanges) {
            const std::uint64_t first = exchanges ? rank * count : 0;
            wanted =
                sample<T>(static_cast<std::uint32_t>(at / count), first + at % count + sequence);
          } else {
            const std::uint64_t first = scatters ? rank * count : 0;
            wanted = expected_sample<T>(ranks, first + at + sequence, WEFT_SUM);
          }
        } else if (in_place && i >= shift && i < shift + sent) {
          wanted = sample<T>(rank, i - shift + sequence);
        }
        ASSERT_EQ(output[rank][i], wanted)
            << operation_name(operation) << ", rank " << rank << " element " << i << " of " << count
            << " from " << shift << ", call " << sequence;
      }
    }
  }
};

constexpr Operation kRangeOperations[] = {Operation::kAllReduce, Operation::kReduceScatter,
                                          Operation::kAllGather, Operation::kAllToAll};

TEST_P(WideRangeLanes, Results) {
  const DirectWorld world(GetParam().ranks, 4096);
  std::uint64_t sequence = 0;
  for (const Operation operation : kRangeOperations) {
    call<float>(world, operation, 700, 0, false, sequence++);
    call<float>(world, operation, 301, 1, true, sequence++);
    call<std::int32_t>(world, operation, 1, 0, true, sequence++);
    call<std::int32_t>(world, operation, 500, 0, true, sequence++, 256);
    call<Bfloat16>(world, operation, 703, 3, false, sequence++, 320);
  }
}

TEST_P(WideRangeLanes, NarrowFloatsAreRoundedOnce) {
  const DirectWorld world(GetParam().ranks, 1024);
  std::uint64_t sequence = 0;
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_AVG}) {
    const NarrowCall call{.ranks = GetParam().ranks, .reduction = reduction, .shift = 1};
    const auto item_of = [&](std::uint32_t rank, const Task& task, const void* send, void* recv) {
      return world.wide_ranges_item(rank, task, sequence, send, recv);
    };
    const auto run_all = [this](const std::vector<WorkItem>& items) { return run(items); };
    check_narrow<Float16>(call, item_of, run_all);
    ++sequence;
    check_narrow<Bfloat16>(call, item_of, run_all);
    ++sequence;
  }
}

// All take the halves in turn, whatever came before, and however many exchanges it had.
TEST_P(WideRangeLanes, KindsOfCallsMix) {
  const DirectWorld world(GetParam().ranks, 4096);
  std::uint64_t exchanges = 0;
  for (std::uint64_t sequence = 0; sequence < 16; ++sequence) {
    const Operation operation = kRangeOperations[sequence * 5 % std::size(kRangeOperations)];
    const std::uint64_t count = sequence % 2 == 0 ? 64 : 3;
    call<float>(world, operation, count * GetParam().ranks, 0, false, sequence, 128);
    const std::uint64_t range =
        operation == Operation::kAllReduce ? count : count * GetParam().ranks;
    const std::uint64_t pieces = (range * sizeof(float) + 127) / 128;
    exchanges += operation == Operation::kAllReduce ? 2 * pieces : pieces;
    for (const std::uint64_t word : world.wide_positions(0))
      ASSERT_EQ(word, exchanges) << "after call " << sequence;
  }
}

// A rank may be ahead of another by a call, and within one by a piece.
TEST_P(WideRangeLanes, RanksRunAhead) {
  constexpr std::uint32_t kCalls = 60;
  const std::uint32_t ranks = GetParam().ranks;
  const DirectWorld world(ranks, 4096);
  const std::uint64_t count = 301;
  std::vector<std::vector<float>> data(ranks, std::vector<float>(count * ranks, 1));
  std::vector<std::vector<float>> output(ranks, std::vector<float>(kCalls * count * ranks, -1));
  std::vector<std::vector<WorkItem>> calls(kCalls);
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Task task{.operation = kRangeOperations[call % std::size(kRangeOperations)],
                      .count = count};
      calls[call].push_back(world.wide_ranges_item(
          rank, task, call, data[rank].data(), output[rank].data() + call * count * ranks, 256));
    }
  }
  for (const PartOutcomes& call : run_calls(calls)) {
    for (const auto& of_rank : call) {
      for (const KernelOutcome& outcome : of_rank)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t call = 0; call < kCalls; ++call) {
      const bool moves = !reduces(kRangeOperations[call % std::size(kRangeOperations)]);
      for (std::uint64_t i = 0; i < count * ranks; ++i) {
        const float wanted = moves ? 1.F : i < count ? static_cast<float>(ranks) : -1.F;
        ASSERT_EQ(output[rank][call * count * ranks + i], wanted)
            << "rank " << rank << ", call " << call << ", element " << i;
      }
    }
  }
}

// Of another length, or another operation.
TEST_P(WideRangeLanes, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam().ranks;
  for (const Task& other : {Task{.operation = Operation::kAllReduce, .count = 100},
                            Task{.operation = Operation::kReduceScatter, .count = 1000},
                            Task{.operation = Operation::kAllToAll, .count = 1000}}) {
    const DirectWorld world(ranks, 4096);
    std::vector<std::vector<float>> data(ranks, std::vector<float>(1000 * ranks));
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Task task = rank == 0 ? other : Task{.operation = Operation::kAllReduce, .count = 1000};
      items.push_back(
          world.wide_ranges_item(rank, task, 0, data[rank].data(), data[rank].data(), 512));
    }
    const auto outcomes = run(items);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(outcomes[rank][0].end, KernelEnd::kTagMismatch)
          << "rank " << rank << ", " << operation_name(other.operation);
    }
  }
}

TEST_P(WideRangeLanes, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam().ranks;
  const DirectWorld world(ranks, 4096);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {  // the last never comes
    items.push_back(
        world.wide_ranges_item(rank, {.count = 1000}, 0, data[rank].data(), data[rank].data()));
  }
  aborts_ = true;
  const auto outcomes = run(items);
  for (const auto& parts : outcomes) {
    for (const KernelOutcome& outcome : parts)
      EXPECT_TRUE(outcome.end == KernelEnd::kAborted || outcome.end == KernelEnd::kPeerError);
  }
}

TEST_P(WideRangeLanes, WhatDoesNotFitIsRefused) {
  const DirectWorld world(GetParam().ranks, 1024);
  std::vector<float> data(1000);
  WorkItem item = world.wide_ranges_item(0, {.count = 1000}, 0, data.data(), data.data());
  item.chunk = 512;
  EXPECT_EQ(run({item})[0][0].end, KernelEnd::kUnsupported);
}

// Neither call has what the other one waits for: the one-shot has more in its first exchange, the
// two-shot has a second one. Gangs that see no header wait for that.
TEST(WideRangeGangs, LeaveWhenEachCallWaitsForMore) {
  for (const std::uint32_t ranks : {2U, 3U}) {
    const DirectWorld world(ranks, 8192);
    constexpr std::uint64_t kCount = 2000;
    std::vector<std::vector<float>> data(ranks, std::vector<float>(kCount + 1));
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Task task{.operation = Operation::kAllReduce, .count = kCount + rank % 2};
      items.push_back(world.wide_ranges_item(rank, task, 0, data[rank].data(), data[rank].data()));
      if (rank % 2 == 0) items.back().algorithm = Algorithm::kDirect;
    }
    for (const KernelOutcome& outcome : run_gangs(items, 4))
      EXPECT_EQ(outcome.end, KernelEnd::kTagMismatch) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WideRangeLanes,
                         ::testing::Values(PartsShape{2, 1, 8}, PartsShape{2, 3, 8},
                                           PartsShape{3, 2, 16}, PartsShape{2, 1, 32},
                                           PartsShape{3, 1, 32}),
                         parts_name);

}  // namespace
}  // namespace weft::device::testing
