// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A plan bound to connections: what the ports are told to move is what the kernels will move.
#include "core/comm/bound_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/schedule/planner.h"
#include "core/transport/net_devices.h"
#include "tests/support/loopback_net.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

// Neighbours by number are on different hosts.
constexpr std::array<test::Placement, 4> kAlternating = {{{.host = 0, .process = 0},
                                                          {.host = 1, .process = 0},
                                                          {.host = 0, .process = 1},
                                                          {.host = 1, .process = 1}}};

TEST(BoundPlan, TellsEachPortTheStepsOfItsConnections) {
  constexpr SlotGeometry kGeometry{.steps = 8, .step_bytes = 1024};
  const Topology topology = test::one_host(3);
  for (const Operation operation : {Operation::kAllReduce, Operation::kBroadcast}) {
    const Task task{.operation = operation,
                    .type = WEFT_FLOAT32,
                    .reduction = WEFT_SUM,
                    .root = operation == Operation::kBroadcast ? 1U : 0U,
                    .count = 50'000};
    const auto plan = std::make_shared<const Plan>(
        make_plan(task, {.topology = topology,
                         .costs = {},
                         .limits = {.steps = 8, .step_bytes = 1024, .max_channels = 2},
                         .algorithms = {},
                         .protocols = {}})
            .value());
    ASSERT_FALSE(plan->channels.empty());
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      test::LoopbackNet net;
      weft_net* mine = net.open();
      weft_net* others = net.open();
      {
        MemoryAccount memory(net.runtime());
        NetPort port(net.plugin(), mine, net.runtime(), memory, [](const Error&) {});
        NetPort far(net.plugin(), others, net.runtime(), memory, [](const Error&) {});
        std::map<PairLink, PairConnections> pairs;
        std::string expected;
        for (std::size_t i = 0; i < plan->channels.size(); ++i) {
          const RingPlace place = ring_place(*plan, i, rank);
          const std::uint32_t channel = plan->channels[i].index;
          ConnectionEnd& from = pairs[{.peer = place.previous, .channel = channel}].from;
          ConnectionEnd& to = pairs[{.peer = place.next, .channel = channel}].to;
          const auto in = net.connect(others, mine);
          const auto out = net.connect(mine, others);
          ASSERT_TRUE(far.add(in.sender, WEFT_DIRECTION_SEND, rank, kGeometry));
          ASSERT_TRUE(far.add(out.receiver, WEFT_DIRECTION_RECV, rank, kGeometry));
          from.port = to.port = &port;
          from.port_connection =
              port.add(in.receiver, WEFT_DIRECTION_RECV, place.previous, kGeometry).value();
          to.port_connection =
              port.add(out.sender, WEFT_DIRECTION_SEND, place.next, kGeometry).value();
          const std::uint64_t received = steps_received(*plan, i, rank);
          const std::uint64_t sent = steps_sent(*plan, i, rank);
          if (received != 0) {
            expected += fmt::format(
                "\n  loopback from rank {}: 0 of {} messages done, {} under way", place.previous,
                received, std::min<std::uint64_t>(received, kGeometry.steps));
          }
          if (sent != 0) {
            expected += fmt::format("\n  loopback to rank {}: 0 of {} messages done, 0 under way",
                                    place.next, sent);
          }
        }
        const auto pair = [&](const PairLink& link) -> const PairConnections& {
          return pairs.at(link);
        };
        BoundPlan bound(plan, rank, {.direct = nullptr, .pair = pair});
        std::vector<float> data(task.count);
        std::vector<WorkItem> items(99);
        bound.make_items(items);
        bound.set_call(nullptr, data.data(), {}, 7, items);
        bound.enqueue_messages(items);
        EXPECT_EQ(port.describe_waiting(), expected);

        ASSERT_EQ(items.size(), plan->channels.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
          EXPECT_EQ(items[i].send, nullptr);
          EXPECT_EQ(items[i].recv,
                    reinterpret_cast<std::byte*>(data.data() + plan->channels[i].offset));
          EXPECT_EQ(items[i].count, plan->channels[i].count);
          EXPECT_EQ(items[i].tag, 7U);
          EXPECT_EQ(items[i].ring_position, ring_place(*plan, i, rank).position);
        }
      }
      net.plugin().close(mine);
      net.plugin().close(others);
    }
  }
}

