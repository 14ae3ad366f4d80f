// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What kernels of many channels unpack from their argument are the items that the plan has, of each
// algorithm, with tables that are carried and that are not.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/bound_plan.h"
#include "core/comm/link_tables.h"
#include "core/device/cuda/ring_argument.h"
#include "core/device/packed_item.h"
#include "core/schedule/planner.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/support/memory_runtime.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

struct Case {
  const char* name;
  Operation operation;
  std::string_view algorithm;
  std::string_view protocol = "simple";
  std::uint32_t ranks = 4;
  std::uint32_t channels = 9;

  friend void PrintTo(const Case& self, std::ostream* to) { *to << self.name; }
};

std::shared_ptr<const Plan> plan_of(const Case& a_case) {
  // No two channels have as much, nor do the chunks of those of a tree.
  constexpr std::uint64_t kCount = (std::uint64_t{1} << 22) + 12'345;
  const Topology topology = test::one_host(a_case.ranks);
  PlanLimits limits{.max_channels = a_case.channels,
                    .min_channel_bytes = 1,
                    .trees = true,
                    .line_step_bytes = 4096};
  if (a_case.ranks == 2) limits.both_ends_from = 1;
  Plan plan = make_plan({.operation = a_case.operation,
                         .type = WEFT_FLOAT16,
                         .reduction = WEFT_SUM,
                         .root = has_root(a_case.operation) ? 1U : 0U,
                         .count = kCount},
                        {.topology = topology,
                         .limits = limits,
                         .algorithms = {std::string(a_case.algorithm)},
                         .protocols = {std::string(a_case.protocol)},
                         .deterministic = a_case.algorithm == "chain",
                         .channels = a_case.channels})
                  .value();
  EXPECT_EQ(plan.channels.size(), a_case.channels);
  // As over several hosts, where rings differ.
  for (std::size_t i = 0; i < plan.channels.size() && a_case.algorithm == "ring"; ++i) {
    auto& ring = plan.channels[i].ring;
    std::ranges::rotate(ring, ring.begin() + static_cast<std::ptrdiff_t>(i % ring.size()));
  }
  if (has_uneven_blocks(a_case.operation)) {
    // The last one has nothing on some channels.
    for (std::uint32_t rank = 0; rank < a_case.ranks; ++rank) {
      plan.blocks.push_back(
          {.offset = rank * kCount, .count = rank + 1 < a_case.ranks ? kCount - rank : kCount / 2});
    }
  }
  return std::make_shared<const Plan>(std::move(plan));
}

