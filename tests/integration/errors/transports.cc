// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Pairs of ranks that nothing can join, and transports to which the system or the configuration
// refuses what they need.

#include <string>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/plugin_folder.h"
#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

void add_job(Scenarios& all, std::string name, std::string message, Environment environment,
             int ranks = 2) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [ranks, environment = std::move(environment)](std::vector<Said>& said) {
                   Job job(ranks, environment);
                   join_all(job, said);
                   // Some find it when they connect.
                   if (said.back().text == "join: ok ") ask_all(job, "call all_reduce 10", said);
                 }});
}

Environment over_net(const Environment& more) {
  Environment environment{{"WEFT_TRANSPORTS_ORDER", "net"}, {"WEFT_TRANSPORTS_NET", "net-socket"}};
  environment.insert(more.begin(), more.end());
  return environment;
}

/// Two ranks, the second of which the system refuses something.
void join_limited(const std::string& limit, std::vector<Said>& said,
                  const Environment& environment = {{"WEFT_TRANSPORTS_ORDER", "shm"}}) {
  Job job(2, environment);
  const std::string id = job[0].ask("id").substr(7);
  // What it needs besides is there before.
  EXPECT_TRUE(job[1].ask("id").starts_with("id: ok "));
  EXPECT_EQ(job[1].ask(limit), limit.substr(0, limit.find(' ')) + ": ok");
  for (const int rank : {0, 1})
    job[rank].tell("join " + id + " 2 " + std::to_string(rank));
  for (const int rank : {0, 1})
    said.push_back(said_in(job[rank].answer()));
  if (said.back().text == "join: ok ") ask_all(job, "call all_reduce 10", said);
}

constexpr const char* kSummed = "call: ok 0 wrong";

/// The same with ever more of it, until the shared memory is what there is not enough of.
void join_limited_until(const std::string& text, const std::string& what, std::uint64_t least,
                        std::uint64_t most, std::uint64_t factor, std::uint64_t summand,
                        std::vector<Said>& said) {
  for (std::uint64_t value = least; value <= most; value = value * factor + summand) {
    said.clear();
    join_limited("limit " + what + " " + std::to_string(value), said,
                 {{"WEFT_TRANSPORTS_ORDER", "shm"},
                  {"WEFT_TIMEOUTS_BOOTSTRAP", "3s"},
                  {"WEFT_BUFFERS_STEP", "4MiB"},
                  {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}});
    if (said.back().text.find(text) != std::string::npos || said.back().text == kSummed) return;
  }
}

void add_shm(Scenarios& all) {
  // No error either: calls go other ways.
  all.push_back({.name = "NoMulticast",
                 .messages = {"rank <rank> goes without multicast: <why>"},
                 .play = [](std::vector<Said>& said) {
                   Job job(2, {{"WEFT_BUFFERS_MULTICAST", "1MiB"}});
                   join_all(job, said);
                   said.push_back({.code = {}, .text = job[0].process().err()});
                 }});
  all.push_back({.name = "MemfdRefused",
                 .messages = {"shm: memfd_create for <bytes> bytes of memory to share with rank "
                              "<rank> refused: <why> (EPERM)",
                              "rank <rank> (pid <pid> on <host>) failed (<code>): <what>"},
                 .play = [](std::vector<Said>& said) { join_limited("deny-memfd", said); }});
  all.push_back({.name = "ReadsRefused",
                 .messages = {"shm: may not read the memory of rank <rank>: <why> (EPERM)"},
                 .play = [](std::vector<Said>& said) {
                   const std::string rule = rule_against_reading_ranks();
                   if (!rule.empty()) GTEST_SKIP() << rule;
                   Job job(2, {{"WEFT_TRANSPORTS_ORDER", "shm"}});
                   EXPECT_EQ(job.join(), "");
                   EXPECT_EQ(job[1].ask("deny-reads"), "deny-reads: ok");
                   job[0].tell("call send 1000000 root1");
                   job[1].tell("call recv 1000000 root0");
                   for (const int rank : {1, 0})
                     said.push_back(said_in(job[rank].answer()));
                 }});
  // No error: the ranks work, and the line says what they do without.
  all.push_back({.name = "ReadsRefusedFromTheBeginning",
                 .messages = {"shm: same host, no single copy: the kernel forbids to read the "
                              "other's memory (EPERM: kernel.yama.ptrace_scope, sandbox)"},
                 .play = [](std::vector<Said>& said) {
                   Job job(2, {{"WEFT_TRANSPORTS_ORDER", "shm"}, {"WEFT_LOG_LEVEL", "info"}});
                   for (const std::string& answer : job.ask_all("deny-reads"))
                     EXPECT_EQ(answer, "deny-reads: ok");
                   EXPECT_EQ(job.join(), "");
                   said.push_back({.code = {}, .text = job[0].process().err()});
                 }});
  all.push_back({.name = "NoDescriptorForMemory",
                 .messages = {"shm: <what>: Too many open files (EMFILE)"},
                 .play = [](std::vector<Said>& said) {
                   if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
                   join_limited_until("shm: ", "nofile", 0, 26, 1, 1, said);
                 }});
  all.push_back(
      {.name = "NoAddressSpace",
       .messages = {"shm: cannot map <bytes> bytes of memory to share with rank <rank>: <why> "
                    "(ENOMEM)"},
       .play = [](std::vector<Said>& said) {
         if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory does not fit into such limits";
         join_limited_until("shm: ", "memory", 1U << 20, 1U << 28, 2, 0, said);
       }});
  all.push_back(
      {.name = "FilesTooLarge",
       .messages = {"shm: cannot make <bytes> bytes of memory to share with rank <rank>: "
                    "<why> (EFBIG)"},
       .play = [](std::vector<Said>& said) { join_limited("limit file-size 4096", said); }});
  add_job(all, "NoHugePages",
          "shm: no huge pages for <bytes> bytes of memory to share with rank <rank>: <why> "
          "(ENOMEM)",
          {{"WEFT_TRANSPORTS_ORDER", "shm"}, {"WEFT_SHM_HUGE_PAGES", "require"}});
  add_job(all, "NoChoiceOfHugePages", "shm.huge_pages: \"<text>\" is none of off, try, require",
          {{"WEFT_TRANSPORTS_ORDER", "shm"}, {"WEFT_SHM_HUGE_PAGES", "always"}});
}

