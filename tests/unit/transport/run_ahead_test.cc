// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which calls may keep their messages for a moment: those of a rank that has not waited for some
// calls, soon after it has sent.
#include "core/transport/run_ahead.h"

#include <chrono>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace weft {
namespace {

using std::chrono::microseconds;

constexpr RunAhead::Time kStart{std::chrono::hours(5)};

// As many calls as must come before one may keep, each sending at once.
void run_ahead(RunAhead& rank, RunAhead::Time now) {
  for (std::uint32_t call = 0; call < RunAhead::kCallsAhead; ++call) {
    EXPECT_EQ(rank.call_ended(now), std::nullopt) << call;
    rank.sent(now);
  }
}

TEST(RunAhead, KeepsUntilTheWindowBehindItsLastSendingEnds) {
  RunAhead rank;
  run_ahead(rank, kStart);
  EXPECT_EQ(rank.call_ended(kStart + microseconds(10)), kStart + RunAhead::kWindow);
  EXPECT_EQ(rank.call_ended(kStart + microseconds(49)), kStart + RunAhead::kWindow);
  EXPECT_EQ(rank.call_ended(kStart + RunAhead::kWindow), std::nullopt);
  rank.sent(kStart + RunAhead::kWindow);
  EXPECT_EQ(rank.call_ended(kStart + microseconds(60)), kStart + 2 * RunAhead::kWindow);
}

TEST(RunAhead, IsOverOnceACallWaits) {
  RunAhead rank;
  run_ahead(rank, kStart);
  EXPECT_TRUE(rank.call_ended(kStart).has_value());
  rank.waits();
  run_ahead(rank, kStart);
  EXPECT_TRUE(rank.call_ended(kStart).has_value());
}

TEST(RunAhead, DoesNotKeepWhatComesSeldom) {
  RunAhead rank;
  for (int call = 0; call < 20; ++call) {
    const RunAhead::Time now = kStart + call * 2 * RunAhead::kWindow;
    EXPECT_EQ(rank.call_ended(now), std::nullopt) << call;
    rank.sent(now);
  }
}

}  // namespace
}  // namespace weft
