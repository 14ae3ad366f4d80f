// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/kept_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace weft::device::cuda {
namespace {

enum class Kind : std::uint8_t { kOne, kOther };

struct Block {
  std::size_t bytes = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

using Kept = KeptBlocks<Kind, Block>;

TEST(KeptBlocks, GiveTheSmallestThatIsLargeEnoughOnce) {
  Kept kept;
  for (const std::size_t bytes : {100U, 140U, 120U})
    kept.keep(Kind::kOne, bytes, {bytes});
  EXPECT_EQ(kept.take(Kind::kOne, 110), Block{120});
  EXPECT_EQ(kept.take(Kind::kOne, 100), Block{100});
  EXPECT_EQ(kept.take(Kind::kOne, 100), Block{140});
  EXPECT_EQ(kept.take(Kind::kOne, 100), std::nullopt);
}

TEST(KeptBlocks, GiveNoneThatIsTooSmallOrOfAnotherKind) {
  Kept kept;
  kept.keep(Kind::kOne, 100, {100});
  EXPECT_EQ(kept.take(Kind::kOther, 100), std::nullopt);
  EXPECT_EQ(kept.take(Kind::kOne, 101), std::nullopt);
  kept.keep(Kind::kOther, 100, {100});
  EXPECT_EQ(kept.take(Kind::kOne, 60), Block{100});
  EXPECT_EQ(kept.take(Kind::kOne, 60), std::nullopt);
}

TEST(KeptBlocks, GiveNoneOfWhichMoreThanHalfWouldLieIdle) {
  Kept kept;
  kept.keep(Kind::kOne, 1000, {1000});
  EXPECT_EQ(kept.take(Kind::kOne, 499), std::nullopt);
  EXPECT_EQ(kept.take(Kind::kOne, 500), Block{1000});
}

TEST(KeptBlocks, GiveEqualOnesAsOftenAsTheyWereKept) {
  Kept kept;
  for (int i = 0; i < 3; ++i)
    kept.keep(Kind::kOne, 64, {64});
  std::size_t visited = 0;
  kept.for_each([&](const Block& block) { visited += block.bytes; });
  EXPECT_EQ(visited, 192U);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(kept.take(Kind::kOne, 64), Block{64});
  EXPECT_EQ(kept.take(Kind::kOne, 64), std::nullopt);
}

// Communicators of ever other sizes, three at a time: what they hold and what is kept stays within
// a few times of what they ever held at once.
TEST(KeptBlocks, DoNotAddUpOverSizes) {
  std::mt19937_64 random(7);
  Kept kept;
  std::vector<Block> used;
  std::size_t made = 0, held = 0, most_held = 0;
  for (int round = 0; round < 20000; ++round) {
    if (used.size() == 12) {
      std::swap(used[random() % used.size()], used.back());
      held -= used.back().bytes;
      kept.keep(Kind::kOne, used.back().bytes, used.back());
      used.pop_back();
    }
    const std::size_t bytes = 1 + random() % 64;  // of pages
    std::optional<Block> block = kept.take(Kind::kOne, bytes);
    if (!block) {
      made += bytes;
      block = Block{bytes};
    }
    held += block->bytes;
    most_held = std::max(most_held, held);
    used.push_back(*block);
  }
  EXPECT_LT(made, 3 * most_held) << "of at most " << most_held;
}

}  // namespace
}  // namespace weft::device::cuda