// For each protocol other connections.
TEST(BoundPlan, RingsNeedBothNeighbours) {
  const auto edges_of = [](std::uint32_t ranks, const char* protocol, std::uint32_t rank) {
    const Topology topology = test::one_host(ranks);
    const Plan plan = make_plan({.operation = Operation::kAllGather, .count = 50'000},
                                {.topology = topology,
                                 .limits = {.max_channels = 2, .line_step_bytes = 1024},
                                 .algorithms = {"ring"},
                                 .protocols = {protocol}})
                          .value();
    EXPECT_EQ(plan.channels.size(), 2U);
    auto links = links_of(plan, rank, {});
    std::ranges::sort(links, {},
                      [](const PairLink& link) { return std::pair(link.channel, link.peer); });
    return links;
  };
  const std::vector<PairLink> simple = {{.peer = 1, .channel = 0},
                                        {.peer = 2, .channel = 0},
                                        {.peer = 1, .channel = 1},
                                        {.peer = 2, .channel = 1}};
  EXPECT_EQ(edges_of(3, "simple", 0), simple);
  const std::vector<PairLink> ll = {{.peer = 0, .channel = kFirstLLChannel},
                                    {.peer = 2, .channel = kFirstLLChannel},
                                    {.peer = 0, .channel = kFirstLLChannel + 1},
                                    {.peer = 2, .channel = kFirstLLChannel + 1}};
  EXPECT_EQ(edges_of(3, "ll", 1), ll);
  // One neighbour on both sides.
  const std::vector<PairLink> ll128 = {{.peer = 0, .channel = kFirstLL128Channel},
                                       {.peer = 0, .channel = kFirstLL128Channel + 1}};
  EXPECT_EQ(edges_of(2, "ll128", 1), ll128);
}

// So do small calls with a root, by rings and by trees the same.
TEST(BoundPlan, SmallSlotsHaveEdgesOfTheirOwn) {
  const auto edges_of = [](const char* algorithm, std::uint64_t count) {
    const Topology topology = test::one_host(2);
    const Plan plan =
        make_plan({.operation = Operation::kBroadcast, .count = count},
                  {.topology = topology,
                   .limits = {.trees = true, .small_step_bytes = 1024, .small_steps = 64},
                   .algorithms = {algorithm}})
            .value();
    return links_of(plan, 1, {});
  };
  const std::vector<PairLink> small = {{.peer = 0, .channel = kFirstSmallChannel}};
  EXPECT_EQ(edges_of("ring", 2), small);
  EXPECT_EQ(edges_of("tree", 2), small);
  const std::vector<PairLink> ring = {{.peer = 0, .channel = 0}};
  EXPECT_EQ(edges_of("ring", 1000), ring);
  const std::vector<PairLink> tree = {{.peer = 0, .channel = kFirstTreeChannel}};
  EXPECT_EQ(edges_of("tree", 1000), tree);
}

// What writes to each other directly, or into outputs, which is agreed on that way, needs inboxes.
TEST(BoundPlan, DirectCallsNeedInboxesOfAll) {
  const Topology topology = test::one_host(4);
  const PlanLimits limits{.direct_bytes = 1 << 20, .direct_block_bytes = 1 << 20};
  const Plan direct = make_plan({.operation = Operation::kAllReduce, .count = 100},
                                {.topology = topology, .limits = limits, .algorithms = {"direct"}})
                          .value();
  const std::vector<PairLink> inboxes = {{.peer = 0, .channel = kDirectChannel},
                                         {.peer = 1, .channel = kDirectChannel},
                                         {.peer = 3, .channel = kDirectChannel}};
  EXPECT_EQ(links_of(direct, 2, inboxes), inboxes);
  EXPECT_EQ(inbox_links(std::vector<std::uint32_t>(4, 1), 2), inboxes);
  const std::vector<PairLink> stripes = {{.peer = 0, .channel = kDirectChannel},
                                         {.peer = 2, .channel = kDirectChannel},
                                         {.peer = 2, .channel = inbox_channel(1)}};
  EXPECT_EQ(inbox_links(std::vector<std::uint32_t>{1, 9, 2}, 1), stripes);
  Plan ring = make_plan({.operation = Operation::kAllGather, .count = 1 << 20},
                        {.topology = topology, .limits = limits, .algorithms = {"ring"}})
                  .value();
  EXPECT_EQ(links_of(ring, 2, inboxes).size(), 2 * ring.channels.size());
  ring.into_outputs = true;
  EXPECT_EQ(links_of(ring, 2, inboxes).size(), 3 + 2 * ring.channels.size());
}

// Between whom data goes, for people: of each way, whoever sends steps sends them to somebody, and
// a rank is connected with the same ranks.
TEST(BoundPlan, HopsLeadWhereStepsGo) {
  const Topology topology = test::sample_topology(kAlternating);
  int plans = 0;
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kBroadcast, Operation::kReduce, Operation::kAllGather,
        Operation::kReduceScatter}) {
    for (const char* algorithm : {"ring", "tree", "pat", "direct", "two-shot", "chain"}) {
      SCOPED_TRACE(fmt::format("{} by {}", operation_name(operation), algorithm));
      const auto plan = make_plan(
          {.operation = operation, .root = has_root(operation) ? 2U : 0U, .count = 20'000},
          {.topology = topology,
           .limits = {.step_bytes = 16384,
                      .max_channels = 2,
                      .direct_bytes = 1 << 20,
                      .direct_block_bytes = 1 << 20,
                      .two_shot_range = 65536,
                      .trees = true},
           .algorithms = {algorithm},
           .deterministic = std::string(algorithm) == "chain"});
      if (!plan) continue;
      ++plans;
      const auto hops = hops_of(*plan, 3);
      const bool ring = plan->algorithm == Algorithm::kRing;
      for (std::uint32_t rank = 0; rank < plan->ranks; ++rank) {
        std::set<std::uint32_t> partners;
        for (std::size_t i = 0; i < plan->channels.size(); ++i) {
          const auto channel =
              static_cast<std::uint32_t>(ring                             ? plan->channels[i].index
                                         : goes_directly(plan->algorithm) ? kDirectChannel
                                                                          : kFirstTreeChannel + i);
          bool sends = false;
          bool receives = false;
          for (const NetEdge& hop : hops) {
            if (hop.channel != channel || (hop.from != rank && hop.to != rank)) continue;
            sends = sends || hop.from == rank;
            receives = receives || hop.to == rank;
            partners.insert(hop.from == rank ? hop.to : hop.from);
          }
          EXPECT_EQ(sends, steps_sent(*plan, i, rank) != 0) << rank;
          EXPECT_EQ(receives, steps_received(*plan, i, rank) != 0) << rank;
        }
        std::set<std::uint32_t> connected;
        const auto inboxes = inbox_links(std::vector<std::uint32_t>(plan->ranks, 1), rank);
        for (const PairLink& link : links_of(*plan, rank, inboxes))
          connected.insert(link.peer);
        // A ring without a step, and inboxes of others than the root, are connected all the same.
        if (ring || goes_directly(plan->algorithm)) {
          EXPECT_TRUE(std::ranges::includes(connected, partners)) << rank;
        } else {
          EXPECT_EQ(partners, connected) << rank;
        }
      }
      if (ring && operation == Operation::kAllReduce) {
        const std::vector<std::pair<std::uint32_t, std::uint32_t>> round = {
            {0, 2}, {0, 3}, {1, 2}, {1, 3}};
        EXPECT_EQ(joined_pairs(hops), round) << "not in the order of ranks";
      }
    }
  }
  EXPECT_EQ(plans, 18) << "rings of all, trees, chains and PAT of three, direct calls of four";
}

}  // namespace
}  // namespace weft
