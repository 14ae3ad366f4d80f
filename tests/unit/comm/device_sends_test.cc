// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Launches of sends and receives on devices whose kernels do not call back, as GPUs' do not: what
// is made anew for each call, what is kept of the last one, and what the driver is asked.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

/// Notes what it is given, and does nothing of it.
class NotingDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  std::uint64_t capture_number(DeviceStream* /*stream*/) override {
    ++questions_;
    return 0;
  }
  weft_result store(DeviceStream* stream, void* to, std::span<const std::byte> bytes) override {
    if (refuses_) return WEFT_ERROR_DEVICE;
    const std::scoped_lock lock(mutex_);
    ++found_[stream].stores;
    return HostDevice::store(stream, to, bytes);
  }
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override {
    const std::scoped_lock lock(mutex_);
    for (const Launch& launch : launches) {
      const WorkItem& item = launch.items.front();
      latest_[stream].assign(item.transfers, item.transfers + item.transfer_count);
      Found& found = found_[stream];
      found.views.clear();
      found.is_packed = launch.pair_views != nullptr;
      for (const PairTransfer& transfer : latest_[stream]) {
        const bool copies = transfer.view.cursor == nullptr;
        if (!found.is_packed) continue;
        found.views.push_back(copies ? ConnectionView{} : launch.pair_views[transfer.place]);
      }
      bounds_[stream] = {.most_parts = item.most_parts, .is_bounded = launch.is_bounded};
    }
    return WEFT_OK;
  }
  struct Bounds {
    std::uint32_t most_parts = 0;
    bool is_bounded = false;
  };
  [[nodiscard]] Bounds bounds(DeviceStream* stream) {
    const std::scoped_lock lock(mutex_);
    return bounds_[stream];
  }
  [[nodiscard]] std::vector<PairTransfer> latest(DeviceStream* stream) {
    const std::scoped_lock lock(mutex_);
    return latest_[stream];
  }
  /// What a launch finds in memory of the device.
  struct Found {
    int stores = 0;  ///< Before the latest launch.
    bool is_packed = false;
    std::vector<ConnectionView> views;  ///< Of each transfer.
  };
  [[nodiscard]] Found found(DeviceStream* stream) {
    const std::scoped_lock lock(mutex_);
    return found_[stream];
  }
  void refuse_stores() { refuses_ = true; }
  [[nodiscard]] int questions() const { return questions_; }

 private:
  std::atomic<int> questions_{0};
  std::mutex mutex_;
  std::map<DeviceStream*, std::vector<PairTransfer>> latest_;
  std::map<DeviceStream*, Bounds> bounds_;
  std::map<DeviceStream*, Found> found_;
  std::atomic<bool> refuses_{false};
};

constexpr std::size_t kCount = std::size_t{96} << 10;
constexpr std::size_t kManyParts = std::size_t{4} << 20;  // over more channels

/// Two ranks that send to each other.
class DeviceSends : public testing::Test {
 protected:
  NotingDevice& device() { return dynamic_cast<NotingDevice&>(ranks_.context().runtime()); }

  /// What each of them gives to its device, of a send and a receive.
  std::vector<std::vector<PairTransfer>> exchange(const std::byte* send, std::byte* recv,
                                                  std::size_t count) {
    return give([&](std::uint32_t rank, std::vector<Call>& calls) {
      calls.resize(2);
      for (const bool sends : {true, false}) {
        Call& call = calls[sends ? 0 : 1];
        call.task = {.operation = sends ? Operation::kSend : Operation::kRecv,
                     .type = WEFT_INT8,
                     .root = 1 - rank,
                     .count = count,
                     .options = {.max_channels = limits_[rank][sends ? 0 : 1]}};
        if (sends) call.send = send;
        if (!sends) call.recv = recv;
      }
    });
  }
  /// The same of an all-to-all, of blocks of so many bytes.
  std::vector<std::vector<PairTransfer>> exchange_all(const std::byte* send, std::byte* recv,
                                                      std::size_t count) {
    return give([&](std::uint32_t /*rank*/, std::vector<Call>& calls) {
      calls.resize(1);
      calls[0].task = {.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = count};
      calls[0].send = send;
      calls[0].recv = recv;
    });
  }
  /// `make_calls(rank, calls)` writes those of a rank.
  template <class Make>
  std::vector<std::vector<PairTransfer>> give(Make make_calls) {
    std::vector<Status> ended(2);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<Call>& calls = calls_[rank];
        make_calls(rank, calls);
        for (Call& call : calls) {
          call.communicator = ranks_.communicators[rank].get();
          call.stream = ranks_.streams[rank].get();
        }
        ended[rank] = start_calls(calls, cutters_[rank]);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    std::vector<std::vector<PairTransfer>> made;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(ended[rank]) << test::text_of(ended[rank]);
      made.push_back(device().latest(ranks_.streams[rank]->device_stream()));
    }
    return made;
  }

  /// Of the latest launches, where they are packed, the view of each transfer is at its place.
  void expect_found(const std::vector<std::vector<PairTransfer>>& made) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const auto found = device().found(ranks_.streams[rank]->device_stream());
      ASSERT_EQ(found.is_packed, made[rank].size() > kMostWholePairs);
      for (std::size_t i = 0; i < found.views.size(); ++i) {
        const ConnectionView& view = made[rank][i].view;
        EXPECT_EQ(std::memcmp(&found.views[i], &view, sizeof(view)), 0);
      }
    }
  }

  std::vector<std::byte> memory_{std::vector<std::byte>(2 * kManyParts)};
  test::Ranks ranks_{2, "p2p", {}, std::make_unique<NotingDevice>()};
  std::uint32_t limits_[2][2]{};  // of each rank's send and receive; 0: none
  std::vector<Call> calls_[2];
  CallCutter cutters_[2];
};

