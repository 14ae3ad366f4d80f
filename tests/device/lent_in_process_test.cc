// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of one process that read what is sent to them where it lies: each primitive, each
// operation, and how a buffer is taken back from who reads it.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/host_memory.h"
#include "core/device/primitives_simple.h"
#include "tests/device/each_primitive.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"
#include "tests/support/sanitized.h"

namespace weft::device::testing {
namespace {

using MeanPrimitives = SimplePrimitives<SingleLane, HostMemory, HostReduction>;

constexpr std::uint32_t kStepBytes = 512 << 10;
static_assert(4 * kStepBytes >= kLeastReadBytes);

/// What the slot of a step holds.
LentSlot lent_in(Link& link, std::uint32_t slot) {
  LentSlot lent{};
  std::memcpy(static_cast<void*>(&lent),
              link.sender(0).buffer + static_cast<std::size_t>(slot) * kStepBytes, sizeof(lent));
  return lent;
}

class ReadInProcess : public ::testing::TestWithParam<Does> {
 protected:
  static constexpr std::uint64_t kStep = kStepBytes / sizeof(float);
  static constexpr std::uint64_t kCount = 5 * kStep + 3;  // the last step is copied

  ReadInProcess() {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      arriving_[i] = sample<float>(0, i);
      (does_.holds ? output_ : input_)[i] = sample<float>(1, i);
    }
  }

  void run(std::uint32_t rank, const Does& does, const float* send, float* recv) {
    std::atomic<std::uint32_t> failed{0};
    const Launch launch;
    Waiter waiter;
    SingleLane lane;
    HostMemory memory(best_element_loops(), waiter, launch, failed);
    const HostReduction mean(best_element_loops(), WEFT_FLOAT32, WEFT_AVG, 2);
    const Task task{.operation = Operation::kAllGather, .count = kCount};
    const WorkItem item = world_.items(rank, task, 0, send, recv)[0];
    MeanPrimitives primitives(lane, memory, item, mean, sizeof(float), does.receives, does.sends);
    EXPECT_TRUE(run_primitive(primitives, does.name, {.offset = 0, .count = kCount}, 0));
    EXPECT_EQ(primitives.finish().end, KernelEnd::kDone);
  }
  [[nodiscard]] float due(std::uint64_t i) const {
    const float arrived = sample<float>(0, i);
    const float own = sample<float>(1, i);
    if (!does_.receives) return own;
    if (!does_.reads) return arrived;
    return does_.writes ? (arrived + own) / 2 : arrived + own;
  }

  const Does does_ = GetParam();
  RingWorld world_{{.ranks = 3, .steps = 8, .step_bytes = kStepBytes, .lends = true}};
  std::vector<float> arriving_ = std::vector<float>(kCount);
  std::vector<float> input_ = std::vector<float>(kCount, -1.0F);
  std::vector<float> output_ = std::vector<float>(kCount, -1.0F);
  std::vector<float> passed_on_ = std::vector<float>(kCount, -1.0F);
};

TEST_P(ReadInProcess, DoesWhatItsNameSays) {
  const std::vector<float> output_before = output_;
  std::vector<std::thread> ranks;
  if (does_.receives) ranks.emplace_back([&] { run(0, kSend, arriving_.data(), nullptr); });
  ranks.emplace_back([&] { run(1, does_, input_.data(), output_.data()); });
  if (does_.sends) ranks.emplace_back([&] { run(2, kRecv, nullptr, passed_on_.data()); });
  for (std::thread& rank : ranks)
    rank.join();
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(output_[i], does_.writes ? due(i) : output_before[i]) << i;
    ASSERT_EQ(passed_on_[i], does_.sends ? due(i) : -1.0F) << i;
  }
  if (!does_.sends) return;
  // What is sent lies in a buffer, and is not copied anywhere else.
  const bool lies = !does_.writes && !does_.receives;
  const std::vector<float>& where = does_.holds ? output_ : input_;
  for (std::uint32_t step = 0; step < 5; ++step) {
    EXPECT_EQ(world_.link(1).slot(step).offset, lies ? kLent : 0U);
    if (!lies) continue;
    EXPECT_EQ(lent_in(world_.link(1), step).payload,
              reinterpret_cast<const std::byte*>(where.data() + step * kStep));
    EXPECT_EQ(lent_in(world_.link(1), step).state, kLentTaken);
  }
  EXPECT_EQ(world_.link(1).slot(5).offset, 0U) << "little is copied";
}

