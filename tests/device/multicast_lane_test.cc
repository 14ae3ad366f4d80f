// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls by multicast with 1, 8 and 32 lanes a part and several parts a rank. What a switch does
// their memory does by loads and stores, so a thread sanitizer sees who touches what of whom.
#include <array>
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

using MulticastReductions =
    Reductions<Sum<float>, Average<float>, Prod<float>, Min<float>, Max<float>, Sum<std::int32_t>,
               Max<std::int32_t>, Min<std::int32_t>, Average<std::int32_t>, Sum<Float16>,
               Sum<Bfloat16>, Average<Bfloat16>>;

class MulticastLanes : public PartLanes {
 protected:
  /// Buffers begin `shift` elements behind where they are allocated; what lies around the output is
  /// checked to be left alone.
  template <class T>
  void check(DirectWorld& world, Operation operation, std::uint64_t count, std::uint64_t shift,
             bool in_place, weft_reduction reduction, std::uint64_t range_bytes = UINT64_MAX) {
    const auto [ranks, parts, lanes] = GetParam();
    const bool gathers = operation == Operation::kAllGather;
    const bool scatters = operation == Operation::kReduceScatter;
    const std::uint64_t input_count = count * (scatters ? ranks : 1);
    const std::uint64_t output_count = count * (gathers ? ranks : 1);
    const std::uint64_t sequence = sequence_++;
    const T guard = as_element<T>(77);
    std::vector<std::vector<T>> input(ranks, std::vector<T>(count * ranks + shift + 9, guard));
    std::vector<std::vector<T>> output = input;
    std::vector<std::uint64_t> begin(ranks, shift);
    std::vector<WorkItem> items;
    const Task task{
        .operation = operation, .type = kTypeOf<T>, .reduction = reduction, .count = count};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      T* source = input[rank].data() + shift;
      if (in_place) source = output[rank].data() + shift + (gathers ? rank * count : 0);
      if (in_place && scatters) begin[rank] = shift + rank * count;
      for (std::uint64_t i = 0; i < input_count; ++i)
        source[i] = sample<T>(rank, i + sequence, reduction);
      items.push_back(world.multicast_item(rank, task, sequence, source,
                                           output[rank].data() + begin[rank], range_bytes));
    }
    const std::vector<std::vector<T>> before = output;
    for (const auto& of_rank : run(items)) {
      for (const KernelOutcome& outcome : of_rank)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
    const auto wanted = [&](std::uint32_t rank, std::uint64_t i) {
      if (gathers) {
        return sample<T>(static_cast<std::uint32_t>(i / count), i % count + sequence, reduction);
      }
      return expected_sample<T>(ranks, i + (scatters ? rank * count : 0) + sequence, reduction);
    };
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint64_t i = 0; i < output[rank].size(); ++i) {
        const bool inside = i >= begin[rank] && i < begin[rank] + output_count;
        ASSERT_EQ(output[rank][i], inside ? wanted(rank, i - begin[rank]) : before[rank][i])
            << operation_name(operation) << ", rank " << rank << " element " << i << " of " << count
            << " from " << begin[rank] << ", call " << sequence;
      }
    }
  }

  [[nodiscard]] DirectWorld make_world(std::uint64_t bytes) const {
    DirectWorld world(GetParam().ranks, 64, kFlagPeriod, GetParam().parts);
    world.add_multicast(bytes);
    return world;
  }

  std::uint64_t sequence_ = 0;

 private:
  KernelOutcome run_lane(const Call& call, std::size_t rank, std::uint32_t part,
                         LaneGroup& group) override {
    const WorkItem& item = call.items[rank];
    LaneMemory memory(abort_);
    return with_reduction(MulticastReductions{}, item, [&](const auto& reduction) {
      return run_multicast_item(group, memory, item, *item.direct, *item.direct->multicast,
                                reduction, part, call.parts);
    });
  }
};

TEST_P(MulticastLanes, AllReduce) {
  DirectWorld world = make_world(8192);
  constexpr Operation kOperation = Operation::kAllReduce;
  check<float>(world, kOperation, 700, 0, false, WEFT_SUM);
  check<float>(world, kOperation, 1, 0, true, WEFT_SUM);
  check<float>(world, kOperation, 301, 1, true, WEFT_SUM);
  check<std::int32_t>(world, kOperation, 4099, 0, true, WEFT_SUM);
  check<std::int32_t>(world, kOperation, 257, 1, false, WEFT_MAX);
  check<std::int32_t>(world, kOperation, 99, 3, true, WEFT_MIN);
  check<Float16>(world, kOperation, 3000, 0, false, WEFT_SUM);
  check<Bfloat16>(world, kOperation, 703, 1, true, WEFT_SUM);
  check<float>(world, kOperation, 2500, 0, true, WEFT_AVG);
  check<std::int32_t>(world, kOperation, 999, 3, false, WEFT_AVG);
}

TEST_P(MulticastLanes, Blocks) {
  DirectWorld world = make_world(8192);
  for (const bool in_place : {false, true}) {
    for (const std::uint64_t count : {1U, 17U, 703U}) {
      for (const std::uint64_t shift : {0U, 1U}) {
        check<float>(world, Operation::kAllGather, count, shift, in_place, WEFT_SUM);
        check<float>(world, Operation::kReduceScatter, count, shift, in_place, WEFT_SUM);
        check<std::int32_t>(world, Operation::kReduceScatter, count, shift, in_place, WEFT_AVG);
      }
    }
  }
}

