// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the planner decides and what it refuses.

#include "core/schedule/planner.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/direct_peers.h"
#include "core/model/ring_geometry.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = kKiB * 1024;

class Planner : public testing::Test {
 protected:
  Result<Plan> plan(const Task& task) const {
    Result<Plan> made = make_plan(task, {.topology = topology_,
                                         .costs = costs_,
                                         .limits = limits_,
                                         .algorithms = algorithms_,
                                         .protocols = protocols_,
                                         .deterministic = deterministic_,
                                         .tuner = tuner_});
    if (made) {
      const Status valid = validate(*made, topology_);
      EXPECT_TRUE(valid) << valid.error().to_string();
    }
    return made;
  }
  Plan all_reduce(std::uint64_t bytes) const {
    return plan({.operation = Operation::kAllReduce, .count = bytes / 4}).value();
  }
  Plan broadcast(std::uint64_t bytes, std::uint32_t root = 0) const {
    return plan({.operation = Operation::kBroadcast, .root = root, .count = bytes / 4}).value();
  }
  std::string complaint(const Task& task) const {
    const Result<Plan> made = plan(task);
    return made ? "accepted" : made.error().to_string();
  }

  Topology topology_ = test::one_host(4);
  CostTable costs_;
  PlanLimits limits_{.steps = 8, .step_bytes = 64 * 1024, .max_channels = 4};
  std::vector<std::string> algorithms_;
  std::vector<std::string> protocols_;
  bool deterministic_ = false;
  CostSource* tuner_ = nullptr;
};

/// Says what it was told to, and keeps what it was asked.
class SaidBefore final : public CostSource {
 public:
  SaidBefore(std::initializer_list<Judgement> judgements) : judgements_(judgements) {}
  Result<std::vector<Judgement>> judge(const Task& /*task*/,
                                       std::span<const Offer> offers) override {
    asked.assign(offers.begin(), offers.end());
    return judgements_;
  }
  [[nodiscard]] std::string name() const override { return "a.yaml"; }
  std::vector<Offer> asked;

 private:
  std::vector<Judgement> judgements_;
};

TEST_F(Planner, TakesAsManyChannelsAsTheSizePaysFor) {
  EXPECT_EQ(all_reduce(4).channels.size(), 1U);
  EXPECT_EQ(all_reduce(511 * kKiB).channels.size(), 1U);
  EXPECT_EQ(all_reduce(512 * kKiB).channels.size(), 2U);  // 64 KiB for each of 4 ranks, twice
  EXPECT_EQ(all_reduce(64 * kMiB).channels.size(), 4U);
  EXPECT_EQ(broadcast(127 * kKiB).channels.size(), 1U);
  EXPECT_EQ(broadcast(128 * kKiB).channels.size(), 2U);
  EXPECT_EQ(broadcast(64 * kMiB).channels.size(), 4U);
}

TEST_F(Planner, TakesFewChannelsForLess) {
  limits_.few_channels = 3;
  limits_.min_bytes_of_few = 8 * kKiB;
  EXPECT_EQ(broadcast(15 * kKiB).channels.size(), 1U);
  EXPECT_EQ(broadcast(16 * kKiB).channels.size(), 2U);
  EXPECT_EQ(broadcast(255 * kKiB).channels.size(), 3U);
  EXPECT_EQ(broadcast(256 * kKiB).channels.size(), 4U);
  EXPECT_EQ(all_reduce(64 * kKiB).channels.size(), 2U);  // 8 KiB for each of 4 ranks, twice
  EXPECT_THAT(broadcast(16 * kKiB).reason,
              HasSubstr("65536 bytes for each rank, up to 3 from 8192"));
}

TEST_F(Planner, CutsChannelsAtLinesOf64Bytes) {
  const Plan made = plan({.operation = Operation::kBroadcast, .count = 3 * 32768 + 5}).value();
  ASSERT_EQ(made.channels.size(), 4U);
  // 98309 elements are 6145 lines of 16: the first channel has one more.
  EXPECT_EQ(made.channels[0].count, 1537U * 16);
  EXPECT_EQ(made.channels[1].count, 1536U * 16);
  EXPECT_EQ(made.channels[3].offset, 4609U * 16);
  EXPECT_EQ(made.channels[3].count, 98309U - 4609U * 16);
}

TEST_F(Planner, FillsChunksEvenly) {
  EXPECT_EQ(all_reduce(4).chunk_steps, 1U);
  limits_.max_channels = 1;
  EXPECT_EQ(all_reduce(4 * 3 * 64 * kKiB).chunk_steps, 3U);
  EXPECT_EQ(all_reduce(4 * 4 * 64 * kKiB).chunk_steps, 4U);
  EXPECT_EQ(all_reduce(4 * 5 * 64 * kKiB).chunk_steps, 3U);  // 3 + 2, not 4 + 1
  EXPECT_EQ(all_reduce(4 * 9 * 64 * kKiB).chunk_steps, 3U);
  EXPECT_EQ(all_reduce(64 * kMiB).chunk_steps, 4U);
  EXPECT_EQ(broadcast(64 * kMiB).chunk_steps, 1U);
  limits_.steps = 2;
  EXPECT_EQ(all_reduce(64 * kMiB).chunk_steps, 1U);
}

TEST_F(Planner, KnowsEachRanksPlace) {
  const Plan made = broadcast(4, 2);
  EXPECT_EQ(ring_place(made, 0, 2), (RingPlace{.position = 0, .previous = 1, .next = 3}));
  EXPECT_EQ(ring_place(made, 0, 1), (RingPlace{.position = 3, .previous = 0, .next = 2}));
  EXPECT_EQ(ring_place(all_reduce(4), 0, 2), (RingPlace{.position = 2, .previous = 1, .next = 3}));
}

TEST_F(Planner, CountsStepsOfABroadcast) {
  limits_.max_channels = 1;
  const Plan made = broadcast(3 * 64 * kKiB + 4, 1);
  EXPECT_EQ(steps_sent(made, 0, 1), 4U);
  EXPECT_EQ(steps_received(made, 0, 1), 0U);
  EXPECT_EQ(steps_sent(made, 0, 0), 0U);
  EXPECT_EQ(steps_received(made, 0, 0), 4U);
  EXPECT_EQ(bytes_sent(made, 0, 3), 3 * 64 * kKiB + 4);
}

TEST_F(Planner, CountsStepsOfAnAllReduce) {
  // One element: one rank's chunk, passed on by all but one, twice round.
  const Plan one = all_reduce(4);
  std::uint64_t total = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    total += steps_sent(one, 0, rank);
  EXPECT_EQ(total, 6U);
  // 64 MiB on 4 channels: 16 loops of 4 chunks of 4 steps.
  const Plan large = all_reduce(64 * kMiB);
  EXPECT_EQ(steps_sent(large, 3, 2), 16U * 6 * 4);
  EXPECT_EQ(bytes_sent(large, 3, 2), 16U * 6 * 4 * 64 * kKiB);
}

TEST_F(Planner, OneRankSendsNothing) {
  topology_ = test::one_host(1);
  const Plan made = all_reduce(64 * kMiB);
  EXPECT_EQ(made.channels.size(), 4U);
  EXPECT_EQ(steps_sent(made, 0, 0), 0U);
  EXPECT_EQ(steps_received(made, 0, 0), 0U);
  EXPECT_EQ(bytes_sent(made, 0, 0), 0U);
  EXPECT_THAT(made.reason, HasSubstr("one rank"));
}

TEST_F(Planner, NothingToDoHasNoChannels) {
  const Plan made = all_reduce(0);
  EXPECT_TRUE(made.channels.empty());
  EXPECT_THAT(to_text(made), HasSubstr("no elements"));
}

