// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A membership that goes well: every number of ranks, blocks of every size, goodbye.

#include "core/bootstrap/bootstrap.h"

#include <random>

#include "tests/unit/bootstrap/ranks.h"

namespace weft {
namespace {

using testing::BootstrapTest;
using testing::joined_ranks;
using testing::on_all;
using testing::quick_options;
using testing::Rank;

std::vector<std::byte> block_of(int rank, int round, std::size_t size) {
  std::minstd_rand random(static_cast<unsigned>(rank * 131 + round + 1));
  std::vector<std::byte> block(size);
  for (std::byte& byte : block) {
    byte = static_cast<std::byte>(random() & 0xffU);
  }
  return block;
}

class AnyNumber : public BootstrapTest, public ::testing::WithParamInterface<int> {};

TEST_P(AnyNumber, GathersBlocksOfEverySize) {
  const int n = GetParam();
  auto ranks = joined_ranks(n);
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<std::vector<std::size_t>> sizes;
  for (int round = 0; round < 6; ++round) {
    auto& of_round = sizes.emplace_back();
    for (int rank = 0; rank < n; ++rank) {
      of_round.push_back(random() % 3 == 0 ? 0 : random() % 70'000);
    }
  }
  on_all(ranks, [&](int me, Rank& rank) {
    ASSERT_TRUE(rank.bootstrap);
    EXPECT_EQ(rank.bootstrap->rank(), me);
    EXPECT_EQ(rank.bootstrap->nranks(), n);
    for (std::size_t round = 0; round < sizes.size(); ++round) {
      const auto of = [&](int who) {
        return block_of(who, static_cast<int>(round), sizes[round][static_cast<std::size_t>(who)]);
      };
      const auto blocks = rank.bootstrap->all_gather(of(me), "test blocks");
      ASSERT_TRUE(blocks) << blocks.error().to_string();
      ASSERT_EQ(blocks->size(), static_cast<std::size_t>(n));
      for (int who = 0; who < n; ++who) {
        EXPECT_TRUE((*blocks)[static_cast<std::size_t>(who)] == of(who)) << who;
      }
      ASSERT_TRUE(rank.bootstrap->barrier("end of round"));
    }
    for (int who = 0; who < n; ++who) {
      EXPECT_EQ(rank.bootstrap->peer(who).rank, who);
      EXPECT_EQ(rank.bootstrap->peer(who).pid, getpid());
      EXPECT_EQ(rank.bootstrap->peer(who).host, "hostA");
      EXPECT_EQ(rank.bootstrap->peer(who).address.empty(), n == 1);
    }
    rank.bootstrap->leave();
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, AnyNumber, ::testing::Range(1, 9));

TEST_F(BootstrapTest, LargeBlocksOfAllRanksAtOnceDoNotDeadlock) {
  auto ranks = joined_ranks(3);
  on_all(ranks, [&](int me, Rank& rank) {
    ASSERT_TRUE(rank.bootstrap);
    const std::size_t size = 2'000'000 + static_cast<std::size_t>(me);
    const auto blocks = rank.bootstrap->all_gather(block_of(me, 0, size), "large blocks");
    ASSERT_TRUE(blocks) << blocks.error().to_string();
    for (int who = 0; who < 3; ++who) {
      EXPECT_TRUE((*blocks)[static_cast<std::size_t>(who)] ==
                  block_of(who, 0, 2'000'000 + static_cast<std::size_t>(who)));
    }
  });
}

}  // namespace
}  // namespace weft
