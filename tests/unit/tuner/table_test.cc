// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Tables of costs: what they say of an offer, that they come back from YAML, and each complaint.
#include "plugins/tuner/table.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace weft::tuner {
namespace {

Table table_of(const std::string& rules) {
  return parse_table("version: 1\nrules:\n" + rules, "/etc/weft/a.yaml");
}

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(parse_table(text, "a.yaml"));
  } catch (const BadTable& bad) {
    return bad.what();
  }
  return "accepted";
}

/// Of a rule on line 3 with these further keys, which begin in column 29.
std::string rule_complaint(const std::string& keys) {
  return complaint("version: 1\nrules:\n  - {operation: all_reduce, " + keys + "}\n");
}

const Rule* find(const Table& table, std::uint64_t bytes, const Scene& scene = {2, 1, "host"},
                 weft_tuner_algorithm algorithm = WEFT_TUNER_RING,
                 weft_tuner_operation operation = WEFT_TUNER_ALL_REDUCE) {
  weft_tuner_question question{};
  question.operation = operation;
  question.bytes = bytes;
  return table.find(scene, question, algorithm,
                    algorithm == WEFT_TUNER_RING ? WEFT_TUNER_SIMPLE : WEFT_TUNER_LL);
}

int line_of(const Rule* rule) {
  return rule != nullptr ? rule->line : 0;
}

TEST(TunerTable, FirstRuleThatMatchesDecides) {
  const Table table = table_of(
      "  - {operation: all_reduce, bytes: [4KiB, 8191], latency_us: 1}\n"
      "  - {operation: all_reduce, ranks: [3, 4], latency_us: 2}\n"
      "  - {operation: all_reduce, hosts: 2, latency_us: 3}\n"
      "  - {operation: all_reduce, device: cuda, latency_us: 4}\n"
      "  - {operation: all_reduce, algorithm: direct, protocol: ll, latency_us: 5}\n"
      "  - {operation: broadcast, latency_us: 6}\n"
      "  - {operation: all_reduce, bytes: [1MiB, max], latency_us: 7}\n");
  EXPECT_EQ(table.name, "a.yaml");
  EXPECT_NE(table.hash, 0U);
  EXPECT_EQ(line_of(find(table, 4095)), 0);
  EXPECT_EQ(line_of(find(table, 4096)), 3);
  EXPECT_EQ(line_of(find(table, 8191)), 3);
  EXPECT_EQ(line_of(find(table, 8192)), 0);
  EXPECT_EQ(line_of(find(table, 8, {3, 1, "host"})), 4);
  EXPECT_EQ(line_of(find(table, 8, {4, 1, "host"})), 4);
  EXPECT_EQ(line_of(find(table, 4096, {4, 1, "host"})), 3);
  EXPECT_EQ(line_of(find(table, 8, {5, 1, "host"})), 0);
  EXPECT_EQ(line_of(find(table, 8, {2, 2, "host"})), 5);
  EXPECT_EQ(line_of(find(table, 8, {2, 1, "cuda"})), 6);
  EXPECT_EQ(line_of(find(table, 8, {2, 1, "host"}, WEFT_TUNER_ONE_SHOT)), 7);
  EXPECT_EQ(line_of(find(table, 8, {2, 1, "host"}, WEFT_TUNER_RING, WEFT_TUNER_BROADCAST)), 8);
  EXPECT_EQ(line_of(find(table, UINT64_MAX)), 9);
}

TEST(TunerTable, CostsAreWholeNanoseconds) {
  const Table table = table_of(
      "  - {operation: all_reduce, latency_us: 3.5, bandwidth_mbs: 2000, channels: 4,"
      " use: prefer, measured: [[1KiB, 4.25], [2048, 5]]}\n");
  const Rule& rule = table.rules.at(0);
  EXPECT_EQ(rule.cost, (Cost{.latency_ns = 3500, .bytes_per_ms = 2'000'000}));
  EXPECT_EQ(rule.cost->time_ns(1000), 4000U);
  EXPECT_EQ(rule.channels, 4U);
  EXPECT_EQ(rule.use, Use::kPrefer);
  EXPECT_THAT(rule.measured, testing::ElementsAre(Sample{1024, 4250}, Sample{2048, 5000}));
  EXPECT_EQ((Cost{.latency_ns = 0, .bytes_per_ms = 0}).time_ns(5), 1U);
  EXPECT_EQ((Cost{.latency_ns = 7, .bytes_per_ms = 1}).time_ns(UINT64_MAX), UINT64_MAX - 1);
  EXPECT_EQ((Cost{.latency_ns = 0, .bytes_per_ms = 1'000'000'000'000}).time_ns(UINT64_MAX),
            UINT64_MAX / 1'000'000);
}

