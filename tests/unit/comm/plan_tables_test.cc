// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The tables of a plan where kernels reach them, and how long they stay there.
#include "core/comm/plan_tables.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/bound_plan.h"
#include "core/model/work_item.h"
#include "core/schedule/planner.h"
#include "core/schedule/work_items.h"
#include "tests/support/memory_runtime.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

/// A call of `ranks` ranks by rings on two channels; where blocks differ, rank r has r elements
/// less than the longest.
std::shared_ptr<const Plan> plan_of(Operation operation, std::uint32_t ranks) {
  constexpr std::uint64_t kCount = 1 << 20;
  const Topology topology = test::one_host(ranks);
  Plan plan = make_plan({.operation = operation, .count = kCount},
                        {.topology = topology,
                         .limits = {.max_channels = 2, .trees = false},
                         .algorithms = {"ring"},
                         .protocols = {"simple"}})
                  .value();
  EXPECT_EQ(plan.channels.size(), 2U);
  for (std::uint32_t rank = 0; rank < ranks && has_uneven_blocks(operation); ++rank)
    plan.blocks.push_back({.offset = rank * kCount, .count = kCount - rank});
  return std::make_shared<const Plan>(std::move(plan));
}

constexpr std::uint32_t kMany = kMostCarriedRanks + 1;

TEST(PlanTables, OnlyOfBlocksOfManyRanks) {
  EXPECT_TRUE(PlanTables::needed(*plan_of(Operation::kAllGather, kMany)));
  EXPECT_TRUE(PlanTables::needed(*plan_of(Operation::kReduceScatterV, kMany)));
  EXPECT_FALSE(PlanTables::needed(*plan_of(Operation::kAllGatherV, kMostCarriedRanks)));
  EXPECT_FALSE(PlanTables::needed(*plan_of(Operation::kAllReduce, kMany)));
}

TEST(PlanTables, ItemsPointIntoThem) {
  for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatterV}) {
    const auto plan = plan_of(operation, kMany);
    test::MemoryRuntime runtime;
    {
      MemoryAccount account(runtime);
      auto tables = PlanTables::create(account, *plan).value();
      EXPECT_EQ(runtime.live, 1);
      EXPECT_GT(account.bytes_held(), 0U);
      const PairConnections none;
      const auto pair = [&](const PairLink& /*link*/) -> const PairConnections& { return none; };
      const BoundPlan bound(plan, 3, {.direct = nullptr, .pair = pair, .tables = tables});
      EXPECT_EQ(bound.tables(), tables);
      std::vector<WorkItem> items;
      bound.make_items(items);
      for (std::size_t i = 0; i < items.size(); ++i) {
        ASSERT_EQ(items[i].ring, tables->ring(i));
        EXPECT_TRUE(std::ranges::equal(std::span(items[i].ring, kMany), plan->channels[i].ring));
        ASSERT_EQ(items[i].blocks, tables->blocks(i));
        if (plan->blocks.empty()) {
          EXPECT_EQ(items[i].blocks, nullptr);
        } else {
          EXPECT_TRUE(
              std::ranges::equal(std::span(items[i].blocks, kMany), channel_blocks(*plan, i)));
        }
      }
      tables.reset();
      EXPECT_EQ(runtime.live, 1) << "the bound plan has them still";
    }
    EXPECT_EQ(runtime.live, 0);
  }
}

/// A plan of 5 ranks that goes by edges.
std::shared_ptr<const Plan> edge_plan(Operation operation, const char* algorithm) {
  const Topology topology = test::one_host(5);
  return std::make_shared<const Plan>(
      make_plan({.operation = operation, .count = 1 << 20},
                {.topology = topology,
                 .limits = {.max_channels = 3, .trees = true},
                 .algorithms = {algorithm},
                 .deterministic = std::string_view(algorithm) == "chain"})
          .value());
}

