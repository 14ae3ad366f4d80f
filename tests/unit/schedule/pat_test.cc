// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Parallel aggregated trees: how blocks are dealt out to messages, and plans by them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/pat_geometry.h"
#include "core/schedule/planner.h"
#include "core/schedule/work_items.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> numbers_of_ranks() {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t ranks = 2; ranks <= 130; ++ranks)
    numbers.push_back(ranks);
  numbers.insert(numbers.end(), {1000, 4095, 4096, 4097, kMaxRanks});
  return numbers;
}

/// The messages of a round in the order of an all-gather.
std::vector<PatMessage> gathered(const PatRound& round) {
  std::vector<PatMessage> messages;
  for (std::uint32_t window = 0; window < round.windows(); ++window) {
    for (std::uint32_t level = round.opened_by(window) + 1; level-- != 0;) {
      const PatMessage message = round.message(level, window >> level);
      if (message.count != 0) messages.push_back(message);
    }
  }
  return messages;
}

std::vector<PatMessage> reduced(const PatRound& round) {
  std::vector<PatMessage> messages;
  for (std::uint32_t window = 0; window < round.windows(); ++window) {
    for (std::uint32_t level = 0; level <= round.closed_by(window); ++level) {
      const PatMessage message = round.message(level, window >> level);
      if (message.count != 0) messages.push_back(message);
    }
  }
  return messages;
}

TEST(PatGeometry, EveryBlockComesOnceAndIsThereBeforeItGoesOn) {
  for (const std::uint32_t ranks : numbers_of_ranks()) {
    for (std::uint32_t blocks = 1; blocks < 2 * ranks && blocks <= 4096; blocks *= 4) {
      if (ranks > 4097 && blocks < 256) continue;
      const PatRound round{.ranks = ranks, .blocks = blocks};
      const std::vector<PatMessage> messages = gathered(round);
      ASSERT_EQ(messages.size(), round.messages());
      std::vector<bool> there(ranks, false);  // by how far behind the owner is
      there[0] = true;
      std::vector<std::uint32_t> next(round.levels(), 0);
      for (const PatMessage& message : messages) {
        ASSERT_EQ(message.number, next[message.level]++);
        ASSERT_LE(message.count, blocks);
        for (std::uint32_t i = 0; i < message.count; ++i) {
          ASSERT_TRUE(there.at(message.near(i))) << ranks << " ranks, " << blocks << " blocks";
          ASSERT_FALSE(there.at(message.far(i)));
          there[message.far(i)] = true;
        }
      }
      ASSERT_EQ(std::ranges::count(there, true), ranks);
    }
  }
}

TEST(PatGeometry, EverySumGoesOnOnceAndIsThenComplete) {
  for (const std::uint32_t ranks : numbers_of_ranks()) {
    for (std::uint32_t blocks = 1; blocks < 2 * ranks && blocks <= 4096; blocks *= 4) {
      if (ranks > 4097 && blocks < 256) continue;
      const PatRound round{.ranks = ranks, .blocks = blocks};
      const std::vector<PatMessage> messages = reduced(round);
      ASSERT_EQ(messages.size(), round.messages());
      std::vector<std::uint32_t> contributions(ranks, 1);
      std::vector<bool> gone(ranks, false);
      for (const PatMessage& message : messages) {
        for (std::uint32_t i = 0; i < message.count; ++i) {
          ASSERT_FALSE(gone.at(message.far(i)) || gone.at(message.near(i)));
          gone[message.far(i)] = true;
          contributions[message.near(i)] += contributions[message.far(i)];
        }
      }
      ASSERT_EQ(contributions[0], ranks) << blocks << " blocks";
    }
  }
}

/// Of ranks on hosts of their own.
Result<Plan> plan_of_inputs(std::uint32_t ranks, std::uint64_t count, bool gathers_inputs) {
  std::vector<test::Placement> places;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    places.push_back({.host = rank, .process = rank});
  const Topology topology = test::sample_topology(places);
  PlanInput input{.topology = topology,
                  .limits = {.max_channels = 4, .trees = true, .gathers_inputs = gathers_inputs}};
  input.algorithms = {"pat"};
  const Task task{.operation = Operation::kAllReduce, .type = WEFT_FLOAT32, .count = count};
  return make_plan(task, input);
}