void add_net_socket(Scenarios& all) {
  add_job(all, "NoSuchInterface",
          "net-socket.interfaces [<list>] matches no interface... that is up; there are: "
          "<interfaces>",
          over_net({{"WEFT_NET_SOCKET_INTERFACES", "nosuch0"}}));
  add_job(all, "NoSuchCongestionControl", "the kernel refuses the congestion control \"<name>\"",
          over_net({{"WEFT_NET_SOCKET_CONGESTION", "teleport"}}));
  add_job(all, "NoFamily", "net-socket.family: \"<text>\" is none of any, ipv4, ipv6",
          over_net({{"WEFT_NET_SOCKET_FAMILY", "ipv5"}}));
}

}  // namespace

void add_transports(Scenarios& all) {
  add_job(all, "NoneOfTheOrder",
          "rank <rank> on <host> and rank <rank> on <host> cannot be joined: transports.order "
          "(<where>) allows none that can:",
          {{"WEFT_TRANSPORTS_ORDER", "p2p"}});
  all.push_back(
      {.name = "NoneOfTheRule",
       .messages = {"rank <rank> on <host> and rank <rank> on <host> cannot be joined: rule <rule> "
                    "(<where>) allows none that can:",
                    "p2p: rank <rank> says: other process"},
       .play = [](std::vector<Said>& said) {
         const ScratchFolder folder;
         const std::string file = folder.write(
             "weft.yaml", "version: 1\ntransports:\n  rules: [{between: any, use: [p2p]}]\n");
         Job job(2, {{"WEFT_CONFIG", file}});
         join_all(job, said);
       }});
  // A net that is sound in itself and never gets anything across.
  all.push_back({.name = "ConnectionsThatDoNotComeUp",
                 .messages = {"rank <rank> is not connected with rank <rank> at the deadline",
                              "rank <rank> of <ranks> has waited <time> to be connected with "
                              "<ranks> for <call>"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   folder.add_bad("sample", "sample");
                   Job job(2, {{"WEFT_PLUGINS_PATH", folder.path()},
                               {"WEFT_TRANSPORTS_ORDER", "sample"},
                               {"WEFT_TIMEOUTS_BOOTSTRAP", "1s"},
                               {"WEFT_TIMEOUTS_REPORT", "200ms"}});
                   EXPECT_EQ(job.join(), "");
                   ask_all(job, "call all_reduce 10", said);
                   said.push_back({.code = {}, .text = job[0].process().err()});
                 }});
  add_shm(all);
  add_net_socket(all);
  all.push_back({.name = "NoMemoryWithinAProcess",
                 .messages = {"p2p: cannot allocate <bytes> bytes for the connection from rank "
                              "<rank>: <why> (ENOMEM)"},
                 .play = [](std::vector<Said>& said) {
                   if (kSanitized) {
                     GTEST_SKIP() << "a sanitizer's own memory does not fit into such limits";
                   }
                   Environment environment{{"WEFT_TRANSPORTS_ORDER", "p2p"},
                                           {"WEFT_BUFFERS_STEP", "4MiB"},
                                           {"WEFT_CHANNELS_MAX", "64"},
                                           {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}};
                   Rank rank(environment);
                   EXPECT_TRUE(rank.ask("id").starts_with("id: ok "));
                   EXPECT_EQ(rank.ask("limit memory 1000000000"), "limit: ok");
                   // Of two threads one may hear of the other's failure before its own.
                   said.push_back(said_in(rank.ask("threads 2 all_reduce 4000000 0")));
                   said.push_back(said_in(rank.answer()));
                 }});
}

}  // namespace weft::test
