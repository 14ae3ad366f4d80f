// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How messages between two ranks are cut over channels, and what follows what on each of them.
#include "core/comm/pair_calls.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr PairSpread kSpread{.channels = 16, .least_bytes = 32768};

TEST(PairCalls, SmallMessagesGoOverOneChannel) {
  for (const std::uint64_t bytes : {1U, 127U, 128U, 4096U, 32768U, 65535U}) {
    const PairCut cut = cut_message(bytes, kSpread);
    EXPECT_EQ(cut.channels, 1U) << bytes;
    EXPECT_GE(cut.part_bytes, bytes);
  }
  EXPECT_EQ(cut_message(std::uint64_t{1} << 40, {}).channels, 1U);
}

TEST(PairCalls, PartsCoverAMessageAndAreAligned) {
  for (std::uint64_t bytes = 1; bytes < (std::uint64_t{1} << 42); bytes = bytes * 3 + 1) {
    const PairCut cut = cut_message(bytes, kSpread);
    EXPECT_LE(cut.channels, 16U);
    EXPECT_EQ(cut.part_bytes % 128, 0U) << bytes;
    EXPECT_GE(cut.channels * cut.part_bytes, bytes) << bytes;
    EXPECT_LT((cut.channels - 1) * cut.part_bytes, bytes) << "the last part of " << bytes;
  }
  EXPECT_EQ(cut_message(2 * 32768, kSpread).channels, 2U);
  EXPECT_EQ(cut_message(2 * 32768, kSpread).part_bytes, 32768U);
  EXPECT_EQ(cut_message(std::uint64_t{64} << 20, kSpread).channels, 16U);
}

// Parts of lines are no longer than a message on one channel of them may be, and as alike as the
// grain lets them.
TEST(PairCalls, MessagesByLinesTakeSeveralChannelsWhereOneIsTooSmallOrAnotherPays) {
  PairSpread spread = kSpread;
  spread.line_bytes = 16384;
  spread.line_channels = 4;
  EXPECT_EQ(cut_message(16384, spread).line_channels, 1U);
  EXPECT_EQ(cut_message(16385, spread).line_channels, 2U);
  spread.least_line_bytes = 4096;
  EXPECT_EQ(cut_message(8191, spread).line_channels, 1U);
  EXPECT_EQ(cut_message(8192, spread).line_channels, 2U);
  EXPECT_EQ(cut_message(16384, spread).line_channels, 4U);
  for (std::uint64_t bytes = 1; bytes <= 65536; bytes += 37) {
    const PairCut cut = cut_message(bytes, spread);
    ASSERT_TRUE(cut.goes_by_lines()) << bytes;
    ASSERT_LE(cut.line_channels, 4U) << bytes;
    ASSERT_LE(cut.part_bytes, spread.line_bytes) << bytes;
    ASSERT_GE(cut.line_channels * cut.part_bytes, bytes);
    ASSERT_LT((cut.line_channels - 1) * cut.part_bytes, bytes) << "the last part of " << bytes;
  }
  EXPECT_FALSE(cut_message(65537, spread).goes_by_lines());
  EXPECT_EQ(cut_message(65537, spread).line_channels, 1U) << "of its header";
  spread.line_channels = 1;
  EXPECT_FALSE(cut_message(16385, spread).goes_by_lines());
}

Task pair_task(bool sends, std::uint32_t partner, std::uint64_t count) {
  return {.operation = sends ? Operation::kSend : Operation::kRecv,
          .type = WEFT_INT8,
          .root = partner,
          .count = count};
}

class Ends : public ::testing::Test {
 protected:
  Ends() {
    ends_.spread = kSpread;
    ends_.towards = [this](std::uint32_t partner, std::uint32_t channel) -> const PairConnections& {
      const auto [known, first] = connections_.try_emplace({partner, channel});
      if (first) {
        known->second.to.view.cursor = &cursors_.emplace_back();
        known->second.from.view.cursor = &cursors_.emplace_back();
      }
      return known->second;
    };
  }

  void make(const std::vector<Call>& calls) {
    std::vector<const Call*> pointers;
    for (const Call& call : calls)
      pointers.push_back(&call);
    transfers_.clear();
    tasks_.clear();
    make_transfers(pointers, 0, numbers_, ends_, transfers_, messages_, tasks_);
  }

  PairEnds ends_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, PairConnections> connections_;
  std::deque<ConnectionCursor> cursors_;
  PairNumbers numbers_;
  std::vector<PairTransfer> transfers_;
  std::vector<PairMessage> messages_;
  std::vector<PairTask> tasks_;
};

