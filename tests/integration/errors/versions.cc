// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of different versions of Weft, which changed_rank.cc plays, and ranks that go away while
// they connect.

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

const Environment kOverShm{{"WEFT_TRANSPORTS_ORDER", "shm"}};

Environment changed_by(const std::string& what) {
  Environment environment = kOverShm;
  environment["CHANGED"] = what;
  return environment;
}

/// Both at once: what each of them answers.
std::array<std::string, 2> join_both(Rank& first, Rank& second) {
  const std::string id = first.ask("id").substr(7);
  first.tell("join " + id + " 2 0");
  second.tell("join " + id + " 2 1");
  return {first.answer(), second.answer()};
}

/// Rank 0 is as it should be, and rank 1 is not: what both say.
void join_changed(const std::string& what, std::vector<Said>& said) {
  Rank first(kOverShm);
  Rank second(changed_by(what), {CHANGED_RANK});
  for (const std::string& answer : join_both(first, second))
    said.push_back(said_in(answer));
}

void add_changed(Scenarios& all, std::string name, std::string message, const std::string& what) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [what](std::vector<Said>& said) { join_changed(what, said); }});
}

/// Something happens to rank 1 when both connect: what rank 0 says.
void add_gone(Scenarios& all, std::string name, std::string message, const std::string& what) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [what](std::vector<Said>& said) {
                   Rank first(kOverShm);
                   Rank second(changed_by(what), {CHANGED_RANK});
                   for (const std::string& answer : join_both(first, second))
                     EXPECT_EQ(answer, "join: ok ");
                   second.tell("call all_reduce 10");
                   said.push_back(said_in(first.ask("call all_reduce 10")));
                 }});
}

}  // namespace

void add_versions(Scenarios& all) {
  add_changed(all, "OfAnotherProtocol",
              "<rank> speaks bootstrap protocol <number>, the rendezvous speaks <number>",
              "protocol");
  add_changed(all, "WithAnotherIdentity", "rank <rank> sent a malformed identity", "identity");
  add_changed(all, "OfAnotherVersion",
              "rank 0 runs weft <version>, rank <rank> runs weft <version>", "version");
  add_changed(all, "OfAnotherMachine",
              "ranks <rank> (<host>) and <rank> (<host>) both have the host id \"<id>\", but their "
              "<what> differ: <value> and <value>",
              "machine");
  add_changed(all, "WithAnotherGreeting", "a peer sent a malformed greeting: <why>", "greeting");
  add_changed(all, "WithAGreetingOfNoGroups",
              "a peer sent a greeting with a wrong number of groups, bytes or communicators",
              "greeting-groups");
  add_changed(all, "WithALongGreeting", "a peer sent a greeting that is too long", "greeting-long");
  add_changed(all, "WithOtherOffers", "a peer sent malformed <what>: <why>", "offers");
  add_changed(all, "WithAnotherNotice", "a peer sent a malformed notice of its tuner: <why>",
              "notice");
  add_changed(all, "WithALongNotice", "a peer named a tuner by a text that is too long",
              "notice-long");
  add_gone(all, "ThatEndsAsItConnects", "shm: rank <rank> (pid <pid>) ended while connecting",
           "ends-connecting");
  add_gone(all, "ThatClosesAsItConnects",
           "shm: rank <rank> closed its Unix socket before it passed its memory",
           "closes-connecting");
  add_gone(all, "ThatTurnsAwayAsItConnects",
           "shm: rank <rank> listens, and turned this rank away again and again before it passed "
           "its memory",
           "refuses-connecting");
  // No message: a partner that has done its part and left is no failure, however late this end is.
  all.push_back({.name = "PartnerThatIsDoneFirst", .messages = {}, .play = [](std::vector<Said>&) {
                   Rank late(changed_by("held-pairs"), {CHANGED_RANK});
                   Rank early(kOverShm);
                   for (const std::string& answer : join_both(late, early))
                     EXPECT_EQ(answer, "join: ok ");
                   late.tell("call recv 10 root1");
                   EXPECT_TRUE(early.ask("call send 10 root0").starts_with("call: ok"));
                   EXPECT_EQ(early.ask("destroy"), "destroy: ok ");
                   EXPECT_EQ(late.answer(), "call: ok 0 wrong");
                   EXPECT_EQ(late.ask("destroy"), "destroy: ok ");
                 }});
}

}  // namespace weft::test
