// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that die, stop or give up while the others work or rest: every other rank's call ends in
// time, with an error that names the culprit and nobody else, and life goes on without it.

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

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
  const char* ports = "0";  // of each to a net, and channels as many
};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.transport) + std::to_string(info.param.ranks);
  if (info.param.ports[0] != '0') name += "By" + std::string(info.param.ports) + "Ports";
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
    Environment environment = transport_of(GetParam().transport);
    environment["WEFT_TRANSPORTS_NET_PORTS"] = GetParam().ports;
    environment["WEFT_CHANNELS_MAX"] = GetParam().ports;
    Job job(GetParam().ranks, environment);
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
                                         Case{"net-socket", 8}, Case{"net-socket", 3, "3"}),
                         case_name);

// A forked child that lives on has copies of its parent's connections.
TEST(KilledParent, IsNamedThoughItsChildLives) {
  Job job(3, transport_of("shm"));
  ASSERT_EQ(job.join(), "");
  const std::string forked = job[1].ask("fork");
  ASSERT_TRUE(forked.starts_with("fork: ok ")) << forked;
  const std::string who = "rank 1 (pid " + std::to_string(job[1].pid()) + " on ";
  job[1].kill();  // burying it would take its child along
  for (const int rank : {0, 2}) {
    const std::string text = job[rank].ask("call all_reduce 10", kPromise);
    EXPECT_TRUE(text.starts_with("call: error WEFT_ERROR_PEER ")) << text;
    EXPECT_NE(text.find(who), std::string::npos) << text;
    EXPECT_EQ(job[rank].ask("destroy"), "destroy: ok ");
  }
  EXPECT_EQ(::kill(std::stoi(forked.substr(9)), 0), 0) << "the child was gone already";
  job.bury(1);
  EXPECT_EQ(job.end(), "");
}

// Ranks that are threads cannot be killed one by one: one is aborted by its user.
TEST(Aborted, RankOfThreadsIsNamedByAllOthers) {
  for (const int ranks : {2, 3, 4, 8}) {
    Rank program(Environment{{"WEFT_TRANSPORTS_ORDER", "p2p"}});
    const int victim = ranks - 1;
    program.tell("threads " + std::to_string(ranks) + " all_reduce 10000 " +
                 std::to_string(victim));
    for (int i = 0; i < ranks; ++i) {
      const std::string text = program.answer();
      EXPECT_NE(text.find("thread "), std::string::npos) << text;
      const bool own = text.starts_with("thread " + std::to_string(victim) + ":");
      EXPECT_NE(text.find(own ? ": error WEFT_ERROR_ABORTED " : ": error WEFT_ERROR_PEER "),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("rank " + std::to_string(victim) + " was aborted by its user"),
                std::string::npos)
          << text;
    }
    EXPECT_EQ(program.answer(), "threads: ok ");
    EXPECT_EQ(program.ask("leave"), "leave: ok 0 descriptors 0 threads 0 segments changed");
  }
}

TEST(Aborted, OneEndsTheWaitOfAll) {
  for (const char* transport : {"shm", "net-socket"}) {
    Job job(3, transport_of(transport));
    ASSERT_EQ(job.join(), "");
    // Rank 2 never calls; it gives up instead, as does rank 1 at the same time, of its own wait.
    job[0].tell("loop all_reduce 1000");
    EXPECT_EQ(job[1].ask("abort-soon 50"), "abort-soon: ok");
    job[1].tell("loop all_reduce 1000");
    EXPECT_EQ(job[2].ask("watch"), "watch: running");
    const auto end = Clock::now() + kPromise;
    const std::string waiting = job[0].answer(until(end));
    EXPECT_NE(waiting.find("loop: error WEFT_ERROR_PEER "), std::string::npos) << waiting;
    EXPECT_NE(waiting.find("rank 1 was aborted by its user"), std::string::npos) << waiting;
    const std::string own = job[1].answer(until(end));
    EXPECT_NE(own.find("loop: error WEFT_ERROR_ABORTED rank 1 was aborted by its user"),
              std::string::npos)
        << own;
    EXPECT_EQ(job[2].answer(until(end)), "watch: error WEFT_ERROR_PEER");
    EXPECT_EQ(job.end(), "");
  }
}