TEST_F(Ends, EachPartFollowsTheOneBeforeOnItsChannel) {
  std::vector<std::byte> bytes(3 * 32768);
  Call large{.task = pair_task(true, 1, bytes.size())};
  large.send = bytes.data();
  Call small{.task = pair_task(true, 1, 5)};
  small.send = bytes.data();
  make({large, small, large});
  ASSERT_EQ(transfers_.size(), 7U);
  ASSERT_EQ(tasks_.size(), 7U);
  const std::vector<std::uint32_t> wanted{kNoTransfer, kNoTransfer, kNoTransfer, 0, 3, 1, 2};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(transfers_[i].after, wanted[i]) << i;
    if (wanted[i] == kNoTransfer) continue;
    EXPECT_EQ(transfers_[i].view.cursor, transfers_[wanted[i]].view.cursor) << i;
  }
  EXPECT_EQ(transfers_[1].from, bytes.data() + 32768);
  EXPECT_EQ(transfers_[0].tag, transfers_[2].tag) << "parts of one call";
  EXPECT_NE(transfers_[0].tag, transfers_[4].tag) << "two calls";
  make({small});
  EXPECT_EQ(transfers_[0].after, kNoTransfer) << "what came before is of another launch";
}

TEST_F(Ends, PartsByLinesAreMessagesOfTheirOwn) {
  ends_.spread.line_bytes = 1024;
  ends_.spread.least_line_bytes = 512;
  ends_.spread.line_channels = 4;
  std::vector<std::byte> bytes(2500);
  Call call{.task = pair_task(true, 1, bytes.size())};
  call.send = bytes.data();
  make({call, call});
  ASSERT_EQ(transfers_.size(), 8U);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(transfers_[i].payload, PairPayload::kLines);
    EXPECT_EQ(transfers_[i].from, bytes.data() + begin);
    EXPECT_EQ(transfers_[i].tag, transfers_[0].tag);
    EXPECT_EQ(transfers_[4 + i].after, i) << "that of the call before on its channel";
    begin += transfers_[i].bytes;
  }
  EXPECT_EQ(begin, bytes.size());
  bytes.resize(4097);
  call.task.count = bytes.size();
  call.send = bytes.data();
  make({call});
  ASSERT_EQ(transfers_.size(), 2U);
  EXPECT_EQ(transfers_[0].payload, PairPayload::kHeader);
  EXPECT_EQ(transfers_[0].bytes, 0U);
  EXPECT_EQ(transfers_[1].bytes, bytes.size());
}

// From what is alike at both ends: whether they read each other's memory, bytes, the agreed limit.
TEST_F(Ends, LongMessagesAreLentWhereBothEndsCan) {
  const auto* const plugin = reinterpret_cast<const TransportPlugin*>(this);  // never called
  ends_.spread = {.least_lent_bytes = 1000};
  std::vector<std::byte> bytes(1000);
  std::vector<Call> calls;
  for (const bool sends : {true, false}) {
    for (const std::uint64_t count : {999U, 1000U}) {
      calls.push_back({.task = pair_task(sends, 1, count)});
      if (sends) calls.back().send = bytes.data();
      if (!sends) calls.back().recv = bytes.data();
    }
  }
  make(calls);
  for (const PairTransfer& transfer : transfers_)
    EXPECT_EQ(transfer.payload, PairPayload::kSteps);
  for (auto& [link, pair] : connections_)
    pair.to.peer_memory.plugin = pair.from.peer_memory.plugin = plugin;
  make(calls);
  ASSERT_EQ(transfers_.size(), 4U);
  for (const PairTransfer& transfer : transfers_) {
    EXPECT_EQ(transfer.payload, transfer.bytes < 1000 ? PairPayload::kSteps : PairPayload::kLent);
  }
}

// Their tags hold 16 bits of it.
TEST_F(Ends, CallsKeepTheirWholeNumber) {
  std::byte byte{};
  Call send{.task = pair_task(true, 1, 1)};
  send.send = &byte;
  for (int call = 0; call < 70'000; ++call)
    static_cast<void>(PairNumbers::add(numbers_.direction_of(send.task), send.task, 0));
  Call recv{.task = pair_task(false, 1, 1)};
  recv.recv = &byte;
  make({send, recv});
  EXPECT_EQ(tasks_[0].number, 70'001U);
  EXPECT_EQ(tasks_[1].number, 1U);
}

TEST_F(Ends, DirectionsDoNotFollowEachOther) {
  std::byte byte{};
  Call send{.task = pair_task(true, 1, 1)};
  send.send = &byte;
  Call recv{.task = pair_task(false, 1, 1)};
  recv.recv = &byte;
  make({send, recv, send});
  EXPECT_EQ(transfers_[1].after, kNoTransfer);
  EXPECT_EQ(transfers_[2].after, 0U);
}

}  // namespace
}  // namespace weft
