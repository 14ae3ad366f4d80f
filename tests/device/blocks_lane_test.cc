// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The direct one-shots of calls with blocks or a root, with 1, 8 and 32 lanes a part and several
// parts a rank.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/any_reduction.h"
#include "core/device/one_shot_blocks.h"
#include "core/device/work_item_kernel.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {
namespace {

using BlockElements = std::vector<std::int32_t>;
constexpr std::int32_t kUntouchedBlock = 77;

struct BlockShape {
  std::uint32_t ranks;
  std::uint32_t parts;
  std::uint32_t lanes;
};

/// Element `i` of what `from` has for `to`.
std::int32_t block_element(std::uint32_t from, std::uint32_t to, std::uint64_t i,
                           std::uint64_t call) {
  return static_cast<std::int32_t>(from * 1'000'003 + to * 10'007 + i * 101 + call);
}

bool has_share_for_each(Operation operation) {
  return operation == Operation::kAllToAll || operation == Operation::kScatter ||
         operation == Operation::kReduceScatter;
}

class BlockLanes : public ::testing::TestWithParam<BlockShape> {
 protected:
  /// Each rank's leaders' outcomes.
  std::vector<std::vector<KernelOutcome>> run(const std::vector<WorkItem>& items) {
    const auto [ranks, parts, lanes] = GetParam();
    std::vector<std::vector<KernelOutcome>> outcomes(ranks, std::vector<KernelOutcome>(parts));
    LaneTeams teams;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t part = 0; part < parts; ++part) {
        const auto run_lane = [&, rank, part, count = parts](LaneGroup& group) {
          const WorkItem& item = items[rank];
          LaneMemory memory(abort_);
          const KernelOutcome outcome = run_item(item, group, memory, part, count);
          if (group.leader()) outcomes[rank][part] = outcome;
        };
        teams.add(rank_name(rank) + " part " + std::to_string(part), lanes, run_lane);
      }
    }
    teams.run();
    return outcomes;
  }

  static KernelOutcome run_item(const WorkItem& item, LaneGroup& group, LaneMemory& memory,
                                std::uint32_t part, std::uint32_t parts) {
    if (!reduces(item.operation)) {
      return run_blocks_item<kMostDirectRanks, false>(group, memory, moved_as_bytes(item),
                                                      *item.direct, MovedBytes{}, part, parts);
    }
    const auto reduce = [&](const auto& reduction) {
      return item.operation == Operation::kAllReduce
                 ? run_direct_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction,
                                                     part, parts)
                 : run_blocks_item<kMostDirectRanks, true>(group, memory, item, *item.direct,
                                                           reduction, part, parts);
    };
    return with_reduction(Reductions<Sum<std::int32_t>>{}, item, reduce);
  }

  WorkItem item(const DirectWorld& world, std::uint32_t rank, const Task& task, std::uint64_t call,
                const void* send, void* recv) const {
    WorkItem made = world.item(rank, task, call, send, recv);
    const std::uint32_t ranks = GetParam().ranks;
    made.stride = task.count;
    made.ring_position = (rank + ranks - (has_root(task.operation) ? task.root : 0)) % ranks;
    return made;
  }

  /// What element `i` of rank `rank`'s output must be.
  [[nodiscard]] std::int32_t expected(const Task& task, std::uint32_t rank, std::uint64_t i,
                                      std::uint64_t call) const {
    const std::uint32_t ranks = GetParam().ranks;
    const auto block = static_cast<std::uint32_t>(i / task.count);
    const std::uint64_t at = i % task.count;
    const bool is_root = rank == task.root;
    const auto sum = [&](std::uint32_t share) {
      std::uint32_t all = 0;
      for (std::uint32_t from = 0; from < ranks; ++from)
        all += static_cast<std::uint32_t>(block_element(from, share, at, call));
      return static_cast<std::int32_t>(all);
    };
    switch (task.operation) {
      case Operation::kAllGather:
        return block_element(block, 0, at, call);
      case Operation::kAllToAll:
        return block_element(block, rank, at, call);
      case Operation::kGather:
        return is_root ? block_element(block, 0, at, call) : kUntouchedBlock;
      case Operation::kScatter:
        return block == 0 ? block_element(task.root, rank, at, call) : kUntouchedBlock;
      case Operation::kBroadcast:
        return block == 0 ? block_element(task.root, 0, at, call) : kUntouchedBlock;
      case Operation::kReduceScatter:
        return block == 0 ? sum(rank) : kUntouchedBlock;
      case Operation::kReduce:
        return is_root && block == 0 ? sum(0) : kUntouchedBlock;
      default:
        return 0;
    }
  }

  void check(DirectWorld& world, const Task& task, std::uint64_t call, std::uint64_t shift) {
    const std::uint32_t ranks = GetParam().ranks;
    const std::uint64_t all = task.count * ranks;
    std::vector<BlockElements> input(ranks, BlockElements(all + shift));
    std::vector<BlockElements> output(ranks, BlockElements(all + shift + 1, kUntouchedBlock));
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint64_t i = 0; i < all; ++i) {
        const auto to = has_share_for_each(task.operation)
                            ? static_cast<std::uint32_t>(i / task.count)
                            : std::uint32_t{0};
        input[rank][shift + i] = block_element(rank, to, i % task.count, call);
      }
      items.push_back(
          item(world, rank, task, call, input[rank].data() + shift, output[rank].data() + shift));
    }
    for (const auto& parts : run(items)) {
      for (const KernelOutcome& outcome : parts)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint64_t i = 0; i < all; ++i) {
        ASSERT_EQ(output[rank][shift + i], expected(task, rank, i, call))
            << operation_name(task.operation) << ": rank " << rank << " element " << i;
      }
      ASSERT_EQ(output[rank].back(), kUntouchedBlock);
    }
  }

  std::atomic<std::uint32_t> abort_{0};
};