TEST_F(Planner, PredictsMoreForMoreBytesAndForAWorseWay) {
  EXPECT_LT(all_reduce(kMiB).predicted_us, all_reduce(64 * kMiB).predicted_us);
  EXPECT_LT(broadcast(4).predicted_us, broadcast(kMiB).predicted_us);
  const double near = all_reduce(kMiB).predicted_us;
  topology_ = test::sample_topology(std::vector<test::Placement>{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  EXPECT_GT(all_reduce(kMiB).predicted_us, near);
  EXPECT_EQ(hop_kind(topology_, 0, 1), HopKind::kSameHost);
  EXPECT_EQ(hop_kind(topology_, 1, 2), HopKind::kNetwork);
  EXPECT_EQ(hop_kind(topology_, 3, 3), HopKind::kSameProcess);
}

TEST_F(Planner, ModelsHopsAndBytes) {
  limits_.max_channels = 1;
  costs_.call_us = 10;
  costs_.hops.fill({.latency_us = 3, .bytes_per_us = 100});
  // 2 (n - 1) hops, and 2 (n - 1) / n of the bytes.
  EXPECT_DOUBLE_EQ(all_reduce(4000).predicted_us, 10 + 6 * 3 + 1.5 * 4000 / 100);
  // n - 1 hops; the last rank begins n - 2 chunks late. Within a host bytes take less of a time.
  costs_.rooted_bytes = 0.5;
  EXPECT_DOUBLE_EQ(broadcast(4000).predicted_us, 10 + 3 * 3 + 3 * 4000.0 / 200);
  EXPECT_DOUBLE_EQ(all_reduce(4000).predicted_us, 10 + 6 * 3 + 1.5 * 4000 / 100);
  // Or as was measured.
  costs_.rooted_hop_us = 2;
  EXPECT_DOUBLE_EQ(broadcast(4000).predicted_us, 10 + 3 * 2 + 4000.0 / 200);
  EXPECT_DOUBLE_EQ(all_reduce(4000).predicted_us, 10 + 6 * 3 + 1.5 * 4000 / 100);
  costs_.rooted_hop_us = 0;
  const std::vector<test::Placement> apart = {{.host = 0}, {.host = 1}, {.host = 2}, {.host = 3}};
  topology_ = test::sample_topology(apart);
  EXPECT_DOUBLE_EQ(broadcast(4000).predicted_us, 10 + 3 * 3 + 3 * 4000.0 / 100);
}

// Each rank passes on what comes; a tree has more to wait for.
TEST_F(Planner, BroadcastsWithinAHostGoRoundARingUnlessTheyAreSmallOrRanksMany) {
  limits_.trees = true;
  limits_.line_step_bytes = 16 * kKiB;
  limits_.max_channels = 1;
  const auto algorithm = [&](std::uint32_t ranks, std::uint64_t bytes) {
    topology_ = test::one_host(ranks);
    return broadcast(bytes).algorithm;
  };
  EXPECT_EQ(algorithm(4, 8), Algorithm::kRing);
  EXPECT_EQ(algorithm(8, 8), Algorithm::kTree);
  EXPECT_EQ(algorithm(8, 32 * kKiB), Algorithm::kRing);
  EXPECT_EQ(algorithm(8, 256 * kKiB), Algorithm::kRing);
  EXPECT_EQ(algorithm(32, 32 * kKiB), Algorithm::kTree);
  EXPECT_EQ(broadcast(256 * kKiB).protocol, Protocol::kSimple) << "lines gain nothing";
}

// Where ranks need not wait for each other, and what is larger does not fit.
TEST_F(Planner, SmallCallsWithARootHaveManySmallSlots) {
  limits_.trees = true;
  limits_.small_steps = 64;
  limits_.small_step_bytes = 1024;
  for (const std::string algorithm : {"ring", "tree"}) {
    algorithms_ = {algorithm};
    for (const Operation operation : {Operation::kBroadcast, Operation::kReduce}) {
      const Plan small = plan({.operation = operation, .root = 1, .count = 256}).value();
      EXPECT_TRUE(small.small_slots) << algorithm;
      EXPECT_EQ(small.steps, 64U);
      EXPECT_EQ(small.step_bytes, 1024U);
      const Plan larger = plan({.operation = operation, .root = 1, .count = 257}).value();
      EXPECT_FALSE(larger.small_slots) << algorithm;
      EXPECT_EQ(larger.steps, 8U);
      EXPECT_EQ(larger.step_bytes, 64 * kKiB);
    }
    EXPECT_FALSE(all_reduce(8).small_slots) << "each waits for all";
  }
  algorithms_ = {};
  limits_.small_step_bytes = 0;
  EXPECT_FALSE(broadcast(8).small_slots);
}

TEST_F(Planner, LetsWhatIsOnlyCopiedGoIntoOutputs) {
  const auto gather = [&](std::uint64_t block) {
    return plan({.operation = Operation::kAllGather, .type = WEFT_UINT8, .count = block}).value();
  };
  algorithms_ = {"ring"};
  EXPECT_FALSE(gather(kMiB).into_outputs);
  EXPECT_EQ(gather(kMiB).no_outputs, "") << "nobody asks";
  limits_.outputs_from = 4 * kMiB;
  EXPECT_TRUE(gather(kMiB).into_outputs) << "of four ranks";
  EXPECT_THAT(to_text(gather(kMiB)), HasSubstr("outputs     written by other ranks where all can"));
  EXPECT_THAT(to_text(gather(kMiB)), Not(HasSubstr("by other processes")));
  limits_.are_outputs_mapped = true;
  EXPECT_THAT(to_text(gather(kMiB)), HasSubstr("by other processes once they have mapped them"));
  EXPECT_THAT(gather(kMiB - 16).no_outputs, HasSubstr("fewer than the 4194304"));
  EXPECT_FALSE(gather(kMiB - 16).into_outputs);
  EXPECT_THAT(gather(kMiB + 8).no_outputs, HasSubstr("no multiple of 16"));
  EXPECT_TRUE(broadcast(4 * kMiB + 4).into_outputs);
  EXPECT_FALSE(broadcast(4 * kMiB - 4).into_outputs);
  EXPECT_FALSE(all_reduce(64 * kMiB).into_outputs);
  limits_.no_outputs = "these are of two processes";
  EXPECT_FALSE(gather(kMiB).into_outputs);
  EXPECT_THAT(to_text(gather(kMiB)), HasSubstr("not written by other ranks: these are of two"));
}

TEST_F(Planner, UsesSlotsOfBothEndsWhereTwoRanksSendOneWay) {
  const auto goes = [&](Operation operation, std::uint64_t bytes) {
    return plan({.operation = operation, .root = 1, .count = bytes / 4}).value().both_ends;
  };
  algorithms_ = {"ring"};
  topology_ = test::one_host(2);
  EXPECT_FALSE(goes(Operation::kBroadcast, 16 * kMiB)) << "nobody asks";
  EXPECT_THAT(to_text(broadcast(16 * kMiB)),
              Not(HasSubstr("by turns at the receiver and at the sender")));
  limits_.both_ends_from = 16 * kMiB;
  EXPECT_TRUE(goes(Operation::kBroadcast, 16 * kMiB));
  EXPECT_TRUE(goes(Operation::kReduce, 16 * kMiB));
  EXPECT_THAT(to_text(broadcast(16 * kMiB)),
              HasSubstr("by turns at the receiver and at the sender"));
  EXPECT_FALSE(goes(Operation::kReduce, 16 * kMiB - 4));
  EXPECT_FALSE(all_reduce(64 * kMiB).both_ends) << "both ways";
  limits_.outputs_from = 16 * kMiB;
  EXPECT_FALSE(goes(Operation::kBroadcast, 16 * kMiB)) << "into outputs";
  EXPECT_TRUE(goes(Operation::kReduce, 16 * kMiB));
  topology_ = test::one_host(3);
  EXPECT_FALSE(goes(Operation::kReduce, 16 * kMiB)) << "no connections both ways";
}

TEST_F(Planner, ListsWhatWasConsidered) {
  algorithms_ = {"ring", "star"};
  protocols_ = {"simple", "ll64"};
  const Plan made = all_reduce(kMiB);
  std::vector<std::string> ways;
  for (const Alternative& other : made.alternatives)
    ways.push_back(other.algorithm + " " + other.protocol);
  EXPECT_THAT(ways, testing::ElementsAre("ring simple", "direct ll", "direct ll128", "tree simple",
                                         "two-shot simple", "two-shot ll128", "pat simple",
                                         "chain simple", "ring ll", "ring ll128", "tree ll",
                                         "tree ll128", "multicast simple", "star any", "any ll64"));
  EXPECT_EQ(made.alternatives[0].predicted_us, made.predicted_us);
  EXPECT_EQ(made.alternatives[1].refused, "collectives.all_reduce.algorithm leaves it out");
  EXPECT_EQ(made.alternatives[8].refused, "collectives.all_reduce.protocol leaves it out");
  EXPECT_THAT(made.alternatives[13].refused, HasSubstr("all_reduce has no such algorithm"));
}

TEST_F(Planner, GoesRoundRingsByLinesWhereThatIsFasterAndPossible) {
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kBroadcast, Operation::kReduce, Operation::kAllGather,
        Operation::kReduceScatter}) {
    const auto made = [&](std::uint64_t count) {
      return plan({.operation = operation, .count = count}).value();
    };
    const auto by_lines = [&](const Plan& of, std::string_view protocol) {
      const auto found = std::ranges::find_if(of.alternatives, [&](const Alternative& other) {
        return other.algorithm == "ring" && other.protocol == protocol;
      });
      return *found;
    };
    limits_.line_step_bytes = 0;
    limits_.no_lines = "a net moves whole steps";
    protocols_.clear();
    EXPECT_EQ(by_lines(made(10), "ll").refused, "a net moves whole steps");
    EXPECT_EQ(by_lines(made(10), "ll128").refused, "a net moves whole steps");
    limits_.line_step_bytes = 16 * kKiB;
    EXPECT_EQ(made(10).protocol, Protocol::kSimple) << "the built-in costs";
    EXPECT_EQ(by_lines(made(0), "ll").refused, "there are no elements to move");
    protocols_ = {"ll"};
    algorithms_ = {"ring"};
    const Plan ll = made(50'000);
    EXPECT_EQ(ll.protocol, Protocol::kLL);
    EXPECT_EQ(ll.step_bytes, 8128U);
    EXPECT_TRUE(validate(ll, topology_));
    protocols_ = {"ll128"};
    const Plan ll128 = made(50'000);
    EXPECT_EQ(ll128.protocol, Protocol::kLL128);
    EXPECT_EQ(ll128.step_bytes, 15296U);
    EXPECT_TRUE(validate(ll128, topology_));
    algorithms_.clear();
  }
  // Nothing is known of blocks that differ.
  const Plan differ = make_plan({.operation = Operation::kAllGatherV, .count = 10},
                                {.topology = topology_, .limits = limits_})
                          .value();
  for (const Alternative& other : differ.alternatives)
    EXPECT_EQ(other.protocol, "simple");
}

TEST_F(Planner, CostsOfLinesAreThoseOfHopsAndBytes) {
  limits_.max_channels = 1;
  limits_.line_step_bytes = 16 * kKiB;
  costs_.call_us = 10;
  costs_.hops.fill({.latency_us = 3, .bytes_per_us = 100});
  costs_.ll_hop_us = -1;
  costs_.ll_bytes = 2;
  protocols_ = {"ll"};
  algorithms_ = {"ring"};
  EXPECT_DOUBLE_EQ(all_reduce(4000).predicted_us, 10 + 6 * 2 + 1.5 * 4000 / 50);
  costs_.rooted_bytes = 0.5;  // of Simple alone
  EXPECT_DOUBLE_EQ(broadcast(4000).predicted_us, 10 + 3 * 2 + 3 * 4000.0 / 50);
  protocols_.clear();
  EXPECT_EQ(all_reduce(8).protocol, Protocol::kLL);
  EXPECT_EQ(all_reduce(kMiB).protocol, Protocol::kSimple);
}

TEST_F(Planner, WalksTreesByLinesWhereThatIsFasterAndPossible) {
  algorithms_ = {"tree"};
  limits_.line_step_bytes = 16 * kKiB;
  const auto refused_ll = [&] {
    const Result<Plan> made = plan({.count = 10});
    return made ? std::string() : made.error().to_string();
  };
  protocols_ = {"ll"};
  EXPECT_THAT(refused_ll(), HasSubstr("tree with ll: these ranks' devices have no kernels for it"));
  limits_.trees = true;
  limits_.line_step_bytes = 0;
  limits_.no_lines = "a net moves whole steps";
  EXPECT_THAT(refused_ll(), HasSubstr("tree with ll: a net moves whole steps"));
  limits_.line_step_bytes = 16 * kKiB;
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kBroadcast, Operation::kReduce}) {
    const auto made = [&](std::string_view protocol) {
      protocols_ = {std::string(protocol)};
      return plan({.operation = operation, .count = 50'000}).value();
    };
    const Plan ll = made("ll");
    EXPECT_EQ(ll.algorithm, Algorithm::kTree);
    EXPECT_EQ(ll.protocol, Protocol::kLL);
    EXPECT_EQ(ll.step_bytes, 8128U);
    EXPECT_LE(ll.channels[0].chunk * sizeof(float), 8128U);
    EXPECT_TRUE(validate(ll, topology_));
    const Plan ll128 = made("ll128");
    EXPECT_EQ(ll128.protocol, Protocol::kLL128);
    EXPECT_EQ(ll128.step_bytes, 15296U);
    EXPECT_TRUE(validate(ll128, topology_));
    EXPECT_GT(ll.predicted_us, made("simple").predicted_us);
  }
  // One tree of ranks 0 to 3: two edges from the last to the root, up and down again.
  limits_.max_channels = 1;
  costs_ = {.call_us = 10, .tree_us = 1};
  costs_.hops.fill({.latency_us = 3, .bytes_per_us = 100});
  costs_.ll_hop_us = -1;
  costs_.ll_bytes = 2;
  protocols_ = {"ll"};
  EXPECT_DOUBLE_EQ(all_reduce(100).predicted_us, 10 + 1 + 2 * 2 * (2 + 100.0 / 50));
  protocols_.clear();
  EXPECT_EQ(all_reduce(8).protocol, Protocol::kLL);
  EXPECT_EQ(all_reduce(kMiB).protocol, Protocol::kSimple);
}

TEST_F(Planner, TreesOfReducesHaveCostsOfTheirOwn) {
  limits_.trees = true;
  limits_.max_channels = 1;
  costs_ = {.call_us = 10, .tree_us = 1, .tree_reduce_us = 2, .tree_reduce_bytes = 3};
  costs_.hops.fill({.latency_us = 3, .bytes_per_us = 100});
  const auto predicted = [&](Operation operation) {
    algorithms_ = {"tree"};
    return plan({.operation = operation, .count = 25}).value().predicted_us;
  };
  EXPECT_DOUBLE_EQ(predicted(Operation::kBroadcast), 10 + 1 + 2 * (3 + 100.0 / 100));
  EXPECT_DOUBLE_EQ(predicted(Operation::kReduce), 10 + 2 + 2 * (3 + 3 * 100.0 / 100));
}

TEST_F(Planner, GoesDirectlyWhereItIsFasterAndFits) {
  costs_.direct = {.latency_us = 0.1, .bytes_per_us = 10000};
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kRing);
  EXPECT_THAT(all_reduce(8).alternatives[1].refused, HasSubstr("buffers.direct is 0"));
  limits_.direct_bytes = 4096;
  const Plan made = all_reduce(4096);
  EXPECT_EQ(made.algorithm, Algorithm::kDirect);
  EXPECT_EQ(made.protocol, Protocol::kLL);
  ASSERT_EQ(made.channels.size(), 1U);
  EXPECT_EQ(made.channels[0].count, 1024U);
  EXPECT_EQ(made.step_bytes, direct_half_bytes(4096));
  EXPECT_TRUE(validate(made, topology_));
  EXPECT_DOUBLE_EQ(made.predicted_us, costs_.call_us + 0.1 + 2.0 * 4096 * (made.ranks - 1) / 10000);
  EXPECT_EQ(steps_sent(made, 0, 1), made.ranks - 1);
  EXPECT_EQ(bytes_sent(made, 0, 1), 4096U * (made.ranks - 1));
  EXPECT_THAT(all_reduce(4100).alternatives[1].refused, HasSubstr("more than the 4096 bytes"));
  EXPECT_EQ(all_reduce(0).algorithm, Algorithm::kRing);
  costs_.direct.latency_us = 1e6;
  EXPECT_EQ(all_reduce(4096).algorithm, Algorithm::kRing);
  EXPECT_EQ(broadcast(1).algorithm, Algorithm::kRing);
}

TEST_F(Planner, GoesDirectlyFromRootsAndToThemWhereDevicesDo) {
  costs_.direct = {.latency_us = 0.1, .bytes_per_us = 10000};
  limits_.direct_bytes = 4096;
  limits_.direct_block_bytes = 4000;
  EXPECT_EQ(broadcast(64).algorithm, Algorithm::kRing);
  EXPECT_THAT(broadcast(64).alternatives[1].refused, HasSubstr("send and receive alike"));
  limits_.direct_roots = true;
  const Plan down = broadcast(4000, 2);
  EXPECT_EQ(down.algorithm, Algorithm::kDirect);
  EXPECT_DOUBLE_EQ(down.predicted_us, costs_.call_us + 0.1 + 2.0 * 4000 * 3 / 10000);
  EXPECT_EQ(bytes_sent(down, 0, 2), 3U * 4000);
  EXPECT_EQ(bytes_sent(down, 0, 1), 0U);
  EXPECT_EQ(steps_sent(down, 0, 1), 3U) << "each gets a header";
  EXPECT_THAT(to_text(down), HasSubstr("rank 2 writes to all others of the ranks 0, 1, 2, 3"));
  EXPECT_THAT(broadcast(4004).alternatives[1].refused, HasSubstr("a block of more than the 4000"));

  const Plan up = plan({.operation = Operation::kReduce, .root = 1, .count = 1000}).value();
  EXPECT_EQ(up.algorithm, Algorithm::kDirect);
  EXPECT_EQ(bytes_sent(up, 0, 1), 0U);
  EXPECT_EQ(bytes_sent(up, 0, 3), 4000U);
  EXPECT_THAT(to_text(up), HasSubstr("of the ranks 0, 1, 2, 3 all others write to rank 1"));
}

TEST_F(Planner, GoesByWideLinesWhereItIsFasterAndFits) {
  costs_.wide = {.latency_us = 0.1, .bytes_per_us = 100000};
  EXPECT_THAT(all_reduce(kMiB).alternatives[2].refused, HasSubstr("stores of 128 bytes"));
  limits_.direct_bytes = 4096;
  limits_.wide_bytes = kMiB;
  const Plan made = all_reduce(kMiB);
  EXPECT_EQ(made.algorithm, Algorithm::kDirect);
  EXPECT_EQ(made.protocol, Protocol::kLL128);
  EXPECT_EQ(made.step_bytes, 256U * (1 + (kMiB + 239) / 240));
  EXPECT_TRUE(validate(made, topology_));
  EXPECT_DOUBLE_EQ(made.predicted_us,
                   costs_.call_us + 0.1 + 1.0 * kMiB * (made.ranks - 1) / 100000);
  EXPECT_EQ(bytes_sent(made, 0, 1), kMiB * (made.ranks - 1));
  EXPECT_THAT(to_text(made), HasSubstr("lines of 128 bytes"));
  EXPECT_THAT(all_reduce(kMiB + 4).alternatives[2].refused, HasSubstr("more than the 1048576"));
  EXPECT_EQ(all_reduce(0).algorithm, Algorithm::kRing);
  Plan wrong = made;
  wrong.step_bytes -= 128;
  EXPECT_FALSE(validate(wrong, topology_));
  wrong = made;
  wrong.task.operation = Operation::kAllGather;
  EXPECT_FALSE(validate(wrong, topology_));
  wrong = made;
  wrong.protocol = Protocol::kSimple;
  EXPECT_FALSE(validate(wrong, topology_));
  limits_.wide_bytes = kMostDirectBytes + 1;
  EXPECT_FALSE(plan({.count = 1}));
}

TEST_F(Planner, GoesFromAndToRootsByWideLinesWhereItIsFasterAndFits) {
  costs_.wide_ranges = {.latency_us = 0.1, .bytes_per_us = 400000};
  costs_.wide_rank_us = 0.5;
  EXPECT_THAT(broadcast(4096).alternatives[2].refused, HasSubstr("stores of 128 bytes"));
  limits_.wide_bytes = 4096;
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce}) {
    const Plan made = plan({.operation = operation, .root = 1, .count = 1024}).value();
    EXPECT_EQ(made.algorithm, Algorithm::kDirect) << operation_name(operation);
    EXPECT_EQ(made.protocol, Protocol::kLL128);
    EXPECT_EQ(made.step_bytes, 256U * (1 + (4096 + 239) / 240));
    EXPECT_TRUE(validate(made, topology_));
    const bool broadcasts = operation == Operation::kBroadcast;
    ASSERT_EQ(made.ranks, 4U);
    EXPECT_EQ(bytes_sent(made, 0, 1), broadcasts ? 3U * 4096 : 0U);
    EXPECT_EQ(bytes_sent(made, 0, 2), broadcasts ? 0U : 4096U);
    EXPECT_DOUBLE_EQ(made.predicted_us, costs_.call_us + 0.1 + 3 * 0.5 + 3.0 * 4096 / 400000);
    const Plan larger = plan({.operation = operation, .root = 1, .count = 1025}).value();
    EXPECT_NE(larger.algorithm, Algorithm::kDirect);
    EXPECT_THAT(larger.alternatives[2].refused, HasSubstr("more than the 4096 bytes"));
    Plan wrong = made;
    wrong.step_bytes -= 128;
    EXPECT_FALSE(validate(wrong, topology_));
  }
}

