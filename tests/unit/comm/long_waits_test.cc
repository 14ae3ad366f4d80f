// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a rank takes for one wait of kernels that only tell that they wait.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/exchange.h"
#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::Ranks;
using testing::HasSubstr;

/// Runs nothing, and knows where the latest call's kernel would tell that it waits.
class WaitingDevice : public device::HostDevice {
 public:
  explicit WaitingDevice(bool captures) : captures_(captures) {}

  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    waiting.store(launches.front().waiting);
    return WEFT_OK;
  }
  std::uint64_t capture_number(DeviceStream* /*stream*/) override { return captures_ ? 1 : 0; }
  weft_result query(DeviceStream* /*stream*/) override { return WEFT_OK; }
  weft_result synchronize(DeviceStream* /*stream*/) override { return WEFT_OK; }

  std::atomic<LongWait*> waiting{nullptr};

 private:
  const bool captures_;
};

/// A call of a rank that fails where it takes a wait for longer than `limit`.
class WaitingCall {
 public:
  explicit WaitingCall(bool captured, const char* limit = "500ms")
      : ranks_(2, "p2p", {{"WEFT_TIMEOUTS_OPERATION", limit}},
               std::make_unique<WaitingDevice>(captured)) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([this, rank] { call(rank); });
    for (auto& thread : threads)
      thread.join();
  }

  /// Kernels of both ranks share a word here: whose is told last. It tells `times`, each after the
  /// rank has taken what was told before, and then `pause`.
  std::string tell(int times, LongWait word, std::chrono::milliseconds pause = 0ms) {
    LongWait& told = *device().waiting.load();
    for (; times > 0; --times) {
      std::atomic_ref(told.begun).store(word.begun);
      std::atomic_ref(told.tag).store(word.tag);
      while (std::atomic_ref(told.tag).load() != 0) {
        if (const std::string failure = failure_of_any(); !failure.empty()) return failure;
        std::this_thread::sleep_for(1ms);
      }
      std::this_thread::sleep_for(pause);
    }
    return failure_of_any();
  }

 private:
  WaitingDevice& device() { return dynamic_cast<WaitingDevice&>(ranks_.context().runtime()); }

  void call(std::uint32_t rank) {
    const Call call = ranks_.all_reduce(rank, place_);
    EXPECT_TRUE(start_calls({&call, 1}));
  }
  std::string failure_of_any() {
    for (const auto& communicator : ranks_.communicators) {
      if (const auto failure = communicator->known_failure()) return failure->to_string();
    }
    return "";
  }

  float place_[1000] = {};
  Ranks ranks_;
};

constexpr OperationTag kTag = 77;
constexpr LongWait kGoesOn{.tag = kTag, .begun = 0};
constexpr LongWait kAnother{.tag = kTag, .begun = 1};

TEST(LongWaits, OfACallAreOne) {
  EXPECT_THAT(WaitingCall(false).tell(10, kGoesOn), HasSubstr("has waited"));
  EXPECT_THAT(WaitingCall(false).tell(10, kAnother), HasSubstr("has waited"));
}

// As where each of a graph's replays comes to a rank later than to others.
TEST(LongWaits, OfReplaysAreTheirOwn) {
  WaitingCall call(true);
  EXPECT_EQ(call.tell(6, kAnother), "");
  EXPECT_THAT(call.tell(10, kGoesOn), HasSubstr("has waited"));
}

// Kernels that look at host memory tell less often than the rank looks.
TEST(LongWaits, MayBeToldOfSeldom) {
  EXPECT_THAT(WaitingCall(false).tell(10, kGoesOn, 600ms), HasSubstr("has waited"));
}

// As of two graphs replayed at once, which nothing may be: each has its wait, and neither ends.
TEST(LongWaits, ByTurnsAreNoNewOnes) {
  WaitingCall call(true);
  constexpr LongWait kOther{.tag = kTag + 1, .begun = 0};
  EXPECT_EQ(call.tell(1, kAnother), "");
  std::string failure;
  for (int turn = 0; turn < 8 && failure.empty(); ++turn)
    failure = call.tell(1, turn % 2 == 0 ? kOther : kGoesOn);
  EXPECT_THAT(failure, HasSubstr("has waited"));
}

TEST(LongWaits, OfAnotherCallAreNew) {
  WaitingCall call(false);
  LongWait next = kAnother;
  for (int turn = 0; turn < 6; ++turn, ++next.tag)
    EXPECT_EQ(call.tell(1, next), "");
}

// That a wait is another one is told just before its tag: a look between the two finds the tag
// before.
TEST(LongWaits, AreNewThoughTheirTagComesALookLater) {
  constexpr LongWait kOther{.tag = kTag + 1, .begun = 0};
  WaitingCall call(false, "4s");
  EXPECT_EQ(call.tell(6, kGoesOn), "");
  EXPECT_EQ(call.tell(1, kAnother), "");
  EXPECT_EQ(call.tell(6, kOther), "");
}