// Who is done leaves without harm to those who are not; who fails need not abort to leave.
TEST(Aborted, LeavingIsNoFailure) {
  Job job(3);
  ASSERT_EQ(job.join(), "");
  for (const auto& answer : job.ask_all("call all_reduce 100"))
    EXPECT_EQ(answer, "call: ok 0 wrong");
  EXPECT_EQ(job[1].ask("destroy"), "destroy: ok ");
  EXPECT_EQ(job[0].ask("async"), "async: ok WEFT_OK");
  EXPECT_EQ(job[2].ask("async"), "async: ok WEFT_OK");
  EXPECT_EQ(job.end(), "");
}

/// "rank 1 has sent", "from rank 1: 51 of 52 messages"
bool names_rank(const std::string& text, int rank) {
  const std::string who = "rank " + std::to_string(rank);
  return text.find(who + " ") != std::string::npos || text.find(who + ":") != std::string::npos;
}

// The kernel of a stopped process goes on answering, so no connection breaks: time alone tells.
TEST(Stopped, RankIsReportedAndThenEndsTheCall) {
  for (const char* transport : {"shm", "net-socket"}) {
    SCOPED_TRACE(transport);
    Environment environment = transport_of(transport);
    environment["WEFT_TIMEOUTS_REPORT"] = "1s";
    environment["WEFT_TIMEOUTS_OPERATION"] = kSanitized ? "8s" : "4s";
    Job job(3, environment);
    ASSERT_EQ(job.join(), "");
    for (const auto& answer : job.ask_all("loop all_reduce 1000"))
      ASSERT_EQ(answer, "loop: running");
    job[1].stop();
    const std::string first = job[0].answer();
    const std::string second = job[2].answer();
    bool one_timed_out = false;
    for (const auto& text : {first, second}) {
      one_timed_out = one_timed_out || text.starts_with("loop: error WEFT_ERROR_TIMEOUT ");
      EXPECT_NE(text.find(" has waited "), std::string::npos) << text;
      EXPECT_TRUE(names_rank(text, 1)) << text;
      EXPECT_NE(text.find("timeouts.operation sets this limit"), std::string::npos) << text;
    }
    EXPECT_TRUE(one_timed_out) << first << "\n" << second;
    const std::string log = job[0].process().err() + job[2].process().err();
    EXPECT_NE(log.find("WEFT warn comm: rank "), std::string::npos) << log;
    EXPECT_NE(log.find(" of 3 has waited "), std::string::npos) << log;
    // "1004ms", or "1s" where it is exactly that.
    EXPECT_NE(log.find("s in all_reduce of "), std::string::npos) << log;
    EXPECT_TRUE(names_rank(log, 1)) << log;
    // The others leave though it does not answer.
    EXPECT_EQ(job[0].ask("destroy", kPromise), "destroy: ok ");
    EXPECT_EQ(job[2].ask("destroy", kPromise), "destroy: ok ");
    job[1].go_on();
    const std::string late = job[1].answer();
    EXPECT_NE(late.find("loop: error "), std::string::npos) << late;
    EXPECT_EQ(job.end(), "");
  }
}

/// What is in the error output of `rank` once it holds `text`.
std::string err_with(Rank& rank, const std::string& text) {
  const auto end = Clock::now() + kPatience;
  std::string err = rank.process().err();
  while (err.find(text) == std::string::npos && Clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(10));
    err = rank.process().err();
  }
  return err;
}

