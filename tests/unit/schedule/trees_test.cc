// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What trees over ranks look like: how deep, how wide, and how much both trees ask of one rank.

#include "core/schedule/trees.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/tree_links.h"
#include "core/schedule/planner.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using testing::ElementsAre;

std::vector<std::uint32_t> in_order(std::uint32_t ranks) {
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

std::vector<std::uint32_t> children_in(const std::vector<std::uint32_t>& parents) {
  std::vector<std::uint32_t> children(parents.size(), 0);
  for (std::uint32_t rank = 0; rank < parents.size(); ++rank) {
    if (parents[rank] != rank) ++children[parents[rank]];
  }
  return children;
}

std::uint32_t depth_of(const std::vector<std::uint32_t>& parents) {
  std::uint32_t deepest = 0;
  for (std::uint32_t rank = 0; rank < parents.size(); ++rank) {
    std::uint32_t edges = 0;
    for (std::uint32_t at = rank; parents[at] != at && edges <= parents.size(); at = parents[at])
      ++edges;
    deepest = std::max(deepest, edges);
  }
  return deepest;
}

TEST(Trees, OfEightRanksOfOneHost) {
  const Topology topology = test::one_host(8);
  EXPECT_THAT(tree_parents(topology, in_order(8), 0, 0), ElementsAre(0, 2, 4, 2, 0, 6, 4, 6));
  EXPECT_THAT(tree_parents(topology, in_order(8), 0, 1), ElementsAre(0, 3, 1, 0, 5, 3, 5, 1));
}

TEST(Trees, OfOneHostAreLowAndShareTheWork) {
  for (std::uint32_t ranks = 1; ranks <= 130; ++ranks) {
    const Topology topology = test::one_host(ranks);
    for (const std::uint32_t root : {0U, ranks / 2, ranks - 1}) {
      std::vector<std::uint32_t> passing(ranks, 0);  // trees in which a rank has children
      for (std::uint32_t which = 0; which < kTrees; ++which) {
        const auto parents = tree_parents(topology, in_order(ranks), root, which);
        EXPECT_EQ(parents[root], root);
        // As low as can be: a tree of one level less has no room for the ranks below the root.
        if (ranks > 1) {
          EXPECT_LT((std::uint64_t{1} << (depth_of(parents) - 1)) - 1, ranks - 1);
        }
        EXPECT_LE(depth_of(parents), tree_depth(topology));
        const auto children = children_in(parents);
        EXPECT_LE(std::ranges::max(children), 2U) << ranks << " ranks, root " << root;
        EXPECT_LE(children[root], 1U);
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
          passing[rank] += children[rank] > 0 ? 1 : 0;
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        if (rank != root) {
          EXPECT_LE(passing[rank], 1U) << ranks << " ranks, rank " << rank;
        }
      }
    }
  }
}

TEST(Trees, OverHostsJoinOneRankOfEach) {
  for (const std::uint32_t hosts : {2U, 3U, 5U, 8U}) {
    for (const std::uint32_t on_each : {1U, 2U, 4U, 7U}) {
      std::vector<test::Placement> places;
      for (std::uint32_t rank = 0; rank < hosts * on_each; ++rank)
        places.push_back({.host = rank % hosts, .process = rank});
      const Topology topology = test::sample_topology(places);
      const auto ring = rings(topology, 1).front();
      for (std::uint32_t which = 0; which < kTrees; ++which) {
        for (std::uint32_t root = 0; root < places.size(); ++root) {
          const auto parents = tree_parents(topology, ring, root, which);
          std::uint32_t crossing = 0;
          for (std::uint32_t rank = 0; rank < parents.size(); ++rank)
            crossing += topology.same_host(rank, parents[rank]) ? 0 : 1;
          EXPECT_EQ(crossing, hosts - 1);
          EXPECT_LE(std::ranges::max(children_in(parents)), kMostTreeChildren);
          EXPECT_LE(depth_of(parents), tree_depth(topology));
        }
      }
      if (on_each == 1) continue;
      // Both trees enter and leave a host by different ranks.
      const auto leaders = [&](std::uint32_t which) {
        const auto parents = tree_parents(topology, ring, ring.front(), which);
        std::set<std::uint32_t> crossing;
        for (std::uint32_t rank = 0; rank < parents.size(); ++rank) {
          if (!topology.same_host(rank, parents[rank])) crossing.insert(rank);
        }
        return crossing;
      };
      for (const std::uint32_t leader : leaders(0))
        EXPECT_FALSE(leaders(1).contains(leader));
    }
  }
}

class TreePlans : public testing::Test {
 protected:
  Plan plan(Operation operation, std::uint64_t bytes, std::uint32_t channels = 2) const {
    PlanInput input{
        .topology = topology_,
        .limits = {.steps = 8, .step_bytes = 64 * 1024, .max_channels = channels, .trees = true},
        .algorithms = {"tree"}};
    Plan made = make_plan({.operation = operation, .count = bytes / 4}, input).value();
    const Status valid = validate(made, topology_);
    EXPECT_TRUE(valid) << valid.error().to_string();
    return made;
  }
  const Topology topology_ = test::one_host(8);
};

TEST_F(TreePlans, OneTreeForLittleAndTwoForMore) {
  EXPECT_EQ(plan(Operation::kAllReduce, 8).channels.size(), 1U);
  const Plan large = plan(Operation::kAllReduce, 1 << 20);
  ASSERT_EQ(large.channels.size(), 2U);
  EXPECT_NE(large.channels[0].parents, large.channels[1].parents);
}

TEST_F(TreePlans, NoMoreChannelsThanThereAre) {
  // Each is a worker: two of them where there is one processor only stand in each other's way.
  EXPECT_EQ(plan(Operation::kAllReduce, 1 << 20, 1).channels.size(), 1U);
  EXPECT_EQ(plan(Operation::kAllReduce, 1 << 20, 3).channels.size(), 2U);
  EXPECT_EQ(plan(Operation::kAllReduce, 1 << 20, 5).channels.size(), 4U);
}

TEST_F(TreePlans, ChunksFillTheWayUpAndDown) {
  const Plan made = plan(Operation::kAllReduce, 1 << 20);
  EXPECT_GE(tree_steps(made.channels[0]), 2U * tree_depth(topology_));
  EXPECT_LE(made.channels[0].chunk * 4, made.step_bytes);
  EXPECT_EQ(tree_steps(plan(Operation::kAllReduce, 8).channels[0]), 1U);
}

TEST_F(TreePlans, WhatIsSentIsReceived) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kBroadcast, Operation::kReduce}) {
    const Plan made = plan(operation, 100'000);
    for (std::size_t channel = 0; channel < made.channels.size(); ++channel) {
      std::uint64_t sent = 0;
      std::uint64_t received = 0;
      for (std::uint32_t rank = 0; rank < made.ranks; ++rank) {
        sent += steps_sent(made, channel, rank);
        received += steps_received(made, channel, rank);
      }
      const std::uint64_t ways = operation == Operation::kAllReduce ? 2 : 1;
      EXPECT_EQ(sent, ways * (made.ranks - 1) * tree_steps(made.channels[channel]));
      EXPECT_EQ(received, sent);
    }
  }
}

