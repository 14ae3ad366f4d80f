// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernel of chains with several lanes a rank: results, over calls that use the same slots, and
// what ends it.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_ranks.h"
#include "tests/device/ring_world.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {
namespace {

constexpr std::uint32_t kChainSteps = 2;
constexpr std::uint32_t kChainStepBytes = 128;

struct ChainCase {
  std::uint32_t ranks = 2;
  Operation operation = Operation::kAllReduce;
  std::uint64_t count = 0;
  weft_reduction reduction = WEFT_SUM;
  std::uint32_t root = 0;
};

/// Ranks, their buffers and their connections. Floats, which tell the order.
class ChainWorld {
 public:
  explicit ChainWorld(const ChainCase& of) : of_(of), links_(of.ranks) {
    const bool scatters = of.operation == Operation::kReduceScatter;
    for (std::uint32_t rank = 0; rank < of.ranks; ++rank) {
      inputs_.emplace_back(scatters ? of.count * of.ranks : of.count);
      outputs_.emplace_back(of.count, -1.0F);
      for (std::size_t i = 0; i < inputs_[rank].size(); ++i)
        inputs_[rank][i] = value(rank, i);
      links_[rank].rank = rank;
      links_[rank].root = of.root;
    }
    for (std::uint32_t rank = 0; rank + 1 < of.ranks; ++rank) {
      Link& up = connections_.emplace_back(kChainSteps, kChainStepBytes, false);
      links_[rank].to_above = up.sender(rank + 1);
      links_[rank + 1].from_below = up.receiver(rank);
      Link& down = connections_.emplace_back(kChainSteps, kChainStepBytes, false);
      links_[rank + 1].to_below = down.sender(rank);
      links_[rank].from_above = down.receiver(rank + 1);
    }
  }

  WorkItem item(std::uint32_t rank, OperationTag tag) {
    WorkItem item;
    item.operation = of_.operation;
    item.algorithm = Algorithm::kChain;
    item.type = WEFT_FLOAT32;
    item.reduction = of_.reduction;
    item.send = reinterpret_cast<const std::byte*>(inputs_[rank].data());
    item.recv = reinterpret_cast<std::byte*>(outputs_[rank].data());
    item.count = of_.count;
    item.chunk = kChainStepBytes / sizeof(float);
    item.stride = of_.operation == Operation::kReduceScatter ? of_.count : 0;
    item.ranks = of_.ranks;
    item.tag = tag;
    item.chain = &links_[rank];
    return item;
  }

  void check() const {
    for (std::uint32_t rank = 0; rank < of_.ranks; ++rank) {
      if (of_.operation == Operation::kReduce && rank != of_.root) continue;
      for (std::uint64_t i = 0; i < of_.count; ++i) {
        const std::uint64_t at =
            i + (of_.operation == Operation::kReduceScatter ? rank * of_.count : 0);
        float due = value(0, at);
        for (std::uint32_t other = 1; other < of_.ranks; ++other)
          due += value(other, at);
        if (of_.reduction == WEFT_AVG) due /= static_cast<float>(of_.ranks);
        ASSERT_EQ(outputs_[rank][i], due) << "rank " << rank << ", element " << i;
      }
    }
  }

 private:
  static float value(std::uint32_t rank, std::uint64_t index) {
    return 1.0F / static_cast<float>(3 + 11 * rank + 7 * index);
  }

  ChainCase of_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::deque<Link> connections_;
  std::vector<ChainLinks> links_;
};

LaneOutcomes run_chain(ChainWorld& world, const LaneCalls& of) {
  return run_lanes(world, of, Reductions<Sum<float>, Average<float>>{},
                   [](auto& group, auto& memory, const WorkItem& item, const auto& reduction) {
                     return run_chain_item(group, memory, item, reduction);
                   });
}

class ChainLanes : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(ChainLanes, ReduceByRankNumbers) {
  for (const std::uint32_t ranks : {2U, 3U, 5U}) {
    if (ranks == 5 && GetParam() > 8) break;
    for (const std::uint64_t count : {3U, 32U, 165U}) {
      for (const Operation operation :
           {Operation::kAllReduce, Operation::kReduce, Operation::kReduceScatter}) {
        const ChainCase of{.ranks = ranks,
                           .operation = operation,
                           .count = count,
                           .reduction = count == 32 ? WEFT_AVG : WEFT_SUM,
                           .root = operation == Operation::kReduce ? ranks / 2 : 0};
        ChainWorld world(of);
        ASSERT_NO_FATAL_FAILURE(
            expect_all_done(run_chain(world, {.ranks = ranks, .lanes = GetParam()})));
        ASSERT_NO_FATAL_FAILURE(world.check())
            << operation_name(operation) << ", " << ranks << " ranks, " << count << " elements";
      }
    }
  }
}

TEST_P(ChainLanes, AnotherTagEndsAllLanes) {
  constexpr std::uint32_t kRanks = 2;
  ChainWorld world({.ranks = kRanks, .operation = Operation::kAllReduce, .count = 20});
  expect_tag_found(run_chain(world, {.ranks = kRanks, .lanes = GetParam(), .wrong_rank = 1}));
}

INSTANTIATE_TEST_SUITE_P(Lanes, ChainLanes, ::testing::Values(1U, 8U, 32U));

TEST(ChainItem, ThatCannotRunIsRefused) {
  ChainWorld world({.ranks = 3, .operation = Operation::kReduce, .count = 3});
  std::atomic<std::uint32_t> abort = 0;
  LaneTeam team(1);
  LaneGroup group(team, 0);
  LaneMemory memory(abort);
  const auto end_of = [&](auto change) {
    WorkItem item = world.item(1, 1);
    ChainLinks links = *item.chain;
    item.chain = &links;
    change(item, links);
    return run_chain_item(group, memory, item, Sum<float>{}).end;
  };
  constexpr KernelEnd kRefused = KernelEnd::kUnsupported;
  EXPECT_EQ(end_of([](WorkItem& item, ChainLinks&) { item.chain = nullptr; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, ChainLinks&) { item.ranks = 1; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, ChainLinks&) { item.chunk = 0; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, ChainLinks&) { item.chunk = kChainStepBytes; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, ChainLinks&) { item.operation = Operation::kBroadcast; }),
            kRefused);
  EXPECT_EQ(end_of([](WorkItem&, ChainLinks& links) { links.rank = 3; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, ChainLinks& links) { links.root = 3; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, ChainLinks& links) { links.to_above = {}; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, ChainLinks& links) { links.from_above.step_bytes = 64; }),
            kRefused);
  EXPECT_EQ(end_of([](WorkItem&, ChainLinks& links) { links.from_below = {}; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, ChainLinks& links) { links.to_below.step_bytes = 64; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, ChainLinks&) { item.count = 0; }), KernelEnd::kDone);
}

}  // namespace
}  // namespace weft::device::testing