// Ranges of few grains: many meetings in a call, and shares of parts that are empty.
TEST_P(MulticastLanes, ManyPieces) {
  DirectWorld world = make_world(8192);
  for (const std::uint64_t range_bytes : {64U, 192U}) {
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
      check<float>(world, operation, 501, 0, false, WEFT_SUM, range_bytes);
      check<float>(world, operation, 500, 1, true, WEFT_SUM, range_bytes);
    }
  }
}

// A rank may be ahead of another as far as meetings let it, and parts of a rank far apart; calls
// have other numbers of parts and other operations, so places move between them.
TEST_P(MulticastLanes, RanksRunAhead) {
  constexpr std::uint32_t kCalls = 60;
  const auto [ranks, parts, lanes] = GetParam();
  DirectWorld world = make_world(64 * parts * ranks * 2);
  const std::uint64_t count = 3 * 16 * ranks + 5;
  const std::uint64_t all = count * ranks;
  std::vector<std::vector<std::int32_t>> data(ranks, std::vector<std::int32_t>(kCalls * all));
  std::vector<Call> calls(kCalls);
  const auto operation_of = [](std::uint32_t call) {
    return std::array{Operation::kAllReduce, Operation::kAllGather,
                      Operation::kReduceScatter}[call % 3];
  };
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    calls[call].parts = 1 + call % parts;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::int32_t* const own = data[rank].data() + call * all;
      for (std::uint64_t i = 0; i < all; ++i)
        own[i] = static_cast<std::int32_t>(call * rank + i);
      const Operation operation = operation_of(call);
      const bool gathers = operation == Operation::kAllGather;
      const bool scatters = operation == Operation::kReduceScatter;
      calls[call].items.push_back(world.multicast_item(
          rank, {.operation = operation, .type = WEFT_INT32, .count = count}, call,
          own + (gathers ? rank * count : 0), own + (scatters ? rank * count : 0)));
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
      const std::uint64_t call = i / all;
      const std::uint64_t at = i % all;
      const Operation operation = operation_of(static_cast<std::uint32_t>(call));
      std::uint64_t wanted = call * rank + at;  // as it was
      if (operation == Operation::kAllGather) wanted = call * (at / count) + at;
      const bool sums = operation == Operation::kAllReduce
                            ? at < count
                            : operation == Operation::kReduceScatter && at / count == rank;
      if (sums) wanted = call * sum_of_ranks + at * ranks;
      ASSERT_EQ(data[rank][i], static_cast<std::int32_t>(wanted))
          << "rank " << rank << ", call " << call << ", element " << at;
    }
    for (const std::uint64_t word : world.plain_positions(rank))
      ASSERT_EQ(word, world.plain_positions(0)[0]);
  }
}

TEST_P(MulticastLanes, NarrowFloatsAreRoundedAsBySwitches) {
  DirectWorld world = make_world(8192);
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_AVG}) {
    check_narrow<Bfloat16>(
        {.ranks = GetParam().ranks, .reduction = reduction, .rounding = Rounding::kSwitch},
        [&](std::uint32_t rank, const Task& task, const void* send, void* recv) {
          return world.multicast_item(rank, task, 0, send, recv);
        },
        [this](const std::vector<WorkItem>& items) { return run(items); });
  }
}

TEST_P(MulticastLanes, AllLeaveWhenCallsDiffer) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world = make_world(8192);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Task task{.reduction = rank == 0 ? WEFT_AVG : WEFT_SUM, .count = 1000};
    items.push_back(world.multicast_item(rank, task, 0, data[rank].data(), data[rank].data()));
  }
  expect_all_leave(items);
}

TEST_P(MulticastLanes, AllLeaveWhenAborted) {
  const std::uint32_t ranks = GetParam().ranks;
  DirectWorld world = make_world(8192);
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank + 1 < ranks; ++rank) {  // the last never comes
    items.push_back(
        world.multicast_item(rank, {.count = 1000}, 0, data[rank].data(), data[rank].data()));
  }
  expect_all_leave_when_aborted(world, items);
}

TEST_P(MulticastLanes, WhatDoesNotFitIsRefused) {
  DirectWorld world = make_world(8192);
  std::vector<float> data(1000);
  const WorkItem fitting = world.multicast_item(0, {.count = 1000}, 0, data.data(), data.data());
  WorkItem item = fitting;
  const auto refused = [&] { return run({item})[0][0].end == KernelEnd::kUnsupported; };
  item.chunk = fitting.chunk + 16 * GetParam().parts;
  EXPECT_TRUE(refused()) << "ranges larger than the memory";
  item.chunk = 17;
  EXPECT_TRUE(refused()) << "no whole grains";
  item.chunk = 0;
  EXPECT_TRUE(refused());
  item = fitting;
  item.operation = Operation::kBroadcast;
  EXPECT_TRUE(refused());
  item.operation = Operation::kAllReduce;
  for (const weft_reduction reduction : {WEFT_PROD, WEFT_MIN, WEFT_MAX}) {
    item.reduction = reduction;
    EXPECT_TRUE(refused()) << reduction_name(reduction);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MulticastLanes,
                         ::testing::Values(PartsShape{2, 1, 1}, PartsShape{2, 1, 8},
                                           PartsShape{2, 3, 4}, PartsShape{3, 2, 8},
                                           PartsShape{5, 1, 3}, PartsShape{8, 2, 2},
                                           PartsShape{2, 1, 32}),
                         parts_name);

}  // namespace
}  // namespace weft::device::testing