TEST_F(TreePlans, ValidateFindsWhatCannotBeATree) {
  const auto complaint = [&](auto change) {
    Plan made = plan(Operation::kBroadcast, 1024);
    change(made.channels[0]);
    const Status valid = validate(made, topology_);
    return valid ? std::string("accepted") : valid.error().to_string();
  };
  EXPECT_THAT(complaint([](ChannelPlan& channel) { channel.parents.pop_back(); }),
              testing::HasSubstr("holds 7 of 8 ranks"));
  EXPECT_THAT(complaint([](ChannelPlan& channel) { channel.parents[3] = 8; }),
              testing::HasSubstr("names a rank that there is not"));
  EXPECT_THAT(complaint([](ChannelPlan& channel) { channel.parents[5] = 5; }),
              testing::HasSubstr("has another root"));
  EXPECT_THAT(complaint([](ChannelPlan& channel) {
                channel.parents[5] = 6;
                channel.parents[6] = 5;
              }),
              testing::HasSubstr("has no way to the root"));
  EXPECT_THAT(complaint([](ChannelPlan& channel) {
                for (const std::uint32_t rank : {1U, 2U, 3U, 5U})
                  channel.parents[rank] = 0;
              }),
              testing::HasSubstr("children in the tree"));
  EXPECT_THAT(complaint([](ChannelPlan& channel) { channel.chunk = 64 * 1024; }),
              testing::HasSubstr("which is not a step"));
}

TEST(TreeChoice, IsOutOfTheQuestionWhereDevicesHaveNone) {
  const Topology topology = test::one_host(4);
  const PlanInput input{.topology = topology, .algorithms = {"tree"}};
  const auto made = make_plan({.operation = Operation::kAllReduce, .count = 4}, input);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().what(),
              testing::HasSubstr("tree with simple: these ranks' devices have no kernels for it"));
}

TEST(TreeChoice, WinsWhereTheWayRoundIsLongAndTheCallIsSmall) {
  std::vector<test::Placement> places;
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    places.push_back({.host = rank, .process = rank});
  const Topology topology = test::sample_topology(places);
  const PlanInput input{.topology = topology, .limits = {.trees = true}};
  const auto algorithm = [&](std::uint64_t bytes) {
    return make_plan({.operation = Operation::kAllReduce, .count = bytes / 4}, input)
        .value()
        .algorithm;
  };
  EXPECT_EQ(algorithm(8), Algorithm::kTree);
  EXPECT_EQ(algorithm(1 << 28), Algorithm::kRing);
}

}  // namespace
}  // namespace weft
