// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft run`: what ranks are given, what comes of their output, and how a job ends.
#include <chrono>
#include <signal.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/commands/commands.h"

namespace weft::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(Run, GivesEachRankItsEnvironmentAndPrefix) {
  const Outcome outcome = run(job_of(
      3, "echo $WEFT_RANK $WEFT_LOCAL_RANK $WEFT_WORLD_SIZE ${#WEFT_SECRET} ${WEFT_ROOT%:*} $MINE",
      {{"MINE", "kept"}}));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out),
              UnorderedElementsAre("[0] 0 0 3 64 127.0.0.1 kept", "[1] 1 1 3 64 127.0.0.1 kept",
                                   "[2] 2 2 3 64 127.0.0.1 kept"));
  EXPECT_EQ(outcome.err, "");
}

TEST(Run, LeavesOutPrefixesOnDemand) {
  const Outcome outcome = weft({"run", "-n", "1", "--no-prefix", "--", "sh", "-c", "printf end"});
  EXPECT_EQ(outcome.out, "end");
}

TEST(Run, HandsWordsOnAsTheyAre) {
  const std::vector<std::string> words = {"[1,2]", "[a]",     "[]",   "",   "-n", "3",  "--",
                                          "a b",   "{}",      "++",   "%%", "[x", "y]", "\"q\"",
                                          "\x01",  "--x=[1]", "info", "@f", "\\n"};
  std::vector<std::string> command = {"run", "-n", "1", "--no-prefix", "--", "printf", "<%s>\n"};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<std::string> expected;
  for (const std::string& word : words)
    expected.push_back("<" + word + ">");
  EXPECT_EQ(lines_of(weft(command).out), expected);
}

TEST(Run, KeepsTheTwoStreamsApartAndEndsLines) {
  const Outcome outcome = run(job_of(1, "printf out; printf wrong >&2"));
  EXPECT_EQ(outcome.out, "[0] out\n");
  EXPECT_EQ(outcome.err, "[0] wrong\n");
}

// What it opens first would get the numbers of those that are closed.
TEST(Run, RunsWithoutStandardStreams) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/said";
  const Outcome outcome =
      run({.arguments =
               {"sh", "-c",
                "\"$0\" run -n 2 -- sh -c 'cat; echo said; echo wrong >&2; echo $WEFT_RANK >>" +
                    file + "' <&- >&- 2>&-; echo ended with $?; sort " + file,
                WEFT_COMMAND},
           .environment = {},
           .input = {}});
  EXPECT_EQ(outcome.out, "ended with 0\n0\n1\n") << outcome.describe();
}

TEST(Run, GivesInputToRankZeroAlone) {
  Command command = job_of(2, "cat");
  command.input = "given\n";
  EXPECT_EQ(run(command).out, "[0] given\n");
}

TEST(Run, EndsWithTheStatusOfTheFirstFailure) {
  // Rank 1 fails only once rank 0 has, which it sees by the file.
  const ScratchFolder folder;
  const std::string script = "if [ $WEFT_RANK = 0 ]; then touch " + folder.path() +
                             "/failed; exit 7; fi; while [ ! -e " + folder.path() +
                             "/failed ]; do sleep 0.01; done; sleep 0.3; exit 8";
  const Outcome outcome = run(job_of(2, script));
  EXPECT_EQ(outcome.exit_status, 7) << outcome.describe();
  EXPECT_THAT(outcome.err, HasSubstr("weft run: rank 0 (pid "));
  EXPECT_THAT(outcome.err, HasSubstr(") ended with exit status 7"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("exit status 8")));
}

// Services do so against processes that nobody waits for.
TEST(Run, EndsThoughItsParentIgnoresTheEndOfChildren) {
  Command command = job_of(2, "exit $((3 + WEFT_RANK))");
  std::vector<std::string> ignoring = {"bash", "-c", "trap '' CHLD; exec \"$@\"", "bash"};
  ignoring.insert(ignoring.end(), command.arguments.begin(), command.arguments.end());
  command.arguments = std::move(ignoring);
  const Outcome outcome = run(command);
  EXPECT_THAT(outcome.exit_status, testing::AnyOf(3, 4)) << outcome.describe();
}

TEST(Run, TellsASignalAs128More) {
  const Outcome outcome = run(job_of(1, "kill -SEGV $$"));
  EXPECT_EQ(outcome.exit_status, 128 + SIGSEGV);
  EXPECT_THAT(outcome.err, HasSubstr("was ended by signal 11 (Segmentation fault)"));
}

// It gives up over the failure that it was told of; the first one is what counts.
TEST(Run, BlamesNoRankThatAbortsAfterTheFirstFailure) {
  const ScratchFolder folder;
  // A process is there until somebody has waited for it.
  const Outcome outcome = run(job_of(
      2, "f=" + folder.path() +
             "/pid; if [ $WEFT_RANK = 0 ]; then echo $$ >$f.new; mv $f.new $f; exit 3; fi; "
             "until [ -e $f ]; do sleep 0.01; done; "
             "while kill -0 $(cat $f) 2>/dev/null; do sleep 0.01; done; sleep 0.5; kill -ABRT $$"));
  EXPECT_EQ(outcome.exit_status, 3) << outcome.describe();
  EXPECT_THAT(lines_with(outcome.err, "weft run: "),
              ElementsAre(HasSubstr(") ended with exit status 3")));
}

