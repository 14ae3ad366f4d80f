// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From measured times to rules: they say what was measured, for every size, and tables are replaced
// as a whole.
#include "tools/weft/calibrate.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tests/support/process.h"

namespace weft::tool {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tuner::Rule;
using tuner::Sample;

Rule frame() {
  Rule rule;
  rule.operation = WEFT_TUNER_ALL_REDUCE;
  rule.algorithm = WEFT_TUNER_RING;
  rule.protocol = WEFT_TUNER_SIMPLE;
  rule.device = "host";
  rule.ranks = {.from = 2, .to = 2};
  return rule;
}

TEST(Calibrate, KnowsTheWaysOfTheConfiguration) {
  std::vector<std::string> names;
  for (const WayNames& way : ways_to_try(Operation::kAllReduce))
    names.push_back(way.algorithm + " " + way.protocol);
  EXPECT_THAT(names, ElementsAre("ring simple", "ring ll", "ring ll128", "tree simple", "tree ll",
                                 "tree ll128", "pat simple", "pat ll", "pat ll128", "chain simple",
                                 "chain ll", "chain ll128", "direct simple", "direct ll",
                                 "direct ll128", "two-shot simple", "two-shot ll", "two-shot ll128",
                                 "multicast simple", "multicast ll", "multicast ll128"));
  EXPECT_EQ(ways_to_try(Operation::kBroadcast).size(), 9U) << "ring, tree and direct";
  EXPECT_EQ(ways_to_try(Operation::kAllGather).size(), 12U) << "ring, pat, direct and multicast";
}

TEST(Calibrate, FindsTheLine) {
  std::vector<Sample> samples;
  for (std::uint64_t bytes = 8; bytes <= 1 << 20; bytes *= 2)
    samples.push_back({.bytes = bytes, .time_ns = 3000 + bytes / 4});
  const std::vector<Rule> rules = fit(frame(), samples);
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].bytes, (tuner::Range{.from = 0, .to = (2 << 20) - 1}));
  EXPECT_NEAR(static_cast<double>(rules[0].cost->latency_ns), 3000, 10);
  EXPECT_NEAR(static_cast<double>(rules[0].cost->bytes_per_ms), 4e6, 1e4);
  EXPECT_EQ(rules[0].measured, samples);
  EXPECT_EQ(rules[0].ranks, frame().ranks);
  EXPECT_EQ(rules[0].device, "host");
}

TEST(Calibrate, BeginsANewRuleWhereTheLineBends) {
  const std::vector<Sample> samples = {{1024, 2000}, {2048, 2000}, {4096, 9000}, {8192, 18000}};
  const std::vector<Rule> rules = fit(frame(), samples);
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].bytes, (tuner::Range{.from = 0, .to = 4095}));
  EXPECT_EQ(rules[0].cost, (tuner::Cost{.latency_ns = 2000, .bytes_per_ms = 0}));
  EXPECT_EQ(rules[1].bytes, (tuner::Range{.from = 4096, .to = 16383}));
  EXPECT_EQ(rules[1].cost->latency_ns, 0U);
}

TEST(Calibrate, TakesTheLongerTimeOfASmallerSizeForNoise) {
  const std::vector<Sample> samples = {{1024, 9000}, {2048, 2000}, {4096, 2000}};
  const std::vector<Rule> rules = fit(frame(), samples);
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].cost->time_ns(1024), 2000U);
  EXPECT_EQ(rules[0].measured, samples) << "what was seen stays what was seen";
}

// Rounding puts the line through these a thousandth of a microsecond above what a table can say.
TEST(Calibrate, TheLongestTimesFitIntoTheTable) {
  const std::vector<Sample> samples = {{1, tuner::kLongestNs},
                                       {3, tuner::kLongestNs},
                                       {7, tuner::kLongestNs},
                                       {19, tuner::kLongestNs}};
  for (std::size_t count = 2; count <= samples.size(); ++count) {
    const std::vector<Rule> rules =
        fit(frame(), {samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(count)});
    EXPECT_EQ(tuner::parse_table(tuner::to_yaml(rules), "a.yaml").rules, rules);
  }
}

TEST(Calibrate, NothingMeasuredIsNoRule) {
  EXPECT_THAT(fit(frame(), {}), IsEmpty());
}