void expect_parts(const std::vector<PairTransfer>& transfers, const std::byte* send,
                  const std::byte* recv, std::size_t count) {
  std::size_t sent = 0;
  std::size_t received = 0;
  for (const PairTransfer& transfer : transfers) {
    if (transfer.from != nullptr) {
      EXPECT_EQ(transfer.from, send + sent);
      sent += transfer.bytes;
    } else {
      EXPECT_EQ(transfer.to, recv + received);
      received += transfer.bytes;
    }
    EXPECT_EQ(transfer.moved, 0U);
  }
  EXPECT_EQ(sent, count);
  EXPECT_EQ(received, count);
}

TEST_F(DeviceSends, CallsThatAreRepeatedHaveTheirOwnBuffersAndTags) {
  std::byte* const at = memory_.data();
  const auto first = exchange(at, at + kCount, kCount);
  const auto second = exchange(at + 2 * kCount, at + 3 * kCount, kCount);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    expect_parts(first[rank], at, at + kCount, kCount);
    expect_parts(second[rank], at + 2 * kCount, at + 3 * kCount, kCount);
    ASSERT_EQ(first[rank].size(), second[rank].size());
    ASSERT_GT(first[rank].size(), 2U) << "several parts each";
    for (std::size_t i = 0; i < first[rank].size(); ++i)
      EXPECT_NE(first[rank][i].tag, second[rank][i].tag);
  }
  EXPECT_EQ(second[0].front().tag, second[1].back().tag) << "of one message at both ends";
  const auto shorter = exchange(at, at + kCount, 5);
  const auto longer = exchange(at, at + kCount, kCount);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    expect_parts(shorter[rank], at, at + kCount, 5);
    expect_parts(longer[rank], at, at + kCount, kCount);
  }
}

// One after another, alike or not, with sends between: each has what it would have as the first.
TEST_F(DeviceSends, ExchangesThatAreRepeatedHaveTheirOwnBuffersAndTags) {
  std::byte* const at = memory_.data();
  std::byte* const half = at + kManyParts;
  constexpr std::size_t kBlock = kManyParts / 4;
  struct Buffers {
    const std::byte* send;
    std::byte* recv;
    std::size_t block;
  };
  OperationTag before = 0;
  for (const Buffers& own :
       {Buffers{at, half, kBlock}, Buffers{half + 7, at + 3, kBlock}, Buffers{at, at, kBlock},
        Buffers{half, half, kBlock}, Buffers{at, half, kBlock}, Buffers{at, half, kBlock - 1}}) {
    const auto made = exchange_all(own.send, own.recv, own.block);
    EXPECT_NE(made[0].front().tag, before);
    before = made[0].front().tag;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::size_t sent = (1 - rank) * own.block;
      std::size_t received = sent;
      std::size_t copied = rank * own.block;
      for (const PairTransfer& transfer : made[rank]) {
        const bool copies = transfer.from != nullptr && transfer.to != nullptr;
        std::size_t& moved = copies ? copied : transfer.from != nullptr ? sent : received;
        if (transfer.from != nullptr) {
          EXPECT_EQ(transfer.from, own.send + moved);
        }
        if (transfer.to != nullptr) {
          EXPECT_EQ(transfer.to, own.recv + moved);
        }
        moved += transfer.bytes;
        EXPECT_EQ(transfer.tag, copies ? 0 : before);
        EXPECT_EQ(transfer.view.connected(), !copies);
      }
      EXPECT_EQ(sent, (2 - rank) * own.block);
      EXPECT_EQ(received, (2 - rank) * own.block);
      EXPECT_EQ(copied, (rank + (own.send == own.recv ? 0 : 1)) * own.block);
    }
    expect_found(made);
    // Of as many bytes; what was kept of the exchange is not the sends'.
    if (own.block != kBlock) continue;
    const auto between = exchange(at, half, kBlock);
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      expect_parts(between[rank], at, half, kBlock);
    exchange_all(own.send, own.recv, own.block);
    before = exchange_all(own.send, own.recv, own.block)[1].front().tag;
  }
}

// Of many parts, as they would be packed.
TEST_F(DeviceSends, FindTheirViewsOnTheDevice) {
  std::byte* const at = memory_.data();
  // Once more of a call alike, whose transfers are repeated, and once more of another.
  for (const std::size_t count :
       {kCount, kManyParts, kManyParts, std::size_t{5}, kManyParts / 2, kManyParts}) {
    const auto made = exchange(at, at + kManyParts, count);
    SCOPED_TRACE(count);
    expect_found(made);
    EXPECT_EQ(made[0].size() > kMostWholePairs, count > kCount);
  }
  for (const auto& stream : ranks_.streams)
    EXPECT_LE(device().found(stream->device_stream()).stores, 2) << "one of each way to go";
}

