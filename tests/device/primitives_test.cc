// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Each primitive alone: what it takes, what it writes, what it posts.
#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/host_memory.h"
#include "core/device/primitives_simple.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

using SumPrimitives = SimplePrimitives<SingleLane, HostMemory, HostReduction>;

/// Rank 1 of three, with two steps' worth of data come in from rank 0.
class Primitives : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 100;  // 400 bytes: a full step of 256 and a part

  Primitives() {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      arriving_[i] = sample<float>(0, i);
      input_[i] = sample<float>(1, i);
    }
    auto feeder = world_.items(0, task_, 0, arriving_.data(), nullptr);
    SumPrimitives primitives(lane_, memory_, feeder[0], sum_, 4, false, true);
    EXPECT_TRUE(primitives.send(kExtent));
    EXPECT_EQ(primitives.finish().end, KernelEnd::kDone);
    items_ = world_.items(1, task_, 0, input_.data(), output_.data());
  }

  SumPrimitives primitives() { return {lane_, memory_, items_[0], sum_, 4, true, true}; }

  void expect_received(bool received) {
    EXPECT_EQ(world_.link(0).head(), received ? 2U : 0U);
    EXPECT_EQ(world_.link(0).receiver_cursor().step, received ? 2U : 0U);
  }
  /// Nothing (null), or these values in the slots towards rank 2.
  void expect_sent(const std::vector<float>* values) {
    Link& link = world_.link(1);
    EXPECT_EQ(link.tail(), values != nullptr ? 2U : 0U);
    EXPECT_EQ(link.sender_cursor().step, values != nullptr ? 2U : 0U);
    if (values == nullptr) return;
    EXPECT_EQ(link.slot(0).size, 256U);
    EXPECT_EQ(link.slot(1).size, kCount * 4 - 256);
    EXPECT_EQ(link.slot(0).tag, items_[0].tag);
    EXPECT_EQ(link.slot(1).tag, items_[0].tag);
    EXPECT_EQ(link.slot(1).offset, 0U);
    std::vector<float> sent(kCount);
    std::memcpy(sent.data(), link.sender(2).buffer, kCount * 4);
    EXPECT_EQ(sent, *values);
  }
  void expect_output(const std::vector<float>* values) {
    EXPECT_EQ(output_, values != nullptr ? *values : std::vector<float>(kCount, -1.0F));
  }
  std::vector<float> reduced() {
    std::vector<float> result(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i)
      result[i] = arriving_[i] + input_[i];
    return result;
  }

  static constexpr Extent kExtent{.offset = 0, .count = kCount};
  const Task task_{.count = kCount};
  RingWorld world_{{.ranks = 3}};
  std::atomic<std::uint32_t> failed_{0};
  Launch launch_;
  Waiter waiter_;
  SingleLane lane_;
  const HostReduction sum_{best_element_loops(), WEFT_FLOAT32, WEFT_SUM, 1};
  HostMemory memory_{best_element_loops(), waiter_, launch_, failed_};
  std::vector<float> arriving_ = std::vector<float>(kCount);
  std::vector<float> input_ = std::vector<float>(kCount);
  std::vector<float> output_ = std::vector<float>(kCount, -1.0F);
  std::vector<WorkItem> items_;
};

TEST_F(Primitives, Send) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_received(false);
  expect_sent(&input_);
  expect_output(nullptr);
}

TEST_F(Primitives, SendFromOutput) {
  std::swap(output_, input_);
  items_ = world_.items(1, task_, 0, input_.data(), output_.data());
  auto primitive = primitives();
  EXPECT_TRUE(primitive.send_from_output(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_received(false);
  for (std::uint64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(output_[i], sample<float>(1, i)) << "the output was written";
  expect_sent(&output_);
}

// What lies there has been multiplied, if at all, before.
TEST_F(Primitives, SendFromOutputMultipliesNothing) {
  items_ = world_.items(1, task_, 0, nullptr, input_.data());
  constexpr float kFactor = 3;
  Factor factor;
  std::memcpy(&factor.bits, &kFactor, sizeof(kFactor));
  const Premultiplier triples(best_element_loops(), WEFT_FLOAT32, factor);
  const HostReduction multiplies(best_element_loops(), WEFT_FLOAT32, kPremulSum, 3, &triples);
  SumPrimitives primitive(lane_, memory_, items_[0], multiplies, 4, false, true);
  EXPECT_TRUE(primitive.send_from_output(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_sent(&input_);
}

TEST_F(Primitives, Recv) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv(kExtent));
  primitive.finish();
  expect_received(true);
  expect_sent(nullptr);
  expect_output(&arriving_);
}

TEST_F(Primitives, CopySend) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.copy_send(kExtent));
  primitive.finish();
  expect_received(false);
  expect_sent(&input_);
  expect_output(&input_);
}

TEST_F(Primitives, RecvCopySend) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_copy_send(kExtent));
  primitive.finish();
  expect_received(true);
  expect_sent(&arriving_);
  expect_output(&arriving_);
}

