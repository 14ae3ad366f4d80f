// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Helpers of the bootstrap tests: ranks as threads of this process, each with a reactor of its own,
// and a count of what a test leaves behind.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/bootstrap/bootstrap.h"

namespace weft::testing {

inline BootstrapOptions quick_options() {
  BootstrapOptions options;
  options.timeout = std::chrono::seconds(20);
  options.host_label = "hostA";
  return options;
}

inline LogOptions quiet() {
  LogOptions options;
  options.level = WEFT_LOG_ERROR;
  return options;
}

struct Rank {
  Logger log{quiet()};
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Bootstrap> bootstrap;
  std::optional<Error> error;  // of the join
};

/// Runs `body` with each rank in a thread of its own and waits for all.
inline void on_all(std::vector<Rank>& ranks, const std::function<void(int, Rank&)>& body) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { body(static_cast<int>(i), ranks[i]); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

inline void join_as(Rank& rank, const UniqueId& id, int number, int nranks,
                    const BootstrapOptions& options) {
  auto reactor = Reactor::create();
  ASSERT_TRUE(reactor) << reactor.error().to_string();
  rank.reactor = std::move(*reactor);
  auto joined = Bootstrap::join(id, number, nranks, options, *rank.reactor, rank.log);
  if (joined) {
    rank.bootstrap = std::move(*joined);
  } else {
    rank.error = joined.error();
  }
}

/// `n` ranks that have joined.
inline std::vector<Rank> joined_ranks(int n, const BootstrapOptions& options = quick_options()) {
  std::vector<Rank> ranks(static_cast<std::size_t>(n));
  auto root = BootstrapRoot::start(options, ranks[0].log);
  EXPECT_TRUE(root) << root.error().to_string();
  if (!root) return ranks;
  on_all(ranks, [&](int i, Rank& rank) { join_as(rank, (*root)->id(), i, n, options); });
  for (const Rank& rank : ranks) {
    EXPECT_TRUE(rank.bootstrap) << (rank.error ? rank.error->to_string() : "no error");
  }
  return ranks;
}

inline std::size_t count_entries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Descriptors and threads of this process.
struct Footprint {
  std::size_t descriptors = count_entries("/proc/self/fd");
  std::size_t threads = count_entries("/proc/self/task");
  bool operator==(const Footprint&) const = default;
};

/// A test that must leave no descriptor and no thread behind.
class BootstrapTest : public ::testing::Test {
 protected:
  BootstrapTest() {
    // A sanitizer's own thread comes with the first thread of the process.
    std::thread([] {}).join();
    before_ = Footprint();
  }
  void TearDown() override {
    // A thread that was joined may stand in /proc a moment longer.
    Footprint after;
    const auto left_behind = [&] {
      return after.descriptors != before_.descriptors || after.threads > before_.threads;
    };
    for (int i = 0; i < 200 && left_behind(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      after = Footprint();
    }
    EXPECT_EQ(after.descriptors, before_.descriptors);
    EXPECT_LE(after.threads, before_.threads);  // one more may have been counted before
  }

 private:
  Footprint before_;
};

}  // namespace weft::testing