TEST_F(DeviceSends, EndWithTheDevicesWordsWhereItRefusesViews) {
  device().refuse_stores();
  Call call{
      .task = {.operation = Operation::kSend, .type = WEFT_INT8, .root = 1, .count = kManyParts},
      .send = memory_.data()};
  call.communicator = ranks_.communicators[0].get();
  call.stream = ranks_.streams[0].get();
  const Status called = start_calls({&call, 1});
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code(), WEFT_ERROR_DEVICE);
  EXPECT_TRUE(call.communicator->known_failure()) << "others wait for this call in vain";
}

// Each end is bounded by its own calls, also where the group before was alike but for that.
TEST_F(DeviceSends, NoMorePartsThanTheirCallsAllow) {
  const auto bounds = [this](std::uint32_t rank) {
    exchange(memory_.data(), memory_.data() + kCount, kCount);
    return device().bounds(ranks_.streams[rank]->device_stream());
  };
  const auto usual = bounds(0);
  EXPECT_FALSE(usual.is_bounded);
  ASSERT_GT(usual.most_parts, 5U);
  limits_[0][0] = 5;
  limits_[0][1] = 3;
  EXPECT_EQ(bounds(0).most_parts, 3U);
  EXPECT_TRUE(bounds(0).is_bounded);
  EXPECT_EQ(bounds(1).most_parts, usual.most_parts);
  limits_[0][1] = 0;
  EXPECT_EQ(bounds(0).most_parts, 5U);
  limits_[0][0] = 10'000;
  EXPECT_EQ(bounds(0).most_parts, usual.most_parts);
  limits_[0][0] = 0;
  EXPECT_FALSE(bounds(0).is_bounded);
}

/// All-reduces on both ranks, large ones that go round rings.
class DeviceCalls : public testing::Test {
 protected:
  template <class Body>
  void on_each(Body body) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] { body(*ranks_.communicators[rank], *ranks_.streams[rank]); });
    for (std::thread& thread : threads)
      thread.join();
  }
  void call(const Task& task) {
    on_each([&](Communicator& communicator, Stream& stream) {
      Call call{.task = task, .send = memory_.data(), .recv = memory_.data() + task.bytes()};
      call.communicator = &communicator;
      call.stream = &stream;
      const Status called = start_calls({&call, 1});
      EXPECT_TRUE(called) << test::text_of(called);
    });
  }

  [[nodiscard]] bool was_bounded(std::uint32_t rank) {
    auto& device = dynamic_cast<NotingDevice&>(ranks_.context().runtime());
    return device.bounds(ranks_.streams[rank]->device_stream()).is_bounded;
  }

  std::vector<std::byte> memory_{std::vector<std::byte>(4 * kCount)};
  test::Ranks ranks_{2,
                     "p2p",
                     {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}},
                     std::make_unique<NotingDevice>()};
};

// So that nothing works beside the channels of calls which name how many they may take.
TEST_F(DeviceCalls, TellTheirDeviceWhetherTheyAreBounded) {
  Task task{.operation = Operation::kAllReduce, .type = WEFT_INT8, .count = kCount};
  call(task);
  EXPECT_FALSE(was_bounded(0));
  task.options.max_channels = 3;
  call(task);
  EXPECT_TRUE(was_bounded(0));
  EXPECT_TRUE(was_bounded(1));
  task.options.max_channels = 0;
  call(task);
  EXPECT_FALSE(was_bounded(0));
}

// Calls that go through windows meet in inboxes, whatever the same call needed before.
TEST_F(DeviceCalls, AreLookedAtAnewOnceThereIsAWindow) {
  const Task task{.operation = Operation::kAllReduce, .type = WEFT_INT8, .count = kCount};
  const auto is_known = [&] { return ranks_.communicators[0]->latest_bound(task) != nullptr; };
  call(task);
  EXPECT_TRUE(is_known());
  on_each([&](Communicator& communicator, Stream& /*stream*/) {
    EXPECT_TRUE(communicator.register_window(memory_.data(), memory_.size()));
  });
  EXPECT_FALSE(is_known());
  call(task);
  EXPECT_FALSE(is_known()) << "nothing has connected inboxes";
  const Task by_inboxes{.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = 8};
  call(by_inboxes);
  call(by_inboxes);
  call(task);
  EXPECT_TRUE(is_known());
}

// That a stream is captured nobody else tells. What a net carries, which a capture could not hold,
// is none of it here.
TEST_F(DeviceSends, TheDriverIsAskedForCapturesOnceACallWhereMemoryJoinsRanks) {
  exchange(memory_.data(), memory_.data() + kCount, kCount);
  const auto first = device().questions();
  exchange(memory_.data(), memory_.data() + kCount, kCount);
  EXPECT_EQ(device().questions(), first + ranks_.communicators.size());
}

}  // namespace
}  // namespace weft
