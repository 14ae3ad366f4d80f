// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong channels among many that are alike, of which one of a kind is executed.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/schedule_checker/channel_kinds.h"
#include "tests/schedule_checker/plans.h"

namespace weft::checker::planted_channels {
namespace {

constexpr std::uint32_t kRanks = 5;
constexpr std::uint32_t kChannels = 33;
constexpr std::uint32_t kWrongChannel = 21;

Plan plan_for(Operation operation) {
  const std::uint64_t count = kChannels * 2 * kGrain + 2 * kGrain - 3;
  return plan_of(task_of(operation, count), test::one_host(kRanks), Algorithm::kRing,
                 {.steps = 4, .step_grains = 1, .channels = kChannels, .count = count});
}

void expect(Rule rule, const Plan& plan) {
  Stacks stacks;
  const Verdict verdict = execute_one(stacks, plan, {.one_of_a_kind = true});
  ASSERT_FALSE(verdict.report.empty()) << "nothing was found, wanted: " << rule_name(rule);
  EXPECT_EQ(rule_name(verdict.report.violations().front().rule), rule_name(rule))
      << verdict.report.text();
}

TEST(PlantedChannels, OfAFewKinds) {
  for (const Operation operation : kCollectives) {
    Report report;
    const ChannelKinds kinds = kinds_of_channels(plan_for(operation), report);
    EXPECT_TRUE(report.empty()) << report.text();
    // One has a grain more, and the last one less than the others.
    EXPECT_EQ(kinds.first.size(), 3U);
    EXPECT_EQ(std::accumulate(kinds.members.begin(), kinds.members.end(), 0U), kChannels);
  }
}

TEST(PlantedChannels, AnElementOnTwoChannelsOrOnNone) {
  Plan plan = plan_for(Operation::kAllReduce);
  ASSERT_EQ(plan.channels.size(), kChannels);
  plan.channels[kWrongChannel].offset -= 1;
  expect(Rule::kTwice, plan);
  plan.channels[kWrongChannel].offset += 2;
  expect(Rule::kNotWritten, plan);
  plan = plan_for(Operation::kAllReduce);
  plan.channels.back().count -= 1;
  expect(Rule::kNotWritten, plan);
}

// What makes a channel another one makes it a kind.
TEST(PlantedChannels, OneWrongAmongMany) {
  Plan plan = plan_for(Operation::kBroadcast);
  plan.channels[kWrongChannel].ring[1] = plan.channels[kWrongChannel].ring[2];
  Report report;
  const ChannelKinds kinds = kinds_of_channels(plan, report);
  EXPECT_TRUE(std::ranges::binary_search(kinds.first, kWrongChannel));
  plan = plan_for(Operation::kBroadcast);
  plan.channels[kWrongChannel].chunk = kGrain / 2;
  expect(Rule::kBound, plan);
}

}  // namespace
}  // namespace weft::checker::planted_channels
