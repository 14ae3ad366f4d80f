// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Teams of lanes that run at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/lane_fibers.h"
#include "tests/device/lane_model.h"

namespace weft::device::testing {

/// Follows from the test's name and from how many came before in it, so a test by itself has the
/// same ones. Another WEFT_LANE_SEED: others.
inline std::uint64_t next_lane_seed() {
  static const ::testing::TestInfo* of = nullptr;
  static std::uint64_t number = 0;
  const ::testing::TestInfo* const now = ::testing::UnitTest::GetInstance()->current_test_info();
  if (of != now) number = 0;
  of = now;
  const char* const other = std::getenv("WEFT_LANE_SEED");
  const std::string name = std::string(now->test_suite_name()) + "." + now->name();
  return std::hash<std::string>{}(other == nullptr ? name : name + other) + number++;
}

class LaneTeams {
 public:
  /// One more, each of whose lanes runs `body(group)`. `planted`: as of LaneTeam.
  template <class Body>
  void add(const std::string& name, std::uint32_t lanes, const Body& body, bool planted = true) {
    LaneTeam& team = *teams_.emplace_back(std::make_unique<LaneTeam>(lanes, planted));
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      fibers_.add(name + " lane " + std::to_string(lane), [&team, lane, body] {
        LaneGroup group(team, lane);
        body(group);
      });
    }
  }
  /// Beside them somebody who raises `abort` as soon as it is due.
  void add_abort(std::atomic<std::uint32_t>& abort, std::function<bool()> due) {
    fibers_.add("who aborts", [&abort, due = std::move(due)] {
      while (!due())
        LaneFibers::look_again({.what = "a reason to abort"});
      abort.store(1);
    });
  }
  /// Once, until all have ended.
  void run() { fibers_.run(); }

 private:
  std::vector<std::unique_ptr<LaneTeam>> teams_;
  LaneFibers fibers_{next_lane_seed()};
};

inline std::string rank_name(std::uint64_t rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace weft::device::testing