// Those of any number of ranks: no argument of a kernel has room for them.
TEST(PlanTables, HoldTheLinksOfEdges) {
  const std::array calls = {
      std::pair(Operation::kAllReduce, "tree"), std::pair(Operation::kReduceScatter, "chain"),
      std::pair(Operation::kAllGather, "pat"), std::pair(Operation::kAllReduce, "pat")};
  for (const auto& [operation, algorithm] : calls) {
    const auto plan = edge_plan(operation, algorithm);
    ASSERT_GT(plan->channels.size(), 1U);
    ASSERT_TRUE(PlanTables::needed(*plan));
    test::MemoryRuntime runtime;
    MemoryAccount account(runtime);
    auto tables = PlanTables::create(account, *plan).value();
    const std::span<const std::byte> memory = runtime.latest;
    const std::size_t held = account.bytes_held();
    std::map<PairLink, PairConnections> pairs;
    for (const PairLink& link : links_of(*plan, 1, {})) {
      pairs[link].to.view.peer = 1000 + 100 * link.channel + link.peer;
      pairs[link].from.view.peer = 100 * link.channel + link.peer;
    }
    const auto pair = [&](const PairLink& link) -> const PairConnections& {
      return pairs.at(link);
    };
    const BoundPlan plain(plan, 1, {.direct = nullptr, .pair = pair});
    const BoundPlan bound(plan, 1, {.direct = nullptr, .pair = pair, .tables = tables});
    std::vector<WorkItem> mine;
    std::vector<WorkItem> theirs;
    plain.make_items(mine);
    bound.make_items(theirs);
    const auto lies_in_tables = [&](const void* at, std::size_t bytes) {
      const auto* const from = static_cast<const std::byte*>(at);
      return from >= memory.data() && from + bytes <= memory.data() + memory.size();
    };
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto alike = [&](const auto* one, const auto* other) {
        ASSERT_EQ(one == nullptr, other == nullptr);
        if (one == nullptr) return;
        EXPECT_NE(one, other);
        // All views, which come first; what is behind them may have gaps.
        constexpr std::size_t kViews =
            sizeof(*one) / sizeof(ConnectionView) * sizeof(ConnectionView);
        EXPECT_EQ(std::memcmp(one, other, kViews), 0) << algorithm << ' ' << i;
        EXPECT_TRUE(lies_in_tables(other, sizeof(*other)));
      };
      alike(mine[i].tree, theirs[i].tree);
      alike(mine[i].chain, theirs[i].chain);
      alike(mine[i].pat, theirs[i].pat);
      EXPECT_EQ(mine[i].ring == nullptr, theirs[i].ring == nullptr);
      if (mine[i].ring != nullptr) {
        EXPECT_TRUE(std::ranges::equal(std::span(mine[i].ring, 5), std::span(theirs[i].ring, 5)));
      }
    }
    EXPECT_EQ(account.bytes_held(), held);
  }
}

TEST(PlanTables, NoMemory) {
  test::MemoryRuntime runtime;
  runtime.fail = true;
  MemoryAccount account(runtime);
  const auto tables = PlanTables::create(account, *plan_of(Operation::kAllGather, kMany));
  ASSERT_FALSE(tables);
  EXPECT_EQ(tables.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(tables.error().what().ends_with("kernels read a plan from: the driver has no more"))
      << tables.error().to_string();
  EXPECT_EQ(tables.error().source(), ErrorSource::kCuda);
  EXPECT_EQ(tables.error().native(), 2);
  EXPECT_EQ(account.bytes_held(), 0U);
}

TEST(PlanTables, RetiredOnesOfGraphsStay) {
  test::MemoryRuntime runtime;
  {
    MemoryAccount account(runtime);
    const auto plan = plan_of(Operation::kAllGatherV, kMany);
    RetiredTables retired;
    retired.add(nullptr);
    EXPECT_EQ(retired.size(), 0U);
    std::size_t added = 0;
    for (; !retired.many(); ++added) {
      auto tables = PlanTables::create(account, *plan).value();
      if (added == 5) tables->note_capture();
      retired.add(std::move(tables));
      ASSERT_LT(added, 1000U);
    }
    EXPECT_EQ(runtime.live, static_cast<int>(added)) << "kernels may read them";
    retired.sweep();
    EXPECT_EQ(runtime.live, 1);
    EXPECT_EQ(retired.size(), 1U);
    EXPECT_FALSE(retired.many());
  }
  EXPECT_EQ(runtime.live, 0);
}

}  // namespace
}  // namespace weft