constexpr Operation kBlockOperations[] = {
    Operation::kAllGather, Operation::kReduceScatter, Operation::kBroadcast, Operation::kReduce,
    Operation::kAllToAll,  Operation::kGather,        Operation::kScatter};

// Over one world, so that calls of all kinds take turns with the halves.
TEST_P(BlockLanes, AllOperationsByTurns) {
  DirectWorld world(GetParam().ranks, 4096);
  std::uint64_t call = 0;
  for (const std::uint64_t count : {1U, 2U, 67U, 300U}) {
    for (const Operation operation : kBlockOperations) {
      const Task task{.operation = operation,
                      .type = WEFT_INT32,
                      .root = static_cast<std::uint32_t>(call % GetParam().ranks),
                      .count = count};
      check(world, has_root(operation) ? task : Task{operation, WEFT_INT32, WEFT_SUM, 0, count},
            call, call % 2);
      ++call;
    }
  }
}

// Two ranks that each expect what the other does not send: the headers end all lanes.
TEST_P(BlockLanes, CallsThatDifferEndOnAllRanks) {
  DirectWorld world(GetParam().ranks, 4096);
  const std::uint32_t ranks = GetParam().ranks;
  std::vector<BlockElements> buffers(std::size_t{2} * ranks,
                                     BlockElements(std::size_t{64} * ranks));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Task task{.operation = Operation::kGather, .type = WEFT_INT32, .root = rank, .count = 64};
    items.push_back(
        item(world, rank, task, 0, buffers[2 * rank].data(), buffers[2 * rank + 1].data()));
  }
  for (const auto& parts : run(items)) {
    for (const KernelOutcome& outcome : parts) {
      EXPECT_TRUE(outcome.end == KernelEnd::kTagMismatch || outcome.end == KernelEnd::kPeerError)
          << static_cast<std::uint32_t>(outcome.end);
    }
  }
}

// Where a part after the first one has its header there is payload of what others call.
TEST_P(BlockLanes, CallsOfAnotherKindAreNamed) {
  DirectWorld world(GetParam().ranks, 4096);
  const std::uint32_t ranks = GetParam().ranks;
  std::vector<BlockElements> buffers(std::size_t{2} * ranks,
                                     BlockElements(std::size_t{64} * ranks, 1234));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Operation operation = rank == 0 ? Operation::kAllToAll : Operation::kAllReduce;
    items.push_back(item(world, rank, {.operation = operation, .type = WEFT_INT32, .count = 64}, 0,
                         buffers[2 * rank].data(), buffers[2 * rank + 1].data()));
  }
  const auto outcomes = run(items);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (const KernelOutcome& outcome : outcomes[rank]) {
      if (outcome.end != KernelEnd::kTagMismatch) continue;
      EXPECT_EQ(outcome.expected, items[rank].tag);
      EXPECT_EQ(outcome.found, items[outcome.peer].tag) << "rank " << rank;
    }
  }
  EXPECT_EQ(outcomes[0][0].end, KernelEnd::kTagMismatch);
}

// Shortly before flags begin again, and beyond.
TEST_P(BlockLanes, FlagsThatBeginAgain) {
  constexpr std::uint32_t kPeriod = 6;
  DirectWorld world(GetParam().ranks, 1024, kPeriod);
  for (std::uint64_t call = 0; call < std::uint64_t{3} * kPeriod; ++call) {
    const Operation operation = kBlockOperations[call % std::size(kBlockOperations)];
    check(
        world,
        {.operation = operation, .type = WEFT_INT32, .root = 0, .count = call % 3 == 0 ? 40U : 1U},
        call, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, BlockLanes,
                         ::testing::Values(BlockShape{2, 1, 1}, BlockShape{2, 1, 8},
                                           BlockShape{2, 3, 8}, BlockShape{3, 2, 8},
                                           BlockShape{2, 1, 32}, BlockShape{8, 1, 1}),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(info.param.ranks) + "Parts" +
                                  std::to_string(info.param.parts) + "Lanes" +
                                  std::to_string(info.param.lanes);
                         });

}  // namespace
}  // namespace weft::device::testing