TEST(PatInputs, AreGatheredWhereTheyAreSmall) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 100U}) {
    SCOPED_TRACE(ranks);
    const std::uint64_t most = kMostGatheredBytes / 4 / ranks;
    const auto gathers = plan_of_inputs(ranks, most, true);
    ASSERT_TRUE(gathers) << gathers.error().to_string();
    EXPECT_TRUE(gathers->gathers_inputs);
    EXPECT_EQ(gathers->channels.size(), 1U);
    EXPECT_EQ(steps_sent(*gathers, 0, 0), std::bit_width(ranks - 1)) << "as an all-gather";
    EXPECT_EQ(bytes_sent(*gathers, 0, 0), (ranks - 1) * most * 4);
    EXPECT_THAT(to_text(*gathers), HasSubstr("what each brings, and sums up all of it"));
    EXPECT_FALSE(plan_of_inputs(ranks, most + 1, true)->gathers_inputs);
    EXPECT_FALSE(plan_of_inputs(ranks, most, false)->gathers_inputs);
    Plan cut = *gathers;
    cut.channels[0].chunk = 1;
    cut.task.count = cut.channels[0].count = most + 1;
    EXPECT_FALSE(validate(cut, test::one_host(ranks)));
  }
}

// Of other ways over edges nobody has checked the costs there.
TEST(PatInputs, AreGatheredBetweenDevicesWhoseTreesMustBeNamed) {
  const Topology topology = test::one_host(4);
  PlanInput input{
      .topology = topology,
      .limits = {.max_channels = 4, .trees = true, .late_by_cost = false, .gathers_inputs = true}};
  const Task task{.operation = Operation::kAllReduce, .type = WEFT_FLOAT32, .count = 2};
  const auto gathers = make_plan(task, input);
  ASSERT_TRUE(gathers) << gathers.error().to_string();
  EXPECT_TRUE(gathers->gathers_inputs);
  input.limits.gathers_inputs = false;
  EXPECT_EQ(make_plan(task, input)->algorithm, Algorithm::kRing);
}

TEST(PatGeometry, AsManyBlocksAsFitGoTogether) {
  EXPECT_EQ(pat_round(8, 1024, 8).messages(), 3U);
  EXPECT_EQ(pat_round(8, 1024, 256).messages(), 3U) << "four blocks fill a step";
  EXPECT_EQ(pat_round(8, 1024, 257).messages(), 4U);
  EXPECT_EQ(pat_round(8, 1024, 513).messages(), 7U) << "one block a message";
  EXPECT_EQ(pat_round(6, 1024, 341).messages(), 3U) << "three fit, if not four";
  for (const std::uint32_t ranks : numbers_of_ranks()) {
    EXPECT_EQ(pat_round(ranks, 1 << 20, 8).messages(), std::bit_width(ranks - 1));
    EXPECT_EQ(pat_round(ranks, 64, 64).messages(), ranks - 1);
  }
}

// Floats. The rounds of other operations do not look at the number of elements.
TEST(PatGeometry, RangesOfAnAllReduceGoTogetherAsBlocksDo) {
  const auto messages = [](std::uint32_t ranks, std::uint64_t count, std::uint64_t chunk) {
    return pat_round(Operation::kAllReduce, ranks, 1024, count, chunk, 4).messages();
  };
  EXPECT_EQ(messages(8, 8 * 64, 64), 3U) << "four ranges fill a step";
  EXPECT_EQ(messages(8, 8 * 64 + 1, 80), 4U) << "ranges of 80, in whole grains";
  EXPECT_EQ(messages(8, 8 * 256, 256), 7U);
  for (const std::uint32_t ranks : numbers_of_ranks()) {
    EXPECT_EQ(messages(ranks, 256, 16), std::bit_width(ranks - 1)) << "all of it fits";
    EXPECT_EQ(messages(ranks, 1, 16), std::bit_width(ranks - 1));
  }
}

