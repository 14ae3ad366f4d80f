// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the weft command says of its own.

#include <string>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

/// What sanitizers make of a command: some end what asks for more memory than there can be.
enum class Sanitizers : bool { kAllow, kRefuse };

void add_command(Scenarios& all, std::string name, std::string message,
                 std::vector<std::string> words, Environment environment = {},
                 Sanitizers sanitizers = Sanitizers::kAllow) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [words = std::move(words), environment = std::move(environment),
                          sanitizers](std::vector<Said>& said) {
                   if (kSanitized && sanitizers == Sanitizers::kRefuse) {
                     GTEST_SKIP() << "a sanitizer ends a program that asks for too much memory";
                   }
                   const Outcome outcome = run(weft(words, environment));
                   EXPECT_NE(outcome.exit_status, 0) << outcome.describe();
                   said.push_back(printed_by(outcome));
                 }});
}

/// What it prints goes where nothing has room.
void add_redirected(Scenarios& all, std::string name, std::string message,
                    const std::string& words) {
  all.push_back(
      {.name = std::move(name),
       .messages = {std::move(message)},
       .play = [words](std::vector<Said>& said) {
         const Outcome outcome =
             run({.arguments = {"sh", "-c", "exec \"$0\" " + words + " >/dev/full", WEFT_COMMAND},
                  .environment = {},
                  .input = {}});
         EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
         said.push_back(printed_by(outcome));
       }});
}

}  // namespace

void add_commands(Scenarios& all) {
  add_command(all, "RankThatFails",
              "weft run: rank <rank> (pid <pid>) ended with exit status <status>",
              {"run", "-n", "1", "--", "/bin/sh", "-c", "exit 7"});
  add_command(all, "RankThatIsKilled",
              "weft run: rank <rank> (pid <pid>) was ended by signal <number> (<signal>)",
              {"run", "-n", "1", "--", "/bin/sh", "-c", "kill -SEGV $$"});
  add_command(
      all, "RankThatDoesNotEnd",
      "weft run: stopping <ranks>, still running <seconds> s after the first failure",
      {"run", "-n", "2", "--", "/bin/sh", "-c", "[ $WEFT_RANK = 0 ] && exit 1; exec sleep 60"});
  add_command(all, "NoProgram", "weft run: cannot run \"<program>\" (errno <number>, <text>)",
              {"run", "-n", "1", "--", "no-such-program"});
  add_redirected(all, "RanksWithoutSpace",
                 "weft run: cannot write all that the ranks print (errno <number>, <text>)",
                 "run -n 2 -- echo lost");
  add_redirected(all, "NoSpace", "weft: cannot write all that it prints (errno <number>, <text>)",
                 "info");
  add_redirected(all, "NoSpaceForMuch",
                 "weft: cannot write all that it prints (errno <number>, <text>)", "config schema");
  add_command(all, "NoJob", "weft bench: this process is no rank of a job",
              {"bench", "all_reduce"});
  add_command(all, "NoRange", "weft bench: --min <size> is more than --max <size>",
              {"run", "-n", "1", "--", WEFT_COMMAND, "bench", "all_reduce", "--min", "8KiB",
               "--max", "4KiB"});
  add_command(all, "NoMemoryForBuffers", "weft bench: no memory for two buffers of --max <size>",
              {"run", "-n", "1", "--", WEFT_COMMAND, "bench", "all_reduce", "--max", "1048576GiB"},
              {}, Sanitizers::kRefuse);
  add_command(all, "NoFileOfResults", "weft bench: cannot write <file> (errno <number>, <text>)",
              {"run", "-n", "1", "--", WEFT_COMMAND, "bench", "all_reduce", "--max", "8", "--iters",
               "1", "--json", "/nonexistent/results"});
  add_command(all, "NoFileOfCosts",
              "weft bench: cannot make a file beside <file> (errno <number>, <text>)",
              {"run", "-n", "2", "--", WEFT_COMMAND, "bench", "all_reduce", "--max", "8",
               "--calibrate", "/nonexistent/costs.yaml"});
  add_command(all, "NoPlugins", "there are no plugins in <folders>", {"plugin", "list"},
              {{"WEFT_PLUGINS_PATH", "/nonexistent"}});
  add_command(all, "NoMachine", "weft topo: reading the machine of <file>: <why>",
              {"topo", "--import", "/nonexistent/machine.xml"});
  add_command(all, "NoFileOfAMachine",
              "weft topo: writing this machine to <file> failed (errno <number>, <text>)",
              {"topo", "--export", "/nonexistent/machine.xml"});
  add_command(all, "NoKey", "unknown key \"<key>\"; weft config show lists all",
              {"config", "explain", "flux.capacitor"});
}

}  // namespace weft::test
