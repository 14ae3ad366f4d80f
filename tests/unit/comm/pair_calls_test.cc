// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How messages between two ranks are cut over channels, and what follows what on each of them.
#include "core/comm/pair_calls.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/exchange.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

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
      for (ConnectionEnd* const end : {&known->second.to, &known->second.from}) {
        if (!first) continue;
        end->view.cursor = &cursors_.emplace_back();
        end->view.buffer = memory_.data();
      }
      return known->second;
    };
  }

  static std::vector<const Call*> pointers_to(const std::vector<Call>& calls) {
    std::vector<const Call*> pointers;
    for (const Call& call : calls)
      pointers.push_back(&call);
    return pointers;
  }

  void make(const std::vector<Call>& calls) {
    const std::vector<const Call*> pointers = pointers_to(calls);
    transfers_.clear();
    tasks_.clear();
    make_transfers(pointers, 0, numbers_, ends_, transfers_, messages_, tasks_);
  }

  void make_anew(const Call& exchange, std::uint32_t rank, std::uint64_t sequence) {
    transfers_.clear();
    tasks_.clear();
    make_exchange(exchange, rank, kRanks, sequence, 7, ends_, transfers_, messages_, tasks_);
  }
  /// Messages in one part, by lines over several channels, and in steps with a header.
  void go_by_lines_as_well() {
    ends_.spread.line_bytes = 1024;
    ends_.spread.least_line_bytes = 512;
    ends_.spread.line_channels = 4;
  }
  /// As a kernel may leave them.
  static void complete(std::vector<PairTransfer>& transfers) {
    for (PairTransfer& transfer : transfers) {
      transfer.complete = transfer.taken = 1;
      transfer.moved = transfer.bytes;
    }
  }
  /// What was repeated is what was made anew.
  void expect_made(const std::vector<PairTransfer>& repeated, const std::vector<PairTask>& tasks) {
    ASSERT_EQ(repeated.size(), transfers_.size());
    for (std::size_t i = 0; i < repeated.size(); ++i) {
      EXPECT_EQ(repeated[i].from, transfers_[i].from) << i;
      EXPECT_EQ(repeated[i].to, transfers_[i].to) << i;
      EXPECT_EQ(repeated[i].bytes, transfers_[i].bytes) << i;
      EXPECT_EQ(repeated[i].tag, transfers_[i].tag) << i;
      EXPECT_EQ(repeated[i].view.cursor, transfers_[i].view.cursor) << i;
      EXPECT_EQ(repeated[i].payload, transfers_[i].payload) << i;
      EXPECT_EQ(repeated[i].complete, 0U) << i;
      EXPECT_EQ(repeated[i].taken, 0U) << i;
      EXPECT_EQ(repeated[i].moved, 0U) << i;
      EXPECT_EQ(tasks[i].number, tasks_[i].number) << i;
    }
  }

  static constexpr std::uint32_t kRanks = 4;
  PairEnds ends_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, PairConnections> connections_;
  std::deque<ConnectionCursor> cursors_;
  std::array<std::byte, 1> memory_{};
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