TEST_F(Planner, SaysFromWhichBlocksOnWideLinesAreFaster) {
  costs_.direct = {.latency_us = 0.5, .bytes_per_us = 1000};
  costs_.wide_ranges = {.latency_us = 1.0, .bytes_per_us = 1000};
  costs_.wide_rank_us = 0.25;
  // A byte takes 2 ns to each other rank by LL, and 1 by wide lines.
  EXPECT_EQ(least_wide_block(2, costs_), 750U);
  EXPECT_EQ(least_wide_block(3, costs_), 500U);
  costs_.wide_ranges.latency_us = 0.25;
  EXPECT_EQ(least_wide_block(2, costs_), 1U);
  costs_.wide_ranges = {.latency_us = 1.0, .bytes_per_us = 500};
  EXPECT_EQ(least_wide_block(2, costs_), UINT64_MAX);
}

TEST_F(Planner, GoesByRangesInWideLinesWhereItIsFaster) {
  costs_.wide_ranges = {.latency_us = 0.1, .bytes_per_us = 400000};
  EXPECT_THAT(all_reduce(kMiB).alternatives[5].refused, HasSubstr("stores of 128 bytes"));
  limits_.wide_bytes = 8192;
  const Plan made = all_reduce(kMiB);
  EXPECT_EQ(made.algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(made.protocol, Protocol::kLL128);
  ASSERT_EQ(made.ranks, 4U);
  ASSERT_EQ(made.channels.size(), 1U);
  EXPECT_EQ(made.channels[0].chunk, 2048U);
  EXPECT_TRUE(validate(made, topology_));
  EXPECT_EQ(bytes_sent(made, 0, 1), kMiB / 2 * 3);
  EXPECT_DOUBLE_EQ(made.predicted_us, costs_.call_us + 2 * 0.1 + kMiB / 2.0 * 3 / 400000);
  EXPECT_THAT(to_text(made), HasSubstr("ranges of 8 KiB at most, lines of 128 bytes"));
  Plan wrong = made;
  wrong.protocol = Protocol::kLL;
  EXPECT_FALSE(validate(wrong, topology_));
  for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter}) {
    const Plan blocks = plan({.operation = operation, .count = 10000}).value();
    EXPECT_EQ(blocks.algorithm, Algorithm::kDirect) << operation_name(operation);
    EXPECT_EQ(blocks.protocol, Protocol::kLL128);
    EXPECT_EQ(blocks.channels[0].chunk, 2048U);
    EXPECT_TRUE(validate(blocks, topology_));
    EXPECT_EQ(bytes_sent(blocks, 0, 1), 3U * 40000);
    EXPECT_DOUBLE_EQ(blocks.predicted_us, costs_.call_us + 0.1 + 3.0 * 40000 / 400000);
    wrong = blocks;
    wrong.step_bytes += 64;
    EXPECT_FALSE(validate(wrong, topology_));
    wrong = blocks;
    wrong.task.operation = Operation::kBroadcast;
    EXPECT_FALSE(validate(wrong, topology_));
  }
}