/// So many ranks on each host, dealt out one by one as long as there is room.
Topology dealt_out(std::vector<std::uint32_t> room) {
  std::vector<test::Placement> places;
  while (std::ranges::any_of(room, [](std::uint32_t left) { return left != 0; })) {
    for (std::uint32_t host = 0; host < room.size(); ++host) {
      if (room[host] == 0) continue;
      --room[host];
      places.push_back({.host = host, .process = static_cast<std::uint32_t>(places.size())});
    }
  }
  return test::sample_topology(places);
}

class PatPlans : public testing::Test {
 protected:
  Result<Plan> try_plan(Operation operation, std::uint64_t bytes) const {
    return make_plan({.operation = operation, .count = bytes / 4},
                     {.topology = topology_, .limits = limits_, .algorithms = {"pat"}});
  }
  Plan plan(Operation operation, std::uint64_t bytes) const {
    Plan made = try_plan(operation, bytes).value();
    const Status valid = validate(made, topology_);
    EXPECT_TRUE(valid) << valid.error().to_string();
    return made;
  }
  Topology topology_ = test::one_host(8);
  PlanLimits limits_{
      .steps = 8, .step_bytes = 64 * 1024, .trees = true, .tree_step_bytes = 32 * 1024};
};

TEST_F(PatPlans, OneMessageForEachDoublingWhileTheyFit) {
  for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter}) {
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(steps_sent(plan(operation, 8), 0, rank), 3U);
      EXPECT_EQ(steps_sent(plan(operation, 8 * 1024), 0, rank), 3U);
      EXPECT_EQ(steps_sent(plan(operation, 16 * 1024), 0, rank), 4U);
      EXPECT_EQ(steps_sent(plan(operation, 32 * 1024), 0, rank), 7U);
      EXPECT_EQ(steps_sent(plan(operation, 33 * 1024), 0, rank), 14U) << "in two rounds";
      EXPECT_EQ(steps_received(plan(operation, 33 * 1024), 0, rank), 14U);
      EXPECT_EQ(bytes_sent(plan(operation, 33 * 1024), 0, rank), 7U * 33 * 1024);
    }
  }
}

TEST_F(PatPlans, PartnersAreAheadOrBehind) {
  const Plan gathers = plan(Operation::kAllGather, 8);
  const std::vector<std::uint32_t>& ring = gathers.channels[0].ring;
  const PatPlace place = pat_place(gathers, 0, ring[3]);
  EXPECT_THAT(place.ahead, ElementsAre(ring[4], ring[5], ring[7]));
  EXPECT_THAT(place.behind, ElementsAre(ring[2], ring[1], ring[7]));
  EXPECT_EQ(pat_place(plan(Operation::kReduceScatter, 8), 0, ring[3]), place);
}

// What is gathered goes ahead, what is reduced behind.
TEST_F(PatPlans, LinksAreThoseOfTheHalvesThatAnOperationHas) {
  for (const Operation operation :
       {Operation::kAllGather, Operation::kReduceScatter, Operation::kAllReduce}) {
    const Plan made = plan(operation, 8);
    const std::vector<std::uint32_t>& ring = made.channels[0].ring;
    const PatLinks links = pat_links(
        operation, pat_place(made, 0, ring[3]),
        [](std::uint32_t peer) { return ConnectionView{.steps = 1, .peer = peer}; },
        [](std::uint32_t peer) { return ConnectionView{.steps = 2, .peer = peer}; });
    EXPECT_EQ(links.levels, 3U);
    const bool scatters = operation != Operation::kAllGather;
    const bool gathers = operation != Operation::kReduceScatter;
    EXPECT_EQ(links.scatter.to[1].peer, scatters ? ring[1] : 0);
    EXPECT_EQ(links.scatter.to[1].steps, scatters ? 1 : 0);
    EXPECT_EQ(links.scatter.from[1].peer, scatters ? ring[5] : 0);
    EXPECT_EQ(links.scatter.from[1].steps, scatters ? 2 : 0);
    EXPECT_EQ(links.gather.to[1].peer, gathers ? ring[5] : 0);
    EXPECT_EQ(links.gather.from[1].peer, gathers ? ring[1] : 0);
  }
}

