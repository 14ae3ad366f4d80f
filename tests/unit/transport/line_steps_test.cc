// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Steps of lines and the messages that they travel in, each end by itself.
#include "core/transport/line_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"

namespace weft {
namespace {

constexpr std::uint32_t kSlotsOfLines = 4;
constexpr std::uint32_t kPayloadOfSlot = 64;

// As kernels fill slots and look into them.
struct Slots {
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(
      std::size_t{kSlotsOfLines} * LineSteps::slot_bytes(kPayloadOfSlot) / sizeof(std::uint64_t));
  LineSteps steps{reinterpret_cast<std::byte*>(memory.data()), kSlotsOfLines,
                  LineSteps::slot_bytes(kPayloadOfSlot)};

  device::Line& line(std::uint64_t step, std::uint32_t number) {
    return reinterpret_cast<device::Line*>(steps.memory() +
                                           step % kSlotsOfLines * steps.bytes_of_slot())[number];
  }
  void store(std::uint64_t step, std::uint32_t number, std::uint64_t payload) {
    line(step, number) = device::flagged_line(payload, step_flag(step));
  }
  std::optional<std::uint64_t> load(std::uint64_t step, std::uint32_t number) {
    const device::Line found = line(step, number);
    if (!device::has_flag(found, step_flag(step))) return {};
    return device::payload_of(found);
  }
};

struct Payload {
  std::uint64_t words[kPayloadOfSlot / sizeof(std::uint64_t)]{};
  std::byte* bytes() { return reinterpret_cast<std::byte*>(words); }
};

TEST(LineSteps, HaveRoomForWhatWasAskedFor) {
  const Slots slots;
  EXPECT_EQ(slots.steps.room(), kPayloadOfSlot);
  EXPECT_EQ(LineSteps::slot_bytes(1), LineSteps::slot_bytes(8));
}

TEST(LineSteps, CollectAStepOnceAllOfItHasCome) {
  Slots slots;
  for (std::uint64_t step = 0; step < 2 * kSlotsOfLines; ++step) {
    Payload payload;
    EXPECT_FALSE(slots.steps.has_begun(step));
    slots.store(step, 3, 1000 * step + 3);
    slots.store(step, 1, 13);
    EXPECT_FALSE(slots.steps.has_begun(step));
    EXPECT_FALSE(slots.steps.collect(step, payload.bytes()));
    slots.store(step, 0, 70 + step);
    EXPECT_TRUE(slots.steps.has_begun(step));
    EXPECT_FALSE(slots.steps.collect(step, payload.bytes()));
    slots.store(step, 2, 1000 * step + 2);
    for (int again = 0; again < 2; ++again) {  // the net may have had no room for it
      const auto header = slots.steps.collect(step, payload.bytes());
      ASSERT_TRUE(header);
      EXPECT_EQ(header->tag, 70 + step);
      EXPECT_EQ(header->bytes, 13U);
    }
    EXPECT_EQ(payload.words[0], 1000 * step + 2);
    EXPECT_EQ(payload.words[1], 1000 * step + 3);
    EXPECT_EQ(payload.words[2], 0U) << "nothing beyond";
  }
}

TEST(LineSteps, TellOfMoreThanASlotHoldsAndTakeNothing) {
  Slots slots;
  Payload payload;
  slots.store(0, 0, 7);
  slots.store(0, 1, kPayloadOfSlot + 1);
  for (std::uint32_t line = 2; line < slots.steps.bytes_of_slot() / sizeof(device::Line); ++line)
    slots.store(0, line, 5);
  const auto header = slots.steps.collect(0, payload.bytes());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->bytes, kPayloadOfSlot + 1);
  EXPECT_EQ(payload.words[0], 0U);
}

TEST(LineSteps, DeliverWhatAMessageSaysAndNoMoreThanASlotHolds) {
  for (const std::uint64_t bytes : {0U, 1U, 8U, 13U, kPayloadOfSlot, kPayloadOfSlot + 8}) {
    SCOPED_TRACE(bytes);
    Slots slots;
    std::uint64_t payload[kPayloadOfSlot / sizeof(std::uint64_t) + 1];
    std::iota(payload, payload + std::size(payload), 100);
    slots.steps.deliver(1, {.tag = 9, .bytes = bytes}, reinterpret_cast<std::byte*>(payload));
    EXPECT_EQ(slots.load(1, 0), 9U);
    EXPECT_EQ(slots.load(1, 1), bytes);
    const std::uint64_t lines = (std::min<std::uint64_t>(bytes, kPayloadOfSlot) + 7) / 8;
    for (std::uint32_t line = 0; line < kPayloadOfSlot / 8; ++line) {
      if (line < lines) {
        EXPECT_EQ(slots.load(1, 2 + line), 100U + line);
      } else {
        EXPECT_EQ(slots.load(1, 2 + line), std::nullopt);
      }
    }
    EXPECT_EQ(slots.line(2, 0).low, 0U) << "the next slot is as it was";
    EXPECT_EQ(slots.line(0, slots.steps.bytes_of_slot() / 16 - 1).low, 0U)
        << "so is the one before";
  }
}

// What was written long ago would be taken for new when flags begin again, whichever way its step
// goes: at two places of each round every slot is filled to its end.
TEST(LineSteps, FillSlotsBeforeFlagsBeginAgain) {
  constexpr std::uint32_t kLast = LineSteps::slot_bytes(kPayloadOfSlot) / 16 - 1;
  constexpr std::uint64_t kHalfRound = std::uint64_t{1} << 31;
  for (const std::uint64_t place : {kHalfRound, 2 * kHalfRound}) {
    for (const bool by_lines : {true, false}) {
      Slots slots;
      std::uint32_t filled = 0;
      for (std::uint64_t step = place - 2 * kSlotsOfLines; step < place + 2 * kSlotsOfLines;
           ++step) {
        Payload payload;
        if (by_lines) slots.steps.deliver(step, {.tag = 9, .bytes = 8}, payload.bytes());
        if (!by_lines) slots.steps.pass(step);
        EXPECT_EQ(slots.load(step, 0).has_value(),
                  by_lines || fills_whole_slot(step, kSlotsOfLines));
        EXPECT_EQ(slots.load(step, kLast).has_value(), fills_whole_slot(step, kSlotsOfLines))
            << step;
        if (slots.load(step, kLast)) ++filled;
      }
      EXPECT_EQ(filled, kSlotsOfLines);
    }
  }
}

TEST(LineSteps, KnowWhichStepsGoByLines) {
  Slots slots;
  LineSteps& steps = slots.steps;
  steps.add(1, true);
  steps.add(3, true);
  steps.add(4, false);
  steps.add(9, true);
  for (std::uint64_t step = 0; step < 9; ++step) {
    EXPECT_EQ(steps.goes_by_lines(step), step != 3) << step;
    EXPECT_TRUE(steps.goes_by_lines(8)) << "asked ahead";
    steps.forget_before(step + 1 < 9 ? step + 1 : 8);
  }
  steps.forget_before(9);
  steps.add(10, true);
  steps.add(11, false);
  EXPECT_TRUE(steps.goes_by_lines(9));
  EXPECT_FALSE(steps.goes_by_lines(10));
}

}  // namespace
}  // namespace weft