TEST_F(Planner, GoesByTwoShotWhereItIsFaster) {
  costs_.exchange_us = 0.1;
  costs_.two_shot = {.latency_us = 0.1, .bytes_per_us = 400000};
  const auto refused = [&] { return all_reduce(kMiB).alternatives[4].refused; };
  EXPECT_THAT(refused(), HasSubstr("or buffers.direct is 0"));
  limits_.two_shot_range = 8192;
  const Plan made = all_reduce(kMiB);
  EXPECT_EQ(made.algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(made.protocol, Protocol::kSimple);
  ASSERT_EQ(made.channels.size(), 1U);
  EXPECT_EQ(made.channels[0].chunk, 2048U);
  EXPECT_TRUE(validate(made, topology_));
  ASSERT_EQ(made.ranks, 4U);
  EXPECT_EQ(steps_sent(made, 0, 1), 32U * 2 * 3);
  EXPECT_EQ(bytes_sent(made, 0, 1), kMiB / 2 * 3);
  EXPECT_DOUBLE_EQ(made.predicted_us, costs_.call_us + 64 * 0.4 + 3.0 * kMiB / 400000);
  EXPECT_THAT(to_text(made), HasSubstr("2 halves from each other rank, ranges of 8 KiB at most"));
  EXPECT_THAT(to_text(made), HasSubstr("reduces a range and writes it to all others"));
  // The last piece is cut into grains: of 5 one rank has two, and one none.
  const Plan odd = all_reduce(4 * 8192 + 4 * 64 + 4);
  EXPECT_EQ(bytes_sent(odd, 0, 0), 2U * 3 * 8192 + (64 + 64 + 4) + 3 * 128);
  EXPECT_EQ(bytes_sent(odd, 0, 3), 2U * 3 * 8192 + 4 * 64 + 4);
  EXPECT_EQ(steps_sent(odd, 0, 0), 4U * 3);
  EXPECT_EQ(all_reduce(0).algorithm, Algorithm::kRing);
  costs_.two_shot.latency_us = 1e6;
  EXPECT_EQ(all_reduce(kMiB).algorithm, Algorithm::kRing);
  EXPECT_FALSE(std::ranges::any_of(broadcast(1).alternatives, [](const Alternative& other) {
    return other.algorithm == "two-shot";
  }));
  limits_.two_shot_range = 100;
  EXPECT_FALSE(plan({.count = 1}));
}

// By the built-in costs, on a host: where a ring passes many steps for little, and only there.
TEST_F(Planner, PrefersTwoShotsForMediumCallsOfCpus) {
  limits_.direct_bytes = 16 * kKiB;
  limits_.two_shot_range = 32 * kKiB;
  EXPECT_EQ(all_reduce(8 * kKiB).algorithm, Algorithm::kDirect);
  EXPECT_EQ(all_reduce(16 * kKiB).algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(all_reduce(128 * kKiB).algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(all_reduce(256 * kKiB).algorithm, Algorithm::kRing);
  topology_ = test::one_host(8);
  EXPECT_EQ(all_reduce(8 * kKiB).algorithm, Algorithm::kDirect);
  EXPECT_EQ(all_reduce(16 * kKiB).algorithm, Algorithm::kTwoShot);
  EXPECT_EQ(all_reduce(256 * kKiB).algorithm, Algorithm::kTwoShot);
  topology_ = test::one_host(2);
  for (const std::uint64_t bytes : {16 * kKiB, 128 * kKiB, kMiB})
    EXPECT_NE(all_reduce(bytes).algorithm, Algorithm::kTwoShot) << bytes;
}

// Whatever its costs: only where it is named, or a tuner has timed it.
TEST_F(Planner, GoesByMulticastWhereNothingElseIsLeft) {
  costs_.exchange_us = 0;
  costs_.call_us = 0;
  costs_.two_shot = {.latency_us = 0, .bytes_per_us = 1e9};
  const auto multicast = [&](const Plan& made) {
    return *std::ranges::find(made.alternatives, "multicast", &Alternative::algorithm);
  };
  EXPECT_EQ(multicast(all_reduce(kMiB)).refused, "buffers.multicast is 0");
  limits_.no_multicast = "the device of rank 1 has none";
  EXPECT_EQ(multicast(all_reduce(kMiB)).refused, "the device of rank 1 has none");
  limits_.multicast_range = 8192;
  const Plan other = all_reduce(kMiB);
  EXPECT_NE(other.algorithm, Algorithm::kMulticast);
  EXPECT_THAT(multicast(other).note, HasSubstr("nobody has checked its costs"));
  EXPECT_LT(multicast(other).predicted_us, other.predicted_us);

  algorithms_ = {"multicast"};
  const Plan made = all_reduce(kMiB);
  EXPECT_EQ(made.algorithm, Algorithm::kMulticast);
  EXPECT_EQ(made.channels.at(0).chunk, 2048U);
  EXPECT_EQ(steps_sent(made, 0, 1), 32U * 2 * 3);
  EXPECT_EQ(bytes_sent(made, 0, 1), kMiB / 4);
  EXPECT_DOUBLE_EQ(made.predicted_us, 2.5 * kMiB / 1e9);
  EXPECT_THAT(to_text(made), AllOf(HasSubstr("ranges of 8 KiB at most"),
                                   HasSubstr("combined over all, and stores it to all at once")));
  // The last piece is cut into grains, as that of a two-shot.
  const Plan odd = all_reduce(4 * 8192 + 4 * 64 + 4);
  EXPECT_EQ(bytes_sent(odd, 0, 0), 8192U + 128);
  EXPECT_EQ(bytes_sent(odd, 0, 3), 8192U);
  EXPECT_EQ(steps_sent(odd, 0, 0), 2U * 2 * 3);
  const Plan gather = plan({.operation = Operation::kAllGather, .count = 5000}).value();
  EXPECT_EQ(bytes_sent(gather, 0, 1), 20000U);
  EXPECT_EQ(steps_sent(gather, 0, 1), 3U * 2 * 3);
  EXPECT_THAT(to_text(gather), HasSubstr("stores its block to all at once"));
  const Plan scatter = plan({.operation = Operation::kReduceScatter, .count = 5000}).value();
  EXPECT_EQ(bytes_sent(scatter, 0, 1), 0U);
  EXPECT_THAT(to_text(scatter), HasSubstr("loads its block, combined over all"));
  EXPECT_THAT(complaint({.reduction = WEFT_MAX, .count = 1}),
              HasSubstr("switches do not combine float32 by max"));
  EXPECT_THAT(complaint({.type = WEFT_INT8, .count = 1}),
              HasSubstr("switches do not combine int8 by sum"));
  deterministic_ = true;
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("it does not add up by rank numbers"));
  deterministic_ = false;
  limits_.multicast_range = 100;
  EXPECT_FALSE(plan({.count = 1}));
}

TEST_F(Planner, ATunerThatTimesMulticastLetsItCompete) {
  limits_.multicast_range = 8192;
  algorithms_ = {"ring", "multicast"};
  protocols_ = {"simple"};
  SaidBefore tuner({{.us = 10.0}, {.us = 5.0}});
  tuner_ = &tuner;
  EXPECT_EQ(all_reduce(kMiB).algorithm, Algorithm::kMulticast);
  ASSERT_EQ(tuner.asked.size(), 2U);
  EXPECT_EQ(tuner.asked[1].algorithm, Algorithm::kMulticast);
  SaidBefore slower({{.us = 10.0}, {.us = 15.0}});
  tuner_ = &slower;
  EXPECT_EQ(all_reduce(kMiB).algorithm, Algorithm::kRing);
}

TEST_F(Planner, ValidateFindsWhatCannotGoByMulticast) {
  limits_.multicast_range = 8192;
  algorithms_ = {"multicast"};
  const Plan made = all_reduce(kMiB);
  const auto refused = [&](auto change) {
    Plan other = made;
    change(other);
    return !validate(other, topology_);
  };
  EXPECT_TRUE(refused([](Plan& plan) { plan.task.operation = Operation::kBroadcast; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.protocol = Protocol::kLL; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.channels[0].chunk = 100; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.by_rank = true; }));
}

TEST_F(Planner, ValidateFindsWhatCannotBeATwoShot) {
  costs_.exchange_us = 0.1;
  costs_.two_shot = {.latency_us = 0.1, .bytes_per_us = 400000};
  limits_.two_shot_range = 8192;
  const Plan made = all_reduce(kMiB);
  const auto refused = [&](auto change) {
    Plan other = made;
    change(other);
    return !validate(other, topology_);
  };
  EXPECT_TRUE(refused([](Plan& plan) { plan.protocol = Protocol::kLL; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.task.operation = Operation::kAllGather; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.channels[0].chunk += 1; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.channels[0].count -= 1; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.channels[0].ring[0] = 1; }));
  EXPECT_TRUE(refused([](Plan& plan) { plan.steps = 3; }));
}

TEST_F(Planner, BlocksGoDirectlyWhereTheRanksCan) {
  limits_.direct_bytes = 4096;
  const auto made = [&](Operation operation, std::uint64_t block) {
    return plan({.operation = operation, .count = block / 4}).value();
  };
  for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter}) {
    limits_.direct_block_bytes = 4;
    EXPECT_EQ(made(operation, 8).algorithm, Algorithm::kRing);
    EXPECT_THAT(made(operation, 8).alternatives[1].refused, HasSubstr("block of more than the 4"));
    limits_.direct_block_bytes = 4096;
    const Plan direct = made(operation, 4096);
    EXPECT_EQ(direct.algorithm, Algorithm::kDirect);
    EXPECT_EQ(bytes_sent(direct, 0, 1), 4096U * 3);
    EXPECT_THAT(made(operation, 4100).alternatives[1].refused, HasSubstr("more than the 4096"));
  }
}

