// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// An item that many lanes unpack, as the threads of a GPU's CTA do, is seen whole by each of them.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/packed_item.h"
#include "core/device/reductions.h"
#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

class PackedItemLanes : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(PackedItemLanes, SeeOneItem) {
  constexpr std::uint32_t kRanks = 3;
  constexpr std::uint32_t kIndex = 1;
  std::array<std::byte, 64> memory{};
  std::vector<RingLinks> links(kIndex + 1);
  links[kIndex].from_previous.peer = 2;
  links[kIndex].to_next.step_bytes = 4096;
  const std::uint32_t any_ring = 0;
  const Extent any_block;
  WorkItem first;
  first.operation = Operation::kAllGatherV;
  first.type = WEFT_FLOAT16;
  first.recv = memory.data();
  first.ranks = kRanks;
  first.tag = 77;
  first.ring = &any_ring;
  first.blocks = &any_block;
  PackedItems packed{.links = links.data()};
  packed.blocks[2] = {.offset = 100, .count = 12};
  packed.items[kIndex] = {
      .offset = 8, .count = 5, .chunk = 4, .ring_position = 2, .ring = {2, 0, 1}};

  WorkItem item;
  std::array<Extent, kMostStagedRanks> blocks{};
  std::array<std::uint32_t, kMostStagedRanks> ring{};
  LaneTeams teams;
  teams.add("lanes", GetParam(), [&](LaneGroup& group) {
    unpack_item(group, first, packed, kIndex,
                {.item = &item, .blocks = blocks.data(), .ring = ring.data()});
    EXPECT_EQ(item.operation, Operation::kAllGatherV);
    EXPECT_EQ(item.send, nullptr);
    EXPECT_EQ(item.recv, memory.data() + 16);
    EXPECT_EQ(item.count, 5U);
    EXPECT_EQ(item.chunk, 4U);
    EXPECT_EQ(item.ring_position, 2U);
    EXPECT_EQ(item.tag, 77U);
    EXPECT_EQ(item.from_previous.peer, 2U);
    EXPECT_EQ(item.to_next.step_bytes, 4096U);
    EXPECT_EQ(item.ring[0], 2U);
    EXPECT_EQ(item.ring[1], 0U);
    EXPECT_EQ(item.ring[2], 1U);
    EXPECT_EQ(item.blocks[2], (Extent{.offset = 100, .count = 4}));
    EXPECT_EQ(item.tree, nullptr);
  });
  teams.run();
}

// By the second of two items, whose buffers begin behind those of the first one.
TEST_P(PackedItemLanes, ReduceAlongARing) {
  constexpr std::uint32_t kRanks = 3;
  constexpr std::uint32_t kRoot = 1;
  constexpr std::uint64_t kCount = 1000;  // of each item; several times round the slots
  RingWorld world({.ranks = kRanks, .channels = 2, .steps = 2});
  std::vector<std::vector<float>> buffers(kRanks, std::vector<float>(2 * kCount));
  std::vector<float> sums(2 * kCount, -1.0F);
  std::atomic<std::uint32_t> abort = 0;
  LaneTeams teams;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::uint64_t i = 0; i < 2 * kCount; ++i)
      buffers[rank][i] = static_cast<float>(i % 97 * (rank + 1));
    const Task task{.operation = Operation::kReduce,
                    .type = WEFT_FLOAT32,
                    .reduction = WEFT_SUM,
                    .root = kRoot,
                    .count = 2 * kCount};
    const std::vector<WorkItem> items =
        world.items(rank, task, 7, buffers[rank].data(), rank == kRoot ? sums.data() : nullptr);
    teams.add(rank_name(rank), GetParam(), [&abort, items](LaneGroup& group) {
      const WorkItem& own = items[1];
      const RingLinks links{.from_previous = own.from_previous, .to_next = own.to_next};
      const PackedItem packed{.offset = kCount,
                              .count = own.count,
                              .chunk = own.chunk,
                              .ring_position = own.ring_position};
      LaneMemory memory(abort);
      const ReduceItem item = unpack_reduce(items[0], packed, links);
      const KernelOutcome outcome = reduce_among_ranks(group, memory, item, Sum<float>{});
      EXPECT_EQ(outcome.end, KernelEnd::kDone);
      if (outcome.end != KernelEnd::kDone) abort.store(1);
    });
  }
  teams.run();
  for (std::uint64_t i = 0; i < 2 * kCount; ++i)
    ASSERT_EQ(sums[i], i < kCount ? -1.0F : static_cast<float>(i % 97 * 6)) << i;
}

INSTANTIATE_TEST_SUITE_P(All, PackedItemLanes, ::testing::Values(1, 8, 32),
                         [](const auto& info) { return std::to_string(info.param) + "Lanes"; });

}  // namespace
}  // namespace weft::device::testing
