// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which plugin joins a pair: orders, the word "net", rules that decide alone, and what is said
// where nothing can.
#include "core/transport/choice.h"

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using test::Placement;
using Names = std::vector<std::string>;

Rule rule(Names between, Names use, int line = 7) {
  return {.between = parse_between(between).value(),
          .use = std::move(use),
          .origin = {.kind = OriginKind::kFile, .name = "weft.yaml", .line = line, .column = 5}};
}

NamedList named(Names ids) {
  return {.ids = std::move(ids), .named_by_user = false, .origin = "default"};
}

// Ranks 0 and 1 on node0, ranks 2 and 3 on node1: p2p within a process, shm within a host, two
// nets everywhere.
class Choice : public testing::Test {
 protected:
  Choice() {
    constexpr std::array kPlaces = {
        Placement{.host = 0, .process = 0}, Placement{.host = 0, .process = 1},
        Placement{.host = 1, .process = 0}, Placement{.host = 1, .process = 0}};
    topology_ = test::sample_topology(kPlaces);
    input_.topology = &topology_;
    input_.order = named({"p2p", "shm", "net"});
    input_.nets = named({"net-ib", "net-socket"});
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      input_.offers.push_back(
          {offer("p2p", PluginKind::kTransport), offer("shm", PluginKind::kTransport),
           offer("net-ib", PluginKind::kNet), offer("net-socket", PluginKind::kNet)});
      input_.answers.emplace_back();
      for (std::uint32_t peer = 0; peer < 4; ++peer) {
        input_.answers[rank]["p2p"].push_back(
            topology_.same_process(rank, peer)
                ? ReachAnswer{.reachable = true, .reason = "same process"}
                : ReachAnswer{.reason = "another process"});
        input_.answers[rank]["shm"].push_back(
            topology_.same_host(rank, peer) ? ReachAnswer{.reachable = true, .reason = "same host"}
                                            : ReachAnswer{.reason = "another host"});
      }
    }
  }

  static PluginOffer offer(std::string id, PluginKind kind) {
    return {.id = std::move(id), .version = "1.0", .kind = kind, .unusable = {}};
  }
  PluginOffer& offer_of(std::uint32_t rank, const std::string& id) {
    for (auto& item : input_.offers[rank]) {
      if (item.id == id) return item;
    }
    throw std::out_of_range(id);
  }
  [[nodiscard]] std::string chosen(std::uint32_t a, std::uint32_t b) const {
    const auto choice = PairChooser(input_).choose(a, b);
    return choice ? choice->plugin : "none";
  }
  [[nodiscard]] std::string refusal(std::uint32_t a, std::uint32_t b) const {
    const auto choice = PairChooser(input_).choose(a, b);
    return choice ? "chose " + choice->plugin : choice.error().to_string();
  }
  [[nodiscard]] std::string named_error() const {
    const Status status = check_named_plugins(input_);
    return status ? "" : status.error().to_string();
  }

  Topology topology_;
  ChoiceInput input_;
};

TEST_F(Choice, TakesTheFirstOfTheOrderThatCan) {
  EXPECT_EQ(chosen(2, 3), "p2p");
  EXPECT_EQ(chosen(0, 1), "shm");
  EXPECT_EQ(chosen(0, 2), "net-ib");
  const auto choice = PairChooser(input_).choose(0, 1);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->kind, PluginKind::kTransport);
  EXPECT_EQ(choice->reason, "same host; first that can of transports.order (default), after p2p");
  const auto net = PairChooser(input_).choose(1, 3);
  ASSERT_TRUE(net);
  EXPECT_EQ(net->kind, PluginKind::kNet);
  EXPECT_EQ(net->reason,
            "both ranks have a device; first that can of transports.order (default), after p2p, "
            "shm");
}

TEST_F(Choice, PutsTheNetsWhereTheWordNetStands) {
  input_.order.ids = {"net", "p2p", "shm"};
  EXPECT_EQ(chosen(2, 3), "net-ib");
  input_.order.ids = {"net-socket", "net"};
  EXPECT_EQ(chosen(0, 2), "net-socket");
  input_.nets.ids = {"net-socket", "net-ib"};
  input_.order.ids = {"net"};
  EXPECT_EQ(chosen(0, 2), "net-socket");
}

TEST_F(Choice, MentionsEachPluginOnceInOrder) {
  const auto ids =
      mentioned_plugins(named({"shm", "net", "shm"}), named({"net-ib", "net-socket"}),
                        {rule({"any"}, {"net-ofi", "net"}), rule({"same-host"}, {"p2p", "shm"})});
  EXPECT_EQ(ids, (Names{"shm", "net-ib", "net-socket", "net-ofi", "p2p"}));
  EXPECT_EQ(mentioned_plugins(named({"shm"}), named({"net-ib"}), {}), Names{"shm"});
}