// By the built-in costs, on a host: one way rather than many while the size allows it.
TEST_F(Planner, PrefersOneWayForSmallCallsOfCpus) {
  limits_.direct_bytes = kMiB;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kDirect);
  EXPECT_EQ(all_reduce(16 * kKiB).algorithm, Algorithm::kDirect);
  EXPECT_EQ(all_reduce(64 * kKiB).algorithm, Algorithm::kRing);
}

// A chunk passes 2 (n - 1) hops, each a step here.
TEST_F(Planner, CutsNoChunkForAFewBytes) {
  const auto steps = [&](std::uint64_t bytes) {
    std::uint64_t sum = 0;
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      sum += steps_sent(all_reduce(bytes), 0, rank);
    return sum;
  };
  EXPECT_EQ(steps(8), 6U);
  EXPECT_EQ(steps(kLeastChunkBytes), 6U);
  EXPECT_EQ(steps(kLeastChunkBytes + 64), 12U);
  EXPECT_EQ(steps(4 * kLeastChunkBytes), 24U);
}

TEST_F(Planner, RefusesDirectPlansThatCannotRun) {
  limits_.direct_bytes = 4096;
  algorithms_ = {"direct"};
  const Plan good = all_reduce(4096);
  ASSERT_TRUE(validate(good, topology_));
  const auto broken = [&](auto change) {
    Plan plan = good;
    change(plan);
    const Status checked = validate(plan, topology_);
    return checked ? "" : checked.error().what();
  };
  EXPECT_THAT(broken([](Plan& plan) { plan.protocol = Protocol::kSimple; }), HasSubstr("by lines"));
  EXPECT_THAT(broken([](Plan& plan) { plan.channels[0].count = 1000; }), HasSubstr("one channel"));
  EXPECT_THAT(broken([](Plan& plan) { plan.step_bytes = 128; }), HasSubstr("do not fit"));
  EXPECT_THAT(broken([](Plan& plan) { plan.channels[0].ring[0] = 9; }), HasSubstr("rank 9"));
  EXPECT_THAT(complaint({.count = 1025}), HasSubstr("more than the 4096 bytes"));
}