bool are_alike(const ConnectionView& one, const ConnectionView& other) {
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

void expect_alike(const WorkItem& item, const WorkItem& wanted) {
  EXPECT_EQ(item.operation, wanted.operation);
  EXPECT_EQ(item.algorithm, wanted.algorithm);
  EXPECT_EQ(item.protocol, wanted.protocol);
  EXPECT_EQ(item.rounds_each, wanted.rounds_each);
  EXPECT_EQ(item.both_ends, wanted.both_ends);
  EXPECT_EQ(item.type, wanted.type);
  EXPECT_EQ(item.reduction, wanted.reduction);
  EXPECT_EQ(item.send, wanted.send);
  EXPECT_EQ(item.recv, wanted.recv);
  EXPECT_EQ(item.count, wanted.count);
  EXPECT_EQ(item.chunk, wanted.chunk);
  EXPECT_EQ(item.stride, wanted.stride);
  EXPECT_EQ(item.ranks, wanted.ranks);
  EXPECT_EQ(item.ring_position, wanted.ring_position);
  EXPECT_EQ(item.tag, wanted.tag);
  EXPECT_TRUE(are_alike(item.from_previous, wanted.from_previous));
  EXPECT_TRUE(are_alike(item.to_next, wanted.to_next));
  EXPECT_EQ(item.tree, wanted.tree);
  EXPECT_EQ(item.pat, wanted.pat);
  EXPECT_EQ(item.chain, wanted.chain);
  EXPECT_EQ(item.factor.bits, wanted.factor.bits);
  EXPECT_EQ(item.factor.from, wanted.factor.from);
  ASSERT_EQ(item.ring == nullptr, wanted.ring == nullptr);
  ASSERT_EQ(item.blocks == nullptr, wanted.blocks == nullptr);
  if (wanted.ring != nullptr) {
    EXPECT_TRUE(std::ranges::equal(std::span(item.ring, wanted.ranks),
                                   std::span(wanted.ring, wanted.ranks)));
  }
  if (wanted.blocks != nullptr) {
    EXPECT_TRUE(std::ranges::equal(std::span(item.blocks, wanted.ranks),
                                   std::span(wanted.blocks, wanted.ranks)));
  }
}

/// As a CTA of the kernel does.
void expect_unpacked(const device::cuda::PackedRingArgument& argument,
                     std::span<const WorkItem> wanted) {
  for (std::uint32_t index = 0; index < wanted.size(); ++index) {
    SCOPED_TRACE(index);
    WorkItem item;
    std::array<Extent, device::kMostStagedRanks> blocks{};
    std::array<std::uint32_t, device::kMostStagedRanks> ring{};
    device::testing::LaneTeams teams;
    teams.add("lanes", 8, [&](device::testing::LaneGroup& group) {
      device::unpack_item(group, argument.first, argument.items, index,
                          {.item = &item, .blocks = blocks.data(), .ring = ring.data()});
    });
    teams.run();
    expect_alike(item, wanted[index]);
  }
}

/// As one of a kernel that is given the connections.
void expect_unpacked(const device::cuda::LinkedRingArgument& argument,
                     std::span<const WorkItem> wanted) {
  for (std::size_t index = 0; index < wanted.size(); ++index) {
    SCOPED_TRACE(index);
    const device::ReduceItem item =
        device::unpack_reduce(argument.first, argument.items.items[index], argument.links[index]);
    EXPECT_TRUE(are_alike(item.from_previous, wanted[index].from_previous));
    EXPECT_TRUE(are_alike(item.to_next, wanted[index].to_next));
    EXPECT_EQ(item.both_ends, wanted[index].both_ends);
    EXPECT_EQ(item.send, wanted[index].send);
    EXPECT_EQ(item.recv, wanted[index].recv);
    EXPECT_EQ(item.count, wanted[index].count);
    EXPECT_EQ(item.chunk, wanted[index].chunk);
    EXPECT_EQ(item.ranks, wanted[index].ranks);
    EXPECT_EQ(item.ring_position, wanted[index].ring_position);
    EXPECT_EQ(item.tag, wanted[index].tag);
  }
}

class PackedItemsOf : public testing::TestWithParam<Case> {};

TEST_P(PackedItemsOf, AreThoseOfThePlan) {
  const auto plan = plan_of(GetParam());
  const std::uint32_t rank = plan->ranks == 2 ? 0 : 2;
  std::map<PairLink, PairConnections> pairs;
  std::vector<ConnectionCursor> cursors(1000);
  for (const PairLink& link : links_of(*plan, rank, {})) {
    PairConnections& pair = pairs[link];
    pair.from.view.cursor = &cursors[2 * pairs.size()];
    pair.to.view.cursor = &cursors[2 * pairs.size() + 1];
    pair.from.view.peer = pair.to.view.peer = link.peer;
  }
  const auto find = [&](const PairLink& link) -> const PairConnections& { return pairs.at(link); };
  test::MemoryRuntime runtime;
  MemoryAccount account(runtime);
  LinkTables tables(account);
  BoundPlan::Ends ends{.direct = nullptr, .pair = find};
  if (PlanTables::needed(*plan)) ends.tables = PlanTables::create(account, *plan).value();
  ends.packs_items = true;
  const std::vector<RingLinks> links = ring_links(*plan, rank, find);
  EXPECT_EQ(links.empty(), plan->algorithm != Algorithm::kRing);
  if (!links.empty()) ends.links = tables.find(links).value();
  const BoundPlan bound(plan, rank, ends);
  ASSERT_TRUE(bound.bring_links(nullptr));

  std::vector<WorkItem> items;
  bound.make_items(items);
  for (std::size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(items[i].both_ends, plan->both_ends ? both_ends_of(i) : BothEnds::kNo);
  std::array<std::byte, 64> buffer{};
  const Factor factor{.bits = 3};
  const bool only_sends = has_root(plan->task.operation);
  for (OperationTag tag = 1; tag < 3; ++tag) {  // calls of one plan, one after the other
    const std::byte* const send = buffer.data() + tag;
    bound.set_call(send, only_sends ? nullptr : buffer.data() + 8 * tag, factor, tag, items);
    Launch launch{.items = items, .packed = bound.packed(), .links = bound.links()};
    ASSERT_NE(launch.packed, nullptr);
    EXPECT_EQ(launch.links == nullptr, launch.packed->links == nullptr);
    device::cuda::PackedRingArgument argument{};
    fill(launch, argument);
    expect_unpacked(argument, items);
    if (plan->task.operation != Operation::kReduce) continue;
    device::cuda::LinkedRingArgument linked{};
    fill(launch, linked);
    expect_unpacked(static_cast<const device::cuda::PackedRingArgument&>(linked), items);
    expect_unpacked(linked, items);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PackedItemsOf,
    testing::Values(Case{"AllReduce", Operation::kAllReduce, "ring"},
                    Case{"AllReduceOfAll", Operation::kAllReduce, "ring", "simple", 3, 64},
                    Case{"AllReduceByLl", Operation::kAllReduce, "ring", "ll"},
                    Case{"AllReduceByLl128", Operation::kAllReduce, "ring", "ll128"},
                    Case{"Broadcast", Operation::kBroadcast, "ring"},
                    Case{"Reduce", Operation::kReduce, "ring"},
                    Case{"BroadcastByBothEnds", Operation::kBroadcast, "ring", "simple", 2},
                    Case{"ReduceByBothEnds", Operation::kReduce, "ring", "simple", 2},
                    Case{"AllGather", Operation::kAllGather, "ring", "simple", 8},
                    Case{"AllGatherOfMany", Operation::kAllGather, "ring", "simple", 9},
                    Case{"AllGatherOfMore", Operation::kAllGather, "ring", "simple", 65},
                    Case{"ReduceScatter", Operation::kReduceScatter, "ring"},
                    Case{"AllGatherV", Operation::kAllGatherV, "ring", "simple", 8},
                    Case{"AllGatherVOfMany", Operation::kAllGatherV, "ring", "simple", 9},
                    Case{"ReduceScatterVOfMore", Operation::kReduceScatterV, "ring", "simple", 65},
                    Case{"ReduceScatterV", Operation::kReduceScatterV, "ring"},
                    Case{"AllReduceByTree", Operation::kAllReduce, "tree"},
                    Case{"AllReduceByPat", Operation::kAllReduce, "pat"},
                    Case{"AllGatherByPat", Operation::kAllGather, "pat"},
                    Case{"ReduceScatterByChain", Operation::kReduceScatter, "chain"}),
    [](const auto& info) { return info.param.name; });

// Fewer are launched as they are.
TEST(WholeItems, AreInTheArgumentAsTheyAre) {
  const auto plan = plan_of(
      {.name = "", .operation = Operation::kAllGatherV, .algorithm = "ring", .channels = 8});
  const PairConnections none;
  const auto find = [&](const PairLink& /*link*/) -> const PairConnections& { return none; };
  const BoundPlan bound(plan, 1, {.direct = nullptr, .pair = find});
  EXPECT_EQ(bound.packed(), nullptr);
  std::vector<WorkItem> items;
  bound.make_items(items);
  Launch launch{.items = items};
  device::cuda::WholeRingArgument argument{};
  fill(launch, argument);
  for (std::size_t i = 0; i < items.size(); ++i) {
    expect_alike(argument.items[i], items[i]);
    for (std::uint32_t rank = 0; rank < plan->ranks; ++rank) {
      EXPECT_EQ(argument.tables[i].ring[rank], items[i].ring[rank]);
      EXPECT_EQ(argument.tables[i].blocks[rank][0], items[i].blocks[rank].offset);
      EXPECT_EQ(argument.tables[i].blocks[rank][1], items[i].blocks[rank].count);
    }
  }
}

}  // namespace
}  // namespace weft
