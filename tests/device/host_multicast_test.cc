// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls by multicast of ranks on CPUs, which stand in for GPUs: every type and reduction that
// switches combine, all sizes, buffers that begin anywhere.
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/multicast.h"
#include "tests/device/direct_world.h"
#include "tests/device/host_direct.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

class HostMulticastOf : public HostDirect {
 protected:
  WorkItem item_of(const DirectWorld& world, std::uint32_t rank, const Task& task,
                   std::uint64_t sequence, const void* send, void* recv) override {
    return world.multicast_item(rank, task, sequence, send, recv);
  }
  [[nodiscard]] DirectWorld make_world() const {
    DirectWorld world(GetParam(), 256);
    world.add_multicast(std::uint64_t{512} * GetParam());
    return world;
  }
};

TEST_P(HostMulticastOf, AllSizes) {
  DirectWorld world = make_world();
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

TEST_P(HostMulticastOf, AllThatSwitchesCombine) {
  DirectWorld world = make_world();
  std::uint32_t combined = 0;
  const auto each = [&]<class T>(T /*type*/) {
    for (const weft_reduction reduction : std::to_array<weft_reduction>(
             {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG, kPremulSum})) {
      if (!switches_combine(kTypeOf<T>, reduction)) {
        T value{};
        const WorkItem item = world.multicast_item(
            0, {.type = kTypeOf<T>, .reduction = reduction, .count = 1}, 0, &value, &value);
        EXPECT_EQ(run({item})[0].end, KernelEnd::kUnsupported);
        continue;
      }
      ++combined;
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
  // Five of each of four types of integers, three of each of four of floats.
  EXPECT_EQ(combined, 4U * 5 + 4U * 3);
}

TEST_P(HostMulticastOf, NarrowFloatsAreRoundedAsBySwitches) {
  DirectWorld world = make_world();
  const auto item_of = [&](auto&&... call) { return world.multicast_item(call...); };
  for (const weft_reduction reduction :
       std::to_array<weft_reduction>({WEFT_SUM, WEFT_AVG, kPremulSum})) {
    const NarrowCall call{
        .ranks = GetParam(), .reduction = reduction, .rounding = Rounding::kSwitch};
    narrow<Float16>(call, item_of);
    narrow<Bfloat16>(call, item_of);
  }
}

TEST_P(HostMulticastOf, SleepersAreWoken) {
  DirectWorld world = make_world();
  late_ = std::chrono::milliseconds(5);  // longer than anybody yields
  for (int i = 0; i < 3; ++i)
    all_reduce<float>(world, 2000, 0, true);
}

// Between one-shots and two-shots, whose exchanges are counted with these.
TEST_P(HostMulticastOf, MixesWithOtherDirectCalls) {
  DirectWorld world = make_world();
  sum_in_a_row(300, 60, [&](std::uint32_t call, std::uint32_t rank, const Task& task, void* own) {
    return call % 3 == 0   ? world.item(rank, task, call, own, own)
           : call % 3 == 1 ? world.two_shot_item(rank, task, call, own, own, 64)
                           : world.multicast_item(rank, task, call, own, own, 64);
  });
}

TEST_P(HostMulticastOf, WithoutSuchMemoryItIsRefused) {
  DirectWorld world = make_world();
  float value = 1;
  WorkItem item = world.multicast_item(0, {.count = 1}, 0, &value, &value);
  DirectPeers without = *item.direct;
  item.direct = &without;
  without.multicast = nullptr;
  EXPECT_EQ(run({item})[0].end, KernelEnd::kUnsupported);
  MulticastView of_a_gpu = *world.peers(0).multicast;
  of_a_gpu.each = nullptr;
  without.multicast = &of_a_gpu;
  EXPECT_EQ(run({item})[0].end, KernelEnd::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostMulticastOf, ::testing::Values(2, 3, 5, 8));

}  // namespace
}  // namespace weft::device::testing