INSTANTIATE_TEST_SUITE_P(Each, ReadInProcess, ::testing::ValuesIn(kPrimitives),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LentInProcess, AllGathersAndReduceScatters) {
  for (const std::uint32_t ranks : {2U, 3U}) {
    if (test::kSanitized && ranks == 2) continue;
    RingWorld world({.ranks = ranks, .steps = 4, .step_bytes = kStepBytes, .lends = true});
    RingRunner runner(ranks, RingRunner::Threads::kOnePerRank);
    std::uint64_t sequence = 0;
    for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter}) {
      for (const std::uint64_t count : {50'001U, 600'001U}) {
        for (const bool in_place : {false, true}) {
          const Task task{.operation = operation, .type = WEFT_FLOAT32, .count = count};
          check_operation<float>(world, runner, task,
                                 {.in_place = in_place, .shift = 1, .sequence = sequence++});
        }
      }
    }
  }
}

/// As HostMemory; whoever yields sees the slot returned that is read.
class ReturningMemory : public HostMemory {
 public:
  ReturningMemory(Waiter& waiter, const Launch& launch, const std::atomic<std::uint32_t>& failed,
                  Link& link)
      : HostMemory(best_element_loops(), waiter, launch, failed), link_(link) {}
  void yield() {
    ++yields;
    weft::post(&link_.head(), nullptr, link_.head() + 1);
  }
  std::uint32_t yields = 0;

 private:
  Link& link_;
};

/// A rank that has lent four steps when its call is aborted.
class Withdrawal : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 4 * kStepBytes / sizeof(float);

  /// `begun` steps are being read meanwhile. Answers how often it waited for them.
  std::uint32_t send_and_abort(std::uint32_t begun) {
    std::atomic<std::uint32_t> abort{0};
    Launch launch;
    launch.abort = &abort;
    ReturningMemory memory(waiter_, launch, failed_, world_.link(0));
    const WorkItem item = world_.items(0, task_, 0, input_.data(), nullptr)[0];
    SimplePrimitives<SingleLane, ReturningMemory, HostReduction> primitives(lane_, memory, item,
                                                                            sum_, 4, false, true);
    EXPECT_TRUE(primitives.send({.offset = 0, .count = kCount}));
    for (std::uint32_t step = 0; step < begun; ++step) {
      auto* const lent = reinterpret_cast<LentSlot*>(item.to_next.buffer +
                                                     static_cast<std::size_t>(step) * kStepBytes);
      EXPECT_TRUE(memory.replace_word(&lent->state, kLentOpen, kLentTaken));
    }
    abort.store(1);
    EXPECT_EQ(primitives.finish().end, KernelEnd::kAborted);
    return memory.yields;
  }

  const Task task_{.operation = Operation::kAllGather, .count = kCount};
  RingWorld world_{{.ranks = 2, .steps = 8, .step_bytes = kStepBytes, .lends = true}};
  std::atomic<std::uint32_t> failed_{0};
  Launch launch_;
  Waiter waiter_;
  SingleLane lane_;
  const HostReduction sum_{best_element_loops(), WEFT_FLOAT32, WEFT_SUM, 1};
  std::vector<float> input_ = std::vector<float>(kCount, 1.0F);
};

TEST_F(Withdrawal, WaitsForWhatIsBeingRead) {
  EXPECT_EQ(send_and_abort(1), 1U);
  EXPECT_EQ(world_.link(0).head(), 1U);
  EXPECT_EQ(lent_in(world_.link(0), 0).state, kLentTaken);
  for (std::uint32_t step = 1; step < 4; ++step)
    EXPECT_EQ(lent_in(world_.link(0), step).state, kLentWithdrawn);
}

// A captured call may be launched once more after its communicator was aborted.
TEST_F(Withdrawal, DoesNotWaitForWhatAnEarlierCallTookBack) {
  EXPECT_EQ(send_and_abort(0), 0U);
  EXPECT_EQ(send_and_abort(0), 0U);
  EXPECT_EQ(world_.link(0).tail(), 8U);
  for (std::uint32_t step = 0; step < 8; ++step)
    EXPECT_EQ(lent_in(world_.link(0), step).state, kLentWithdrawn);
}

TEST_F(Withdrawal, WhatWasTakenBackIsNotRead) {
  EXPECT_EQ(send_and_abort(0), 0U);
  world_.link(0).receiver_error() = 7;  // as its sender's host would tell
  std::vector<float> output(kCount, -1.0F);
  HostMemory memory(best_element_loops(), waiter_, launch_, failed_);
  const WorkItem item = world_.items(1, task_, 0, nullptr, output.data())[0];
  MeanPrimitives primitives(lane_, memory, item, sum_, 4, true, false);
  EXPECT_FALSE(primitives.recv({.offset = 0, .count = kCount}));
  const KernelOutcome outcome = primitives.finish();
  EXPECT_EQ(outcome.end, KernelEnd::kPeerError);
  EXPECT_EQ(outcome.peer, 0U);
  EXPECT_EQ(outcome.found, 7U);
  EXPECT_EQ(output, std::vector<float>(kCount, -1.0F));
  EXPECT_EQ(world_.link(0).head(), 0U);
}

}  // namespace
}  // namespace weft::device::testing
