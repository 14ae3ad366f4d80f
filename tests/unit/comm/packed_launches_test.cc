// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Launches of many channels on devices whose kernels do not call back, as GPUs' do not: what is
// brought to the device before them, on which stream and how often, and what they are given.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "core/model/packed_items.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

/// Notes what it is given, and runs none of it.
class PackingDevice : public device::HostDevice {
 public:
  struct Noted {
    int launches = 0;
    int stores = 0;  ///< Before the latest launch.
    std::vector<WorkItem> items;
    bool is_packed = false;
    PackedItems packed;
    std::vector<RingLinks> links;  ///< As the launch would find them.
  };

  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  std::uint64_t capture_number(DeviceStream* /*stream*/) override { return capture; }
  weft_result store(DeviceStream* stream, void* to, std::span<const std::byte> bytes) override {
    const std::scoped_lock lock(mutex_);
    ++noted_[stream].stores;
    return HostDevice::store(stream, to, bytes);
  }
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override {
    const std::scoped_lock lock(mutex_);
    Noted& noted = noted_[stream];
    for (const Launch& launch : launches) {
      ++noted.launches;
      noted.items.assign(launch.items.begin(), launch.items.end());
      noted.is_packed = launch.packed != nullptr;
      if (!noted.is_packed) continue;
      noted.packed = *launch.packed;
      noted.links.assign(noted.packed.links, noted.packed.links + launch.items.size());
    }
    return WEFT_OK;
  }
  [[nodiscard]] Noted noted(const Stream& stream) {
    const std::scoped_lock lock(mutex_);
    return noted_[stream.device_stream()];
  }

  weft_result allocate(std::size_t bytes, void** out) override {
    if (bytes % sizeof(RingLinks) == 0 && bytes > least_refused && !has_refused_.exchange(true))
      return WEFT_ERROR_OUT_OF_MEMORY;
    return HostDevice::allocate(bytes, out);
  }

  std::uint64_t capture = 0;
  std::size_t least_refused = SIZE_MAX;  ///< Tables of connections of more bytes, once.

 private:
  std::mutex mutex_;
  std::map<DeviceStream*, Noted> noted_;
  std::atomic<bool> has_refused_{false};
};

constexpr std::uint64_t kLarge = std::uint64_t{16} << 20;  // elements
constexpr std::uint32_t kCallers = 2;

class PackedLaunches : public testing::Test {
 protected:
  PackingDevice& device() { return dynamic_cast<PackingDevice&>(ranks_.context().runtime()); }

