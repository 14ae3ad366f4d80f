// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that do not match, that wait for long, and ranks that die, leave or give up.

#include <string>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

/// Two ranks of a communicator.
std::unique_ptr<Job> joined(const Environment& environment = {}) {
  auto job = std::make_unique<Job>(2, environment);
  EXPECT_EQ(job->join(), "");
  return job;
}

void hear(Rank& rank, std::vector<Said>& said) {
  std::string answer = rank.answer();
  while (answer == "loop: running")
    answer = rank.answer();
  said.push_back(said_in(answer));
}

}  // namespace

void add_calls(Scenarios& all) {
  all.push_back({.name = "CallsThatDiffer",
                 .messages = {"rank <rank> called <call> (call <number>), but rank <rank> called "
                              "<call> (call <number>)"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined();
                   (*job)[0].tell("loop all_reduce 1000");
                   (*job)[1].tell("loop broadcast 1000");
                   hear((*job)[0], said);
                   hear((*job)[1], said);
                 }});
  all.push_back({.name = "NothingThatIsDeterministic",
                 .messages = {"<keys> and collectives.deterministic asks for an order, which "
                              "leaves no way: <ways>"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined({{"WEFT_COLLECTIVES_DETERMINISTIC", "true"},
                                            {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}});
                   ask_all(*job, "call all_reduce 1000 float32", said);
                 }});
  all.push_back({.name = "RankThatLeavesEarly",
                 .messages = {"rank <rank> left the communicator <when>, but rank <rank> called "
                              "<call> (call <number>)"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined();
                   EXPECT_EQ((*job)[1].ask("destroy"), "destroy: ok ");
                   (*job)[0].tell("call all_reduce 1000");
                   hear((*job)[0], said);
                 }});
  all.push_back({.name = "PartnerThatLeavesUnmet",
                 .messages = {"rank <rank> has left the communicator: process <pid> on <host> "
                              "listens no more at <address>"},
                 .play = [](std::vector<Said>& said) {
                   Job job(4);
                   EXPECT_EQ(job.join(), "");
                   // With its neighbours gone as well nobody is left who heard rank 2's goodbye.
                   for (const int leaver : {2, 1, 3})
                     EXPECT_EQ(job[leaver].ask("destroy"), "destroy: ok ");
                   job[0].tell("call recv 10 root2");
                   hear(job[0], said);
                 }});
  all.push_back({.name = "PartnerThatLeaves",
                 .messages = {"rank <rank> waits in <call>, but rank <rank> has left the "
                              "communicator"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined();
                   // The first exchange connects the pair.
                   (*job)[1].tell("call send 10 root0");
                   EXPECT_EQ((*job)[0].ask("call recv 10 root1"), "call: ok 0 wrong");
                   EXPECT_TRUE((*job)[1].answer().starts_with("call: ok"));
                   (*job)[0].tell("call recv 10 root1");
                   EXPECT_EQ((*job)[1].ask("destroy"), "destroy: ok ");
                   hear((*job)[0], said);
                 }});
  all.push_back({.name = "CallThatWaits",
                 .messages = {"rank <rank> of <ranks> has waited <time> in <call>:",
                              "channel <channel>: rank <rank> has sent <steps> steps, <steps> of "
                              "them are taken; of <steps> steps sent to rank <rank> it has taken "
                              "<steps>",
                              "asked <time> ago: rank <rank> has made no call yet"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined({{"WEFT_TIMEOUTS_REPORT", "300ms"},
                                            {"WEFT_TIMEOUTS_OPERATION", "3s"},
                                            {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}});
                   (*job)[0].tell("call all_reduce 1000");
                   hear((*job)[0], said);
                   said.push_back({.code = {}, .text = (*job)[0].process().err()});
                   // Below ten seconds whole ones would not tell.
                   EXPECT_EQ(said.back().text.find("waited 0s in all_reduce"), std::string::npos)
                       << said.back().text;
                 }});
  all.push_back({.name = "CallThatWaitsForAStoppedRank",
                 .messages = {"asked <time> ago: no answer came back: a process is stopped, or its "
                              "host is not reached"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined({{"WEFT_TIMEOUTS_OPERATION", "3s"}});
                   // Before, each needs the other to connect.
                   for (const auto& answer : job->ask_all("call all_reduce 1000"))
                     EXPECT_EQ(answer, "call: ok 0 wrong");
                   (*job)[1].stop();
                   (*job)[0].tell("call all_reduce 1000");
                   hear((*job)[0], said);
                   (*job)[1].go_on();
                 }});
  all.push_back({.name = "CallByInboxesThatWaits",
                 .messages = {"last finished: <call>",
                              "rank <rank> has yet to send what this call waits for"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined({{"WEFT_TIMEOUTS_OPERATION", "1s"},
                                            {"WEFT_TRANSPORTS_ORDER", "shm"},
                                            {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "direct"}});
                   (*job)[0].tell("call all_reduce 1000");
                   hear((*job)[0], said);
                 }});
  all.push_back({.name = "RankThatDies",
                 .messages = {"rank <rank> (pid <pid> on <host>) died: its connection was closed"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined();
                   (*job)[0].tell("call all_reduce 1000");
                   job->bury(1);
                   hear((*job)[0], said);
                 }});
  all.push_back({.name = "RankThatGivesUp",
                 .messages = {"rank <rank> was aborted by its user"},
                 .play = [](std::vector<Said>& said) {
                   const auto job = joined();
                   (*job)[0].tell("call all_reduce 1000");
                   EXPECT_EQ((*job)[1].ask("abort"), "abort: ok ");
                   (*job)[1].tell("call all_reduce 1000");
                   hear((*job)[0], said);
                   hear((*job)[1], said);
                 }});
  all.push_back({.name = "RankThatCannotStartACall",
                 .messages = {"the device refused to start work",
                              "rank <rank> could not start its <call>: <why>"},
                 .play = [](std::vector<Said>& said) {
                   if (kSanitized)
                     GTEST_SKIP() << "a sanitizer's own memory does not fit into such limits";
                   const auto job = joined();
                   (*job)[0].tell("call all_reduce 1000");
                   // Less than the stack of the stream's thread, which the first call starts.
                   EXPECT_EQ((*job)[1].ask("limit memory 1000000"), "limit: ok");
                   (*job)[1].tell("call all_reduce 1000");
                   hear((*job)[0], said);
                   hear((*job)[1], said);
                 }});
}

}  // namespace weft::test