TEST_F(Planner, NamesTheKeyThatLeavesNothing) {
  algorithms_ = {"tree", "pat"};
  const Result<Plan> made = plan({.operation = Operation::kBroadcast, .count = 1});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), WEFT_ERROR_CONFIG);
  EXPECT_THAT(made.error().to_string(),
              HasSubstr("collectives.broadcast.algorithm allows only [tree, pat]"));
  EXPECT_THAT(made.error().to_string(), HasSubstr("\"ring\""));
  algorithms_.clear();
  protocols_ = {"ll"};
  EXPECT_THAT(complaint({.count = 1}),
              HasSubstr("collectives.all_reduce.protocol allows only [ll]"));
}

TEST_F(Planner, DeterministicSumsGoByRankNumbers) {
  limits_.trees = true;
  EXPECT_EQ(all_reduce(kMiB).algorithm, Algorithm::kRing);
  const auto by_chain = [](const Plan& plan) {
    return *std::ranges::find(plan.alternatives, "chain", &Alternative::algorithm);
  };
  EXPECT_EQ(by_chain(all_reduce(kMiB)).refused, "only collectives.deterministic asks for it");
  EXPECT_FALSE(all_reduce(kMiB).by_rank);
  deterministic_ = true;
  // A topology whose rings do not go by numbers.
  const std::vector<test::Placement> places = {{.host = 0, .process = 0},
                                               {.host = 1, .process = 1},
                                               {.host = 0, .process = 2},
                                               {.host = 1, .process = 3}};
  topology_ = test::sample_topology(places);
  for (const Operation operation : {Operation::kAllReduce, Operation::kReduce,
                                    Operation::kReduceScatter, Operation::kReduceScatterV}) {
    const Plan made = make_plan({.operation = operation, .count = kMiB},
                                {.topology = topology_, .limits = limits_, .deterministic = true})
                          .value();
    EXPECT_EQ(made.algorithm, Algorithm::kChain) << operation_name(operation);
    EXPECT_TRUE(made.by_rank);
    EXPECT_THAT(made.channels.front().ring, ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(made.alternatives.front().refused,
              "deterministic: it does not add up by rank numbers");
    EXPECT_THAT(to_text(made), HasSubstr("order       by rank number"));
  }
  // Nothing to combine, or in any order alike.
  EXPECT_EQ(broadcast(kMiB).algorithm, Algorithm::kRing);
  EXPECT_FALSE(broadcast(kMiB).by_rank);
  EXPECT_FALSE(plan({.type = WEFT_INT32, .count = kMiB}).value().by_rank);
  EXPECT_EQ(plan({.type = WEFT_INT32, .count = kMiB}).value().algorithm, Algorithm::kRing);
  EXPECT_EQ(all_reduce(0).algorithm, Algorithm::kRing);
  topology_ = test::one_host(1);
  EXPECT_EQ(all_reduce(kMiB).algorithm, Algorithm::kRing);
}

TEST_F(Planner, DeterministicSumsStillGoDirectlyWhereThatIsFaster) {
  deterministic_ = true;
  limits_.trees = true;
  limits_.max_channels = 1;
  limits_.direct_bytes = 4096;
  limits_.two_shot_range = 64 * kKiB;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kDirect);
  EXPECT_TRUE(all_reduce(8).by_rank);
  EXPECT_EQ(all_reduce(kMiB).algorithm, Algorithm::kTwoShot);
  EXPECT_TRUE(all_reduce(kMiB).by_rank);
}

