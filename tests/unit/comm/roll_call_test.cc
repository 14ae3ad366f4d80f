// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/roll_call.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::Ranks;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr CallNote kFifth{.sequence = 5, .tag = 77, .count = 9, .max_channels = 2};

TEST(RollCalls, TravelAsBytes) {
  RollCall roll{.call = kFifth};
  for (std::uint32_t rank = 0; rank < 2 * RollCall::kMostNamed; ++rank) {
    roll.add({.rank = rank,
              .where = static_cast<Whereabouts>(rank % kWhereaboutsCount),
              .number = (1ULL << 40) + rank});
    roll.has_turned = rank % 2 == 0;
    const auto bytes = encode_roll_call(roll);
    EXPECT_EQ(decode_roll_call(bytes, 100), roll);
    EXPECT_EQ(decode_roll_call(std::span(bytes).first(bytes.size() - 1), 100), std::nullopt);
    EXPECT_EQ(decode_complaint(bytes), std::nullopt);
    EXPECT_EQ(decode_call_note(bytes), std::nullopt);
  }
  EXPECT_EQ(roll.others.size(), RollCall::kMostNamed);
  EXPECT_EQ(roll.others.size() + roll.more + roll.waiting, 2 * RollCall::kMostNamed);
  // Of a job of fewer ranks such a text is nonsense.
  EXPECT_EQ(decode_roll_call(encode_roll_call(roll), RollCall::kMostNamed), std::nullopt);
}

TEST(RollCalls, TakeNoOtherTexts) {
  EXPECT_EQ(decode_roll_call({}, 8), std::nullopt);
  EXPECT_EQ(decode_roll_call(encode_call_note(kFifth), 8), std::nullopt);
  Complaint complaint{.peer = 1, .found = 2, .waiting = kFifth};
  for (int calls = 0; calls < 30; ++calls) {
    EXPECT_EQ(decode_roll_call(encode_complaint(complaint), 8), std::nullopt);
    complaint.calls.push_back(kFifth);
  }
  EXPECT_EQ(decode_roll_call(encode_roll_call({.call = {}}), 8), std::nullopt) << "of no call";
  RollCall roll{.call = kFifth, .waiting = 8};
  EXPECT_EQ(decode_roll_call(encode_roll_call(roll), 8), std::nullopt) << "its asker is another";
  roll = {.call = kFifth, .more = 8};
  EXPECT_EQ(decode_roll_call(encode_roll_call(roll), 8), std::nullopt);
  roll = {.call = kFifth};
  roll.add({.rank = 3, .where = static_cast<Whereabouts>(kWhereaboutsCount), .number = 0});
  EXPECT_EQ(decode_roll_call(encode_roll_call(roll), 8), std::nullopt);
}

TEST(RollCalls, TellWhoIsMissing) {
  RollCall roll{.call = kFifth};
  EXPECT_EQ(describe_roll_call(roll), "all others wait in it, too");
  roll.add({.rank = 4, .where = Whereabouts::kWaits, .number = 0});
  EXPECT_EQ(describe_roll_call(roll), "all others wait in it, too");
  roll.add({.rank = 1, .where = Whereabouts::kNotThere, .number = 0});
  EXPECT_EQ(describe_roll_call(roll), "rank 1 has made no call yet; 1 other waits in it, too");
  roll.others.clear();
  roll.add({.rank = 1, .where = Whereabouts::kNotThere, .number = 3});
  roll.add({.rank = 2, .where = Whereabouts::kElsewhere, .number = 4});
  roll.add({.rank = 3, .where = Whereabouts::kElsewhere, .number = 6});
  roll.add({.rank = 5, .where = Whereabouts::kElsewhere, .number = 0});
  roll.add({.rank = 6, .where = Whereabouts::kThrough, .number = 0});
  roll.add({.rank = 7, .where = Whereabouts::kQuiet, .number = 0});
  roll.more = 7;
  roll.waiting = 2;
  roll.has_turned = true;
  EXPECT_EQ(describe_roll_call(roll),
            "rank 1 has not made it, its latest is call 3; rank 2 is still in call 4; rank 3 has "
            "gone on to call 6; rank 5 waits in a send, a receive or a replay; rank 6 is through "
            "with it; rank 7 has made it, and nothing of it waits there: its device has not come "
            "to it, or is through with it; 7 more are not in it; 2 others wait in it, too; not "
            "all were asked, since one has left");
}

