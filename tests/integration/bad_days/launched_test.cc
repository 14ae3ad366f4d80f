// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Jobs of `weft run` whose ranks never come, come twice, die on the way or are all killed at once.

#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/job.h"

namespace weft::test {
namespace {

/// `weft run` of a shell script in which "$0" is the weft command.
Command run_script(int ranks, const std::string& script, const Environment& environment) {
  return weft({"run", "-n", std::to_string(ranks), "--", "/bin/sh", "-c", script, WEFT_COMMAND},
              environment);
}

TEST(Launched, RankThatNeverComesIsNamed) {
  // The two that come must be there by then.
  const std::string patience = kSanitized ? "6s" : "2s";
  const Ended outcome = run_to_end(run_script(4,
                                              "case $WEFT_RANK in 1|3) exec sleep 60;; esac; "
                                              "exec \"$0\" bench all_reduce --max 8",
                                              {{"WEFT_TIMEOUTS_BOOTSTRAP", patience}}));
  EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
  EXPECT_EQ(
      count_of(outcome.err, "ranks 1, 3 of 4 did not come within " + patience +
                                " (ranks 0, 2 are here); try: see "
                                "whether those ranks were started and can reach the root; raise "
                                "timeouts.bootstrap"),
      2)
      << outcome.describe();
  EXPECT_NE(outcome.err.find("stopping ranks 1, 3, still running 5 s after the first failure"),
            std::string::npos)
      << outcome.describe();
  EXPECT_EQ(outcome.left, "");
}

TEST(Launched, TwoProcessesThatClaimOneRankAreNamedAtOnce) {
  // Rank 0 serves the rendezvous: twice, if that were allowed.
  for (const char* twice : {"0", "1"}) {
    SCOPED_TRACE(twice);
    const Ended outcome =
        run_to_end(run_script(3,
                              std::string("[ $WEFT_RANK = 2 ] && export WEFT_RANK=") + twice +
                                  "; exec \"$0\" bench all_reduce --max 8",
                              {}),
                   kPromise);
    EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
    EXPECT_EQ(
        count_of(outcome.err, std::string("two processes claim rank ") + twice + " of 3: pid "), 3)
        << outcome.describe();
    EXPECT_EQ(
        count_of(outcome.err, "start every rank once, with numbers from 0 and the same count"), 3)
        << outcome.describe();
    EXPECT_EQ(outcome.left, "");
  }
}

// Joins, and dies while the last rank is still missing.
TEST(Launched, RankThatDiesWhileOthersAreAwaitedIsNamedAtOnce) {
  Job job(3, that_tells_arrivals());
  const std::string id = job[0].ask("id").substr(7);
  job[0].tell("join " + id + " 3 0");
  job[1].tell("join " + id + " 3 1");
  const std::string who = "rank 1 (pid " + std::to_string(job[1].pid()) + " on ";
  await_arrivals(job[0], 2);
  job.bury(1);
  const std::string first = job[0].answer(kPromise);
  EXPECT_TRUE(first.starts_with("join: error WEFT_ERROR_")) << first;
  EXPECT_NE(first.find(who), std::string::npos) << first;
  EXPECT_NE(first.find(" died "), std::string::npos) << first;
  // Who comes later hears the same.
  const std::string late = job[1].ask("join " + id + " 3 2", kPromise);
  EXPECT_NE(late.find(who), std::string::npos) << late;
  EXPECT_EQ(job.end(), "");
}

// Two ranks on one host, as mpirun would start them.
std::unique_ptr<Rank> rank_of_mpirun(int rank, const std::string& patience) {
  return std::make_unique<Rank>(Environment{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                            {"OMPI_COMM_WORLD_SIZE", "2"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                            {"PMIX_NAMESPACE", "4711"},
                                            {"WEFT_SECRET", std::string(64, 'e')},
                                            {"WEFT_TIMEOUTS_BOOTSTRAP", patience}});
}

// The environment stands for as many communicators as ranks like, if they like equally many.
TEST(Launched, EnvironmentServesAnyNumberOfCommunicators) {
  const std::unique_ptr<Rank> ranks[] = {rank_of_mpirun(0, "60s"), rank_of_mpirun(1, "60s")};
  const auto both = [&](const std::string& command, const std::string& answer) {
    for (const auto& rank : ranks)
      rank->tell(command);
    for (const auto& rank : ranks)
      EXPECT_EQ(rank->answer(), answer);
  };
  for (int context = 0; context < 2; ++context) {
    for (int communicator = 0; communicator < 3; ++communicator) {
      both("join env", "join: ok ");
      both("call all_reduce 10", "call: ok 0 wrong");
      both("destroy", "destroy: ok ");
    }
    both("leave", "leave: ok 0 descriptors 0 threads 0 segments changed");
  }
}

// One rank asks once more than the other, which is told when it asks in its turn.
TEST(Launched, ARankThatAsksForMoreCommunicatorsWaitsForNobody) {
  const std::unique_ptr<Rank> ranks[] = {rank_of_mpirun(0, "1s"), rank_of_mpirun(1, "1s")};
  const std::string first = ranks[1]->ask("join env");
  EXPECT_NE(first.find("rank 1 of 2 cannot reach the rendezvous at 127.0.0.1:"), std::string::npos)
      << first;
  ranks[0]->tell("join env");
  ranks[1]->tell("join env");
  const std::string served = ranks[0]->answer();
  EXPECT_NE(served.find("rank 1 of 2 did not come within 1s (rank 0 is here)"), std::string::npos)
      << served;
  const std::string second = ranks[1]->answer();
  EXPECT_NE(second.find("error WEFT_ERROR_TIMEOUT"), std::string::npos) << second;
}

// Once all have met: before, nobody knows which process is to be rank 1.
TEST(Launched, KilledRankEndsTheJobWithItsSignal) {
  const ScratchFolder folder;
  const Ended outcome =
      run_to_end(weft({"run", "-n", "3", "--", "/bin/sh", "-c",
                       ("[ $WEFT_RANK = 1 ] && { WEFT_LOG_TOPICS_TRANSPORT=info \"$0\" bench "
                        "all_reduce --iters 1000000 2>\"$1\" & p=$!; "
                        "until grep -q 'ranks 0 and 1' \"$1\"; do sleep 0.05; done; "
                        "sleep 0.5; kill -9 $p; wait $p; kill -9 $$; }; "
                        "exec \"$0\" bench all_reduce --iters 1000000"),
                       WEFT_COMMAND, folder.path() + "/log"}));
  EXPECT_EQ(count_of(outcome.err, "rank 1 (pid "), 3) << outcome.describe();
  EXPECT_EQ(count_of(outcome.err, "died: its connection was closed"), 2) << outcome.describe();
  EXPECT_EQ(outcome.exit_status, 128 + SIGKILL) << outcome.describe();
  EXPECT_EQ(outcome.left, "");
}

// Nobody gets to clean up: what is left would be left for good.
TEST(Launched, KillingEverythingLeavesNothing) {
  for (const bool launcher_alone : {false, true}) {
    for (const char* order : {"shm", "net"}) {
      SCOPED_TRACE(order);
      Traces traces;
      Process job(bench(4, {"all_reduce", "--min", "1MiB", "--max", "1MiB", "--iters", "1000000"},
                        traces.with_places({{"WEFT_TRANSPORTS_ORDER", order}})));
      ASSERT_TRUE(job.wait_for_output("(GB/s)")) << job.err();
      const auto all = job.relatives();
      EXPECT_EQ(all.size(), 5U);
      for (const pid_t pid : all)
        traces.note(pid);
      if (launcher_alone) {
        job.send_signal(SIGKILL);
      } else {
        for (const pid_t pid : all)
          kill(pid, SIGKILL);
      }
      const Outcome outcome = job.wait(kPromise);
      EXPECT_EQ(outcome.signal, SIGKILL) << outcome.describe();
      EXPECT_TRUE(job.wait_for_relatives(kPromise).empty());
      EXPECT_EQ(traces.left(), "");
    }
  }
}

}  // namespace
}  // namespace weft::test
