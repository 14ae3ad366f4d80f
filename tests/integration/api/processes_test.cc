// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One process for each rank: joined by the launcher's environment, and by a unique id that one of
// them made and the others were handed.
#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/support/process.h"

namespace weft::test {
namespace {

using Processes = std::vector<std::unique_ptr<Process>>;

void expect_all_right(Processes& ranks, const std::string& transport) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Outcome outcome = ranks[rank]->wait();
    EXPECT_EQ(outcome.exit_status, 0) << "rank " << rank << ": " << outcome.describe();
    EXPECT_NE(outcome.out.find("calls were right"), std::string::npos) << outcome.describe();
    const auto lines = std::ranges::count(outcome.out, '\n');
    std::size_t pairs = 0;
    for (std::size_t at = outcome.out.find(": " + transport + ": "); at != std::string::npos;
         at = outcome.out.find(": " + transport + ": ", at + 1)) {
      ++pairs;
    }
    EXPECT_EQ(pairs, ranks.size() - 1) << lines << " lines: " << outcome.out;
  }
}

/// Transport, ranks, channels.max, buffers.step; by an id, ranks also differ in their ports to
/// nets.
using ProcessWire = std::tuple<std::string, std::uint32_t, std::string, std::string>;

class ProcessRanks : public testing::TestWithParam<ProcessWire> {
 protected:
  static std::vector<std::string> settings() {
    std::vector<std::string> words = only_transport(std::get<0>(GetParam()));
    words.insert(words.end(), {"channels.max", std::get<2>(GetParam()), "buffers.step",
                               std::get<3>(GetParam())});
    return words;
  }
  static Process* start(std::vector<std::string> words,
                        std::map<std::string, std::optional<std::string>> environment) {
    const std::vector<std::string> more = settings();
    words.insert(words.begin(), RANK_PROGRAM);
    words.insert(words.end(), more.begin(), more.end());
    return new Process(
        {.arguments = std::move(words), .environment = std::move(environment), .input = {}});
  }
};

TEST_P(ProcessRanks, JoinByTheIdThatRankZeroMade) {
  const std::uint32_t count = std::get<1>(GetParam());
  Processes ranks;
  const auto ports = [](std::uint32_t rank) {
    return std::map<std::string, std::optional<std::string>>{
        {"WEFT_TRANSPORTS_NET_PORTS", std::to_string(3 - rank % 3)}};
  };
  ranks.emplace_back(start({"make-id", std::to_string(count)}, ports(0)));
  ASSERT_TRUE(ranks[0]->wait_for_output("\n")) << ranks[0]->err();
  const std::string out = ranks[0]->out();
  ASSERT_EQ(out.substr(0, 3), "id ");
  const std::string id = out.substr(3, out.find('\n') - 3);
  for (std::uint32_t rank = 1; rank < count; ++rank) {
    ranks.emplace_back(
        start({"join", id, std::to_string(rank), std::to_string(count)}, ports(rank)));
  }
  expect_all_right(ranks, std::get<0>(GetParam()));
}

TEST_P(ProcessRanks, JoinByTheEnvironmentOfALauncher) {
  const std::uint32_t count = std::get<1>(GetParam());
  std::vector<std::string> words = {WEFT_COMMAND, "run",        "-n", std::to_string(count),
                                    "--",         RANK_PROGRAM, "env"};
  const std::vector<std::string> more = settings();
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run({.arguments = words, .environment = {}, .input = {}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::string line = "[" + std::to_string(rank) + "] rank " + std::to_string(rank) +
                             " of " + std::to_string(count) + ": ";
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.describe();
  }
}

TEST(ProcessRanksInTheBackground, JoinByTheEnvironmentOfALauncher) {
  const Outcome outcome =
      run({.arguments = {WEFT_COMMAND, "run", "-n", "3", "--", RANK_PROGRAM, "background"},
           .environment = {},
           .input = {}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  for (const char* rank : {"0", "1", "2"}) {
    const std::string line = std::string("rank ") + rank + " of 3: ";
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.describe();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Wires, ProcessRanks,
    testing::Values(ProcessWire{"shm", 1, "0", "128KiB"}, ProcessWire{"shm", 2, "0", "128KiB"},
                    ProcessWire{"shm", 4, "3", "4KiB"}, ProcessWire{"net-socket", 2, "0", "128KiB"},
                    ProcessWire{"net-socket", 4, "3", "16KiB"}),
    [](const auto& info) {
      std::string name = std::get<0>(info.param) + std::to_string(std::get<1>(info.param)) +
                         "Ranks" + std::get<2>(info.param) + "Channels" + std::get<3>(info.param);
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace weft::test
