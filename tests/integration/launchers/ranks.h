// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The ranks of a job, as processes that a test starts one by one: each runs the example
// examples/c/all_reduce.c.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace weft::test {

using Environment = decltype(Command::environment);

/// What every rank that was started without a secret of its own shares here.
inline const std::string kSecret(64, '7');

/// What rank `rank` of `ranks` writes when it got the right sums.
inline std::string right_sums(std::size_t rank, std::size_t ranks) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
         ": the sums begin with " + std::to_string(ranks * (ranks + 1) / 2) + "\n";
}

/// Starts the example once for each environment, with the same arguments for all.
inline std::vector<std::unique_ptr<Process>> start_ranks(
    const std::vector<Environment>& environments) {
  std::vector<std::unique_ptr<Process>> ranks;
  ranks.reserve(environments.size());
  for (const Environment& environment : environments) {
    ranks.push_back(std::make_unique<Process>(
        Command{.arguments = {EXAMPLE}, .environment = environment, .input = {}}));
  }
  return ranks;
}

/// Waits for all, and expects each to have got the right sums.
inline void expect_right_sums(const std::vector<std::unique_ptr<Process>>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Outcome outcome = ranks[rank]->wait();
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_EQ(outcome.out, right_sums(rank, ranks.size())) << outcome.describe();
    EXPECT_EQ(outcome.err, "");
  }
}

}  // namespace weft::test
