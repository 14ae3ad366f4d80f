// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that die, stop or give up while the others work or rest: every other rank's call ends in
// time, with an error that names the culprit and nobody else, and life goes on without it.

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/job.h"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

enum class Doing { kAllReduce, kBigAllReduce, kBroadcast, kNothing };

std::string command_of(Doing doing) {
  switch (doing) {
    case Doing::kAllReduce:
      return "loop all_reduce 1000";
    case Doing::kBigAllReduce:
      return "loop all_reduce 1000000";
    case Doing::kBroadcast:
      return "loop broadcast 100000";
    case Doing::kNothing:
      return "watch";
  }
  return {};
}

milliseconds until(Clock::time_point end) {
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(end - Clock::now()));
}

/// That nothing but rank `victim` is said to have died or failed in `text`.
void expect_names_alone(const std::string& text, int victim, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (const char* fate : {" died", " failed (", " was aborted"}) {
      const std::string who = "rank " + std::to_string(rank) + " ";
      for (auto at = text.find(who); at != std::string::npos; at = text.find(who, at + 1)) {
        // "rank 2 (pid 4711 on host) died"
        auto after = at + who.size() - 1;
        if (text.compare(after, 5, " (pid") == 0) after = text.find(')', after) + 1;
        if (text.compare(after, std::string(fate).size(), fate) == 0) {
          EXPECT_EQ(rank, victim) << text;
        }
      }
    }
  }
}

/// Kills `victim` at some moment of what all ranks are doing, and sees what comes of it.
void kill_one(Job& job, int victim, Doing doing, milliseconds after) {
  const std::string command = command_of(doing);
  const std::string name = command.substr(0, command.find(' '));
  for (const auto& answer : job.ask_all(command)) {
    ASSERT_EQ(answer, name + ": running");
  }
  std::this_thread::sleep_for(after);
  const std::string who =
      "rank " + std::to_string(victim) + " (pid " + std::to_string(job[victim].pid()) + " on ";
  const int ranks = job.size();
  job.bury(victim);
  const auto end = Clock::now() + kPromise;
  for (int i = 0; i < job.size(); ++i) {
    const int rank = i < victim ? i : i + 1;  // as it was numbered
    SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ", " + command +
                 ", rank " + std::to_string(victim) + " was killed");
    std::string text = job[i].answer(until(end));
    if (doing == Doing::kNothing) {
      EXPECT_EQ(text, "watch: error WEFT_ERROR_PEER");
      text = job[i].ask("call all_reduce 10", until(end));
    }
    EXPECT_NE(text.find(": error WEFT_ERROR_PEER "), std::string::npos) << text;
    EXPECT_NE(text.find(who), std::string::npos) << text;
    expect_names_alone(text, victim, ranks);
    EXPECT_EQ(job[i].ask("async"), "async: ok WEFT_ERROR_PEER");
    // Whoever calls again gets the same answer, at once.
    const std::string again = job[i].ask("call all_reduce 10");
    EXPECT_NE(again.find(who), std::string::npos) << again;
  }
  const auto destroying = Clock::now();
  for (const auto& answer : job.ask_all("destroy"))
    EXPECT_EQ(answer, "destroy: ok ");
  EXPECT_LT(Clock::now() - destroying, kPromise);
}

struct Case {
  const char* transport;
  int ranks;
};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.transport) + std::to_string(info.param.ranks);
  std::erase(name, '-');
  return name;
}

int repetitions() {
  const char* text = std::getenv("BAD_DAYS_REPEAT");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 1 : std::atoi(text);       // NOLINT(cert-err34-c)
}

Environment transport_of(const std::string& name) {
  if (name == "shm") return {{"WEFT_TRANSPORTS_ORDER", "shm"}};
  return {{"WEFT_TRANSPORTS_ORDER", "net"}, {"WEFT_TRANSPORTS_NET", name}};
}

class Killed : public testing::TestWithParam<Case> {};

// One after another is killed until one is left; the survivors make a new communicator each time.
TEST_P(Killed, IsNamedByAllOthersWhoGoOnWithoutIt) {
  for (int round = 0; round < repetitions(); ++round) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&random](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    Job job(GetParam().ranks, transport_of(GetParam().transport));
    // Not one after another for a large job: each round takes its time.
    for (int killed = 0; job.size() > 1 && killed < 4; ++killed) {
      ASSERT_EQ(job.join(), "");
      const auto doing = static_cast<Doing>((killed + below(2) * 2 + round) % 4);
      kill_one(job, below(job.size()), doing, milliseconds(below(30)));
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    ASSERT_EQ(job.join(), "");
    for (const auto& answer : job.ask_all("call all_reduce 100000"))
      EXPECT_EQ(answer, "call: ok 0 wrong");
    EXPECT_EQ(job.end(), "");
    if (HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, Killed,
                         testing::Values(Case{"shm", 2}, Case{"shm", 3}, Case{"shm", 4},
                                         Case{"shm", 8}, Case{"net-socket", 2},
                                         Case{"net-socket", 3}, Case{"net-socket", 4},
                                         Case{"net-socket", 8}),
                         case_name);

}  // namespace
}  // namespace weft::test