TEST_F(Primitives, RecvReduceCopy) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_reduce_copy(kExtent));
  primitive.finish();
  const auto sum = reduced();
  expect_received(true);
  expect_sent(nullptr);
  expect_output(&sum);
}

TEST_F(Primitives, RecvReduceSend) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_reduce_send(kExtent));
  primitive.finish();
  const auto sum = reduced();
  expect_received(true);
  expect_sent(&sum);
  expect_output(nullptr);
}

TEST_F(Primitives, RecvReduceCopySend) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_reduce_copy_send(kExtent));
  primitive.finish();
  const auto sum = reduced();
  expect_received(true);
  expect_sent(&sum);
  expect_output(&sum);
}

TEST_F(Primitives, AnEmptyExtentIsPassedOverOnBothEnds) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_reduce_copy_send({.offset = kCount, .count = 0}));
  primitive.finish();
  expect_received(false);
  expect_sent(nullptr);
  expect_output(nullptr);
}

TEST_F(Primitives, AnExtentReadsAndWritesAtItsOffset) {
  auto primitive = primitives();
  // The feeder's steps hold 64 and 36 elements: two extents of just those sizes.
  EXPECT_TRUE(primitive.recv({.offset = 36, .count = 64}));
  EXPECT_TRUE(primitive.recv({.offset = 0, .count = 36}));
  primitive.finish();
  for (std::uint64_t i = 0; i < 64; ++i)
    EXPECT_EQ(output_[36 + i], arriving_[i]);
  for (std::uint64_t i = 0; i < 36; ++i)
    EXPECT_EQ(output_[i], arriving_[64 + i]);
}

/// A rank whose next one is behind slots that are taken within this process. Whoever takes them is
/// called while the kernel waits, and at no other time.
class Lending : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 2 * kLeastLentBytes / sizeof(float);

  Lending() {
    launch_.progress = [](void* self, bool) { return static_cast<Lending*>(self)->take(); };
    launch_.progress_context = this;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      arriving_[i] = sample<float>(0, i);
      input_[i] = sample<float>(1, i);
    }
    auto feeder = world_.items(0, task_, 0, arriving_.data(), nullptr);
    SumPrimitives primitives(lane_, memory_, feeder[0], sum_, 4, false, true);
    EXPECT_TRUE(primitives.send(kExtent));
    EXPECT_EQ(primitives.finish().end, KernelEnd::kDone);
    EXPECT_EQ(takes_, 0U) << "the feeder's slots borrow nothing";
    items_ = world_.items(1, task_, 0, input_.data(), output_.data());
    items_[0].to_next.borrows = true;
  }

  bool take() {
    ++takes_;
    Link& link = world_.link(1);
    if (link.head() == link.tail()) return false;
    post(&link.head(), nullptr, link.tail());
    return true;
  }
  SumPrimitives primitives() { return {lane_, memory_, items_[0], sum_, 4, true, true}; }

  void expect_lent(const std::vector<float>& where) {
    Link& link = world_.link(1);
    for (std::uint32_t step = 0; step < 2; ++step) {
      const std::byte* address = nullptr;
      std::memcpy(static_cast<void*>(&address), link.sender(2).buffer + step * kLeastLentBytes,
                  sizeof(address));
      EXPECT_EQ(link.slot(step).offset, kLent);
      EXPECT_EQ(link.slot(step).size, kLeastLentBytes);
      EXPECT_EQ(address, reinterpret_cast<const std::byte*>(where.data()) + step * kLeastLentBytes);
    }
    EXPECT_EQ(link.tail(), 2U);
    EXPECT_EQ(link.head(), 2U) << "the kernel ended before it had its buffer back";
    EXPECT_GT(takes_, 0U);
  }

  static constexpr Extent kExtent{.offset = 0, .count = kCount};
  const Task task_{.count = kCount};
  RingWorld world_{{.ranks = 3, .step_bytes = kLeastLentBytes}};
  std::atomic<std::uint32_t> failed_{0};
  std::uint32_t takes_ = 0;
  Launch launch_;
  Waiter waiter_;
  SingleLane lane_;
  HostMemory memory_{best_element_loops(), waiter_, launch_, failed_};
  const HostReduction sum_{best_element_loops(), WEFT_FLOAT32, WEFT_SUM, 1};
  std::vector<float> arriving_ = std::vector<float>(kCount);
  std::vector<float> input_ = std::vector<float>(kCount);
  std::vector<float> output_ = std::vector<float>(kCount, -1.0F);
  std::vector<WorkItem> items_;
};

