// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/rules.h"

#include "tests/unit/config/support.h"

namespace weft {
namespace {

Between between(const std::vector<std::string>& ends) {
  const auto parsed = parse_between(ends);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().what());
  return parsed.value_or(Between{});
}

std::string refused(const std::vector<std::string>& ends) {
  const auto parsed = parse_between(ends);
  return parsed ? "accepted" : parsed.error().what();
}

std::string network_refused(const std::string& text) {
  const auto parsed = parse_network(text);
  return parsed ? "accepted" : parsed.error().what();
}

RankFacts rank(std::string host, const std::vector<std::string>& addresses) {
  RankFacts out{.host = std::move(host), .addresses = {}};
  for (const std::string& address : addresses) {
    out.addresses.push_back(parse_address(address).value_or(IpAddress{}));
  }
  return out;
}

TEST(Network, ReadsAndPrints) {
  for (const std::string text :
       {"10.0.0.0/24", "0.0.0.0/0", "10.1.2.3/32", "fd00::/8", "::/0", "2001:db8::1/128"}) {
    const auto network = parse_network(text);
    ASSERT_TRUE(network) << network.error().what();
    EXPECT_EQ(network->to_string(), text);
  }
}

TEST(Network, RefusesWhatIsNotExact) {
  EXPECT_EQ(network_refused("10.0.0.1/24"),
            "\"10.0.0.1/24\" has bits set beyond its prefix; write 10.0.0.0/24");
  EXPECT_EQ(network_refused("10.0.0.1"),
            "\"10.0.0.1\" is an address and no network; write 10.0.0.1/32");
  EXPECT_EQ(network_refused("::1"), "\"::1\" is an address and no network; write ::1/128");
  EXPECT_EQ(network_refused("10.0.0.0/33"),
            "\"10.0.0.0/33\" has no prefix length between 0 and 32");
  EXPECT_EQ(network_refused("fd00::/129"), "\"fd00::/129\" has no prefix length between 0 and 128");
  for (const std::string prefix : {"", "-1", "+8", "08", "8 ", "8x"}) {
    EXPECT_NE(network_refused("10.0.0.0/" + prefix), "accepted") << prefix;
  }
  EXPECT_EQ(network_refused("10.0.0/24"), "\"10.0.0/24\" is no network, as 10.0.0.0/24");
  EXPECT_EQ(network_refused("010.0.0.0/8"), "\"010.0.0.0/8\" is no network, as 10.0.0.0/24");
  EXPECT_NE(network_refused(std::string("10.0.0.0\0/8", 11)), "accepted");
}

TEST(Network, Contains) {
  const Network wide = *parse_network("10.0.0.0/15");
  EXPECT_TRUE(wide.contains(*parse_address("10.1.255.255")));
  EXPECT_FALSE(wide.contains(*parse_address("10.2.0.0")));
  EXPECT_FALSE(parse_network("::/0")->contains(*parse_address("10.0.0.0")));
  EXPECT_TRUE(wide.contains(*parse_network("10.1.0.0/16")));
  EXPECT_FALSE(wide.contains(*parse_network("10.0.0.0/14")));
}

TEST(Between, ReadsAndPrints) {
  EXPECT_EQ(between({"same-process"}).to_string(), "same-process");
  EXPECT_EQ(between({"same-host"}).to_string(), "same-host");
  EXPECT_EQ(between({"same-fabric"}).to_string(), "same-fabric");
  EXPECT_EQ(between({"any"}).to_string(), "any");
  EXPECT_EQ(between({"Node-1.cluster"}).to_string(), "node-1.cluster");
  EXPECT_EQ(between({"10.0.0.0/24"}).to_string(), "10.0.0.0/24");
  EXPECT_EQ(between({"node1", "any"}).to_string(), "[node1, any]");
  EXPECT_EQ(between({"fd00::/8", "10.0.0.0/24"}).to_string(), "[\"fd00::/8\", 10.0.0.0/24]");
}

TEST(Between, RefusesWithTheReason) {
  EXPECT_EQ(refused({"same-hots"}), "unknown scope \"same-hots\"; did you mean \"same-host\"?");
  EXPECT_EQ(refused({"same-everything-else"}),
            "unknown scope \"same-everything-else\"; use same-process, same-host or same-fabric");
  EXPECT_EQ(refused({"same-host", "any"}),
            "\"same-host\" speaks of a whole pair; it cannot be one end of two");
  EXPECT_EQ(refused({}), "\"between\" takes one end or two; found 0");
  EXPECT_EQ(refused({"a", "b", "c"}), "\"between\" takes one end or two; found 3");
  EXPECT_EQ(refused({"a b"}),
            "\"a b\" is no host name, network, same-process, same-host, same-fabric or any");
  EXPECT_EQ(refused({"10.0.0.1"}), "\"10.0.0.1\" is an address and no network; write 10.0.0.1/32");
}

TEST(Between, MatchesPairs) {
  PairFacts pair;
  pair.a = rank("node1", {"10.0.0.1", "fd00::1"});
  pair.b = rank("node2", {"10.0.1.1"});
  EXPECT_TRUE(matches(between({"any"}), pair));
  EXPECT_FALSE(matches(between({"same-process"}), pair));
  EXPECT_FALSE(matches(between({"same-host"}), pair));
  EXPECT_FALSE(matches(between({"same-fabric"}), pair));
  pair.same_host = true;
  EXPECT_TRUE(matches(between({"same-host"}), pair));
  EXPECT_FALSE(matches(between({"same-process"}), pair));
  pair.same_process = true;
  EXPECT_TRUE(matches(between({"same-process"}), pair));
  pair.same_fabric = true;
  EXPECT_TRUE(matches(between({"same-fabric"}), pair));

  EXPECT_TRUE(matches(between({"node1", "NODE2"}), pair));
  EXPECT_TRUE(matches(between({"node2", "node1"}), pair));
  EXPECT_TRUE(matches(between({"node2", "any"}), pair));
  EXPECT_FALSE(matches(between({"node1"}), pair)) << "both ends must be on node1";
  EXPECT_FALSE(matches(between({"node1", "node3"}), pair));
  EXPECT_TRUE(matches(between({"10.0.1.0/24", "fd00::/8"}), pair));
  EXPECT_FALSE(matches(between({"10.0.0.0/24"}), pair));
  EXPECT_TRUE(matches(between({"10.0.0.0/16"}), pair));
  EXPECT_TRUE(matches(between({"node1", "10.0.1.0/24"}), pair));
  EXPECT_FALSE(matches(between({"node2", "10.0.1.0/24"}), pair));
}

TEST(Between, Covers) {
  const auto is_covered = [](const std::vector<std::string>& outer,
                             const std::vector<std::string>& inner) {
    return covers(between(outer), between(inner));
  };
  EXPECT_TRUE(is_covered({"any"}, {"same-fabric"}));
  EXPECT_TRUE(is_covered({"any"}, {"node1", "10.0.0.0/24"}));
  EXPECT_TRUE(is_covered({"same-host"}, {"same-process"}));
  EXPECT_FALSE(is_covered({"same-process"}, {"same-host"}));
  EXPECT_TRUE(is_covered({"same-fabric"}, {"same-host"}));
  EXPECT_TRUE(is_covered({"same-fabric"}, {"same-process"}));
  EXPECT_FALSE(is_covered({"same-host"}, {"same-fabric"}));
  EXPECT_FALSE(is_covered({"same-host"}, {"node1"})) << "two hosts may have one name";
  EXPECT_TRUE(is_covered({"a", "b"}, {"b", "a"}));
  EXPECT_TRUE(is_covered({"a", "any"}, {"a"}));
  EXPECT_FALSE(is_covered({"a"}, {"a", "any"}));
  EXPECT_TRUE(is_covered({"10.0.0.0/8", "fd00::/8"}, {"fd00:1::/32", "10.1.0.0/16"}));
  EXPECT_FALSE(is_covered({"10.0.0.0/8"}, {"10.0.0.0/7", "10.1.0.0/16"}));
}

constexpr const char* kRulesHead = "version: 1\ntransports:\n  rules:\n";

TEST(Rules, ReadFromTheFileInOrder) {
  const auto config = resolve_text(std::string(kRulesHead) +
                                   "    - {between: same-host, use: [shm, p2p]}\n"
                                   "    - between: [10.0.0.0/24, node7]\n"
                                   "      use: [net-ib]\n");
  ASSERT_TRUE(config) << config.error().to_string();
  ASSERT_EQ(config->rules().size(), 2U);
  EXPECT_EQ(config->rules()[0].use, (std::vector<std::string>{"shm", "p2p"}));
  EXPECT_EQ(config->rules()[0].origin.to_string(), "f.yaml:4:7");
  EXPECT_EQ(config->rules()[1].to_string(), "{between: [10.0.0.0/24, node7], use: [net-ib]}");
  EXPECT_EQ(config->rules()[1].origin.to_string(), "f.yaml:5:7");
}

TEST(Rules, ReadFromTheEnvironment) {
  const auto config = resolve_text(
      "version: 1\n", {{"WEFT_TRANSPORTS_RULES", "[{between: same-host, use: [shm]}]"}});
  ASSERT_TRUE(config) << config.error().to_string();
  ASSERT_EQ(config->rules().size(), 1U);
  EXPECT_EQ(config->rules()[0].origin.to_string(), "WEFT_TRANSPORTS_RULES");
  EXPECT_EQ(refusal("version: 1\n", {{"WEFT_TRANSPORTS_RULES",
                                      "[{between: any, use: [a]}, {between: node1, use: [b]}]"}}),
            "WEFT_TRANSPORTS_RULES: transports.rules: this rule (between: node1) can never match: "
            "rule 1 (between: any) decides all of its pairs");
  EXPECT_EQ(
      refusal("version: 1\n", {{"WEFT_TRANSPORTS_RULES", "["}}).find("WEFT_TRANSPORTS_RULES: "),
      0U);
}

TEST(Rules, ThatCanNeverMatchAreNamed) {
  EXPECT_EQ(refusal(std::string(kRulesHead) + "    - {between: any, use: [shm]}\n"
                                              "    - {between: same-host, use: [p2p]}\n"),
            "f.yaml:5:7: this rule (between: same-host) can never match: the rule on line 4 "
            "(between: any) decides all of its pairs");
  EXPECT_EQ(refusal(std::string(kRulesHead) + "    - {between: [node1, node2], use: [shm]}\n"
                                              "    - {between: same-host, use: [p2p]}\n"
                                              "    - {between: [node2, node1], use: [p2p]}\n"),
            "f.yaml:6:7: this rule (between: [node2, node1]) can never match: the rule on line 4 "
            "(between: [node1, node2]) decides all of its pairs");
}

TEST(Rules, AreRefusedWithTheirPlace) {
  const std::string head = kRulesHead;
  EXPECT_EQ(refusal("version: 1\ntransports: {rules: shm}\n"),
            "f.yaml:2:21: transports.rules takes a list of rules; found \"shm\"");
  EXPECT_EQ(refusal(head + "    - shm\n"),
            "f.yaml:4:7: a rule takes {between: ..., use: [...]}; found \"shm\"");
  EXPECT_EQ(refusal(head + "    - {between: any}\n"), "f.yaml:4:7: the rule has no \"use\"");
  EXPECT_EQ(refusal(head + "    - {use: [shm]}\n"), "f.yaml:4:7: the rule has no \"between\"");
  EXPECT_EQ(refusal(head + "    - {betwen: any, use: [shm]}\n"),
            "f.yaml:4:8: unknown key \"betwen\"; did you mean \"between\"?");
  EXPECT_EQ(refusal(head + "    - {between: any, use: [shm], cost: 3}\n"),
            "f.yaml:4:34: unknown key \"cost\"; a rule has between and use");
  EXPECT_EQ(refusal(head + "    - {between: any, use: []}\n"),
            "f.yaml:4:27: transports.rules.use: has 0 elements; it must have at least 1");
  EXPECT_EQ(refusal(head + "    - {between: any, use: shm}\n"),
            "f.yaml:4:27: transports.rules.use takes a list, as [a, b]; found \"shm\"");
  EXPECT_EQ(refusal(head + "    - {between: 10.0.0.1/24, use: [shm]}\n"),
            "f.yaml:4:17: \"10.0.0.1/24\" has bits set beyond its prefix; write 10.0.0.0/24");
  EXPECT_EQ(refusal(head + "    - {between: [a, [b]], use: [shm]}\n"),
            "f.yaml:4:21: \"between\" takes text as elements; found a list");
  EXPECT_EQ(refusal(head + "    - {between: {a: b}, use: [shm]}\n"),
            "f.yaml:4:17: \"between\" takes one end or a list of two; found a map");
  std::string many = head;
  for (int i = 0; i < 257; ++i)
    many += "    - {between: n" + std::to_string(i) + ", use: [shm]}\n";
  EXPECT_EQ(refusal(many), "f.yaml:4:5: transports.rules has 257 rules; it must have at most 256");
}

}  // namespace
}  // namespace weft
