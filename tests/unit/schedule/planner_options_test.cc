// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the options of a call leave to the planner, and what they cannot have.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/schedule/planner.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlannerOptions : public testing::Test {
 protected:
  Result<Plan> plan(Operation operation, const WayOptions& options,
                    std::uint64_t count = 1 << 20) const {
    Task task{.operation = operation, .count = count};
    task.options = options;
    Result<Plan> made = make_plan(task, {.topology = topology_,
                                         .limits = limits_,
                                         .algorithms = algorithms_,
                                         .protocols = {},
                                         .deterministic = deterministic_});
    if (made) {
      EXPECT_EQ(made->task.options, options);
      const Status valid = validate(*made, topology_);
      EXPECT_TRUE(valid) << valid.error().to_string();
    }
    return made;
  }
  std::string complaint(Operation operation, const WayOptions& options) const {
    const Result<Plan> made = plan(operation, options);
    return made ? "accepted" : made.error().to_string();
  }

  Topology topology_ = test::one_host(4);
  PlanLimits limits_{.steps = 8,
                     .step_bytes = 64 * 1024,
                     .max_channels = 4,
                     .direct_bytes = 16 * 1024,
                     .wide_bytes = 8192,
                     .two_shot_range = 4096,
                     .trees = true,
                     .line_step_bytes = 32 * 1024};
  std::vector<std::string> algorithms_;
  bool deterministic_ = false;
};

TEST_F(PlannerOptions, AWayThatIsNamedIsTaken) {
  constexpr std::pair<Algorithm, Protocol> kWays[] = {
      {Algorithm::kRing, Protocol::kSimple},  {Algorithm::kRing, Protocol::kLL},
      {Algorithm::kRing, Protocol::kLL128},   {Algorithm::kTree, Protocol::kSimple},
      {Algorithm::kTree, Protocol::kLL},      {Algorithm::kTree, Protocol::kLL128},
      {Algorithm::kDirect, Protocol::kLL},    {Algorithm::kTwoShot, Protocol::kSimple},
      {Algorithm::kDirect, Protocol::kLL128}, {Algorithm::kTwoShot, Protocol::kLL128},
  };
  for (const auto& [algorithm, protocol] : kWays) {
    const Plan made =
        plan(Operation::kAllReduce, {.algorithm = algorithm, .protocol = protocol}, 1000).value();
    EXPECT_EQ(made.algorithm, algorithm);
    EXPECT_EQ(made.protocol, protocol);
    EXPECT_THAT(made.reason, testing::StartsWith("the only way of those allowed that can do it"));
  }
}

TEST_F(PlannerOptions, WhatIsNotNamedIsChosenByCost) {
  const Plan tree = plan(Operation::kAllReduce, {.algorithm = Algorithm::kTree}, 1000).value();
  EXPECT_EQ(tree.algorithm, Algorithm::kTree);
  EXPECT_THAT(tree.reason, HasSubstr("the fastest of 3"));
  const Plan lines = plan(Operation::kAllReduce, {.protocol = Protocol::kLL128}, 1000).value();
  EXPECT_EQ(lines.protocol, Protocol::kLL128);
  EXPECT_THAT(lines.reason, HasSubstr("the fastest of 4"));
}

TEST_F(PlannerOptions, ChannelsAreLimited) {
  const auto channels = [&](std::uint32_t most) {
    return plan(Operation::kAllReduce, {.algorithm = Algorithm::kRing, .max_channels = most})
        .value()
        .channels.size();
  };
  EXPECT_EQ(channels(0), 4U);
  EXPECT_EQ(channels(100), 4U);
  EXPECT_EQ(channels(3), 3U);
  EXPECT_EQ(channels(1), 1U);
  const Plan one =
      plan(Operation::kAllReduce, {.algorithm = Algorithm::kRing, .max_channels = 1}).value();
  EXPECT_THAT(one.reason, HasSubstr("the call's options allow 1 channel"));
  EXPECT_EQ(plan(Operation::kAllReduce, {.algorithm = Algorithm::kTree, .max_channels = 1})
                .value()
                .channels.size(),
            1U);
}

TEST_F(PlannerOptions, AWayThatTheOperationLacksIsRefused) {
  EXPECT_EQ(complaint(Operation::kBroadcast, {.algorithm = Algorithm::kTwoShot}),
            "the call's options want broadcast as two-shot, which leaves no way: it can only go as "
            "ring with simple, direct with ll, direct with ll128, tree with simple, ring with ll, "
            "ring with ll128, tree with ll, tree with ll128; try: name another way with "
            "weft_comm_set_call_options, or none");
  const Result<Plan> made = plan(Operation::kAllGatherV, {.algorithm = Algorithm::kPat});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), WEFT_ERROR_UNSUPPORTED);
  EXPECT_THAT(made.error().what(), HasSubstr("all_gather_v as pat"));
}

TEST_F(PlannerOptions, AWayThatCannotBeHadIsRefusedWithTheReason) {
  limits_.line_step_bytes = 0;
  limits_.no_lines = "a net joins ranks 0 and 1";
  EXPECT_EQ(
      complaint(Operation::kReduce, {.algorithm = Algorithm::kTree, .protocol = Protocol::kLL}),
      "the call's options want reduce as tree with ll, which leaves no way: tree with ll: a "
      "net joins ranks 0 and 1; try: name another way with weft_comm_set_call_options, or "
      "none");
}

TEST_F(PlannerOptions, TheConfigurationStandsAboveThem) {
  algorithms_ = {"ring", "direct"};
  EXPECT_THAT(complaint(Operation::kAllReduce, {.algorithm = Algorithm::kTree}),
              AllOf(HasSubstr("tree with simple: collectives.all_reduce.algorithm leaves it out"),
                    HasSubstr("; tree with ll: collectives.all_reduce.algorithm leaves it out"),
                    Not(HasSubstr("ring with"))));
}

TEST_F(PlannerOptions, SoDoesTheOrderOfSums) {
  deterministic_ = true;
  EXPECT_EQ(plan(Operation::kAllReduce, {.algorithm = Algorithm::kChain}).value().algorithm,
            Algorithm::kChain);
  EXPECT_THAT(complaint(Operation::kAllReduce, {.algorithm = Algorithm::kRing}),
              HasSubstr("ring with simple: deterministic: it does not add up by rank numbers"));
  // Nothing is added up.
  EXPECT_TRUE(plan(Operation::kBroadcast, {.algorithm = Algorithm::kRing}));
}

}  // namespace
}  // namespace weft
