// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// That the helper which starts programs for the other tests can be trusted.
#include "tests/support/process.h"

#include <algorithm>
#include <cstdlib>
#include <signal.h>
#include <system_error>

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using std::chrono::milliseconds;

TEST(Process, KeepsOutputAndExitStatus) {
  const Outcome outcome = run({.arguments = {"sh", "-c", "cat; echo said; echo wrong >&2; exit 3"},
                               .environment = {},
                               .input = "given\n"});
  EXPECT_EQ(outcome.exit_status, 3);
  EXPECT_EQ(outcome.out, "given\nsaid\n");
  EXPECT_EQ(outcome.err, "wrong\n");
  EXPECT_FALSE(outcome.timed_out);
}

TEST(Process, GivesAnEnvironmentWithoutWeftVariables) {
  setenv("WEFT_LOG_LEVEL", "debug", 1);
  setenv("PROCESS_TEST", "inherited", 1);
  const Outcome outcome =
      run({.arguments = {"sh", "-c", "echo $WEFT_LOG_LEVEL-$WEFT_RANK-$PROCESS_TEST-$HOME"},
           .environment = {{"WEFT_RANK", "1"}, {"HOME", std::nullopt}},
           .input = {}});
  EXPECT_EQ(outcome.out, "-1-inherited-\n") << outcome.describe();
  unsetenv("WEFT_LOG_LEVEL");
  unsetenv("PROCESS_TEST");
}

TEST(Process, TellsTheSignal) {
  const Outcome outcome =
      run({.arguments = {"sh", "-c", "kill -TERM $$"}, .environment = {}, .input = {}});
  EXPECT_EQ(outcome.exit_status, -1);
  EXPECT_EQ(outcome.signal, SIGTERM);
}

TEST(Process, KillsAllThatIsLateAndItsChildren) {
  Process process({.arguments = {"sh", "-c", "setsid sleep 1000 & sleep 1000"},
                   .environment = {},
                   .input = {}});
  ASSERT_EQ(process.wait_until_relatives(3).size(), 3U);
  const Outcome outcome = process.wait(milliseconds(1));
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(outcome.exit_status, -1);
  EXPECT_TRUE(process.relatives().empty());
}

TEST(Process, FindsOrphans) {
  // It tells its number and then stays the program that it is: its output ends before it does.
  const std::string orphan = "setsid sh -c 'echo $$; exec >&-; while :; do :; done'";
  Process process(
      {.arguments = {"sh", "-c", "(" + orphan + " &) | cat"}, .environment = {}, .input = {}});
  const Outcome outcome = process.wait();
  const std::vector<pid_t> left = process.relatives();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(std::to_string(left[0]) + "\n", outcome.out);
  EXPECT_EQ(process.wait_for_relatives(milliseconds(1)).size(), 1U);
}

TEST(Process, WaitsForOutput) {
  Process process(
      {.arguments = {"sh", "-c", "echo ready; sleep 1000"}, .environment = {}, .input = {}});
  EXPECT_TRUE(process.wait_for_output("ready"));
  EXPECT_FALSE(process.wait_for_output("never", milliseconds(1)));
  process.send_signal(SIGKILL);
  EXPECT_FALSE(process.wait_for_output("never"));
  EXPECT_EQ(process.wait().signal, SIGKILL);
}

TEST(Process, RefusesWhatDoesNotExist) {
  EXPECT_THROW(run({.arguments = {"/nowhere/program"}, .environment = {}, .input = {}}),
               std::system_error);
}

TEST(ScratchFolder, GoesAway) {
  std::string path;
  {
    const ScratchFolder folder;
    path = folder.write("file", "text");
    EXPECT_EQ(read_text(path), "text");
  }
  EXPECT_EQ(read_text(path), "");
}

}  // namespace
}  // namespace weft::test