TEST_F(Choice, RefusesMorePluginsThanPeersWouldTake) {
  Names names;
  for (std::size_t i = 1; i < kMaxPlugins; ++i)
    names.push_back("net-" + std::to_string(i));
  EXPECT_TRUE(mentioned_plugins(named({"shm", "net"}), named(names), {}));
  const auto ids = mentioned_plugins(named({"shm", "net"}), named(names), {rule({"any"}, {"p2p"})});
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), WEFT_ERROR_CONFIG);
  EXPECT_EQ(ids.error().to_string(),
            "transports.order (default), transports.net (default) and transports.rules name 65 "
            "plugins, more than the 64 that are possible; try: name only the plugins that the job "
            "needs");
}

TEST_F(Choice, LetsTheFirstMatchingRuleDecideAlone) {
  input_.rules = {rule({"same-host"}, {"net-socket"}), rule({"same-process"}, {"p2p"}),
                  rule({"any"}, {"net"})};
  EXPECT_EQ(chosen(2, 3), "net-socket");  // the rule of the same process comes too late
  EXPECT_EQ(chosen(0, 1), "net-socket");
  EXPECT_EQ(chosen(0, 3), "net-ib");
  EXPECT_EQ(PairChooser(input_).choose(0, 1)->reason,
            "both ranks have a device; first that can of rule {between: same-host, use: "
            "[net-socket]} (weft.yaml:7:5)");
}

TEST_F(Choice, HoldsToTheRulesListThoughTheOrderCould) {
  input_.rules = {rule({"same-host"}, {"p2p"})};
  EXPECT_EQ(chosen(2, 3), "p2p");
  EXPECT_EQ(refusal(0, 1),
            "rank 0 on node0 and rank 1 on node0 cannot be joined: rule {between: same-host, use: "
            "[p2p]} (weft.yaml:7:5) allows none that can:\n"
            "  p2p: rank 0 says: another process; try: add a plugin that can to the rule's list, "
            "or remove the rule");
}

TEST_F(Choice, MatchesHostsAndNetworks) {
  input_.rules = {rule({"node0", "node1"}, {"net-socket"}),
                  rule({"10.0.0.0/30", "any"}, {"shm", "net-ib"})};
  EXPECT_EQ(chosen(0, 2), "net-socket");
  EXPECT_EQ(chosen(3, 1), "net-socket");
  EXPECT_EQ(chosen(2, 3), "shm");
  input_.rules = {rule({"10.9.0.0/16"}, {"net-socket"})};
  EXPECT_EQ(chosen(0, 2), "net-ib");
}

TEST_F(Choice, IgnoresAddressesThatAreNone) {
  topology_.hosts[0].nics[0].addresses = {"not an address"};
  input_.rules = {rule({"10.0.0.0/30", "any"}, {"net-socket"})};
  EXPECT_EQ(chosen(0, 1), "shm");
  EXPECT_EQ(chosen(0, 2), "net-socket");
}

TEST_F(Choice, NamesEveryCandidateAndWhyNot) {
  offer_of(2, "net-ib").unusable = "no HCA";
  offer_of(0, "net-socket").version = "2.0";
  std::erase_if(input_.offers[2], [](const PluginOffer& item) { return item.id == "p2p"; });
  EXPECT_EQ(refusal(0, 2),
            "rank 0 on node0 and rank 2 on node1 cannot be joined: transports.order (default) "
            "allows none that can:\n"
            "  p2p: rank 2 does not know it\n"
            "  shm: rank 0 says: another host\n"
            "  net-ib: unusable on rank 2: no HCA\n"
            "  net-socket: version 2.0 on rank 0 and 1.0 on rank 2; try: add a transport that can "
            "to transports.order");
}

TEST_F(Choice, LetsThemReadEachOtherWhereBothEndsCan) {
  const auto answer_of = [&](bool first, bool second) {
    for (const auto& [rank, peer, reads] :
         {std::tuple(0U, 1U, first), std::tuple(1U, 0U, second)}) {
      ReachAnswers answers;
      for (std::uint32_t other = 0; other < 4; ++other) {
        ReachAnswer answer = input_.answers[rank]["shm"][other];
        if (other == peer) answer.single_copy = reads;
        answers.push_back(answer);
      }
      input_.answers[rank]["shm"] = answers;
    }
    const PairChooser chooser(input_);
    EXPECT_EQ(chooser.choose(0, 1)->single_copy, chooser.wire(0, 1)->single_copy);
    return chooser.choose(0, 1)->single_copy;
  };
  EXPECT_TRUE(answer_of(true, true));
  EXPECT_FALSE(answer_of(true, false));
  EXPECT_FALSE(answer_of(false, true));
  EXPECT_FALSE(answer_of(false, false));
}