RC_GTEST_PROP(Calibrate, SaysOfEachSizeWhatWasMeasured, ()) {
  std::vector<Sample> samples;
  std::uint64_t bytes = *rc::gen::inRange<std::uint64_t>(1, 64);
  std::uint64_t time = *rc::gen::inRange<std::uint64_t>(500, 5000);
  const auto sizes = *rc::gen::inRange<std::size_t>(1, 30);
  for (std::size_t i = 0; i < sizes; ++i) {
    samples.push_back({.bytes = bytes, .time_ns = time});
    bytes *= *rc::gen::inRange<std::uint64_t>(2, 5);
    time += time * *rc::gen::inRange<std::uint64_t>(0, 50) / 10;
    // Not slower than a megabyte in a second: bandwidths are whole bytes in a millisecond.
    time = std::min({time, 5000 + 1000 * bytes, tuner::kLongestNs});
  }
  const std::vector<Rule> rules = fit(frame(), samples);
  // The file holds them as they are.
  const tuner::Table table = tuner::parse_table(tuner::to_yaml(rules), "a.yaml");
  RC_ASSERT(table.rules == rules);
  std::uint64_t next = 0;
  for (const Rule& rule : rules) {
    RC_ASSERT(rule.bytes.from == next);
    RC_ASSERT(rule.bytes.to >= rule.bytes.from);
    next = rule.bytes.to + 1;
  }
  RC_ASSERT(next == 2 * samples.back().bytes);
  for (const Sample& sample : samples) {
    weft_tuner_question question{};
    question.operation = WEFT_TUNER_ALL_REDUCE;
    question.bytes = sample.bytes;
    const Rule* rule = table.find({2, 1, "host"}, question, WEFT_TUNER_RING, WEFT_TUNER_SIMPLE);
    RC_ASSERT(rule != nullptr);
    const auto said = static_cast<double>(rule->cost->time_ns(sample.bytes));
    const auto seen = static_cast<double>(sample.time_ns);
    RC_ASSERT(said >= 0.89 * seen);
    RC_ASSERT(said <= 1.11 * seen);
  }
}

TEST(Calibrate, KeepsWhatOthersWrote) {
  Rule by_hand = frame();
  by_hand.use = tuner::Use::kPrefer;
  Rule before = frame();
  before.measured = {{8, 100}};
  Rule other_ranks = before;
  other_ranks.ranks = {.from = 4, .to = 4};
  Rule other_operation = before;
  other_operation.operation = WEFT_TUNER_BROADCAST;
  Rule fresh = frame();
  fresh.measured = {{8, 90}};
  EXPECT_EQ(merge_rules({before, by_hand, other_ranks, other_operation}, {fresh}),
            (std::vector<Rule>{by_hand, other_ranks, other_operation, fresh}));
}

TEST(Calibrate, ReplacesTheFileAsAWhole) {
  const test::ScratchFolder folder;
  const std::string file = folder.path() + "/a.yaml";
  EXPECT_THAT(read_rules(file).value(), IsEmpty());
  ASSERT_TRUE(write_rules(file, {frame()}));
  // A rule that says nothing is refused when it is read.
  EXPECT_THAT(read_rules(file).error().to_string(), testing::StartsWith(file + ":3:5: "));
  Rule rule = frame();
  rule.channels = 2;
  ASSERT_TRUE(check_writable(file));
  const auto text_of = [](std::ifstream stream) {
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  const std::string before = text_of(std::ifstream(file));
  EXPECT_FALSE(before.empty());
  std::ifstream slow(file);  // of somebody who reads it meanwhile
  ASSERT_TRUE(write_rules(file, {rule}));
  EXPECT_EQ(text_of(std::move(slow)), before);
  EXPECT_THAT(read_rules(file).value(), ElementsAre(rule));
  const auto files = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing else is left";
  const std::string nowhere = folder.path() + "/none/a.yaml";
  EXPECT_THAT(check_writable(nowhere).error().to_string(), testing::HasSubstr(nowhere));
  EXPECT_FALSE(write_rules(nowhere, {rule}));
}

TEST(Calibrate, ReplacesWhatALinkLeadsTo) {
  const test::ScratchFolder folder;
  const std::string file = folder.path() + "/a.yaml";
  const std::string link = folder.path() + "/link.yaml";
  ASSERT_TRUE(write_rules(file, {}));
  std::filesystem::create_symlink("a.yaml", link);
  Rule rule = frame();
  rule.channels = 2;
  ASSERT_TRUE(check_writable(link));
  ASSERT_TRUE(write_rules(link, {rule}));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(read_rules(file).value(), ElementsAre(rule));
}

// As of a disk that is almost full: the system takes the beginning, and then says why no more.
TEST(Calibrate, SaysWhyAPartOfTheTableIsMissing) {
  const test::ScratchFolder folder;
  const std::string file = folder.path() + "/a.yaml";
  Rule rule = frame();
  rule.channels = 2;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 16, .rlim_max = before.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  errno = 0;
  const Status written = write_rules(file, {rule});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().native(), EFBIG) << written.error().to_string();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is left";
}

}  // namespace
}  // namespace weft::tool