/// Runs nothing; its kernels would tell that they wait by the tag of their first transfer.
class TransfersDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    const Launch& launch = launches.front();
    tag = called_tag(*launch.items.front().transfers);
    waiting = launch.waiting;
    return WEFT_OK;
  }
  weft_result query(DeviceStream* /*stream*/) override { return WEFT_OK; }
  weft_result synchronize(DeviceStream* /*stream*/) override { return WEFT_OK; }

  std::atomic<OperationTag> tag{0};  ///< Of the latest launch, as the next.
  std::atomic<LongWait*> waiting{nullptr};
};

/// Two ranks that have called once; then the first calls again, and the second one leaves, at once
/// or after that wait has lasted for a while.
class OneThatLeaves {
 public:
  explicit OneThatLeaves(const std::array<Call, 2>& calls) : calls_(calls) {
    std::thread other([&] { call(1); });
    call(0);
    other.join();
  }

  /// What the first is told, within 14 s.
  std::string told(std::chrono::milliseconds after = 0ms) {
    if (after == 0ms) leave();
    call(0);
    Communicator& waits = *ranks_.communicators[0];
    const auto begun = std::chrono::steady_clock::now();
    while (!waits.known_failure() && std::chrono::steady_clock::now() < begun + 14s) {
      std::atomic_ref(device_.waiting.load()->tag).store(device_.tag);
      std::this_thread::sleep_for(20ms);
      if (ranks_.communicators[1] != nullptr && std::chrono::steady_clock::now() > begun + after)
        leave();
    }
    told_ = std::chrono::steady_clock::now();
    const auto failure = waits.known_failure();
    return failure ? failure->to_string() : "nothing";
  }
  /// After the second one began to leave.
  [[nodiscard]] std::chrono::steady_clock::duration told_after() const { return told_ - left_; }

 private:
  void call(std::uint32_t rank) {
    Call one = calls_.at(rank);
    one.communicator = ranks_.communicators[rank].get();
    one.stream = ranks_.streams[rank].get();
    EXPECT_TRUE(start_calls({&one, 1}));
  }
  void leave() {
    left_ = std::chrono::steady_clock::now();
    ranks_.communicators[1].reset();
  }

  const std::array<Call, 2> calls_;
  std::unique_ptr<TransfersDevice> made_ = std::make_unique<TransfersDevice>();
  TransfersDevice& device_ = *made_;
  Ranks ranks_{2, "p2p", {{"WEFT_TIMEOUTS_OPERATION", "60s"}}, std::move(made_)};
  std::chrono::steady_clock::time_point left_;
  std::chrono::steady_clock::time_point told_;
};

std::string told_of_one_that_left(const std::array<Call, 2>& calls) {
  return OneThatLeaves(calls).told();
}

std::array<Call, 2> exchange(Operation of_rank_0, Operation of_rank_1) {
  static std::array<float, 16> memory{};
  std::array<Call, 2> calls;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    calls.at(rank) = {.task = {.operation = rank == 0 ? of_rank_0 : of_rank_1,
                               .type = WEFT_FLOAT32,
                               .root = 1 - rank,
                               .count = memory.size()},
                      .send = memory.data(),
                      .recv = memory.data()};
  }
  return calls;
}

TEST(LongWaits, OfReceivesFromOneThatLeftEnd) {
  EXPECT_THAT(told_of_one_that_left(exchange(Operation::kRecv, Operation::kSend)),
              HasSubstr("rank 0 waits in recv of an unknown number of float32 from rank 1, but "
                        "rank 1 has left the communicator"));
}
// What it sent just before may be on its way, and what kernels told may be older than that: it is
// no evidence at once, though the wait is so old that others are asked again and again.
TEST(LongWaits, OfOneThatHasJustLeftEndOnceAllHasCome) {
  OneThatLeaves leaver(exchange(Operation::kRecv, Operation::kSend));
  EXPECT_THAT(leaver.told(5300ms), HasSubstr("rank 1 has left the communicator"));
  EXPECT_GE(leaver.told_after(), 2s);
}
TEST(LongWaits, OfSendsToOneThatLeftEnd) {
  EXPECT_THAT(told_of_one_that_left(exchange(Operation::kSend, Operation::kRecv)),
              HasSubstr("rank 0 waits in send of an unknown number of float32 to rank 1, but "
                        "rank 1 has left the communicator"));
}

TEST(LongWaits, OfBlocksThatDifferAreThoseOfTheirCall) {
  static std::array<float, 32> memory{};
  const auto blocks = std::make_shared<BlockTable>();
  blocks->sent = blocks->received = {{.offset = 0, .count = 0}, {.offset = 0, .count = 16}};
  const auto others = std::make_shared<BlockTable>();
  others->sent = others->received = {{.offset = 0, .count = 16}, {.offset = 0, .count = 0}};
  std::array<Call, 2> calls;
  for (Call& call : calls) {
    call = {.task = {.operation = Operation::kAllToAllV, .type = WEFT_FLOAT32},
            .send = memory.data(),
            .recv = memory.data() + 16};
  }
  calls[0].blocks = blocks;
  calls[1].blocks = others;
  EXPECT_THAT(told_of_one_that_left(calls), HasSubstr("rank 1 left the communicator after"));
}

}  // namespace
}  // namespace weft
