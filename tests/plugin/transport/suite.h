// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What all files of the conformance suite share: the plugin under test, named on the command line,
// and a fixture with two ranks of it in this process.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/plugin/transport/bench_rank.h"
#include "tests/support/sanitized.h"

namespace weft::test {

/// Set by main before any test runs.
const std::string& plugin_path();
const std::string& peer_path();

/// Two ends of one connection.
struct Pair {
  weft_connection* send = nullptr;
  weft_connection* recv = nullptr;
};

/// Puts a limit of the process back when it goes.
class ScopedLimit {
 public:
  explicit ScopedLimit(__rlimit_resource resource) : resource_(resource) {
    ::getrlimit(resource_, &before_);
  }
  ScopedLimit(const ScopedLimit&) = delete;
  ScopedLimit& operator=(const ScopedLimit&) = delete;
  ~ScopedLimit() { ::setrlimit(resource_, &before_); }
  void set(rlim_t soft) const {
    const rlimit limit{soft, before_.rlim_max};
    ::setrlimit(resource_, &limit);
  }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

class TransportTest : public testing::Test {
 protected:
  TransportTest() : entry(load_plugin(plugin_path())), left(make_rank(0)), right(make_rank(1)) {}

  std::unique_ptr<Rank> make_rank(std::uint32_t rank) const {
    return std::make_unique<Rank>(entry, Rank::Options{.rank = rank});
  }

  /// Both ends of a connection from `left` to `right`, not connected.
  Pair prepare(std::uint64_t number, const std::vector<Protocol>& protocols = {Protocol{}}) {
    Pair pair;
    pair.send = left->prepare(WEFT_DIRECTION_SEND, 1, number, protocols);
    pair.recv = right->prepare(WEFT_DIRECTION_RECV, 0, number, protocols);
    EXPECT_NE(pair.send, nullptr) << left->host().last_error().what;
    EXPECT_NE(pair.recv, nullptr) << right->host().last_error().what;
    return pair;
  }

  /// Calls both ends in turn until both are done; the number of rounds is bounded, not the time.
  void connect(const Pair& pair) {
    const Bytes from_send = left->blob(pair.send);
    const Bytes from_recv = right->blob(pair.recv);
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    for (int round = 0; round < 100 && (sender != WEFT_OK || receiver != WEFT_OK); ++round) {
      if (sender != WEFT_OK) sender = left->connect(pair.send, from_recv);
      if (receiver != WEFT_OK) receiver = right->connect(pair.recv, from_send);
      ASSERT_GE(sender, 0) << left->host().last_error().what;
      ASSERT_GE(receiver, 0) << right->host().last_error().what;
    }
    ASSERT_EQ(sender, WEFT_OK);
    ASSERT_EQ(receiver, WEFT_OK);
  }

  Pair connected(std::uint64_t number, const std::vector<Protocol>& protocols = {Protocol{}}) {
    const Pair pair = prepare(number, protocols);
    connect(pair);
    return pair;
  }

  void close(const Pair& pair) {
    left->close(pair.send);
    right->close(pair.recv);
  }

  const weft_plugin_descriptor* entry;
  std::unique_ptr<Rank> left;
  std::unique_ptr<Rank> right;
};

}  // namespace weft::test