TEST(LatestRoll, TellsOfTheWaitAlone) {
  const LatestRoll::Clock::time_point begin;
  LatestRoll roll;
  EXPECT_EQ(roll.describe(0, begin + 9s), "") << "of a send or receive";
  EXPECT_EQ(roll.describe(5, begin + 9s), "") << "nobody was asked";
  roll.ask(5, true, begin);
  EXPECT_EQ(roll.describe(5, begin + 999ms), "") << "the answer may be on its way";
  EXPECT_THAT(roll.describe(5, begin + 1s), HasSubstr("asked 1s ago: no answer came back"));
  roll.answer({.call = {.sequence = 4}}, begin + 1s);
  EXPECT_THAT(roll.describe(5, begin + 2s), HasSubstr("asked 2s ago: no answer came back"));
  roll.answer({.call = kFifth}, begin + 2s);
  roll.ask(5, false, begin + 4s);
  EXPECT_EQ(roll.describe(5, begin + 5s), "asked 3s ago: all others wait in it, too");
  EXPECT_EQ(roll.describe(6, begin + 5s), "");
  // The same call once more, as of a graph.
  roll.ask(5, true, begin + 60s);
  EXPECT_EQ(roll.describe(5, begin + 60s), "");
  roll.answer({.call = kFifth}, begin + 61s);
  roll.ask(6, false, begin + 62s);
  EXPECT_EQ(roll.describe(5, begin + 62s), "");
  EXPECT_EQ(roll.describe(6, begin + 62s), "");
}

/// Runs nothing, and knows where kernels of each launch would tell that they wait.
class TellingDevice : public device::HostDevice {
 public:
  struct Launched {
    LongWait* waiting = nullptr;  ///< One for each communicator.
    OperationTag tag = 0;
  };

  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    const std::scoped_lock lock(mutex_);
    for (const Launch& launch : launches)
      launched_.push_back({.waiting = launch.waiting, .tag = launch.items.front().tag});
    return WEFT_OK;
  }
  weft_result query(DeviceStream* /*stream*/) override { return WEFT_OK; }
  weft_result synchronize(DeviceStream* /*stream*/) override { return WEFT_OK; }

  std::vector<Launched> launched() {
    const std::scoped_lock lock(mutex_);
    return launched_;
  }

 private:
  std::mutex mutex_;
  std::vector<Launched> launched_;
};

/// Three ranks, each of which takes a wait of two seconds for too long.
class Waiters {
 public:
  explicit Waiters(std::unique_ptr<DeviceRuntime> device = nullptr)
      : ranks_(3, "p2p", {{"WEFT_TIMEOUTS_OPERATION", "2s"}}, std::move(device)) {}