TEST_F(PatPlans, AnAllReduceTakesTwoMessagesForEachDoubling) {
  const auto sent = [&](std::uint64_t bytes) {
    const Plan made = plan(Operation::kAllReduce, bytes);
    for (std::uint32_t rank = 1; rank < 8; ++rank)
      EXPECT_EQ(steps_sent(made, 0, rank), steps_sent(made, 0, 0));
    EXPECT_EQ(steps_received(made, 0, 5), steps_sent(made, 0, 0));
    return steps_sent(made, 0, 0);
  };
  constexpr std::uint64_t kKiB = 1024;
  EXPECT_EQ(sent(8), 6U);
  EXPECT_EQ(sent(64 * kKiB), 6U) << "four ranges of 8 KiB fill a step";
  EXPECT_EQ(sent(128 * kKiB), 8U);
  EXPECT_EQ(sent(256 * kKiB), 14U);
  EXPECT_EQ(sent(257 * kKiB), 28U) << "in two rounds";
}

// 2 (n - 1) / n of all from each rank where ranges are alike, and as much from all together where
// they are not.
TEST_F(PatPlans, AnAllReduceSendsNoMoreThanItMust) {
  for (const std::vector<std::uint32_t>& hosts :
       std::vector<std::vector<std::uint32_t>>{{8}, {5}, {4, 4}, {2, 2, 2}}) {
    topology_ = dealt_out(hosts);
    const std::uint64_t ranks = topology_.rank_count();
    const std::uint64_t even = 64 * ranks * 100;
    for (const std::uint64_t bytes :
         std::to_array<std::uint64_t>({4, 512, even, even - 68, 10 * even + 4})) {
      const Plan made = plan(Operation::kAllReduce, bytes);
      std::uint64_t all = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const std::uint64_t own = bytes_sent(made, 0, rank);
        all += own;
        if (bytes % (64 * ranks) == 0) {
          EXPECT_EQ(own, 2 * (ranks - 1) * bytes / ranks);
        }
      }
      EXPECT_EQ(all, 2 * (ranks - 1) * bytes) << ranks << " ranks, " << bytes << " bytes";
    }
  }
}

TEST_F(PatPlans, RowsAreInsideHosts) {
  const auto row = [&](const std::vector<std::uint32_t>& on_hosts) {
    topology_ = dealt_out(on_hosts);
    const Plan made = plan(Operation::kAllGather, 8);
    for (std::uint32_t place = 0; place < made.ranks; ++place) {
      const std::vector<std::uint32_t>& ring = made.channels[0].ring;
      EXPECT_TRUE(topology_.same_host(ring[place], ring[place - place % made.pat_row]));
    }
    return made.pat_row;
  };
  EXPECT_EQ(row({8}), 1U) << "on one host there is nothing to tell apart";
  EXPECT_EQ(row({4, 4}), 4U);
  EXPECT_EQ(row({8, 4, 4}), 4U);
  EXPECT_EQ(row({6, 2}), 2U);
  EXPECT_EQ(row({6, 6, 6}), 2U);
  EXPECT_EQ(row({3, 5}), 1U);
  EXPECT_EQ(row({1, 1, 1}), 1U);
}

TEST_F(PatPlans, OneDistanceIsOfARowOrOfRowsNeverOfBoth) {
  topology_ = dealt_out({4, 4, 4});
  const Plan gathers = plan(Operation::kAllGather, 8);
  for (std::uint32_t rank = 0; rank < 12; ++rank) {
    const PatPlace place = pat_place(gathers, 0, rank);
    ASSERT_EQ(place.ahead.size(), 4U);
    for (std::size_t level = 0; level < 4; ++level) {
      EXPECT_EQ(topology_.same_host(rank, place.ahead[level]), level < 2);
      EXPECT_EQ(topology_.same_host(rank, place.behind[level]), level < 2);
    }
  }
  const std::vector<std::uint32_t>& ring = gathers.channels[0].ring;
  const PatPlace last = pat_place(gathers, 0, ring[11]);
  EXPECT_THAT(last.ahead, ElementsAre(ring[8], ring[9], ring[3], ring[7]));
  EXPECT_THAT(last.behind, ElementsAre(ring[10], ring[9], ring[7], ring[3]));
  EXPECT_THAT(to_text(gathers),
              HasSubstr("in rows of 4, each on one host: places are of the row below 4, and from 4 "
                        "on lead\n        to the same place of other rows\n"));
}

