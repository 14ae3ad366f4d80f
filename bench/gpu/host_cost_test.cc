// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// That what is timed are calls, each alone.
#include "bench/gpu/host_cost.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace weft::gpu_bench {

namespace {

/// Goes on when it is told to, and a little whenever it is read.
struct StepClock {
  static std::chrono::steady_clock::time_point now() {
    nanoseconds += kReading;
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(nanoseconds));
  }
  static constexpr std::int64_t kReading = 10;
  static inline std::int64_t nanoseconds = 0;
};

}  // namespace

TEST(HostCost, IsOfEachCallAlone) {
  std::vector<size_t> made;
  const std::vector<double> us = time_each<StepClock>(3, [&](size_t i) {
    made.push_back(i);
    StepClock::nanoseconds += 1000 * static_cast<std::int64_t>(i + 1) - StepClock::kReading;
  });
  EXPECT_EQ(made, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(us, (std::vector<double>{1, 2, 3}));
}

TEST(HostCost, OfNoCallsIsNothing) {
  EXPECT_TRUE(time_each<StepClock>(0, [](size_t) {}).empty());
}

}  // namespace weft::gpu_bench
