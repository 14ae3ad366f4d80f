// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Hosts that vanish without a word: cables that are cut between hosts made by errors_on_hosts.sh,
// which names them in HOSTS_PREFIX and runs these scenarios.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

std::string prefix() {
  const char* value = std::getenv("HOSTS_PREFIX");
  return value != nullptr ? value : "";
}

std::unique_ptr<Rank> rank_on(int host, Environment environment) {
  const std::string name = prefix() + "-h" + std::to_string(host);
  environment["WEFT_HOST_ID"] = name;
  return std::make_unique<Rank>(
      environment, std::vector<std::string>{"ip", "netns", "exec", name, BAD_DAYS_RANK});
}

/// The plug at the switch: "port" of eth0, "second" of eth1.
void cut(const std::string& plug, int host) {
  const Outcome outcome = run({.arguments = {"ip", "-n", prefix() + "-sw", "link", "set",
                                             plug + std::to_string(host), "down"},
                               .environment = {},
                               .input = {}});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
}

/// A rank on each of two hosts, joined and, for calls like `call`, connected.
class TwoHosts {
 public:
  TwoHosts(int first, Environment environment, const std::string& call) {
    environment["WEFT_TRANSPORTS_ORDER"] = "net";
    environment["WEFT_TRANSPORTS_NET"] = "net-socket";
    environment["WEFT_BOOTSTRAP_INTERFACES"] = "=eth0";
    for (const int host : {first, first + 1})
      ranks_.push_back(rank_on(host, environment));
    const std::string id = ranks_[0]->ask("id").substr(7);
    for (int rank = 0; rank < 2; ++rank)
      ranks_[static_cast<std::size_t>(rank)]->tell("join " + id + " 2 " + std::to_string(rank));
    for (const auto& rank : ranks_)
      EXPECT_EQ(rank->answer(), "join: ok ");
    for (const auto& rank : ranks_)
      rank->tell(call);
    for (const auto& rank : ranks_)
      EXPECT_EQ(rank->answer(), "call: ok 0 wrong");
  }
  Rank& operator[](std::size_t rank) { return *ranks_[rank]; }

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

void add_host(Scenarios& all, std::string name, std::string message, Environment environment,
              std::string plug, std::string call) {
  const int first = 1 + 2 * static_cast<int>(all.size());
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [first, environment = std::move(environment), plug = std::move(plug),
                          call = std::move(call)](std::vector<Said>& said) {
                   if (prefix().empty()) GTEST_SKIP() << "errors_on_hosts.sh runs this";
                   TwoHosts hosts(first, environment, call);
                   cut(plug, first + 1);
                   said.push_back(said_in(hosts[0].ask(call)));
                 }});
}

}  // namespace

void add_hosts(Scenarios& all) {
  // Rank 0 waits for data, so that nothing but probes is under way.
  const std::string waits = "call broadcast 1000 root1";
  add_host(all, "HostThatVanishes",
           "rank <rank> (pid <pid> on <host>) died: its connection broke (<why>)", {}, "port",
           waits);
  Environment apart{{"WEFT_NET_SOCKET_INTERFACES", "=eth1"},
                    {"WEFT_NET_SOCKET_PEER_TIMEOUT", "1s"}};
  add_host(all, "PathThatVanishesUnderData",
           "<peer> over <device> has acknowledged nothing for <time> s (peer_timeout)", apart,
           "second", "call broadcast 10000000 root0");
  apart["WEFT_NET_SOCKET_PEER_TIMEOUT"] = "4s";
  add_host(all, "PathThatVanishesAtRest", "cannot receive from <peer> over <device>: <why>", apart,
           "second", waits);
}

}  // namespace weft::test
