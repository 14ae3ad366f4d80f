// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What p2p promises beside the suite: a rank that offers its memory to many others does so by one
// pipe, from which they may all take at once.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

class P2pTest : public testing::Test {
 protected:
  void SetUp() override {
    if (plugin_path().find("weft-p2p") == std::string::npos) GTEST_SKIP() << "not p2p";
  }
  std::unique_ptr<Rank> make_rank(std::uint32_t rank) const {
    return std::make_unique<Rank>(entry, Rank::Options{.rank = rank, .ranks = kRanks});
  }

  static constexpr std::uint32_t kRanks = 5;
  const std::vector<Protocol> small_ = {{WEFT_PROTOCOL_SIMPLE, 4, 128}};
  const weft_plugin_descriptor* entry = load_plugin(plugin_path());
};

TEST_F(P2pTest, DescriptorsDoNotGrowWithConnections) {
  constexpr std::uint64_t kConnections = 300;
  const auto left = make_rank(0);
  const auto right = make_rank(1);
  const std::uint64_t before = count_descriptors();
  std::vector<weft_connection*> sends;
  std::vector<weft_connection*> recvs;
  std::uint64_t for_one = 0;
  for (std::uint64_t i = 0; i < kConnections; ++i) {
    sends.push_back(left->prepare(WEFT_DIRECTION_SEND, 1, i, small_));
    recvs.push_back(right->prepare(WEFT_DIRECTION_RECV, 0, i, small_));
    ASSERT_NE(recvs.back(), nullptr) << right->host().last_error().what;
    if (i == 0) for_one = count_descriptors() - before;
    ASSERT_EQ(count_descriptors(), before + for_one);
  }
  EXPECT_LE(for_one, 2U);
  // Every third is given up before it is connected: the others need the pipe still.
  for (std::uint64_t i = 0; i < kConnections; ++i) {
    const Bytes offered = right->blob(recvs[i]);
    if (i % 3 == 0) {
      right->close(recvs[i]);
      EXPECT_EQ(left->connect(sends[i], offered), WEFT_ERROR_PEER);
    } else {
      EXPECT_EQ(left->connect(sends[i], offered), WEFT_OK) << left->host().last_error().what;
      EXPECT_EQ(right->connect(recvs[i], left->blob(sends[i])), WEFT_OK);
    }
  }
  EXPECT_EQ(count_descriptors(), before) << "nothing is offered any more";
  for (std::uint64_t i = 0; i < kConnections; ++i) {
    if (i % 3 != 0) right->close(recvs[i]);
    left->close(sends[i]);
  }
}

TEST_F(P2pTest, ManyRanksTakeFromOneAtOnce) {
  constexpr std::uint64_t kConnections = 200;  // of each
  const auto right = make_rank(0);
  const std::uint64_t before = count_descriptors();
  struct Sender {
    std::unique_ptr<Rank> rank;
    std::vector<weft_connection*> sends;
    std::vector<weft_connection*> recvs;
    std::vector<Bytes> of_sends;
    std::vector<Bytes> of_recvs;
    std::string failure;
  };
  std::vector<Sender> senders(kRanks - 1);
  for (std::uint32_t i = 0; i < senders.size(); ++i) {
    Sender& one = senders[i];
    one.rank = make_rank(i + 1);
    for (std::uint64_t number = 0; number < kConnections; ++number) {
      const std::uint64_t name = i * kConnections + number;
      one.sends.push_back(one.rank->prepare(WEFT_DIRECTION_SEND, 0, name, small_));
      one.recvs.push_back(right->prepare(WEFT_DIRECTION_RECV, i + 1, name, small_));
      one.of_sends.push_back(one.rank->blob(one.sends.back()));
      one.of_recvs.push_back(right->blob(one.recvs.back()));
    }
  }
  {
    std::vector<std::jthread> threads;
    for (Sender& one : senders) {
      threads.emplace_back([&one] {
        for (std::uint64_t i = 0; i < kConnections; ++i) {
          weft_result taken = WEFT_IN_PROGRESS;
          while (taken == WEFT_IN_PROGRESS)
            taken = one.rank->connect(one.sends[i], one.of_recvs[i]);
          if (taken == WEFT_OK) continue;
          one.failure = one.rank->host().last_error().what;
          return;
        }
      });
    }
    // Meanwhile the receiver sees them come, so it closes its pipe as the last are at it.
    for (Sender& one : senders) {
      for (std::uint64_t i = 0; i < kConnections; ++i) {
        while (right->connect(one.recvs[i], one.of_sends[i]) == WEFT_IN_PROGRESS)
          std::this_thread::yield();
      }
    }
  }
  for (const Sender& one : senders) {
    EXPECT_EQ(one.failure, "");
    for (std::uint64_t i = 0; i < kConnections; ++i) {
      // The same memory at both ends, and of no other connection.
      const weft_protocol_view to = one.rank->describe(one.sends[i]);
      EXPECT_EQ(to.buffer, right->describe(one.recvs[i]).buffer);
      EXPECT_EQ((*to.tail)++, 0U);
      right->close(one.recvs[i]);
      one.rank->close(one.sends[i]);
    }
  }
  EXPECT_EQ(count_descriptors(), before);
}

}  // namespace
}  // namespace weft::test