TEST_F(PatPlans, RowsThatDoNotFitAreRefused) {
  topology_ = dealt_out({4, 4, 4});
  Plan made = plan(Operation::kAllGather, 8);
  for (const std::uint32_t row : {0U, 3U, 8U}) {
    made.pat_row = row;
    const Status valid = validate(made, topology_);
    ASSERT_FALSE(valid) << row;
    EXPECT_THAT(valid.error().to_string(), HasSubstr("do not stand in rows of"));
  }
}

// The slowest hop of a distance counts: without rows, each of them leaves the host somewhere.
TEST_F(PatPlans, RowsMakeItFaster) {
  topology_ = dealt_out({4, 4});
  const double by_rows = plan(Operation::kAllGather, 1024).predicted_us;
  topology_ = dealt_out({5, 3});
  const double without = plan(Operation::kAllGather, 1024).predicted_us;
  EXPECT_LT(by_rows, without);
}

TEST_F(PatPlans, SayWhatGoesWhere) {
  const std::string text = to_text(plan(Operation::kAllGather, 16 * 1024));
  EXPECT_THAT(text, HasSubstr("algorithm   pat"));
  EXPECT_THAT(text, HasSubstr("each sends to the ranks that are so many places ahead\n"
                              "        4 (1 block in 1 message), 2 (2 blocks in 1 message), "
                              "1 (4 blocks in 2 messages)\n"));
  EXPECT_THAT(text, HasSubstr("ranks 0-7, each: 4 messages"));
  EXPECT_THAT(to_text(plan(Operation::kReduceScatter, 65 * 1024)),
              HasSubstr("places behind\n        1 (4 blocks in 4 messages), 2 (2 blocks in 2 "
                        "messages), 4 (1 block in 1 message), in each of 3 rounds\n"));
  EXPECT_THAT(to_text(plan(Operation::kAllReduce, 128 * 1024)),
              HasSubstr("places behind\n        1 (4 blocks in 2 messages), 2 (2 blocks in 1 "
                        "message), 4 (1 block in 1 message), then back ahead\n"));
}

TEST_F(PatPlans, AreOutOfTheQuestionForOthers) {
  const auto refusal = [&](Operation operation, std::uint64_t bytes) {
    const auto made = try_plan(operation, bytes);
    return made ? std::string("accepted") : made.error().to_string();
  };
  EXPECT_THAT(refusal(Operation::kBroadcast, 8), HasSubstr("broadcast has no such algorithm"));
  EXPECT_THAT(refusal(Operation::kAllGather, 0), HasSubstr("pat with simple: there are no elem"));
  limits_.trees = false;
  EXPECT_THAT(refusal(Operation::kAllGather, 8), HasSubstr("devices have no kernels for it"));
  limits_.trees = true;
  topology_ = test::one_host(1);
  EXPECT_THAT(refusal(Operation::kReduceScatter, 8), HasSubstr("there is no other rank"));
}

TEST_F(PatPlans, ValidateFindsWhatCannotRun) {
  const auto complaint = [&](auto change) {
    Plan made = plan(Operation::kAllGather, 1024);
    change(made);
    const Status valid = validate(made, topology_);
    return valid ? std::string("accepted") : valid.error().to_string();
  };
  EXPECT_THAT(complaint([](Plan& made) { made.channels[0].chunk = 64 * 1024; }),
              HasSubstr("which is not a step"));
  EXPECT_THAT(complaint([](Plan& made) { made.task.operation = Operation::kBroadcast; }),
              HasSubstr("does not go by PAT"));
  EXPECT_THAT(complaint([](Plan& made) { made.channels[0].ring[1] = made.channels[0].ring[0]; }),
              HasSubstr("twice"));
  EXPECT_THAT(complaint([](Plan& made) { made.steps = 1; }), HasSubstr("connections of 1"));
}

