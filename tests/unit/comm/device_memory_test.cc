// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What communicators hold of a GPU's memory for connections, after each kind of call: as GPUs that
// NVLink joins plan and connect, by the plugin p2p, but with memory of the host and kernels that do
// nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;

/// Stands for the GPUs of all ranks, as many as those are.
class StandInDevice : public device::HostDevice {
 public:
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  [[nodiscard]] std::uint32_t line_bytes() const override { return 128; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> /*launches*/) override {
    return WEFT_OK;
  }
  weft_result allocate_to_share(std::size_t bytes, MemorySharing /*sharing*/, void** out) override {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return WEFT_ERROR_OUT_OF_MEMORY;
    const std::scoped_lock lock(mutex_);
    shared_.emplace(memory, bytes);
    *out = memory;
    return WEFT_OK;
  }
  void release(void* memory) override {
    const std::scoped_lock lock(mutex_);
    const auto found = shared_.find(memory);
    if (found == shared_.end()) return HostDevice::release(memory);
    ::munmap(memory, found->second);
    shared_.erase(found);
  }
  weft_result export_memory(void* memory, MemoryTicket* out) override {
    const std::scoped_lock lock(mutex_);
    const Ticket ticket{.address = memory, .bytes = shared_.at(memory)};
    std::memcpy(out->bytes.data(), &ticket, sizeof(ticket));
    out->descriptor = ::memfd_create("device-memory", MFD_CLOEXEC);
    return out->descriptor < 0 ? WEFT_ERROR_OUT_OF_RESOURCES : WEFT_OK;
  }
  // All ranks see the same addresses.
  weft_result import_memory(const MemoryTicket& from, void** out, std::size_t* bytes) override {
    Ticket ticket;
    std::memcpy(&ticket, from.bytes.data(), sizeof(ticket));
    *out = ticket.address;
    *bytes = ticket.bytes;
    return WEFT_OK;
  }

 private:
  struct Ticket {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  std::mutex mutex_;
  std::map<void*, std::size_t> shared_;
};

using Communicators = std::vector<std::unique_ptr<Communicator>>;

class DeviceMemory : public testing::TestWithParam<std::uint32_t> {
 protected:
  void start(const std::vector<Task>& tasks) { start(ranks_.communicators, tasks); }
  void start(const Communicators& communicators, const std::vector<Task>& tasks) {
    std::vector<Status> ended(count_);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < count_; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<Call> calls;
        for (Task task : tasks) {
          if (task.operation == Operation::kSend) task.root = (rank + 1) % count_;
          if (task.operation == Operation::kRecv) task.root = (rank + count_ - 1) % count_;
          Call& call = calls.emplace_back();
          call.communicator = communicators[rank].get();
          call.stream = ranks_.streams[rank].get();
          call.task = task;
          // Nobody looks there.
          call.send = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40);
          call.recv = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 41);
        }
        CallCutter cutter;
        ended[rank] = start_calls(calls, cutter);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (const Status& status : ended)
      EXPECT_TRUE(status) << test::text_of(status);
  }
  /// The most that a rank holds.
  [[nodiscard]] std::uint64_t held() const { return held(ranks_.communicators); }
  [[nodiscard]] static std::uint64_t held(const Communicators& communicators) {
    std::uint64_t most = 0;
    for (const auto& communicator : communicators)
      most = std::max(most, communicator->facts().bytes_held);
    return most;
  }
  void tell(const std::string& after) const { tell(ranks_.communicators, after); }
  void tell(const Communicators& communicators, const std::string& after) const {
    std::cout << count_ << " ranks, " << after << ": "
              << static_cast<double>(held(communicators)) / static_cast<double>(kMiB) << " MiB\n";
  }
  /// Calls of 8 B, 1 GiB and all with all, after which memory has a bar.
  void make_calls_with_a_bar(const Communicators& communicators) {
    start(communicators, {all_reduce(8)});
    start(communicators, {all_reduce(kLargest)});
    for (std::uint64_t bytes = 64; bytes <= kLargest; bytes *= 2)
      start(communicators, {all_to_all(bytes)});
  }
  static Task all_reduce(std::uint64_t bytes) {
    return {.operation = Operation::kAllReduce,
            .type = WEFT_FLOAT32,
            .reduction = WEFT_SUM,
            .count = bytes / 4};
  }
  [[nodiscard]] Task all_to_all(std::uint64_t bytes) const {
    return {.operation = Operation::kAllToAll, .type = WEFT_FLOAT32, .count = bytes / 4 / count_};
  }

  std::uint32_t count_ = GetParam();
  test::Ranks ranks_{count_, "p2p", {}, std::make_unique<StandInDevice>()};
};

// Of the 96 MiB that a communicator may take of a GPU this leaves the kernels and the driver 25.
// Before ranks made calls those had 20 to 24 of it on H200 (docs/performance.md).
TEST_P(DeviceMemory, AfterEachKindOfCall) {
  tell("joined");
  EXPECT_LT(held(), kMiB);
  start({all_reduce(8)});
  tell("8 B");
  for (std::uint64_t bytes = 1 << 10; bytes <= kLargest; bytes *= 2)
    start({all_reduce(bytes)});
  tell("all-reduces of all sizes");
  const std::uint64_t of_rings = held();
  for (const Operation operation : {Operation::kBroadcast, Operation::kReduce,
                                    Operation::kAllGather, Operation::kReduceScatter}) {
    for (std::uint64_t bytes = 8; bytes <= kLargest; bytes *= 2) {
      start({{.operation = operation,
              .type = WEFT_FLOAT32,
              .reduction = WEFT_SUM,
              .count = bytes / 4}});
    }
  }
  EXPECT_EQ(held(), of_rings) << "other collectives go the same ways";
  for (std::uint64_t bytes = 4; bytes <= kLargest / count_; bytes *= 2)
    start({{.operation = Operation::kAllToAll, .type = WEFT_FLOAT32, .count = bytes / 4}});
  tell("all-to-alls of all sizes");
  EXPECT_LE(held(), 71 * kMiB);
  for (std::uint64_t bytes = 4; bytes <= kLargest; bytes *= 2) {
    start({{.operation = Operation::kSend, .type = WEFT_FLOAT32, .count = bytes / 4},
           {.operation = Operation::kRecv, .type = WEFT_FLOAT32, .count = bytes / 4}});
  }
  tell("sends of all sizes to the next rank");
}

// Which communicator is a later one all ranks say alike; what was the only one is none.
TEST_P(DeviceMemory, LaterCommunicatorsTakeHalf) {
  make_calls_with_a_bar(ranks_.communicators);
  const std::uint64_t first = held();
  {
    Communicators second;
    ranks_.join(second, count_);
    make_calls_with_a_bar(second);
    tell(second, "a second communicator");
    // 32 by the driver, which counts pages, and some words in pages that are there.
    EXPECT_LT(held(second), 32 * kMiB + kMiB / 8);
    EXPECT_EQ(held(), first);
    ranks_.communicators.clear();
    Communicators third;
    ranks_.join(third, count_);
    make_calls_with_a_bar(third);
    EXPECT_EQ(held(third), held(second));
  }
  Communicators alone;
  ranks_.join(alone, count_);
  make_calls_with_a_bar(alone);
  EXPECT_EQ(held(alone), first);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceMemory, testing::Values(2, 4),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace weft
