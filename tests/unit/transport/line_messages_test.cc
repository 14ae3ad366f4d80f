// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines of inboxes and the messages that they travel in, each end by itself.
#include "core/transport/line_messages.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"

namespace weft {
namespace {

constexpr std::uint32_t kHalf = 1024;
constexpr std::uint32_t kPeriod = 4;

// As kernels store and load them.
struct End {
  std::vector<std::uint64_t> lines =
      std::vector<std::uint64_t>(kDirectHalves * kHalf / sizeof(std::uint64_t));
  std::vector<std::uint64_t> memory =
      std::vector<std::uint64_t>(LineMessages::bytes_for(kHalf) / sizeof(std::uint64_t));
  LineMessages messages{
      {.begin = reinterpret_cast<std::byte*>(lines.data()), .half_bytes = kHalf, .period = kPeriod},
      reinterpret_cast<std::byte*>(memory.data())};

  device::Line& line(std::uint64_t call, std::uint32_t number) {
    auto* const half = messages.halves().begin + call % kDirectHalves * kHalf;
    return reinterpret_cast<device::Line*>(half)[number];
  }
  void store(std::uint64_t call, std::uint32_t number, std::uint64_t payload) {
    line(call, number) =
        device::flagged_line(payload, static_cast<std::uint32_t>(call % kPeriod) + 1);
  }
  std::optional<std::uint64_t> load(std::uint64_t call, std::uint32_t number) {
    const device::Line found = line(call, number);
    if (!device::has_flag(found, static_cast<std::uint32_t>(call % kPeriod) + 1)) return {};
    return device::payload_of(found);
  }
};

std::uint64_t word(const LineMessages& messages, std::uint64_t call, std::size_t number) {
  std::uint64_t found = 0;
  std::memcpy(&found, messages.place_of(call) + number * sizeof(found), sizeof(found));
  return found;
}

TEST(LineMessages, CollectWhatHasComeOnceItHas) {
  End end;
  ASSERT_TRUE(end.messages.add({.tag = 7, .message = {.headers = 2, .payload_lines = 3}}));
  EXPECT_EQ(end.messages.payload_bytes(0), 24U);
  EXPECT_FALSE(end.messages.collect(0));
  for (const std::uint32_t line : {4U, 0U, 2U, 1U}) {
    end.store(0, line, 0x1122334455667788U + line);
    EXPECT_FALSE(end.messages.collect(0)) << line;
  }
  end.store(0, 3, UINT64_MAX);
  EXPECT_EQ(end.messages.collect(0), 0x1122334455667788U + 1) << "of a header";
  EXPECT_EQ(end.messages.collect(0), 0x1122334455667788U + 1) << "where the net had no room";
  EXPECT_EQ(word(end.messages, 0, 0), 0x1122334455667788U + 2);
  EXPECT_EQ(word(end.messages, 0, 1), UINT64_MAX);
  EXPECT_EQ(word(end.messages, 0, 2), 0x1122334455667788U + 4);
}

// Lines are taken several at once where they have come, and one by one where one has not.
TEST(LineMessages, CollectAnyNumberOfLinesWhicheverComesLast) {
  for (std::uint32_t lines = 1; lines <= 19; ++lines) {
    for (std::uint32_t late = 0; late <= lines; ++late) {
      End end;
      ASSERT_TRUE(end.messages.add({.tag = 7, .message = {.headers = 1, .payload_lines = lines}}));
      const auto payload = [](std::uint32_t line) { return 0x0102030405060708U * (line + 1); };
      for (std::uint32_t line = 0; line <= lines; ++line) {
        if (line != late) end.store(0, line, payload(line));
      }
      EXPECT_FALSE(end.messages.collect(0)) << lines << " " << late;
      end.store(0, late, payload(late));
      EXPECT_EQ(end.messages.collect(0), payload(0)) << lines << " " << late;
      for (std::uint32_t line = 1; line <= lines; ++line)
        ASSERT_EQ(word(end.messages, 0, line - 1), payload(line)) << lines << " " << late;
    }
  }
}

TEST(LineMessages, DeliverAnyNumberOfLines) {
  for (std::uint32_t lines = 0; lines <= 19; ++lines) {
    End end;
    ASSERT_TRUE(end.messages.add({.tag = 7, .message = {.headers = 2, .payload_lines = lines}}));
    for (std::uint32_t line = 0; line < lines; ++line) {
      const std::uint64_t payload = 0x0102030405060708U * (line + 1);
      std::memcpy(end.messages.place_of(0) + line * sizeof(payload), &payload, sizeof(payload));
    }
    ASSERT_TRUE(end.messages.deliver(0, 7, lines * sizeof(std::uint64_t)));
    for (std::uint32_t line = 0; line < lines; ++line)
      ASSERT_EQ(end.load(0, line + 2), 0x0102030405060708U * (line + 1)) << lines;
    EXPECT_EQ(end.load(0, lines + 2), std::nullopt);
  }
}

TEST(LineMessages, WaitForBothWordsOfALine) {
  End end;
  ASSERT_TRUE(end.messages.add({.tag = 7, .message = {.headers = 1, .payload_lines = 1}}));
  end.store(0, 0, 7);
  const device::Line full = device::flagged_line(0x0102030405060708U, 1);
  end.line(0, 1).low = full.low;
  EXPECT_FALSE(end.messages.collect(0));
  end.line(0, 1) = {.low = 0, .high = full.high};
  EXPECT_FALSE(end.messages.collect(0));
  end.line(0, 1) = full;
  EXPECT_TRUE(end.messages.collect(0));
}

TEST(LineMessages, DeliverIntoTheHalvesByTurns) {
  End end;
  for (std::uint64_t call = 0; call < 3; ++call) {
    ASSERT_TRUE(end.messages.add(
        {.number = call, .tag = 70 + call, .message = {.headers = 2, .payload_lines = 2}}));
    const std::uint64_t payload[2] = {call * 1000 + 1, UINT64_MAX - call};
    std::memcpy(end.messages.place_of(call), payload, sizeof(payload));
    ASSERT_TRUE(end.messages.deliver(call, 70 + call, sizeof(payload)));
    EXPECT_EQ(end.load(call, 0), 70 + call);
    EXPECT_EQ(end.load(call, 1), 70 + call);
    EXPECT_EQ(end.load(call, 2), payload[0]);
    EXPECT_EQ(end.load(call, 3), payload[1]);
    end.messages.forget_before(call + 1);
  }
  EXPECT_EQ(end.load(1, 0), 71U) << "the other half is as it was";
}

// The kernel finds by a header that the call is another one; nothing is stored beyond its own
// lines.
TEST(LineMessages, DeliverTheTagOfAnotherCallWhateverItsSize) {
  End end;
  for (const std::uint64_t bytes : {0U, 8U, 512U}) {
    End other;
    ASSERT_TRUE(other.messages.add({.tag = 7, .message = {.headers = 1, .payload_lines = 2}}));
    EXPECT_TRUE(other.messages.deliver(0, 8, bytes));
    EXPECT_EQ(other.load(0, 0), 8U);
    EXPECT_EQ(other.load(0, 3), std::nullopt);
  }
  ASSERT_TRUE(end.messages.add({.tag = 7, .message = {.headers = 1, .payload_lines = 2}}));
  for (const std::uint64_t bytes : {0U, 8U, 15U, 17U, 512U})
    EXPECT_FALSE(end.messages.deliver(0, 7, bytes)) << bytes;
  EXPECT_EQ(end.load(0, 0), std::nullopt);
}

TEST(LineMessages, RefuseCallsThatHaveNoRoom) {
  End end;
  constexpr std::uint32_t kLines = kHalf / 16;
  EXPECT_FALSE(end.messages.add({.tag = 7, .message = {}})) << "no lines";
  EXPECT_FALSE(end.messages.add(
      {.tag = 7, .message = {.headers = 0, .payload_lines = 1, .skipped = kLines}}));
  EXPECT_FALSE(end.messages.add({.tag = 7, .message = {.headers = 1, .payload_lines = kLines}}));
  EXPECT_FALSE(
      end.messages.add({.tag = 7, .message = {.headers = 2, .payload_lines = UINT32_MAX}}));
  EXPECT_TRUE(end.messages.add({.tag = 7, .message = {.headers = 1, .payload_lines = kLines - 1}}));
}

// Stripes have the halves of their inbox in common, and are messages of their own: those of a call
// that has no lines for one are not numbered there.
TEST(LineMessages, TakeTheLinesOfTheirStripeAlone) {
  End first;
  End second;
  LineMessages further(
      {.begin = first.messages.halves().begin, .half_bytes = kHalf, .period = kPeriod},
      reinterpret_cast<std::byte*>(second.memory.data()));
  ASSERT_TRUE(
      first.messages.add({.number = 0, .tag = 7, .message = {.headers = 2, .payload_lines = 1}}));
  ASSERT_TRUE(
      first.messages.add({.number = 1, .tag = 9, .message = {.headers = 2, .payload_lines = 3}}));
  ASSERT_TRUE(further.add(
      {.number = 1, .tag = 9, .message = {.headers = 0, .payload_lines = 2, .skipped = 5}}));
  for (std::uint32_t line = 0; line < 3; ++line)
    first.store(0, line, 100 + line);
  EXPECT_EQ(first.messages.collect(0), 101U);
  first.messages.forget_before(1);
  EXPECT_FALSE(further.collect(0)) << "lines of another call";
  for (std::uint32_t line = 5; line < 7; ++line)
    first.store(1, line, 200 + line);
  EXPECT_EQ(further.collect(0), 9U) << "as this rank has it, whose headers others look for";
  EXPECT_EQ(further.payload_bytes(0), 16U);
  EXPECT_EQ(word(further, 0, 0), 205U);
  EXPECT_EQ(word(further, 0, 1), 206U);
  EXPECT_FALSE(first.messages.collect(1));
  for (std::uint32_t line = 0; line < 5; ++line)
    first.store(1, line, 200 + line);
  EXPECT_EQ(first.messages.collect(1), 201U);
  EXPECT_EQ(word(first.messages, 1, 2), 204U);
}

TEST(LineMessages, DeliverAStripeToItsLinesAlone) {
  End end;
  ASSERT_TRUE(end.messages.add(
      {.number = 3, .tag = 7, .message = {.headers = 0, .payload_lines = 2, .skipped = 4}}));
  const std::uint64_t payload[2] = {11, 12};
  std::memcpy(end.messages.place_of(0), payload, sizeof(payload));
  EXPECT_FALSE(end.messages.deliver(0, 7, 8));
  ASSERT_TRUE(end.messages.deliver(0, 7, sizeof(payload)));
  EXPECT_EQ(end.load(3, 3), std::nullopt);
  EXPECT_EQ(end.load(3, 4), 11U);
  EXPECT_EQ(end.load(3, 5), 12U);
  EXPECT_EQ(end.load(3, 6), std::nullopt);
}

// Together they are all lines of the call, each once, and one carries more than another only where
// lines do not divide.
TEST(InboxMessages, AreDividedIntoStripes) {
  for (const std::uint32_t most : {1U, 2U, 3U, 4U}) {
    for (const std::uint32_t lines :
         {0U, 1U, 511U, 1023U, 1024U, 1025U, 1535U, 1536U, 2047U, 2048U, 2049U, 9001U}) {
      const InboxMessage whole{.headers = 3, .payload_lines = lines};
      std::uint32_t next = whole.headers;
      for (std::uint32_t stripe = 0; stripe < most; ++stripe) {
        const InboxMessage part = stripe_of(whole, stripe, most);
        EXPECT_EQ(part.headers, stripe == 0 ? 3U : 0U);
        if (part.payload_lines == 0) continue;
        EXPECT_EQ(part.first_of_payload(), next) << most << " " << lines << " " << stripe;
        EXPECT_TRUE(stripe == 0 || part.payload_lines > kLeastLinesOfStripe / 2);
        next += part.payload_lines;
      }
      EXPECT_EQ(next, whole.lines()) << most << " " << lines;
    }
  }
  EXPECT_EQ(stripe_of({.headers = 1, .payload_lines = 2048}, 3, 4).payload_lines, 512U);
  EXPECT_EQ(stripe_of({.headers = 1, .payload_lines = 1535}, 1, 4).payload_lines, 0U);
  EXPECT_EQ(stripe_of({.headers = 1, .payload_lines = 1536}, 2, 4).payload_lines, 512U);
  EXPECT_EQ(stripe_of({.headers = 1, .payload_lines = 1536}, 1, 2).payload_lines, 768U);
}

// What lies in an outbox from the period before would be taken for lines of a call.
TEST(LineMessages, WipeOutboxesBeforeFlagsBeginAgain) {
  End end;
  const auto make = [&](std::uint64_t call, std::uint32_t payload_lines) {
    EXPECT_TRUE(end.messages.add({.number = call,
                                  .tag = 70 + call,
                                  .message = {.headers = 1, .payload_lines = payload_lines}}));
    for (std::uint32_t line = 0; line <= payload_lines; ++line)
      end.store(call, line, 70 + call);
    EXPECT_EQ(end.messages.collect(call), 70 + call);
    end.messages.forget_before(call + 1);
  };
  for (std::uint64_t call = 0; call < kPeriod; ++call)
    make(call, call < 2 ? 5 : 1);
  for (std::uint64_t call = kPeriod; call < kPeriod + 2; ++call) {
    ASSERT_TRUE(end.messages.add(
        {.number = call, .tag = 9, .message = {.headers = 1, .payload_lines = 5}}));
    end.store(call, 0, 9);
    end.store(call, 1, 9);
    EXPECT_FALSE(end.messages.collect(call)) << "the other lines are those of a period before";
    for (std::uint32_t line = 2; line <= 5; ++line)
      end.store(call, line, 9);
    EXPECT_TRUE(end.messages.collect(call));
    end.messages.forget_before(call + 1);
  }
}

}  // namespace
}  // namespace weft
