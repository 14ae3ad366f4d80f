// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings on the host device over hand-made connections: every shape, type and reduction, against
// sums made apart.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

// With steps of 256 bytes and chunks of 2 steps a chunk holds 128 elements of 4 bytes.
std::vector<std::uint64_t> interesting_counts(std::uint32_t ranks) {
  const std::uint64_t loop = 128ULL * ranks;
  return {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, loop - 1, loop, loop + 1, 3 * loop + 77};
}

class RingShapes : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(RingShapes, AllReduceIsTheSumOfAllRanks) {
  const auto [ranks, channels] = GetParam();
  RingWorld world({.ranks = ranks, .channels = channels});
  RingRunner runner(ranks);
  std::uint64_t sequence = 0;  // one world: the cursors go on from operation to operation
  for (const std::uint64_t count : interesting_counts(ranks)) {
    const Buffers how{.in_place = sequence % 2 == 1,
                      .shift = static_cast<std::uint32_t>(sequence % 3),
                      .sequence = sequence};
    check_all_reduce<float>(world, runner, count * channels, WEFT_SUM, how);
    ++sequence;
  }
}

TEST_P(RingShapes, ChunksShrinkToShareTheRest) {
  const auto [ranks, channels] = GetParam();
  // Chunks of 4096 elements, not cut below 2048.
  RingWorld world({.ranks = ranks, .channels = channels, .step_bytes = 8192});
  RingRunner runner(ranks);
  std::uint64_t sequence = 0;
  for (const std::uint64_t count : {2048, 2049, 2064, 4096, 5000, 9000, 20000, 40000}) {
    check_all_reduce<float>(world, runner, count * channels, WEFT_SUM,
                            {.in_place = sequence % 2 == 1, .sequence = sequence});
    ++sequence;
  }
}

TEST_P(RingShapes, BroadcastGivesTheRootsDataToAll) {
  const auto [ranks, channels] = GetParam();
  RingWorld world({.ranks = ranks, .channels = channels});
  RingRunner runner(ranks);
  std::uint64_t sequence = 0;
  for (const std::uint64_t count : interesting_counts(ranks)) {
    const Buffers how{.in_place = sequence % 2 == 1,
                      .shift = static_cast<std::uint32_t>(sequence % 3),
                      .sequence = sequence};
    const auto root = static_cast<std::uint32_t>(sequence % ranks);
    check_broadcast<float>(world, runner, count * channels, WEFT_FLOAT32, root, how);
    ++sequence;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RingShapes,
                         ::testing::Combine(::testing::Range(1U, 9U), ::testing::Values(1U, 4U)));
INSTANTIATE_TEST_SUITE_P(Some, RingShapes,
                         ::testing::Combine(::testing::Values(2U, 3U), ::testing::Values(2U, 3U)));

TEST(Ring, EveryTypeAndReduction) {
  RingWorld world({.ranks = 3, .channels = 2});
  RingRunner runner(3);
  check_all_reduce<float>(world, runner, 1001, WEFT_MAX, {.shift = 1, .sequence = 1});
  check_all_reduce<std::int32_t>(world, runner, 1001, WEFT_SUM, {.shift = 3, .sequence = 2});
  check_all_reduce<std::int32_t>(world, runner, 1001, WEFT_MAX, {.in_place = true, .sequence = 3});
  check_all_reduce<Float16>(world, runner, 2001, WEFT_SUM, {.shift = 1, .sequence = 4});
  check_all_reduce<Float16>(world, runner, 2001, WEFT_MAX, {.in_place = true, .sequence = 5});
  check_all_reduce<Bfloat16>(world, runner, 2001, WEFT_SUM, {.in_place = true, .sequence = 6});
  check_all_reduce<Bfloat16>(world, runner, 2001, WEFT_MAX, {.shift = 3, .sequence = 7});
  std::uint64_t sequence = 8;
  for (weft_reduction reduction = WEFT_SUM; reduction <= WEFT_AVG; ++reduction) {
    check_all_reduce<Float8E4M3>(world, runner, 4003, reduction,
                                 {.shift = 1, .sequence = sequence++});
    check_all_reduce<Float8E5M2>(world, runner, 4003, reduction,
                                 {.in_place = true, .sequence = sequence++});
  }
}

TEST(Ring, BroadcastMovesElementsOfEverySize) {
  RingWorld world({.ranks = 3});
  RingRunner runner(3);
  check_broadcast<std::int8_t>(world, runner, 999, WEFT_FLOAT8_E4M3, 1, {.shift = 1});
  check_broadcast<std::int16_t>(world, runner, 999, WEFT_BFLOAT16, 2, {.shift = 1});
  check_broadcast<std::int64_t>(world, runner, 999, WEFT_INT64, 0, {.shift = 1});
}

TEST(Ring, OneThreadPerRank) {
  RingWorld world({.ranks = 4, .channels = 2});
  RingRunner runner(4, RingRunner::Threads::kOnePerRank);
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    check_all_reduce<float>(world, runner, 3000 + sequence, WEFT_SUM, {.sequence = sequence});
  }
}

TEST(Ring, WithoutSleepersOnTheConnections) {
  RingWorld world({.ranks = 3, .sleepers = false});
  RingRunner runner(3);
  check_all_reduce<float>(world, runner, 5000, WEFT_SUM, {});
}

TEST(Ring, NarrowestConnectionsStillFlow) {
  // Two slots and chunks of one step: the least that a ring runs on.
  RingWorld world({.ranks = 5, .steps = 2, .step_bytes = 64, .chunk_steps = 1});
  RingRunner runner(5);
  check_all_reduce<float>(world, runner, 1234, WEFT_SUM, {});
}

