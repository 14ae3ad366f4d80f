// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/exchange_plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr SlotGeometry kSlots{.steps = 8, .step_bytes = 65536};
constexpr ExchangeWays kDeviceWays{
    .spread = {.channels = 4, .least_bytes = 16384, .line_bytes = 1024},
    .inboxes = {.most_by_ll = 4096},
    .window_bytes = std::uint64_t{32} << 20};

ExchangePlan plan_between_devices(Operation operation, std::uint64_t block, std::uint32_t ranks) {
  const Task task{.operation = operation, .type = WEFT_INT8, .root = 1, .count = block};
  const std::vector<Call> calls(ranks, Call{.task = task});
  ExchangePlan plan = plan_exchange(calls, kSlots, kDeviceWays);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    plan.launches.push_back({.groups = rank + 1, .lanes = 544, .processors = 132});
  return plan;
}

TEST(ExchangePlans, OfSmallBlocksBetweenDevicesGoByInboxes) {
  const std::string text = to_text(plan_between_devices(Operation::kAllToAll, 4096, 2));
  EXPECT_THAT(text, HasSubstr("  algorithm   direct\n  protocol    ll\n"));
  EXPECT_THAT(text, HasSubstr("  inboxes     each rank writes its blocks, of up to 4 KiB, into"));
  EXPECT_THAT(text, Not(HasSubstr("messages")));
  EXPECT_THAT(text, HasSubstr("  launches    rank 0: 1 CTA of 544 threads, on a device of 132 "
                              "multiprocessors\n  launches    rank 1: 2 CTAs of 544 threads"));
  EXPECT_THAT(text, HasSubstr("  windows     an output of 32 MiB or more that lies in one"));
  EXPECT_THAT(text, HasSubstr("soonest"));
}

TEST(ExchangePlans, TellOfStripesOverANet) {
  ExchangePlan plan = plan_between_devices(Operation::kAllToAll, 16384, 2);
  plan.ways.inboxes.most_by_ll = 16384;
  const std::string_view told = "  over a net  the longest block in 3 stripes, each by a port of";
  EXPECT_THAT(to_text(plan), Not(HasSubstr("stripes")));
  plan.ways.inboxes.stripes = 3;
  EXPECT_THAT(to_text(plan), HasSubstr(std::string(told)));
}

TEST(ExchangePlans, OfAllToAllsGoByWideLinesInTheirRange) {
  ExchangePlan plan = plan_between_devices(Operation::kAllToAll, 2000, 2);
  plan.ways.inboxes.least_wide = 2000;
  plan.ways.inboxes.most_wide = 1 << 20;
  const std::string text = to_text(plan);
  EXPECT_THAT(text, HasSubstr("  algorithm   direct\n  protocol    ll128\n"));
  EXPECT_THAT(text, HasSubstr("of up to 1 MiB, into the others', lines of 128 bytes\n"));
  EXPECT_THAT(text, Not(HasSubstr("messages")));
  const auto of = [&](Operation operation, std::uint64_t block) {
    return inbox_protocol({.operation = operation, .type = WEFT_INT8, .count = block},
                          plan.ways.inboxes);
  };
  EXPECT_EQ(of(Operation::kAllToAll, 1999), Protocol::kLL);
  EXPECT_EQ(of(Operation::kAllToAll, 1 << 20), Protocol::kLL128);
  EXPECT_EQ(of(Operation::kAllToAll, (1 << 20) + 1), std::nullopt);
  EXPECT_EQ(of(Operation::kGather, 4096), Protocol::kLL);
  EXPECT_EQ(of(Operation::kScatter, 4097), std::nullopt);
  EXPECT_EQ(of(Operation::kAllToAllV, 0), std::nullopt);
  EXPECT_EQ(of(Operation::kAllReduce, 8), std::nullopt);
  plan.ways.inboxes.all_to_alls_by_ll = false;
  EXPECT_EQ(of(Operation::kAllToAll, 1999), std::nullopt);
  EXPECT_EQ(of(Operation::kGather, 1999), Protocol::kLL);
}

TEST(ExchangePlans, OfLargerBlocksBetweenDevicesGoOverChannels) {
  const ExchangePlan plan = plan_between_devices(Operation::kAllToAll, 40000, 2);
  const std::string text = to_text(plan);
  EXPECT_THAT(text, HasSubstr("  algorithm   pair\n  protocol    simple\n"));
  EXPECT_THAT(text, HasSubstr("  connection  8 steps of 64 KiB on each channel"));
  EXPECT_THAT(text,
              HasSubstr("  channels    2 of the longest block, 20096 B each, and one of lines "
                        "for headers\n"));
  EXPECT_THAT(text, HasSubstr("  sends       ranks 0-1, each: 2 messages, 40000 B\n"));
  // Two channels and the lines, each way; the copy goes in two parts.
  EXPECT_EQ(pair_ends_of(plan, 0), 8U);
}

