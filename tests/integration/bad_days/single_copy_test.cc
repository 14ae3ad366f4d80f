// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that read what others send straight from their memory: when one dies in the midst, when the
// kernel refuses it from some moment on, or from the beginning, or at one end alone.

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/job.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

const Environment kShm{{"WEFT_TRANSPORTS_ORDER", "shm"}};

void expect_peer(const std::string& answer, const std::string& who) {
  EXPECT_NE(answer.find(": error WEFT_ERROR_PEER "), std::string::npos) << answer;
  EXPECT_NE(answer.find(who), std::string::npos) << answer;
}

TEST(SingleCopy, ARankKilledInTheMidstIsNamed) {
  for (const int victim : {0, 1}) {
    for (const int milliseconds : {1, 20, 45}) {
      if (kSanitized && milliseconds != 20) continue;
      SCOPED_TRACE("rank " + std::to_string(victim) + " after " + std::to_string(milliseconds));
      Job job(2, kShm);
      ASSERT_EQ(job.join(), "");
      job[0].tell("loop send 8000000 root1");
      job[1].tell("loop recv 8000000 root0");
      for (const int rank : {0, 1})
        ASSERT_EQ(job[rank].answer(), "loop: running");
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      const std::string who =
          "rank " + std::to_string(victim) + " (pid " + std::to_string(job[victim].pid()) + " on ";
      job.bury(victim);
      expect_peer(job[0].answer(kPromise), who);
      EXPECT_EQ(job[0].ask("destroy"), "destroy: ok ");
    }
  }
}

// Its receiver comes when that is known, and its call is refused.
TEST(SingleCopy, ASenderKilledWhileItWaitsIsNamed) {
  Job job(2, kShm);
  ASSERT_EQ(job.join(), "");
  job[0].tell("call send 1000000 root1");
  job[1].tell("watch");
  ASSERT_EQ(job[1].answer(), "watch: running");
  const std::string who = "rank 0 (pid " + std::to_string(job[0].pid()) + " on ";
  job.bury(0);
  EXPECT_EQ(job[0].answer(kPromise), "watch: error WEFT_ERROR_PEER");
  expect_peer(job[0].ask("call recv 1000000 root0", kPromise), who);
}

// Of what worked while they joined; where no rank may read another one, nothing is tried later.
TEST(SingleCopy, ARefusedReadEndsBothCalls) {
  if (const std::string rule = rule_against_reading_ranks(); !rule.empty()) GTEST_SKIP() << rule;
  Job job(2, kShm);
  ASSERT_EQ(job.join(), "");
  ASSERT_EQ(job[1].ask("deny-reads"), "deny-reads: ok");
  job[0].tell("call send 1000000 root1");
  job[1].tell("call recv 1000000 root0");
  const std::string receiver = job[1].answer(kPromise);
  EXPECT_NE(receiver.find("error WEFT_ERROR_SYSTEM"), std::string::npos) << receiver;
  EXPECT_NE(
      receiver.find("rank 1 receives from rank 0 by single copy: plugin shm: shm: may not read "
                    "the memory of rank 0"),
      std::string::npos)
      << receiver;
  const std::string sender = job[0].answer(kPromise);
  EXPECT_NE(sender.find("error WEFT_ERROR_PEER"), std::string::npos) << sender;
  EXPECT_NE(sender.find("may not read the memory of rank 0"), std::string::npos) << sender;
}

// Each end told the other what it can do while they joined: so both know that slots are used.
TEST(SingleCopy, WhereOneEndMayNotReadBothUseSlots) {
  for (const int refused : {0, 1}) {
    Job job(2, kShm);
    ASSERT_EQ(job[refused].ask("deny-reads"), "deny-reads: ok");
    ASSERT_EQ(job.join(), "");
    for (const int sender : {0, 1}) {
      job[sender].tell("call send 1000000 root" + std::to_string(1 - sender));
      const std::string from = std::to_string(sender);
      EXPECT_EQ(job[1 - sender].ask("call recv 1000000 root" + from), "call: ok 0 wrong");
      EXPECT_EQ(job[sender].answer(), "call: ok 0 wrong");
    }
  }
}

TEST(SingleCopy, SwitchedOffAllGoesThroughSlots) {
  Job job(2, {{"WEFT_TRANSPORTS_ORDER", "shm"}, {"WEFT_TRANSPORTS_SINGLE_COPY", "0"}});
  ASSERT_EQ(job.join(), "");
  ASSERT_EQ(job[1].ask("deny-reads"), "deny-reads: ok");
  job[0].tell("call send 1000000 root1");
  EXPECT_EQ(job[1].ask("call recv 1000000 root0"), "call: ok 0 wrong");
  EXPECT_EQ(job[0].answer(), "call: ok 0 wrong");
}

// The receiver's call is refused then; that a kernel finds the offer withdrawn:
// lent_in_process_test.cc.
TEST(SingleCopy, ASendThatTimesOutIsNotReceived) {
  Job job(2, {{"WEFT_TRANSPORTS_ORDER", "shm"}, {"WEFT_TIMEOUTS_OPERATION", "300ms"}});
  ASSERT_EQ(job.join(), "");
  const std::string sender = job[0].ask("call send 1000000 root1", kPromise);
  EXPECT_NE(sender.find("error WEFT_ERROR_TIMEOUT"), std::string::npos) << sender;
  const std::string receiver = job[1].ask("call recv 1000000 root0", kPromise);
  expect_peer(receiver, "rank 0");
}

}  // namespace
}  // namespace weft::test