// Longer ones by steps of lines of their own, with a header where all begin; then steps of Simple.
TEST_F(Ends, MessagesOfMiddlingLengthGoInStepsOfWideLines) {
  ends_.spread.line_bytes = 1024;
  ends_.spread.most_wide_bytes = 8192;
  ends_.spread.least_wide_part_bytes = 2048;
  ends_.spread.wide_channels = 3;
  const auto payloads_of = [&](std::uint64_t count) {
    std::vector<std::byte> bytes(count);
    Call call{.task = pair_task(true, 1, count)};
    call.send = bytes.data();
    make({call});
    std::vector<PairPayload> payloads;
    std::uint64_t begin = 0;
    for (const PairTransfer& transfer : transfers_) {
      payloads.push_back(transfer.payload);
      if (transfer.payload == PairPayload::kHeader) continue;
      EXPECT_EQ(transfer.from, bytes.data() + begin);
      begin += transfer.bytes;
    }
    EXPECT_EQ(begin, count);
    return payloads;
  };
  using enum PairPayload;
  EXPECT_THAT(payloads_of(1024), ElementsAre(kLines));
  EXPECT_THAT(payloads_of(1025), ElementsAre(kHeader, kWideLines));
  EXPECT_THAT(payloads_of(4096), ElementsAre(kHeader, kWideLines, kWideLines));
  EXPECT_THAT(payloads_of(8192), ElementsAre(kHeader, kWideLines, kWideLines, kWideLines));
  const auto longer = payloads_of(8193);
  EXPECT_EQ(longer.front(), kHeader);
  EXPECT_EQ(longer.back(), kSteps);
  EXPECT_THAT(longer, Not(Contains(kWideLines)));
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

// Wherever the buffers of the second group lie.
TEST_F(Ends, CallsOfTheSameTasksRepeatTheirTransfers) {
  go_by_lines_as_well();
  std::vector<std::byte> buffers[2];
  std::vector<Call> groups[2];
  for (int turn = 0; turn < 2; ++turn) {
    buffers[turn].resize(100'000);
    for (const std::uint64_t count : {100U, 2500U, 90'000U}) {
      for (const bool sends : {true, false}) {
        Call& call = groups[turn].emplace_back();
        call.task = pair_task(sends, static_cast<std::uint32_t>(groups[turn].size()), count);
        if (sends) call.send = buffers[turn].data() + turn;
        if (!sends) call.recv = buffers[turn].data() + count;
      }
    }
  }
  make(groups[0]);
  ASSERT_EQ(transfers_.size(), 2U * (1 + 4 + 3));
  ASSERT_TRUE(can_repeat(transfers_));
  ASSERT_TRUE(are_tasks_of(pointers_to(groups[1]), tasks_));
  std::vector<PairTransfer> repeated = transfers_;
  std::vector<PairTask> tasks = tasks_;
  complete(repeated);
  PairNumbers numbers = numbers_;
  repeat_transfers(pointers_to(groups[1]), 0, numbers, repeated, tasks);
  make(groups[1]);
  expect_made(repeated, tasks);
}

// The same of an exchange, in place, too.
TEST_F(Ends, ExchangesOfTheSameTaskRepeatTheirTransfers) {
  go_by_lines_as_well();
  std::vector<std::byte> buffer(kRanks * 200'000);
  for (const Operation operation :
       {Operation::kAllToAll, Operation::kGather, Operation::kScatter}) {
    for (const std::uint64_t count : {100U, 2500U, 90'000U}) {
      for (const std::uint32_t rank : {0U, 1U, 3U}) {
        SCOPED_TRACE(testing::Message() << operation_name(operation) << count << " at " << rank);
        Call first{.task = {.operation = operation, .type = WEFT_INT8, .count = count}};
        first.task.root = operation == Operation::kAllToAll ? 0 : 1;
        first.send = buffer.data();
        first.recv = buffer.data() + kRanks * count;
        Call second = first;
        second.send = buffer.data() + kRanks * count + 5;
        second.recv = buffer.data() + 11;
        make_anew(first, rank, 70'000);
        ASSERT_TRUE(are_transfers_of(second, rank, transfers_, tasks_));
        std::vector<PairTransfer> repeated = transfers_;
        std::vector<PairTask> tasks = tasks_;
        complete(repeated);
        repeat_exchange(second, rank, kRanks, 70'001, 7, repeated, tasks);
        make_anew(second, rank, 70'001);
        expect_made(repeated, tasks);
      }
    }
  }
}

TEST_F(Ends, OtherExchangesRepeatNothing) {
  std::vector<std::byte> buffer(2 * kRanks * std::size_t{40'000});
  Call call{.task = {.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = 40'000}};
  call.send = buffer.data();
  call.recv = buffer.data() + kRanks * call.task.count;
  const auto differs = [&](auto change) {
    Call other = call;
    change(other);
    return !are_transfers_of(other, 1, transfers_, tasks_);
  };
  EXPECT_TRUE(differs([](Call&) {})) << "there was none";
  make_anew(call, 1, 1);
  EXPECT_FALSE(differs([](Call&) {}));
  EXPECT_TRUE(differs([](Call& other) { --other.task.count; }));
  EXPECT_TRUE(differs([](Call& other) { other.task.type = WEFT_UINT8; }));
  EXPECT_TRUE(differs([](Call& other) { other.task.operation = Operation::kGather; }));
  EXPECT_TRUE(differs([](Call& other) { other.task.options.max_channels = 3; }));
  const auto go_in_place = [](Call& other) { other.send = other.recv; };
  EXPECT_TRUE(differs(go_in_place)) << "a copy within the rank less";
  EXPECT_TRUE(differs([](Call& other) { other.blocks = std::make_shared<BlockTable>(); }));
  go_in_place(call);
  make_anew(call, 1, 1);
  EXPECT_FALSE(differs([](Call&) {}));
  EXPECT_TRUE(differs([&](Call& other) { other.send = buffer.data(); })) << "one more";
  // Where it is to be at the root is in place elsewhere than in the root's other blocks.
  call.task.operation = Operation::kGather;
  call.task.root = 1;
  call.send = buffer.data();
  make_anew(call, 1, 1);
  EXPECT_FALSE(differs([](Call&) {}));
  EXPECT_TRUE(differs([](Call& other) { other.task.root = 2; }));
  EXPECT_FALSE(differs(go_in_place));
  EXPECT_TRUE(differs([](Call& other) {
    other.send = static_cast<const std::byte*>(other.recv) + other.task.count;
  }));
}

TEST_F(Ends, OtherCallsRepeatNothing) {
  std::vector<std::byte> bytes(3 * 32768);
  Call large{.task = pair_task(true, 1, bytes.size())};
  large.send = bytes.data();
  Call small{.task = pair_task(true, 2, 5)};
  small.send = bytes.data();
  Call none{.task = pair_task(true, 3, 0)};
  make({large, small});
  ASSERT_TRUE(can_repeat(transfers_));
  EXPECT_TRUE(are_tasks_of(pointers_to({large, small}), tasks_));
  for (const std::vector<Call>& others : {std::vector<Call>{small, large},
                                          {large},
                                          {small},
                                          {large, small, small},
                                          {large, none},
                                          {large, small, none}}) {
    EXPECT_FALSE(are_tasks_of(pointers_to(others), tasks_)) << others.size();
  }
  make({large, large});
  EXPECT_FALSE(can_repeat(transfers_)) << "the second follows the first on its connections";
  Call own{.task = pair_task(true, 0, 5)};
  own.send = bytes.data();
  make({large, own});
  EXPECT_FALSE(can_repeat(transfers_)) << "a copy within the rank waits for its other half";
}

}  // namespace
}  // namespace weft