TEST(TunerTable, HashIsOfTheBytes) {
  EXPECT_EQ(table_of("").hash, table_of("").hash);
  EXPECT_NE(table_of("").hash, table_of("# a word\n").hash);
}

TEST(TunerTable, EveryComplaintNamesThePlace) {
  EXPECT_EQ(complaint("version: 1\n"), "accepted");
  EXPECT_EQ(complaint(""), "a.yaml:1:1: holds no YAML document");
  EXPECT_EQ(complaint("version: 1\n---\nversion: 1\n"),
            "a.yaml:1:1: holds more than one YAML document");
  EXPECT_EQ(complaint("version: &a 1\n"), "a.yaml:1:10: anchors and aliases are not accepted");
  EXPECT_EQ(complaint("version: 1\nrules: [[[[[[[[1]]]]]]]]\n"),
            "a.yaml:2:15: lists and maps are nested more than 8 deep");
  EXPECT_EQ(complaint(std::string(kMostTableBytes + 1, ' ')), "a.yaml:1:1: larger than 1 MiB");
  EXPECT_THAT(complaint("version: 1\nrules: [\n"),
              testing::StartsWith("a.yaml:3:1: not valid YAML: "));
  EXPECT_EQ(complaint("rules: []\n"), "a.yaml:1:1: a table begins with version: 1");
  EXPECT_EQ(complaint("version: 2\n"),
            "a.yaml:1:10: version \"2\" is not known here; this Weft reads 1");
  EXPECT_EQ(complaint("[1]\n"), "a.yaml:1:1: a table takes a map of keys");
  EXPECT_EQ(complaint("version: 1\nruls: []\n"), "a.yaml:2:1: a table: unknown key \"ruls\"");
  EXPECT_EQ(complaint("version: 1\nversion: 1\n"),
            "a.yaml:2:1: a table: duplicate key \"version\"");
  EXPECT_EQ(complaint("version: 1\n? [a]\n: 1\n"), "a.yaml:2:3: a key takes one word");
  EXPECT_EQ(complaint("version: [1]\n"), "a.yaml:1:10: version takes one word");
  EXPECT_EQ(complaint("version: 1\nrules: 7\n"), "a.yaml:2:8: rules takes a list");
  EXPECT_EQ(complaint("version: 1\nrules:\n  - 7\n"), "a.yaml:3:5: a rule takes a map of keys");
  EXPECT_EQ(complaint("version: 1\nrules:\n  - {latency_us: 1}\n"),
            "a.yaml:3:5: a rule needs an operation");
  EXPECT_EQ(complaint("version: 1\nrules:\n  - {operation: sum}\n"),
            "a.yaml:3:17: operation: \"sum\" is none of all_reduce, broadcast, all_gather, "
            "reduce_scatter, reduce");
  std::string many = "version: 1\nrules:\n";
  for (std::size_t i = 0; i <= kMostRules; ++i)
    many += "- {operation: reduce, use: never}\n";
  EXPECT_EQ(complaint(many), "a.yaml:3:1: more than 4096 rules");
}