TEST(Run, SaysThatAProgramIsNotThere) {
  const Outcome missing = weft({"run", "-n", "2", "--", "no-such-program"});
  EXPECT_EQ(missing.exit_status, 127);
  EXPECT_THAT(missing.err, HasSubstr("cannot run \"no-such-program\""));
  EXPECT_THAT(missing.err, HasSubstr("write its path, or install it on PATH"));
  const ScratchFolder folder;
  const Outcome not_executable =
      weft({"run", "-n", "2", "--", folder.write("program", "#!/bin/sh\n")});
  EXPECT_EQ(not_executable.exit_status, 126);
}

TEST(Run, RefusesWordsThatItDoesNotKnow) {
  EXPECT_NE(weft({"run", "-n", "0", "--", "true"}).exit_status, 0);
  EXPECT_NE(weft({"run", "-n", "2"}).exit_status, 0);
  EXPECT_NE(weft({"run", "--", "true"}).exit_status, 0);
  EXPECT_NE(weft({"runs"}).exit_status, 0);
}

TEST(Run, StopsTheOthersFiveSecondsAfterAFailure) {
  Process job(job_of(3,
                     "[ $WEFT_RANK = 1 ] && exit 9; [ $WEFT_RANK = 2 ] && trap '' TERM; "
                     "echo ready; while :; do sleep 1; done"));
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = job.wait();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(outcome.exit_status, 9) << outcome.describe();
  // They are left alone for 5 s, and 2 s later the one that is deaf to SIGTERM is killed.
  EXPECT_GE(took, std::chrono::seconds(5));
  EXPECT_THAT(outcome.err,
              HasSubstr("stopping ranks 0, 2, still running 5 s after the first failure"));
}

TEST(Run, ForwardsSignals) {
  for (const auto& [signal, name] :
       {std::pair(SIGTERM, "TERM"), std::pair(SIGHUP, "HUP"), std::pair(SIGQUIT, "QUIT"),
        std::pair(SIGUSR1, "USR1"), std::pair(SIGUSR2, "USR2")}) {
    SCOPED_TRACE(name);
    Process job(job_of(2, "trap 'echo heard; exit 3' " + std::string(name) +
                              "; echo ready; while :; do sleep 0.05; done"));
    ASSERT_TRUE(job.wait_for_output("[0] ready"));
    ASSERT_TRUE(job.wait_for_output("[1] ready"));
    job.send_signal(signal);
    const Outcome outcome = job.wait();
    EXPECT_EQ(outcome.exit_status, 3);
    EXPECT_THAT(lines_of(outcome.out), Contains("[0] heard"));
    EXPECT_THAT(lines_of(outcome.out), Contains("[1] heard"));
  }
}

// What a rank leaves in the background has its pipe, and may fill it faster than it is emptied.
TEST(Run, EndsWithItsRanksThoughTheirChildrenWriteOn) {
  const Outcome outcome =
      run({.arguments = {"sh", "-c",
                         "\"$0\" run -n 4 --no-prefix -- sh -c 'yes & yes & exit 5' >/dev/null; "
                         "echo ended with $?",
                         WEFT_COMMAND},
           .environment = {},
           .input = {}});
  EXPECT_EQ(outcome.out, "ended with 5\n") << outcome.describe();
}

// More ranks than a shell's limit has room for by two pipes each; they get that limit back.
TEST(Run, StartsManyRanksUnderALowLimitOfOpenFiles) {
  const Outcome outcome =
      run({.arguments = {"sh", "-c",
                         "ulimit -Sn 128; exec \"$0\" run -n 100 --no-prefix -- sh -c 'ulimit -Sn'",
                         WEFT_COMMAND},
           .environment = {},
           .input = {}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), testing::AllOf(testing::SizeIs(100), testing::Each("128")));
}

TEST(Run, LeavesNoRankBehindWhenItIsKilled) {
  Process job(job_of(4, "echo ready; exec sleep 1000"));
  for (const char* line : {"[0] ready", "[1] ready", "[2] ready", "[3] ready"})
    ASSERT_TRUE(job.wait_for_output(line));
  EXPECT_EQ(job.wait_until_relatives(5).size(), 5U);
  job.send_signal(SIGKILL);
  EXPECT_EQ(job.wait().signal, SIGKILL);
  EXPECT_THAT(job.wait_for_relatives(), IsEmpty());
}

TEST(Run, LeavesNoneBehindInTheMiddleOfAJob) {
  // The first sizes are done at once, the last ones would take minutes.
  Process job(weft_command({"run", "-n", "3", "--", WEFT_COMMAND, "bench", "all_reduce", "--max",
                            "64MiB", "--iters", "200"}));
  ASSERT_TRUE(job.wait_for_output("(GB/s)")) << job.err();
  job.send_signal(SIGKILL);
  EXPECT_EQ(job.wait().signal, SIGKILL);
  EXPECT_THAT(job.wait_for_relatives(), IsEmpty());
}

}  // namespace
}  // namespace weft::test
