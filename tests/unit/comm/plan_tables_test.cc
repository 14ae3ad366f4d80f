// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The tables of a plan where kernels reach them, and how long they stay there.
#include "core/comm/plan_tables.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
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
      std::vector<RingConnections> rings(2);
      const BoundPlan bound(plan, 3,
                            {.rings = rings, .direct = nullptr, .pair = {}, .tables = tables});
      EXPECT_EQ(bound.tables(), tables);
      std::vector<WorkItem> items;
      bound.work_items(nullptr, nullptr, {}, 0, items);
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

TEST(PlanTables, NoMemory) {
  test::MemoryRuntime runtime;
  runtime.fail = true;
  MemoryAccount account(runtime);
  const auto tables = PlanTables::create(account, *plan_of(Operation::kAllGather, kMany));
  ASSERT_FALSE(tables);
  EXPECT_EQ(tables.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
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