  /// By all ranks, on their streams of those.
  void call(const Task& task, std::uintptr_t buffer,
            const std::vector<std::unique_ptr<Stream>>& streams) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kCallers; ++rank) {
      threads.emplace_back([&, rank] {
        // Nobody looks there.
        Call call{.task = task,
                  .send = reinterpret_cast<const std::byte*>(buffer),
                  .recv = reinterpret_cast<std::byte*>(2 * buffer)};
        call.communicator = ranks_.communicators[rank].get();
        call.stream = streams[rank].get();
        const Status called = start_calls({&call, 1});
        EXPECT_TRUE(called) << test::text_of(called);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  static Task task_of(Operation operation, std::uint64_t count = kLarge) {
    return {.operation = operation, .type = WEFT_FLOAT32, .reduction = WEFT_SUM, .count = count};
  }

  test::Ranks ranks_{kCallers,
                     "p2p",
                     {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"},
                      {"WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL", "simple"},
                      {"WEFT_COLLECTIVES_ALL_GATHER_ALGORITHM", "ring"},
                      {"WEFT_COLLECTIVES_ALL_GATHER_PROTOCOL", "simple"}},
                     std::make_unique<PackingDevice>()};
};

void expect_links(const PackingDevice::Noted& noted) {
  ASSERT_GT(noted.items.size(), kMostWholeItems);
  ASSERT_TRUE(noted.is_packed);
  for (std::size_t i = 0; i < noted.items.size(); ++i) {
    const WorkItem& item = noted.items[i];
    const RingLinks& links = noted.links[i];
    EXPECT_EQ(std::memcmp(&links.from_previous, &item.from_previous, sizeof(ConnectionView)), 0);
    EXPECT_EQ(std::memcmp(&links.to_next, &item.to_next, sizeof(ConnectionView)), 0);
    EXPECT_TRUE(item.to_next.connected());
    EXPECT_EQ(noted.packed.items[i].count, item.count);
  }
}

TEST_F(PackedLaunches, FindTheirConnectionsOnTheDevice) {
  constexpr std::uintptr_t kAt = std::uintptr_t{1} << 40;
  call(task_of(Operation::kAllReduce), kAt, ranks_.streams);
  for (const auto& stream : ranks_.streams) {
    const auto noted = device().noted(*stream);
    expect_links(noted);
    EXPECT_EQ(noted.stores, 1);
    EXPECT_EQ(noted.items.front().send, reinterpret_cast<const std::byte*>(kAt));
    EXPECT_EQ(noted.items.front().recv, reinterpret_cast<const std::byte*>(2 * kAt));
  }
  const OperationTag first = device().noted(*ranks_.streams[0]).items.front().tag;
  // Also of other calls, in between by fewer channels, on other streams.
  call(task_of(Operation::kAllReduce, 8), kAt, ranks_.streams);
  EXPECT_FALSE(device().noted(*ranks_.streams[0]).is_packed);
  EXPECT_EQ(device().noted(*ranks_.streams[0]).items.size(), 1U);
  std::vector<std::unique_ptr<Stream>> others;
  for (std::uint32_t rank = 0; rank < kCallers; ++rank)
    others.push_back(test::Ranks::value(Stream::create(ranks_.context())));
  call(task_of(Operation::kAllGather), 3 * kAt, others);
  for (const auto& stream : others)
    EXPECT_EQ(device().noted(*stream).items.back().operation, Operation::kAllGather);
  call(task_of(Operation::kAllReduce), 5 * kAt, others);
  for (const auto& stream : others) {
    const auto noted = device().noted(*stream);
    expect_links(noted);
    EXPECT_EQ(noted.launches, 2);
    EXPECT_EQ(noted.stores, 0) << "they are there";
    EXPECT_EQ(noted.items.front().send, reinterpret_cast<const std::byte*>(5 * kAt));
    EXPECT_EQ(noted.items.back().recv, reinterpret_cast<const std::byte*>(10 * kAt) +
                                           noted.packed.items[noted.items.size() - 1].offset * 4);
    EXPECT_NE(noted.items.front().tag, first);
    EXPECT_EQ(noted.items.back().operation, Operation::kAllReduce);
  }
  for (auto& communicator : ranks_.communicators)
    communicator.reset();
}

// The others have begun by then, and would wait for this rank's next call.
TEST_F(PackedLaunches, OfWhomLacksMemoryForThemFailForAll) {
  device().least_refused = 1024;
  std::array<Status, kCallers> called;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kCallers; ++rank) {
    threads.emplace_back([&, rank] {
      Call call{.task = task_of(Operation::kAllReduce),
                .send = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40),
                .recv = reinterpret_cast<std::byte*>(std::uintptr_t{2} << 40)};
      call.communicator = ranks_.communicators[rank].get();
      call.stream = ranks_.streams[rank].get();
      called[rank] = start_calls({&call, 1});
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  const auto lacks = [](const Status& status) {
    return !status && status.error().code() == WEFT_ERROR_OUT_OF_MEMORY;
  };
  ASSERT_EQ(std::ranges::count_if(called, lacks), 1);
  const std::uint32_t lacking = lacks(called[0]) ? 0 : 1;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  Communicator& other = *ranks_.communicators[1 - lacking];
  while (other.async_error() == WEFT_OK && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(other.async_error(), WEFT_ERROR_PEER);
}

TEST_F(PackedLaunches, OfACaptureBringThemInIt) {
  constexpr std::uintptr_t kAt = std::uintptr_t{1} << 40;
  device().capture = 1;
  for (int launch = 0; launch < 2; ++launch)
    call(task_of(Operation::kAllReduce), kAt, ranks_.streams);
  for (const auto& stream : ranks_.streams) {
    const auto noted = device().noted(*stream);
    expect_links(noted);
    EXPECT_EQ(noted.stores, 1);
  }
  device().capture = 0;
  call(task_of(Operation::kAllReduce), kAt, ranks_.streams);
  device().capture = 2;
  call(task_of(Operation::kAllReduce), kAt, ranks_.streams);
  for (const auto& stream : ranks_.streams)
    EXPECT_EQ(device().noted(*stream).stores, 2) << "one of them outside of captures";
}

}  // namespace
}  // namespace weft