TEST(Ring, ChunksThatFillTheConnectionAreRefused) {
  // Every rank would fill all slots before it takes one, and none could go on.
  RingWorld world({.ranks = 2, .steps = 2, .step_bytes = 64, .chunk_steps = 2});
  RingRunner runner(2);
  std::vector<float> data(256);
  const Task task{.count = data.size()};
  const auto results = runner.run(
      [&](std::uint32_t rank) { return world.items(rank, task, 0, data.data(), data.data()); });
  EXPECT_EQ(results[0], WEFT_ERROR_PEER);
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kUnsupported);
  EXPECT_EQ(runner.outcome(1).end, KernelEnd::kUnsupported);
}

TEST(Ring, WhatNoKernelExistsForIsRefused) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  std::vector<double> data(16);
  const auto end_of = [&](Task task) {
    runner.run(
        [&](std::uint32_t rank) { return world.items(rank, task, 0, data.data(), data.data()); });
    EXPECT_EQ(runner.outcome(1).end, runner.outcome(0).end);
    return runner.outcome(0).end;
  };
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kReduceScatter, Operation::kReduce}) {
    for (const weft_data_type type : {-1, 12, 99}) {
      const Task task{.operation = operation, .type = type, .count = 4};
      EXPECT_EQ(end_of(task), KernelEnd::kUnsupported);
      EXPECT_FALSE(runner.device().has_kernel(task));
    }
  }
  const auto has = [&](const Task& task) { return runner.device().has_kernel(task); };
  EXPECT_EQ(end_of({.operation = Operation::kBroadcast, .type = 99, .count = 4}),
            KernelEnd::kUnsupported);
  EXPECT_EQ(end_of({.operation = static_cast<Operation>(99), .count = 4}), KernelEnd::kUnsupported);
  EXPECT_TRUE(has({.type = WEFT_INT8, .reduction = WEFT_AVG}));
  EXPECT_TRUE(has({.type = WEFT_FLOAT8_E5M2, .reduction = WEFT_PROD}));
  EXPECT_TRUE(has({.operation = Operation::kBroadcast, .type = WEFT_FLOAT8_E5M2}));
  EXPECT_FALSE(has({.operation = Operation::kAllGather, .type = 99}));
  EXPECT_FALSE(has({.type = 99}));
  EXPECT_TRUE(has({.type = WEFT_INT8, .reduction = kPremulSum}));
  EXPECT_FALSE(has({.reduction = kPremulSum + 1}));
}

TEST(Ring, IntegerSumsWrap) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<std::vector<std::int32_t>> data = {std::vector<std::int32_t>(100, kMost),
                                                 std::vector<std::int32_t>(100, 2)};
  const Task task{.type = WEFT_INT32, .count = 100};
  const auto results = runner.run([&](std::uint32_t rank) {
    return world.items(rank, task, 0, data[rank].data(), data[rank].data());
  });
  EXPECT_EQ(results, std::vector<weft_result>(2, WEFT_OK));
  EXPECT_EQ(data[0], std::vector<std::int32_t>(100, std::numeric_limits<std::int32_t>::min() + 1));
  EXPECT_EQ(data[1], data[0]);
}

/// Any bits: overflow, subnormals, infinities and numbers of very different sizes.
template <class T>
void check_rounding() {
  constexpr std::size_t kCount = 5000;
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  std::mt19937 random(20261123);
  std::vector<std::vector<T>> data(2, std::vector<T>(kCount));
  for (auto& own : data) {
    for (T& element : own)
      element.bits = static_cast<decltype(T::bits)>(random());
  }
  const auto before = data;
  const Task task{.type = kTypeOf<T>, .count = kCount};
  runner.run([&](std::uint32_t rank) {
    return world.items(rank, task, 0, data[rank].data(), data[rank].data());
  });
  EXPECT_EQ(data[0], data[1]) << "not the same bits on all ranks";
  for (std::size_t i = 0; i < kCount; ++i) {
    const float sum = to_float(before[0][i]) + to_float(before[1][i]);
    if (std::isnan(sum)) {
      EXPECT_TRUE(std::isnan(to_float(data[0][i]))) << i;
    } else {
      EXPECT_EQ(data[0][i].bits, from_float<T>(sum).bits) << i;
    }
  }
}

TEST(Ring, SumsOfNarrowFloatsAreSumsOfFloatsRoundedOnce) {
  check_rounding<Float16>();
  check_rounding<Bfloat16>();
  check_rounding<Float8E4M3>();
  check_rounding<Float8E5M2>();
}

TEST(Ring, MaximumKeepsNotANumber) {
  constexpr std::uint32_t kRanks = 3;
  RingWorld world({.ranks = kRanks});
  RingRunner runner(kRanks);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(90, 1.0F));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = rank; i < 90; i += kRanks + 1)
      data[rank][i] = kNan;
  }
  const auto before = data;
  const Task task{.reduction = WEFT_MAX, .count = 90};
  runner.run([&](std::uint32_t rank) {
    return world.items(rank, task, 0, data[rank].data(), data[rank].data());
  });
  for (std::size_t i = 0; i < 90; ++i) {
    bool any = false;
    for (const auto& own : before)
      any = any || std::isnan(own[i]);
    for (const auto& own : data)
      EXPECT_EQ(std::isnan(own[i]), any) << i;
  }
}

}  // namespace
}  // namespace weft::device::testing