TEST_F(Planner, DeterministicSumsAreRefusedWhereNothingKeepsTheOrder) {
  deterministic_ = true;
  EXPECT_THAT(complaint({.operation = Operation::kReduce, .count = 1}),
              AllOf(HasSubstr("collectives.deterministic asks for an order, which leaves no way: "
                              "ring with simple: deterministic: it does not add up"),
                    HasSubstr("chain with simple: these ranks' devices have no kernels"),
                    HasSubstr("switch collectives.deterministic off")));
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kReduceScatter, Operation::kReduceScatterV}) {
    for (const weft_reduction reduction : {weft_reduction{WEFT_SUM}, kPremulSum}) {
      EXPECT_THAT(complaint({.operation = operation, .reduction = reduction, .count = 1}),
                  HasSubstr("switch collectives.deterministic off"));
    }
  }
  limits_.trees = true;
  algorithms_ = {"ring", "tree"};
  EXPECT_THAT(complaint({.count = 1}),
              AllOf(HasSubstr("collectives.all_reduce.algorithm allows only [ring, tree] and "
                              "collectives.deterministic asks for an order"),
                    HasSubstr("add \"chain\"")));
}

TEST_F(Planner, CountsStepsOfAChain) {
  deterministic_ = true;
  limits_.trees = true;
  limits_.max_channels = 1;
  const auto chain = [&](Operation operation, std::uint32_t root) {
    return plan({.operation = operation, .root = root, .count = 4 * kMiB / 4}).value();
  };
  const Plan all = chain(Operation::kAllReduce, 0);
  const std::uint64_t once = all.channels[0].count / all.channels[0].chunk;
  EXPECT_EQ(steps_sent(all, 0, 0), once);
  EXPECT_EQ(steps_sent(all, 0, 1), 2 * once);
  EXPECT_EQ(steps_received(all, 0, 3), once);
  const Plan to_two = chain(Operation::kReduce, 2);
  EXPECT_EQ(steps_sent(to_two, 0, 3), once);
  EXPECT_EQ(steps_sent(to_two, 0, 2), once) << "up alone";
  EXPECT_EQ(steps_received(to_two, 0, 0), 0U);
  const Plan blocks = chain(Operation::kReduceScatter, 0);
  EXPECT_EQ(bytes_sent(blocks, 0, 0), 16 * kMiB);
  EXPECT_EQ(bytes_sent(blocks, 0, 2), (16 + 2 * 4) * kMiB);
  EXPECT_EQ(bytes_sent(blocks, 0, 3), 3 * 4 * kMiB);
}

TEST_F(Planner, FindsChainsThatCannotRun) {
  deterministic_ = true;
  limits_.trees = true;
  const Plan good = all_reduce(kMiB);
  ASSERT_EQ(good.algorithm, Algorithm::kChain);
  const auto broken = [&](auto change) {
    Plan plan = good;
    change(plan);
    const Status checked = validate(plan, topology_);
    return checked ? "" : checked.error().what();
  };
  EXPECT_THAT(
      broken([](Plan& plan) { std::swap(plan.channels[0].ring[1], plan.channels[0].ring[2]); }),
      HasSubstr("does not go by rank numbers"));
  EXPECT_THAT(broken([](Plan& plan) { plan.channels[0].ring[1] = 0; }), HasSubstr("rank 0 twice"));
  EXPECT_THAT(broken([](Plan& plan) { plan.channels[0].chunk = kMiB; }), HasSubstr("not a step"));
  EXPECT_THAT(broken([](Plan& plan) { plan.task.operation = Operation::kBroadcast; }),
              HasSubstr("only reductions"));
  EXPECT_THAT(broken([](Plan& plan) { plan.algorithm = Algorithm::kRing; }),
              HasSubstr("a ring does not go by rank numbers"));
}

TEST_F(Planner, RefusesTasksThatMakeNoSense) {
  EXPECT_THAT(complaint({.type = 99, .count = 1}), HasSubstr("no element type 99"));
  EXPECT_THAT(complaint({.reduction = 9, .count = 1}), HasSubstr("no reduction 9"));
  EXPECT_THAT(complaint({.operation = Operation::kBroadcast, .root = 4, .count = 1}),
              HasSubstr("root is 4, the ranks are 0 to 3"));
  EXPECT_THAT(complaint({.count = ~std::uint64_t{0}}), HasSubstr("more than any memory"));
  EXPECT_THAT(complaint({.operation = static_cast<Operation>(77), .count = 1}),
              HasSubstr("no operation 77"));
  topology_ = {};
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("has none"));
}

TEST_F(Planner, RefusesLimitsThatMakeNoSense) {
  limits_.steps = 1;
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("2 steps or more, not 1"));
  limits_ = {.steps = 8, .step_bytes = 100};
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("multiple of 64 bytes, not 100"));
  limits_ = {.max_channels = 0};
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("1 channel or more"));
  limits_ = {.min_channel_bytes = 0};
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("1 byte or more"));
  limits_ = {.min_bytes_of_few = 0};
  EXPECT_THAT(complaint({.count = 1}), HasSubstr("1 byte or more"));
}

TEST_F(Planner, ValidateFindsWhatIsWrong) {
  const Plan good = all_reduce(64 * kMiB);
  const auto complaint_after = [&](auto change) {
    Plan plan = good;
    change(plan);
    const Status status = validate(plan, topology_);
    return status ? "valid" : status.error().to_string();
  };
  EXPECT_EQ(complaint_after([](Plan&) {}), "valid");
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[1].offset += 16; }),
              HasSubstr("channel 1 covers"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[2].index = 1; }),
              HasSubstr("channel 1 stands at place 2"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels.pop_back(); }),
              HasSubstr("elements are on a channel"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[3].count += 1; }),
              HasSubstr("channel 3 covers"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[0].ring[1] = 0; }),
              HasSubstr("holds rank 0 twice"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[0].ring[1] = 4; }),
              HasSubstr("holds rank 4, of 4 ranks"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[2].ring.pop_back(); }),
              HasSubstr("holds 3 of 4 ranks"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.channels[2].chunk += 1; }),
              HasSubstr("which is not 4 steps"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.steps = 4; }),
              HasSubstr("chunks of 4 steps over connections of 4"));
  EXPECT_THAT(complaint_after([](Plan& p) { p.ranks = 3; }), HasSubstr("for 3 ranks, there are 4"));
  EXPECT_THAT(complaint_after([](Plan& p) {
                p.channels[0].count -= 1;
                p.channels[1].offset -= 1;
                p.channels[1].count += 1;
              }),
              HasSubstr("within a line"));
}

TEST_F(Planner, TextTellsWhatWillHappen) {
  const std::string text = to_text(all_reduce(8 * kMiB));
  EXPECT_THAT(text, HasSubstr("all_reduce of 8 MiB: 2097152 x float32, sum, 4 ranks"));
  EXPECT_THAT(text, HasSubstr("algorithm   ring"));
  EXPECT_THAT(text, HasSubstr("8 steps of 64 KiB, chunks of 4 steps"));
  EXPECT_THAT(text, HasSubstr("0   elements 0 to 524287 (2 MiB)\n"
                              "        ring 0 -> 1 -> 2 -> 3 -> 0\n"
                              "    1   elements 524288 to 1048575 (2 MiB)\n"
                              "        ring as channel 0\n"));
  EXPECT_THAT(text, HasSubstr("ranks 0-3, each: 192 messages, 12 MiB"));
  EXPECT_THAT(text, HasSubstr("reason      the only way"));
  EXPECT_THAT(text, HasSubstr("ring, simple: "));
  EXPECT_THAT(to_text(broadcast(6, 3)), HasSubstr("root 3"));
}