TEST_F(Lending, SendLendsTheInput) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_lent(input_);
  EXPECT_EQ(output_, std::vector<float>(kCount, -1.0F));
}

TEST_F(Lending, SendFromOutputLendsTheOutput) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.send_from_output(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_lent(output_);
  EXPECT_EQ(output_, std::vector<float>(kCount, -1.0F));
}

TEST_F(Lending, CopySendLendsTheOutput) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.copy_send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_lent(output_);
  EXPECT_EQ(output_, input_);
}

TEST_F(Lending, RecvCopySendLendsTheOutput) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_copy_send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_lent(output_);
  EXPECT_EQ(output_, arriving_);
}

TEST_F(Lending, RecvReduceCopySendLendsTheOutput) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_reduce_copy_send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  expect_lent(output_);
  for (std::uint64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(output_[i], arriving_[i] + input_[i]);
}

TEST_F(Lending, RecvReduceSendHasNothingToLend) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.recv_reduce_send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  EXPECT_EQ(world_.link(1).slot(0).offset, 0U);
  EXPECT_EQ(world_.link(1).head(), 0U) << "it waited without need";
}

// What a net has received into the output stays there, whatever the slot holds.
TEST_F(Lending, WhatHasLandedIsNotMoved) {
  items_[0].from_previous.lands = true;
  for (std::uint32_t step = 0; step < 2; ++step)
    world_.link(0).slot(step).offset = kLent;
  const std::vector<float> landed(kCount, 7);
  for (const bool sends : {false, true}) {
    world_.link(0).receiver_cursor() = {};
    output_ = landed;
    auto primitive = primitives();
    EXPECT_TRUE(sends ? primitive.recv_copy_send(kExtent) : primitive.recv(kExtent));
    EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
    EXPECT_EQ(output_, landed);
    EXPECT_EQ(world_.link(0).head(), 2U);
  }
  expect_lent(output_);
}

TEST_F(Lending, LittleIsCopied) {
  auto primitive = primitives();
  EXPECT_TRUE(primitive.send({.offset = 0, .count = kLeastLentBytes / sizeof(float) - 1}));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kDone);
  EXPECT_EQ(world_.link(1).slot(0).offset, 0U);
  EXPECT_EQ(world_.link(1).head(), 0U) << "it waited without need";
}

TEST_F(Lending, AnAbortEndsTheWaitForTheReturn) {
  std::atomic<std::uint32_t> abort{0};
  launch_.abort = &abort;
  launch_.progress = [](void* flag, bool) {
    static_cast<std::atomic<std::uint32_t>*>(flag)->store(1);
    return true;
  };
  launch_.progress_context = &abort;
  auto primitive = primitives();
  EXPECT_TRUE(primitive.send(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kAborted);
}

TEST_F(Primitives, AFailureStopsAtItsStep) {
  world_.link(0).slot(1).tag ^= 1;
  auto primitive = primitives();
  EXPECT_FALSE(primitive.recv(kExtent));
  EXPECT_EQ(primitive.finish().end, KernelEnd::kTagMismatch);
  EXPECT_EQ(world_.link(0).head(), 1U);
  for (std::uint64_t i = 64; i < kCount; ++i)
    EXPECT_EQ(output_[i], -1.0F);
}

}  // namespace
}  // namespace weft::device::testing