TEST(ExchangePlans, TellOfLinesThatPortsTake) {
  const std::string_view told = "  over a net  parts of up to 4 KiB by lines, which its ports";
  ExchangePlan plan = plan_between_devices(Operation::kAllToAll, 40000, 2);
  EXPECT_THAT(to_text(plan), Not(HasSubstr(std::string(told))));
  plan.ways.spread.most_by_lines_of_net = 4096;
  EXPECT_THAT(to_text(plan), HasSubstr(std::string(told)));
}

TEST(ExchangePlans, TellOfMessagesInStepsOfWideLines) {
  ExchangeWays ways = kDeviceWays;
  ways.spread.most_wide_bytes = 100000;
  ways.spread.least_wide_part_bytes = 20000;
  ways.spread.wide_channels = 2;
  ways.spread.wide_slots = {.steps = 4, .step_bytes = 8192};  // of 7664 bytes
  const std::vector<Call> calls(
      2, Call{.task = {.operation = Operation::kSend, .type = WEFT_INT8, .count = 40000}});
  std::vector<Call> sends = calls;
  sends[0].task.root = 1;
  ExchangePlan plan = plan_exchange(sends, kSlots, ways);
  plan.launches.assign(2, {.groups = 6, .lanes = 544, .processors = 132});
  const std::string text = to_text(plan);
  EXPECT_THAT(text, HasSubstr("  algorithm   pair\n  protocol    ll128\n"));
  EXPECT_THAT(text,
              HasSubstr("  connection  4 steps of 8 KiB, lines of 128 bytes, on each channel"));
  EXPECT_THAT(text,
              HasSubstr("  channels    2 of the longest block, 20096 B each, and one of lines "
                        "for headers\n"));
  EXPECT_THAT(text, HasSubstr("each: 6 messages, 40000 B\n"));
  EXPECT_EQ(pair_ends_of(plan, 0), 6U);
}

// Two of three ranks read each other's memory; steps of what is lent are longer.
TEST(ExchangePlans, TellWhichBlocksAreLent) {
  const auto text_of = [](std::uint64_t block) {
    const Task task{.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = block};
    const std::vector<Call> calls(3, Call{.task = task});
    return to_text(plan_exchange(calls, kSlots, {.spread = {.least_lent_bytes = 2U << 20U}},
                                 [](std::uint32_t a, std::uint32_t b) { return a + b == 1; }));
  };
  const std::string text = text_of(2U << 20U);
  EXPECT_THAT(text, HasSubstr("  single copy 2 of 6 blocks, read from the sender's memory, 1 MiB "
                              "a step\n"));
  EXPECT_THAT(text, HasSubstr("  sends       ranks 0-1, each: 34 messages, 4 MiB\n"));
  EXPECT_THAT(text, HasSubstr("  sends       rank 2: 64 messages, 4 MiB\n"));
  EXPECT_THAT(text_of((2U << 20U) - 1), Not(HasSubstr("single copy")));
}

TEST(ExchangePlans, OfBlocksThatFitLinesUseNoChannels) {
  ExchangePlan plan = plan_between_devices(Operation::kGather, 1000, 3);
  plan.ways.inboxes = {};
  const std::string text = to_text(plan);
  EXPECT_THAT(text, HasSubstr("  algorithm   pair\n  protocol    ll\n"));
  EXPECT_THAT(text, HasSubstr("  lines       messages of up to 1 KiB go whole with their flags\n"));
  EXPECT_EQ(pair_ends_of(plan, 0), 1U);
  // The root receives from both others, and copies its own.
  EXPECT_EQ(pair_ends_of(plan, 1), 3U);
}

TEST(ExchangePlans, BetweenCpusGoInSteps) {
  const Task task{.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = 100000};
  const std::string text = to_text(plan_exchange(std::vector<Call>(2, Call{.task = task}), kSlots));
  EXPECT_THAT(text, HasSubstr("  algorithm   pair\n  protocol    simple\n"));
  EXPECT_THAT(text, HasSubstr("  sends       ranks 0-1, each: 2 messages"));
  EXPECT_THAT(text, HasSubstr("the only way"));
  EXPECT_THAT(text, Not(HasSubstr("launches")));
}

TEST(ExchangePlans, LaunchesOfNothingAreNotTold) {
  EXPECT_EQ(launch_text({}), "");
  ExchangePlan plan = plan_between_devices(Operation::kGather, 40000, 3);
  plan.launches[2] = {};
  EXPECT_THAT(to_text(plan), Not(HasSubstr("launches    rank 2")));
}

}  // namespace
}  // namespace weft