  void call_together(std::initializer_list<std::uint32_t> callers) {
    std::vector<std::thread> threads;
    for (const std::uint32_t rank : callers)
      threads.emplace_back([this, rank] { call(rank); });
    for (auto& thread : threads)
      thread.join();
  }
  void reduce_to_0(std::uint32_t rank) {
    Call call = ranks_.all_reduce(rank, places_[rank]);
    call.task.operation = Operation::kReduce;
    call.task.root = 0;
    EXPECT_TRUE(start_calls({&call, 1}));
  }
  void leave(std::uint32_t rank) {
    EXPECT_TRUE(ranks_.streams[rank]->synchronize());
    ranks_.communicators[rank].reset();
  }
  void synchronize() {
    for (const auto& stream : ranks_.streams)
      EXPECT_TRUE(stream->synchronize());
  }
  /// The first failure of any rank's, while `tell` is done again and again.
  std::string failure(const std::function<void()>& tell = [] {}) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    for (; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(5ms)) {
      tell();
      for (const auto& communicator : ranks_.communicators) {
        if (communicator == nullptr) continue;
        if (const auto failure = communicator->known_failure()) return failure->to_string();
      }
    }
    return "none";
  }

 private:
  void call(std::uint32_t rank) {
    const Call call = ranks_.all_reduce(rank, places_[rank]);
    EXPECT_TRUE(start_calls({&call, 1}));
  }

  float places_[3][1000] = {};
  Ranks ranks_;
};

void tell_waits(const TellingDevice::Launched& launched) {
  std::atomic_ref(launched.waiting->tag).store(launched.tag);
}

TEST(RollCalls, NameTheRankThatHasMadeNoCall) {
  Waiters waiters;
  waiters.call_together({0, 2});
  const std::string failure = waiters.failure();
  EXPECT_THAT(failure, HasSubstr("rank 1 has made no call yet; 1 other waits in it, too"));
  EXPECT_THAT(failure, HasSubstr(" ago: "));
}

TEST(RollCalls, NameTheLatestCallOfOneThatIsBehind) {
  Waiters waiters;
  waiters.call_together({0, 1, 2});
  waiters.synchronize();
  waiters.call_together({1, 2});
  EXPECT_THAT(waiters.failure(),
              HasSubstr("rank 0 has not made it, its latest is call 1; 1 other"));
}

// A root waits for all; who has done its part may leave.
TEST(RollCalls, TurnBackBeforeARankThatHasLeft) {
  Waiters waiters;
  waiters.reduce_to_0(1);
  waiters.leave(1);
  waiters.reduce_to_0(0);
  EXPECT_THAT(waiters.failure(), HasSubstr("rank 2 has made no call yet; not all were asked, since "
                                           "one has left"));
}

// Of kernels that only tell that they wait.
TEST(RollCalls, NameTheRankWhoseDeviceIsElsewhere) {
  auto made = std::make_unique<TellingDevice>();
  TellingDevice& device = *made;
  Waiters waiters(std::move(made));
  waiters.call_together({0, 1, 2});
  const auto first = device.launched();
  waiters.call_together({0, 1, 2});
  const auto all = device.launched();
  ASSERT_EQ(all.size(), 6U);
  // Whichever ranks these are.
  const std::string failure = waiters.failure([&] {
    tell_waits(first[0]);
    for (std::size_t i = 3; i < 6; ++i)
      if (all[i].waiting == first[1].waiting) tell_waits(all[i]);
  });
  EXPECT_THAT(failure, HasSubstr("has waited"));
  EXPECT_THAT(failure,
              AnyOf(HasSubstr(" has gone on to call 2;"), HasSubstr(" is still in call 1;")));
  EXPECT_THAT(failure,
              HasSubstr(" has made it, and nothing of it waits there: its device has not "
                        "come to it, where other ranks are, too, whose streams may hold "
                        "up its own (CUDA_DEVICE_MAX_CONNECTIONS), or is through with it"));
  EXPECT_THAT(failure, Not(HasSubstr("in it, too")));
}

TEST(RollCalls, OfKernelsThatAllWaitNameNobody) {
  auto made = std::make_unique<TellingDevice>();
  TellingDevice& device = *made;
  Waiters waiters(std::move(made));
  waiters.call_together({0, 1, 2});
  const auto all = device.launched();
  const std::string failure = waiters.failure([&] { std::ranges::for_each(all, tell_waits); });
  EXPECT_THAT(failure, HasSubstr(" ago: all others wait in it, too"));
}

}  // namespace
}  // namespace weft