// All write to all: two of the ranks that wait are no neighbours of the silent one on any ring.
TEST(Stopped, RankIsNamedByAllWhoseInboxesItOwesData) {
  constexpr int kRanks = 5;
  constexpr int kSilent = 3;
  for (const char* algorithm : {"direct", "two-shot"}) {
    SCOPED_TRACE(algorithm);
    Environment environment = transport_of("shm");
    // By then all others have called.
    environment["WEFT_TIMEOUTS_REPORT"] = kSanitized ? "5s" : "2s";
    environment["WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM"] = algorithm;
    Job job(kRanks, environment);
    ASSERT_EQ(job.join(), "");
    for (const auto& answer : job.ask_all("call all_reduce 100"))
      ASSERT_EQ(answer, "call: ok 0 wrong");
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != kSilent) job[rank].tell("call all_reduce 1000");
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kSilent) continue;
      const std::string report =
          err_with(job[rank], "rank 3 has yet to send what this call waits for");
      EXPECT_EQ(count_of(report, " has waited "), 1) << report;
      EXPECT_EQ(count_of(report, " has yet to send "), 1) << report;
      EXPECT_EQ(count_of(report, " steps"), 0) << report;
      EXPECT_EQ(count_of(report, "last finished: all_reduce of 100 int32 by sum (call 1)"), 1)
          << report;
    }
    job[kSilent].tell("call all_reduce 1000");
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(job[rank].answer(), "call: ok 0 wrong");
    EXPECT_EQ(job.end(), "");
  }
}

struct Pair {
  const char* name;
  const char* most;  // what all ranks but one call
  const char* one;
  std::vector<const char*> parts;
};

class MismatchedCalls : public testing::TestWithParam<Pair> {};

TEST_P(MismatchedCalls, IsAnErrorOnEveryRankThatNamesBothCalls) {
  for (const char* transport : {"shm", "net-socket"}) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(std::string(transport) + " " + std::to_string(ranks));
      Job job(ranks, transport_of(transport));
      ASSERT_EQ(job.join(), "");
      for (int rank = 0; rank < ranks; ++rank)
        job[rank].tell(std::string("loop ") + (rank == 1 ? GetParam().one : GetParam().most));
      for (int rank = 0; rank < ranks; ++rank) {
        std::string text = job[rank].answer();
        // A rank may be done with its part before the others find out: its next call tells.
        if (text == "loop: running" || text.starts_with("loop: wrong")) text = job[rank].answer();
        EXPECT_TRUE(text.starts_with("loop: error WEFT_ERROR_MISMATCH ")) << rank << ": " << text;
        for (const char* part : GetParam().parts)
          EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << rank << ": " << text;
      }
      EXPECT_EQ(job.end(), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mismatch, MismatchedCalls,
    testing::Values(
        Pair{"Operation",
             "all_reduce 1000",
             "broadcast 1000",
             {"all_reduce of 1000 int32 by sum", "broadcast of 1000 int32 from rank 0"}},
        Pair{"Count", "all_reduce 1000", "all_reduce 2000", {"all_reduce of ", "000 int32 by sum"}},
        Pair{"Type",
             "all_reduce 1000",
             "all_reduce 1000 float32",
             {"1000 int32 by sum", "1000 float32 by sum"}},
        Pair{"Reduction",
             "all_reduce 1000",
             "all_reduce 1000 max",
             {"1000 int32 by sum", "1000 int32 by max"}}),
    [](const auto& info) { return std::string(info.param.name); });

// A root receives from nobody: where all that differ are roots, no rank sees another's call, and
// only the limit of time ends it.
TEST(Mismatch, OfRootsEndsByTimeAtTheLatest) {
  for (const char* transport : {"shm", "net-socket"}) {
    Environment environment = transport_of(transport);
    environment["WEFT_TIMEOUTS_OPERATION"] = "1s";
    Job job(3, environment);
    ASSERT_EQ(job.join(), "");
    for (int rank = 0; rank < 3; ++rank)
      job[rank].tell("loop broadcast 1000 root" + std::to_string(rank));
    for (int rank = 0; rank < 3; ++rank) {
      std::string text = job[rank].answer();
      // The first calls fit into the buffers: nothing is wrong with them.
      if (text == "loop: running") text = job[rank].answer();
      EXPECT_TRUE(text.starts_with("loop: error WEFT_ERROR_")) << rank << ": " << text;
    }
    EXPECT_EQ(job.end(), "");
  }
}

}  // namespace
}  // namespace weft::test