TEST_F(Choice, AsksBothEnds) {
  ReachAnswers& said = input_.answers[1]["shm"];
  ReachAnswers refusing{{.reachable = false, .reason = "not its user"}};
  for (std::size_t peer = 1; peer < said.size(); ++peer)
    refusing.push_back(said[peer]);
  said = refusing;
  EXPECT_EQ(chosen(0, 1), "net-ib");
  input_.order.ids = {"shm"};
  EXPECT_NE(refusal(0, 1).find("shm: rank 1 says: not its user"), std::string::npos);
  input_.answers[1].erase("shm");
  EXPECT_NE(refusal(0, 1).find("shm: rank 1 gave no answer on rank 0"), std::string::npos);
  input_.answers[0]["shm"] = {};
  EXPECT_NE(refusal(0, 1).find("shm: rank 0 gave no answer on rank 1"), std::string::npos);
}

TEST_F(Choice, RefusesAPluginThatTheEndsTakeForDifferentThings) {
  offer_of(0, "shm").kind = PluginKind::kNet;
  input_.order.ids = {"shm"};
  EXPECT_NE(refusal(0, 1).find("shm: it is a net on rank 0 and a transport on rank 1"),
            std::string::npos);
  EXPECT_EQ(chosen(1, 0), "none");
}

TEST_F(Choice, SaysThatNothingIsListed) {
  input_.order.ids = {"net"};
  input_.nets.ids = {};
  EXPECT_EQ(refusal(0, 1),
            "rank 0 on node0 and rank 1 on node0 cannot be joined: transports.order (default) "
            "allows none that can:; try: add a transport that can to transports.order");
}

TEST_F(Choice, PassesOverWhatOnlyTheDefaultNames) {
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    offer_of(rank, "net-ib").unusable = "no such file";
  EXPECT_EQ(named_error(), "");
  EXPECT_EQ(chosen(0, 2), "net-socket");
}

TEST_F(Choice, InsistsOnWhatTheUserNamed) {
  offer_of(3, "net-ib").unusable = "no HCA";
  input_.nets.named_by_user = true;
  input_.nets.origin = "weft.yaml:4:8";
  EXPECT_EQ(named_error(),
            "transports.net (weft.yaml:4:8) names plugin \"net-ib\", which rank 3 on node1 cannot "
            "use: no HCA; try: make the plugin usable there, or take it out of the list");
  // Named, but nothing refers to the list.
  input_.order.ids = {"p2p", "shm"};
  EXPECT_EQ(named_error(), "");
  input_.rules = {rule({"any"}, {"net"})};
  EXPECT_NE(named_error(), "");
}

TEST_F(Choice, TheNetsThemselvesHoldNoGroup) {
  input_.nets = {.ids = {"net", "net-socket"}, .named_by_user = true, .origin = "weft.yaml:4:8"};
  EXPECT_EQ(
      named_error(),
      "transports.net (weft.yaml:4:8) names plugin \"net\", which rank 0 on node0 cannot use: "
      "it is not known there; try: make the plugin usable there, or take it out of the list");
}

TEST_F(Choice, InsistsOnTheUsersOrder) {
  std::erase_if(input_.offers[1], [](const PluginOffer& item) { return item.id == "shm"; });
  EXPECT_EQ(named_error(), "");
  input_.order.named_by_user = true;
  input_.order.origin = "WEFT_TRANSPORTS_ORDER";
  EXPECT_EQ(named_error(),
            "transports.order (WEFT_TRANSPORTS_ORDER) names plugin \"shm\", which rank 1 on node0 "
            "cannot use: it is not known there; try: make the plugin usable there, or take it out "
            "of the list");
}

TEST_F(Choice, InsistsOnTheRulesPlugins) {
  input_.rules = {rule({"same-host"}, {"shm"}), rule({"any"}, {"net-ofi", "net"}, 9)};
  EXPECT_EQ(named_error(),
            "a rule of transports.rules (weft.yaml:9:5) names plugin \"net-ofi\", which rank 0 on "
            "node0 cannot use: it is not known there; try: make the plugin usable there, or take "
            "it out of the list");
}

TEST_F(Choice, KnowsWhatAPairShares) {
  const PairFacts near = pair_facts(topology_, 2, 3);
  EXPECT_TRUE(near.same_process && near.same_host && near.same_fabric);
  const PairFacts far = pair_facts(topology_, 0, 2);
  EXPECT_FALSE(far.same_process || far.same_host || far.same_fabric);
  topology_.ranks[0].memory_fabric = "rack";
  EXPECT_FALSE(pair_facts(topology_, 0, 2).same_fabric);
  topology_.ranks[2].memory_fabric = "rack";
  EXPECT_TRUE(pair_facts(topology_, 0, 2).same_fabric);
  EXPECT_FALSE(pair_facts(topology_, 0, 2).same_host);
  EXPECT_EQ(far.a.host, "node0");
  EXPECT_EQ(far.b.host, "node1");
  ASSERT_EQ(far.b.addresses.size(), 3U);
  EXPECT_EQ(far.b.addresses[0].to_string(), "10.0.0.2");
}

}  // namespace
}  // namespace weft
