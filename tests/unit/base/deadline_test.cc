// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Deadlines: none, far, near and past. No test waits for time to pass.
#include "core/base/deadline.h"

#include <chrono>
#include <climits>

#include <gtest/gtest.h>

namespace weft {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Deadline, NeverNeverPassesAndPollsWithoutALimit) {
  const auto deadline = Deadline::never();
  EXPECT_TRUE(deadline.is_never());
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.poll_timeout_ms(), -1);
}

TEST(Deadline, PastIsPassedAndPollsWithoutWaiting) {
  const auto deadline = Deadline::after(milliseconds(-5));
  EXPECT_FALSE(deadline.is_never());
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.poll_timeout_ms(), 0);
}

TEST(Deadline, AheadIsNotPassedAndLeavesAtMostItsSpan) {
  const auto deadline = Deadline::after(hours(1));
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.poll_timeout_ms(), 0);
  EXPECT_LE(deadline.poll_timeout_ms(), 3'600'000);
}

TEST(Deadline, PollTimeoutIsRoundedUp) {
  // Rounded down, a wait for the rest of a span would end early and spin through the last
  // millisecond: as long as the deadline has not passed, there must be something to wait for.
  const auto deadline = Deadline::after(milliseconds(3));
  bool zero_before_the_end = false;
  while (true) {
    const int timeout = deadline.poll_timeout_ms();
    // Asked after the timeout: whatever has not passed now had not passed then.
    if (deadline.passed()) break;
    zero_before_the_end = zero_before_the_end || timeout == 0;
  }
  EXPECT_FALSE(zero_before_the_end);
}

TEST(Deadline, FartherThanPollCanWaitIsClamped) {
  EXPECT_EQ(Deadline::after(hours(24 * 365)).poll_timeout_ms(), INT_MAX);
}

}  // namespace
}  // namespace weft
