// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank that the system refuses something: it says what and what to try, the others say that it
// was that rank, and no rank waits longer than it must.

#include <chrono>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/job.h"

namespace weft::test {
namespace {

Environment over(const std::string& transport) {
  // Only a rank that could not even say why it fails is waited for so long. Before one says that it
  // cannot accept who calls, a second passes, on busy processors several.
  Environment environment{{"WEFT_TIMEOUTS_BOOTSTRAP", kSanitized ? "6s" : "5s"}};
  if (transport == "shm") {
    environment["WEFT_TRANSPORTS_ORDER"] = "shm";
  } else {
    environment["WEFT_TRANSPORTS_ORDER"] = "net";
    environment["WEFT_TRANSPORTS_NET"] = transport;
  }
  return environment;
}

/// Rank 1 of three is limited by `limit` before it joins and calls. Answers its line: the last one,
/// if all is well.
std::string join_with(const std::string& transport, const std::string& limit, bool* works) {
  Job job(3, over(transport));
  const std::string id = job[0].ask("id");
  EXPECT_TRUE(id.starts_with("id: ok ")) << id;
  EXPECT_EQ(job[1].ask(limit), limit.substr(0, limit.find(' ')) + ": ok");
  for (int rank = 0; rank < 3; ++rank)
    job[rank].tell("join " + id.substr(7) + " 3 " + std::to_string(rank));
  std::string limited = job[1].answer();
  const bool joined = limited == "join: ok ";
  *works = false;
  // It did not even come; what the others make of that stands in launched_test.cc.
  if (limited.starts_with("context: error")) return limited;
  for (const int rank : {0, 2}) {
    const std::string text = job[rank].answer();
    if (joined) {
      EXPECT_EQ(text, "join: ok ");
      continue;
    }
    EXPECT_TRUE(text.starts_with("join: error ")) << text;
    EXPECT_NE(text.find("rank 1 "), std::string::npos) << text;
    EXPECT_NE(text.find("; try: "), std::string::npos) << text;
  }
  if (joined) {
    // What there was left was enough to join. The first call starts a thread and connects ranks,
    // for which it may not be: then that rank says what to raise, and the others name it.
    const auto answers = job.ask_all("call all_reduce 100000");
    limited = answers[1];
    *works = limited == "call: ok 0 wrong";
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& answer = answers[static_cast<std::size_t>(rank)];
      if (*works) {
        EXPECT_EQ(answer, "call: ok 0 wrong");
      } else if (rank == 1) {
        EXPECT_TRUE(answer.starts_with("call: error WEFT_ERROR_")) << answer;
        EXPECT_NE(answer.find("; try: "), std::string::npos) << answer;
      } else {
        EXPECT_TRUE(answer.starts_with("call: error WEFT_ERROR_PEER rank 1 ")) << answer;
      }
    }
  }
  // That rank too gives back all it took.
  EXPECT_EQ(job.end(), "");
  return limited;
}

TEST(Exhausted, DescriptorsAreAnErrorWithAdviceOrSuffice) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  for (const char* transport : {"shm", "net-socket"}) {
    bool enough = false;
    for (int left = 0; left <= 32 && !enough; ++left) {
      SCOPED_TRACE(std::string(transport) + ", " + std::to_string(left) + " descriptors left");
      const std::string text =
          join_with(transport, "limit nofile " + std::to_string(left), &enough);
      if (enough) break;
      EXPECT_NE(text.find(": error WEFT_ERROR_"), std::string::npos) << text;
      EXPECT_NE(text.find("Too many open files"), std::string::npos) << text;
      EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
      if (HasFailure()) return;
    }
    EXPECT_TRUE(enough) << transport;
  }
}

TEST(Exhausted, MemoryIsAnErrorWithAdviceOrSuffices) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory does not fit into such limits";
  for (const char* transport : {"shm", "net-socket"}) {
    bool enough = false;
    // From far too little upward; a thread's stack alone takes 8 MiB of address space.
    for (std::uint64_t bytes = std::uint64_t{1} << 20; !enough; bytes *= 4) {
      ASSERT_LT(bytes, std::uint64_t{1} << 36) << transport;
      SCOPED_TRACE(std::string(transport) + ", " + std::to_string(bytes) + " bytes left");
      const std::string text =
          join_with(transport, "limit memory " + std::to_string(bytes), &enough);
      if (enough) break;
      EXPECT_NE(text.find(": error WEFT_ERROR_"), std::string::npos) << text;
      EXPECT_NE(text.find("; try: "), std::string::npos) << text;
      EXPECT_NE(text.find("ulimit -v"), std::string::npos) << text;
      if (HasFailure()) return;
    }
  }
}

// The ranks that have a thread already must not wait for those that get none.
TEST(Exhausted, AGroupWithoutThreadsForItsRanksFailsAtOnce) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory does not fit into such limits";
  Job job(1);
  EXPECT_TRUE(job[0].ask("id").starts_with("id: ok "));         // its context is there
  EXPECT_EQ(job[0].ask("limit memory 40000000"), "limit: ok");  // stacks take 8 MiB each
  const std::string text = job[0].ask("threads 32 all_reduce 1 0", kPromise);
  EXPECT_TRUE(
      text.starts_with("threads: error WEFT_ERROR_OUT_OF_RESOURCES cannot start a thread for "
                       "a rank of the group (errno "))
      << text;
  EXPECT_EQ(job.end(), "");
}

TEST(Exhausted, MemfdRefusedIsNamedByAllRanks) {
  bool works = false;
  const std::string text = join_with("shm", "deny-memfd", &works);
  EXPECT_FALSE(works);
  EXPECT_TRUE(text.starts_with("call: error WEFT_ERROR_SYSTEM ")) << text;
  EXPECT_NE(text.find("memfd_create"), std::string::npos) << text;
  EXPECT_NE(text.find("; try: "), std::string::npos) << text;
}

// memfd is no file of /dev/shm: neither a small one nor none matters.
TEST(Exhausted, SharedMemoryMountIsNotNeeded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount";
  for (const char* mount : {"mount -t tmpfs -o size=64m tmpfs /dev/shm", "umount -l /dev/shm"}) {
    SCOPED_TRACE(mount);
    const Command probe{
        .arguments = {"unshare", "-m", "/bin/sh", "-c", mount}, .environment = {}, .input = {}};
    if (const Outcome outcome = run(probe); outcome.exit_status != 0) {
      GTEST_SKIP() << "no mount namespace here: " << outcome.describe();
    }
    Command command{.arguments = {"unshare", "-m", "/bin/sh", "-c",
                                  std::string(mount) +
                                      " && exec \"$0\" run -n 4 -- \"$0\" bench all_reduce --check "
                                      "--min 1MiB --max 1MiB --iters 1 --warmup 0",
                                  WEFT_COMMAND},
                    .environment = {{"WEFT_TRANSPORTS_ORDER", "shm"}},
                    .input = {}};
    Process job(command);
    const Outcome outcome = job.wait();
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_NE(outcome.out.find("# Out of bounds values : 0 OK"), std::string::npos)
        << outcome.describe();
    EXPECT_TRUE(job.wait_for_relatives().empty());
  }
}

}  // namespace
}  // namespace weft::test