TEST_F(Planner, FollowsTheTuner) {
  limits_.direct_bytes = 4096;
  const Plan untuned = all_reduce(1024);
  const double ring_us = untuned.alternatives[0].predicted_us;
  const double direct_us = untuned.alternatives[1].predicted_us;

  SaidBefore ring{Judgement{.us = 0.5, .note = "as was seen"}, Judgement{}};
  tuner_ = &ring;
  Plan made = all_reduce(1024);
  EXPECT_THAT(ring.asked, ElementsAre(Offer{.algorithm = Algorithm::kRing,
                                            .protocol = Protocol::kSimple,
                                            .predicted_us = ring_us,
                                            .max_channels = 4},
                                      Offer{.algorithm = Algorithm::kDirect,
                                            .protocol = Protocol::kLL,
                                            .predicted_us = direct_us,
                                            .max_channels = 1}));
  EXPECT_EQ(made.algorithm, Algorithm::kRing);
  EXPECT_EQ(made.predicted_us, 0.5);
  EXPECT_EQ(made.alternatives[0].predicted_us, 0.5);
  EXPECT_EQ(made.alternatives[0].model_us, ring_us);
  EXPECT_EQ(made.alternatives[1].predicted_us, direct_us);
  EXPECT_THAT(made.reason, testing::StartsWith("the fastest of 2 by a.yaml; "));
  EXPECT_THAT(to_text(made), HasSubstr("    ring, simple: 0.5 us, by the built-in costs "));
  EXPECT_THAT(to_text(made), HasSubstr("; as was seen\n"));

  SaidBefore direct{Judgement{.us = 1e6}, Judgement{}};
  tuner_ = &direct;
  EXPECT_EQ(all_reduce(1024).algorithm, Algorithm::kDirect);

  SaidBefore silent{Judgement{}, Judgement{}};
  tuner_ = &silent;
  EXPECT_EQ(all_reduce(1024), untuned);
}

TEST_F(Planner, KeepsAWayWhenTheTunerWantsNone) {
  limits_.direct_bytes = 4096;
  const Algorithm best = all_reduce(1024).algorithm;
  SaidBefore no_ring{Judgement{.us = 0.1, .never = true}, Judgement{.us = 1e6}};
  tuner_ = &no_ring;
  EXPECT_EQ(all_reduce(1024).algorithm, Algorithm::kDirect);
  SaidBefore no_direct{Judgement{.us = 1e6}, Judgement{.us = 0.1, .never = true}};
  tuner_ = &no_direct;
  EXPECT_EQ(all_reduce(1024).algorithm, Algorithm::kRing);
  SaidBefore nothing{Judgement{.us = {}, .never = true}, Judgement{.us = {}, .never = true}};
  tuner_ = &nothing;
  EXPECT_EQ(all_reduce(1024).algorithm, best);
}

// As between GPUs: ways whose costs nobody has checked are left to who names them.
TEST_F(Planner, TakesTreesOfUncheckedCostForWantOfAnotherWay) {
  limits_.trees = true;
  topology_ = test::one_host(16);
  ASSERT_EQ(all_reduce(8).algorithm, Algorithm::kTree);
  limits_.late_by_cost = false;
  const Plan made = all_reduce(8);
  EXPECT_EQ(made.algorithm, Algorithm::kRing);
  EXPECT_THAT(made.reason, HasSubstr("the only one of 3 that need not be named"));
  const auto tree = std::ranges::find(made.alternatives, "tree", &Alternative::algorithm);
  EXPECT_EQ(tree->refused, "");
  EXPECT_THAT(tree->note, HasSubstr("nobody has checked its costs"));
  EXPECT_THAT(to_text(made), HasSubstr("taken only for want of another way"));
  // So are lines.
  limits_.line_step_bytes = 16 * kKiB;
  limits_.no_ll128 = "there are no kernels";
  protocols_ = {"ll", "ll128"};
  algorithms_ = {"ring"};
  EXPECT_EQ(all_reduce(8).protocol, Protocol::kLL);
  protocols_ = {"ll128"};
  algorithms_ = {"ring", "tree"};
  EXPECT_THAT(complaint({.count = 2}), AllOf(HasSubstr("ring with ll128: there are no kernels"),
                                             HasSubstr("tree with ll128: there are no kernels")));
  protocols_ = {"ll", "simple"};
  costs_.ll_hop_us = -1;
  EXPECT_EQ(all_reduce(8).protocol, Protocol::kSimple);
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kRing);
  protocols_ = {};
  limits_.line_step_bytes = 0;
  // Named by the configuration, or by the call.
  algorithms_ = {"ring", "tree"};
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kRing);
  algorithms_ = {"tree"};
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kTree);
  EXPECT_THAT(all_reduce(8).alternatives.back().note, "");
  algorithms_ = {};
  EXPECT_EQ(plan({.count = 2, .options = {.algorithm = Algorithm::kTree}}).value().algorithm,
            Algorithm::kTree);
  EXPECT_EQ(plan({.operation = Operation::kAllGather,
                  .count = 2,
                  .options = {.algorithm = Algorithm::kPat}})
                .value()
                .algorithm,
            Algorithm::kPat);
  EXPECT_EQ(plan({.operation = Operation::kAllGather, .count = 2}).value().algorithm,
            Algorithm::kRing);
  // Who has a table has timed it; ways are asked for in the order of the alternatives.
  SaidBefore slow_ring{Judgement{.us = 2}, Judgement{.us = 1}, Judgement{}};
  tuner_ = &slow_ring;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kTree);
  SaidBefore fast_pat{Judgement{.us = 2}, Judgement{}, Judgement{.us = 1}};
  tuner_ = &fast_pat;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kPat);
  SaidBefore no_ring{Judgement{.us = {}, .never = true}, Judgement{}, Judgement{}};
  tuner_ = &no_ring;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kTree);
  SaidBefore no_opinion{Judgement{}, Judgement{}, Judgement{}};
  tuner_ = &no_opinion;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kRing);
  // Where the order of ranks is asked for a chain is all that is left, but for what goes directly.
  tuner_ = nullptr;
  deterministic_ = true;
  EXPECT_EQ(all_reduce(8).algorithm, Algorithm::kChain);
  topology_ = test::one_host(8);
  limits_.two_shot_range = 64 * kKiB;
  EXPECT_EQ(all_reduce(64 * kMiB).algorithm, Algorithm::kTwoShot);
}

TEST_F(Planner, TakesTheChannelsThatTheTunerWants) {
  algorithms_ = {"ring"};
  SaidBefore three{Judgement{.us = {}, .channels = 3}};
  tuner_ = &three;
  EXPECT_EQ(all_reduce(64 * kMiB).channels.size(), 3U);
  EXPECT_EQ(all_reduce(64 * kKiB).channels.size(), 3U) << "though it pays for 1 alone";
  EXPECT_EQ(all_reduce(64).channels.size(), 1U) << "one line is not cut";
  EXPECT_EQ(all_reduce(64 * kMiB).reason,
            "the only way of those allowed that can do it; 3 of 4 channels: a.yaml wants 3");
  SaidBefore five{Judgement{.us = {}, .channels = 5}};
  tuner_ = &five;
  EXPECT_THAT(complaint({.count = 1000}), HasSubstr("a.yaml wants 5 channels of 4"));
  SaidBefore none{};
  tuner_ = &none;
  EXPECT_THAT(complaint({.count = 1000}), HasSubstr("a.yaml judged 0 of 1 ways"));
}

TEST_F(Planner, AsksNobodyWhereNothingMoves) {
  SaidBefore tuner{};
  tuner_ = &tuner;
  EXPECT_TRUE(plan({.count = 0}));
  topology_ = test::one_host(1);
  EXPECT_TRUE(plan({.count = 100}));
  EXPECT_TRUE(tuner.asked.empty());
}

}  // namespace
}  // namespace weft