TEST(PatChoice, WinsWhereTheWayRoundIsLongAndTheCallIsSmall) {
  std::vector<test::Placement> places;
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    places.push_back({.host = rank, .process = rank});
  const Topology topology = test::sample_topology(places);
  const PlanInput input{.topology = topology,
                        .limits = {.trees = true, .tree_step_bytes = 32 * 1024}};
  for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter}) {
    const auto algorithm = [&](std::uint64_t bytes) {
      return make_plan({.operation = operation, .count = bytes / 4}, input).value().algorithm;
    };
    EXPECT_EQ(algorithm(8), Algorithm::kPat);
    EXPECT_EQ(algorithm(1 << 26), Algorithm::kRing);
  }
}

/// Has timed all ways, and says what the built-in costs do.
class OneTime : public CostSource {
 public:
  [[nodiscard]] std::string name() const override { return "a table"; }
  [[nodiscard]] Result<std::vector<Judgement>> judge(const Task& /*task*/,
                                                     std::span<const Offer> offers) override {
    std::vector<Judgement> judgements;
    for (const Offer& offer : offers)
      judgements.push_back({.us = offer.predicted_us});
    return judgements;
  }
};

// Of all-reduces a tree has what is small, PAT what a tree moves too often and a ring over too many
// hops: by costs that nobody has checked, so that a table must agree.
TEST(PatChoice, OfAnAllReduceIsWhereATableSaysSo) {
  std::vector<test::Placement> places;
  for (std::uint32_t rank = 0; rank < 16; ++rank)
    places.push_back({.host = rank, .process = rank});
  const Topology topology = test::sample_topology(places);
  PlanInput input{.topology = topology, .limits = {.trees = true, .tree_step_bytes = 32 * 1024}};
  const auto algorithm = [&](std::uint64_t bytes) {
    return make_plan({.operation = Operation::kAllReduce, .count = bytes / 4}, input)
        .value()
        .algorithm;
  };
  EXPECT_NE(algorithm(64 * 1024), Algorithm::kPat);
  OneTime timed;
  input.tuner = &timed;
  EXPECT_EQ(algorithm(8), Algorithm::kTree);
  EXPECT_EQ(algorithm(64 * 1024), Algorithm::kPat);
  EXPECT_EQ(algorithm(1 << 28), Algorithm::kRing);
  input.tuner = nullptr;
  input.algorithms = {"pat"};
  EXPECT_EQ(algorithm(8), Algorithm::kPat);
}

// As measured: bench/results/2026-11-22-pat.txt.
TEST(PatChoice, OfOneHostPaysForManyRanksAndSmallBlocks) {
  const auto algorithm = [](std::uint32_t ranks, std::uint64_t bytes, bool by_messages) {
    const Topology topology = test::one_host(ranks);
    PlanInput input{.topology = topology, .limits = {.trees = true, .tree_step_bytes = 32 * 1024}};
    if (by_messages) {
      input.costs.pat_us = 0;
      input.costs.pat_bytes = 1.25;
    }
    return make_plan({.operation = Operation::kAllGather, .count = bytes / 4}, input)
        .value()
        .algorithm;
  };
  EXPECT_EQ(algorithm(3, 8, true), Algorithm::kRing) << "two hops either way";
  EXPECT_EQ(algorithm(4, 8, false), Algorithm::kRing);
  EXPECT_EQ(algorithm(4, 8, true), Algorithm::kPat);
  EXPECT_EQ(algorithm(4, 32 * 1024, true), Algorithm::kRing);
  EXPECT_EQ(algorithm(8, 2048, false), Algorithm::kPat);
  EXPECT_EQ(algorithm(8, 8192, false), Algorithm::kRing);
  EXPECT_EQ(algorithm(8, 8192, true), Algorithm::kPat);
  EXPECT_EQ(algorithm(16, 2048, false), Algorithm::kPat);
  EXPECT_EQ(algorithm(16, 8192, true), Algorithm::kPat);
  EXPECT_EQ(algorithm(16, 32 * 1024, true), Algorithm::kRing);
}

}  // namespace
}  // namespace weft
