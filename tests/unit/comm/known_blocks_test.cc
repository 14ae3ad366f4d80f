// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/known_blocks.h"

#include <array>
#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

namespace weft {
namespace {

using SizesOfTwo = std::array<std::size_t, 2>;
using SharedBlocks = std::shared_ptr<const BlockTable>;

class KnownBlocksTest : public testing::Test {
 protected:
  SharedBlocks gathered(const SizesOfTwo& counts, const SizesOfTwo& offsets,
                        weft_data_type type = WEFT_INT32) {
    return read({.operation = Operation::kAllGatherV, .type = type},
                {.recv_counts = counts.data(), .recv_offsets = offsets.data()});
  }
  SharedBlocks exchanged(const SizesOfTwo& sent, const SizesOfTwo& received) {
    static constexpr SizesOfTwo kFrom{0, 50};
    return read({.operation = Operation::kAllToAllV, .type = WEFT_INT32},
                {.send_counts = sent.data(),
                 .send_offsets = kFrom.data(),
                 .recv_counts = received.data(),
                 .recv_offsets = kFrom.data()});
  }
  SharedBlocks read(const Task& task, const BlockArrays& arrays) {
    task_ = task;
    const auto table = known_.read(arrays, 0, 2, task_);
    return table ? *table : nullptr;
  }

  KnownBlocks known_;
  Task task_;  // of the last call, as it was read
};

TEST_F(KnownBlocksTest, SharesWhatIsNamedAgain) {
  const SharedBlocks some = gathered({3, 4}, {0, 3});
  const Task first = task_;
  EXPECT_EQ(first.count, 7U);
  const SharedBlocks others = gathered({4, 3}, {0, 4});
  EXPECT_NE(task_, first);  // by the checksum of the counts
  EXPECT_EQ(gathered({3, 4}, {0, 3}), some);
  EXPECT_EQ(task_, first);
  EXPECT_EQ(gathered({4, 3}, {0, 4}), others);
  EXPECT_EQ(some->common,
            (std::vector<Block>{{.offset = 0, .count = 3}, {.offset = 3, .count = 4}}));
}

TEST_F(KnownBlocksTest, LooksAtEverything) {
  const SharedBlocks first = gathered({3, 4}, {0, 3});
  EXPECT_NE(gathered({3, 5}, {0, 3}), first);
  EXPECT_NE(gathered({3, 4}, {0, 9}), first);
  EXPECT_NE(gathered({3, 4}, {0, 3}, WEFT_INT8), first);
  const SharedBlocks exchange = exchanged({1, 2}, {1, 3});
  EXPECT_NE(exchanged({1, 3}, {1, 3}), exchange);
  EXPECT_NE(exchanged({1, 2}, {1, 4}), exchange);
  EXPECT_EQ(exchanged({1, 2}, {1, 3}), exchange);
}

TEST_F(KnownBlocksTest, DoesNotRememberWhatIsRefused) {
  EXPECT_NE(exchanged({1, 2}, {1, 3}), nullptr);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(exchanged({1, 2}, {2, 3}), nullptr);
    EXPECT_EQ(read({.operation = Operation::kAllToAllV, .type = WEFT_INT32}, {}), nullptr);
  }
}

TEST_F(KnownBlocksTest, KeepsTheLatest) {
  std::array<SharedBlocks, KnownBlocks::kMost> tables;
  for (std::size_t i = 0; i < tables.size(); ++i)
    tables[i] = gathered({i, 1}, {0, i});
  // In turn, as a program calls for its layers.
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < tables.size(); ++i)
      EXPECT_EQ(gathered({i, 1}, {0, i}), tables[i]);
  }
  // One more takes the place of the oldest.
  const SharedBlocks more = gathered({100, 1}, {0, 100});
  EXPECT_EQ(gathered({1, 1}, {0, 1}), tables[1]);
  EXPECT_EQ(gathered({100, 1}, {0, 100}), more);
  EXPECT_NE(gathered({0, 1}, {0, 0}), tables[0]);
}

}  // namespace
}  // namespace weft