TEST(TunerTable, EveryComplaintOfARuleNamesThePlace) {
  EXPECT_EQ(rule_complaint("use: never"), "accepted");
  EXPECT_EQ(rule_complaint("bytes: 4"),
            "a.yaml:3:5: a rule says nothing; it needs latency_us, bandwidth_mbs, channels or use");
  EXPECT_EQ(rule_complaint("algorithm: star"),
            "a.yaml:3:40: algorithm: \"star\" is none of ring, tree, pat, direct, two-shot, "
            "multicast");
  EXPECT_EQ(rule_complaint("protocol: ll64"),
            "a.yaml:3:39: protocol: \"ll64\" is none of simple, ll, ll128");
  EXPECT_EQ(rule_complaint("device: \"a b\""),
            "a.yaml:3:37: device: \"a b\" is no kind of device; write host or cuda");
  EXPECT_EQ(rule_complaint("ranks: two"), "a.yaml:3:36: ranks: \"two\" is no whole number");
  EXPECT_EQ(rule_complaint("hosts: -1"), "a.yaml:3:36: hosts: \"-1\" is no whole number");
  EXPECT_EQ(rule_complaint("bytes: [4KB, 8]"),
            "a.yaml:3:37: bytes: \"4KB\" is no size; write it as 4096 or 4KiB, with B, KiB, MiB or "
            "GiB");
  EXPECT_THAT(rule_complaint("bytes: [0, 18446744073709551615GiB]"),
              testing::StartsWith("a.yaml:3:40: bytes: "));
  EXPECT_EQ(rule_complaint("bytes: [9, 8]"), "a.yaml:3:36: bytes goes from 9 to 8");
  EXPECT_EQ(rule_complaint("bytes: [9]"), "a.yaml:3:36: bytes takes a number, or [FROM, TO]");
  EXPECT_EQ(rule_complaint("use: always"), "a.yaml:3:34: use: \"always\" is none of prefer, never");
  EXPECT_EQ(rule_complaint("latency_us: nan"), "a.yaml:3:41: latency_us: \"nan\" is no number");
  EXPECT_EQ(rule_complaint("latency_us: -1"),
            "a.yaml:3:41: latency_us: \"-1\" is not within 0 to 1000000000000");
  EXPECT_EQ(rule_complaint("bandwidth_mbs: 0"),
            "a.yaml:3:44: bandwidth_mbs: \"0\" is not within 0.001 to 1000000000");
  EXPECT_EQ(rule_complaint("channels: 0"), "a.yaml:3:39: channels: 0 is not within 1 to 64");
  EXPECT_EQ(rule_complaint("channels: 65"), "a.yaml:3:39: channels: 65 is not within 1 to 64");
  EXPECT_EQ(rule_complaint("measured: 4"),
            "a.yaml:3:39: measured takes a list of [BYTES, MICROSECONDS], at most 64");
  EXPECT_EQ(rule_complaint("measured: [4]"),
            "a.yaml:3:40: measured takes a list of [BYTES, MICROSECONDS]");
  EXPECT_EQ(rule_complaint("colour: red"), "a.yaml:3:29: a rule: unknown key \"colour\"");
  EXPECT_EQ(rule_complaint("ranks: 2, ranks: 3"), "a.yaml:3:39: a rule: duplicate key \"ranks\"");
}

template <typename T>
T any_in(T first, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(first, end));
}

Range any_range(std::uint64_t end) {
  const auto one = any_in<std::uint64_t>(0, end);
  const auto other = *rc::gen::element<std::uint64_t>(UINT64_MAX, any_in(one, end));
  return *rc::gen::element(Range{}, Range{.from = one, .to = other});
}

RC_GTEST_PROP(TunerTable, ComesBackFromYaml, ()) {
  std::vector<Rule> rules(any_in<std::size_t>(0, 6));
  for (Rule& rule : rules) {
    rule.operation = *rc::gen::element<weft_tuner_operation>(
        WEFT_TUNER_ALL_REDUCE, WEFT_TUNER_BROADCAST, WEFT_TUNER_ALL_GATHER,
        WEFT_TUNER_REDUCE_SCATTER, WEFT_TUNER_REDUCE);
    if (*rc::gen::arbitrary<bool>()) {
      rule.algorithm =
          *rc::gen::element<weft_tuner_algorithm>(WEFT_TUNER_RING, WEFT_TUNER_ONE_SHOT);
    }
    if (*rc::gen::arbitrary<bool>()) {
      rule.protocol = *rc::gen::element<weft_tuner_protocol>(WEFT_TUNER_SIMPLE, WEFT_TUNER_LL,
                                                             WEFT_TUNER_LL128);
    }
    rule.device = *rc::gen::element<std::string>("", "host", "cuda");
    rule.ranks = any_range(1000);
    rule.hosts = any_range(1000);
    rule.bytes = any_range(std::uint64_t{1} << 50);
    rule.use = *rc::gen::element(Use::kByCost, Use::kPrefer, Use::kNever);
    rule.cost = Cost{.latency_ns = any_in<std::uint64_t>(0, 1'000'000'000),
                     .bytes_per_ms = any_in<std::uint64_t>(0, 1'000'000'000)};
    rule.channels = any_in<std::uint32_t>(0, kMostChannels + 1);
    rule.measured.resize(any_in<std::size_t>(0, 4));
    for (Sample& sample : rule.measured) {
      sample = {.bytes = any_in<std::uint64_t>(0, std::uint64_t{1} << 50),
                .time_ns = any_in<std::uint64_t>(0, 1'000'000'000)};
    }
  }
  RC_ASSERT(parse_table(to_yaml(rules), "a.yaml").rules == rules);
}

}  // namespace
}  // namespace weft::tuner
