// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/windows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/call_history.h"
#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "core/model/operation_tag.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using ::testing::IsEmpty;

// The ranks of a communicator; the windows of all are this process's own memory.
class WindowCopies : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 3;
  static constexpr std::size_t kCount = 40;
  static constexpr std::uint64_t kOffset = 24;

  // What all ranks copy in a call, done: outputs by rank.
  std::vector<std::vector<std::byte>> outputs_of(Operation operation, std::uint32_t root,
                                                 bool in_place) {
    const Task task{.operation = operation, .type = WEFT_INT8, .root = root, .count = kCount};
    const std::uint64_t output = copied_output(task, kRanks);
    std::vector<std::vector<std::byte>> memory(kRanks, std::vector<std::byte>(output + 64));
    std::vector<std::byte*> addresses;
    for (auto& one : memory)
      addresses.push_back(one.data());
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      std::vector<std::byte> send(kCount * kRanks);
      for (std::size_t i = 0; i < send.size(); ++i)
        send[i] = std::byte(rank * 80 + i % 80);
      Call call{.task = task, .send = send.data()};
      call.recv = memory[rank].data() + kOffset;
      if (in_place) {
        std::byte* const own = memory[rank].data() + kOffset + rank * kCount;
        std::memcpy(own, send.data(), kCount);
        call.send = own;
      }
      std::vector<PairTransfer> copies;
      make_copies(call, rank, kRanks, addresses, kOffset, copies);
      for (std::size_t i = 0; i < copies.size(); ++i) {
        EXPECT_EQ(copies[i].view.peer, (rank + 1 + i) % kRanks);
        std::memcpy(copies[i].to, copies[i].from, copies[i].bytes);
      }
    }
    for (auto& one : memory)
      one = {one.begin() + kOffset, one.begin() + static_cast<std::ptrdiff_t>(kOffset + output)};
    return memory;
  }
  // The i-th element that `rank` sends, from element `first` on.
  static std::byte sent(std::uint32_t rank, std::size_t i) { return std::byte(rank * 80 + i % 80); }
};

TEST_F(WindowCopies, AllGather) {
  for (const bool in_place : {false, true}) {
    for (const auto& output : outputs_of(Operation::kAllGather, 0, in_place)) {
      for (std::size_t i = 0; i < output.size(); ++i)
        ASSERT_EQ(output[i], sent(static_cast<std::uint32_t>(i / kCount), i % kCount)) << i;
    }
  }
}

TEST_F(WindowCopies, AllToAll) {
  const auto outputs = outputs_of(Operation::kAllToAll, 0, false);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < outputs[rank].size(); ++i) {
      const auto from = static_cast<std::uint32_t>(i / kCount);
      ASSERT_EQ(outputs[rank][i], sent(from, rank * kCount + i % kCount)) << i;
    }
  }
}

TEST_F(WindowCopies, Scatter) {
  const auto outputs = outputs_of(Operation::kScatter, 1, false);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < outputs[rank].size(); ++i)
      ASSERT_EQ(outputs[rank][i], sent(1, rank * kCount + i)) << i;
  }
}

TEST_F(WindowCopies, BroadcastIsCopiedBetweenTwoAlone) {
  Task task{.operation = Operation::kBroadcast, .type = WEFT_FLOAT32, .count = 100};
  EXPECT_EQ(copied_output(task, 2), 400U);
  EXPECT_EQ(copied_output(task, 3), 0U);
  task.operation = Operation::kAllReduce;
  EXPECT_EQ(copied_output(task, 2), 0U);
  task.operation = Operation::kGather;
  EXPECT_EQ(copied_output(task, 2), 0U);
}

TEST(Windows, AreFoundByWhatLiesInThem) {
  std::vector<std::byte> memory(1000);
  Windows windows;
  EXPECT_TRUE(windows.empty());
  const auto shared_by_two = [&] {
    return std::make_unique<SharedBuffer>(std::vector{memory.data(), memory.data()});
  };
  const Window* const outer = windows.add(memory.data() + 100, 500, shared_by_two());
  const auto find = [&](std::size_t at, std::size_t bytes) {
    return windows.find(memory.data() + at, bytes);
  };
  ASSERT_TRUE(find(100, 500));
  EXPECT_EQ(find(100, 500)->offset, 0U);
  EXPECT_EQ(find(180, 420)->offset, 80U);
  EXPECT_FALSE(find(180, 421));
  EXPECT_FALSE(find(99, 10));
  EXPECT_FALSE(find(601, 0));
  EXPECT_FALSE(find(100, UINT64_MAX));
  // One that is not mapped does not count; of those that are, the last.
  windows.add(memory.data(), 1000, std::make_unique<SharedBuffer>());
  EXPECT_EQ(find(180, 10)->window, outer);
  const Window* const inner = windows.add(memory.data() + 150, 100, shared_by_two());
  EXPECT_EQ(find(180, 10)->window, inner);
  EXPECT_EQ(inner->number, 3U);
  EXPECT_TRUE(windows.remove(inner));
  EXPECT_FALSE(windows.remove(inner));
  EXPECT_EQ(find(180, 10)->window, outer);
  EXPECT_EQ(windows.add(memory.data(), 1, shared_by_two())->number, 4U);
}

TEST(Windows, APlaceMakesACallAnother) {
  Window window;
  window.number = 1;
  const auto tag_at = [&](std::uint64_t offset) {
    Task task{.count = 1000};
    task.place = WindowPlace{.window = &window, .offset = offset}.number();
    return make_operation_tag(task, 5);
  };
  EXPECT_NE(tag_at(0), make_operation_tag(Task{.count = 1000}, 5));
  EXPECT_NE(tag_at(0), tag_at(4));
  EXPECT_NE(tag_at(0), tag_at(4096));
  EXPECT_EQ(tag_at(4), tag_at(4));
}

TEST(Windows, ACallThroughOneSaysSo) {
  Task task{.operation = Operation::kAllGather, .type = WEFT_INT8, .count = 1000};
  task.place = 1;
  CallHistory history;
  EXPECT_EQ(history.add(task), 1U);
  const auto note = history.find(1);
  ASSERT_TRUE(note);
  EXPECT_EQ(describe_call(*note), "all_gather of 1000 int8 through a window (call 1)");
  EXPECT_TRUE(history.find_tag(note->tag));
}

/// Stands for the GPUs of all ranks: memory of theirs travels by descriptors.
class WindowDevice : public device::HostDevice {
 public:
  static constexpr std::size_t kBytes = 4096;  // of each rank's buffer

  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result find_allocation(const void* address, DeviceAllocation* out) override {
    for (auto& memory : buffers) {
      if (address != memory.data()) continue;
      *out = {.base = memory.data(),
              .bytes = kBytes,
              .number = 1,
              .can_travel = true,
              .sharing = MemorySharing::kDescriptor};
      return WEFT_OK;
    }
    return WEFT_ERROR_UNSUPPORTED;
  }
  weft_result export_memory(void* memory, MemoryTicket* out) override {
    std::memcpy(out->bytes.data(), &memory, sizeof(memory));
    out->descriptor = ::memfd_create("window", MFD_CLOEXEC);
    return out->descriptor < 0 ? WEFT_ERROR_OUT_OF_RESOURCES : WEFT_OK;
  }
  // All ranks see the same addresses.
  weft_result import_memory(const MemoryTicket& from, void** out, std::size_t* bytes) override {
    std::memcpy(out, from.bytes.data(), sizeof(*out));
    *bytes = kBytes;
    return WEFT_OK;
  }

  std::array<std::array<std::byte, kBytes>, 2> buffers{};
};

/// While it lives this process can open so many descriptors more.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    std::vector<int> opened;
    for (int i = 0; i <= more; ++i)
      opened.push_back(::dup(STDERR_FILENO));
    const rlimit few{.rlim_cur = static_cast<rlim_t>(opened.back()), .rlim_max = before_.rlim_max};
    for (const int one : opened)
      ::close(one);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Each rank exports its buffer and listens, by two descriptors, and needs some more for a moment to
// take the other's and to hand out its own. Who lacks those is not waited for.
TEST(Windows, AreNotMappedWhereARankLacksDescriptors) {
  auto made = std::make_unique<WindowDevice>();
  WindowDevice& device = *made;
  test::Ranks ranks(2, "p2p", {{"WEFT_TIMEOUTS_BOOTSTRAP", "5s"}}, std::move(made));
  // Why it is not mapped.
  const auto register_all = [&] {
    std::array<std::string, 2> refusals;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto window = ranks.communicators[rank]->register_window(
            device.buffers.at(rank).data(), WindowDevice::kBytes);
        EXPECT_TRUE(window) << window.error().to_string();
        if (window) refusals.at(rank) = (*window)->shared->refusal();
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(refusals[0], refusals[1]);
    return refusals[0];
  };
  bool was_refused_socket = false;
  for (int more = 0; more < 10; ++more) {
    std::string refusal;
    {
      const FewDescriptors few(more);
      refusal = register_all();
    }
    was_refused_socket |= refusal.find("Too many open files") != std::string::npos;
    for (const auto& communicator : ranks.communicators)
      ASSERT_EQ(communicator->async_error(), WEFT_OK) << more << " descriptors";
  }
  EXPECT_TRUE(was_refused_socket);
  EXPECT_EQ(register_all(), "");
}

/// Runs nothing, and knows what memory it was asked for that needs no zeros.
class StagingDevice : public WindowDevice {
 public:
  weft_result allocate_unset(std::size_t bytes, void** out) override {
    unset_bytes += bytes;
    return WindowDevice::allocate_unset(bytes, out);
  }
  weft_result allocate_to_share(std::size_t bytes, MemorySharing /*sharing*/, void** out) override {
    const weft_result result = allocate(bytes, out);
    const std::scoped_lock lock(mutex_);
    shared_[*out] = bytes;
    return result;
  }
  weft_result import_memory(const MemoryTicket& from, void** out, std::size_t* bytes) override {
    const weft_result result = WindowDevice::import_memory(from, out, bytes);
    const std::scoped_lock lock(mutex_);
    if (const auto known = shared_.find(*out); known != shared_.end()) *bytes = known->second;
    return result;
  }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    reductions += launches.front().window_reduction != nullptr ? 1 : 0;
    return WEFT_OK;
  }
  weft_result query(DeviceStream* /*stream*/) override { return WEFT_OK; }
  weft_result synchronize(DeviceStream* /*stream*/) override { return WEFT_OK; }

  std::atomic<std::size_t> unset_bytes{0};
  std::atomic<int> reductions{0};

 private:
  std::mutex mutex_;
  std::map<void*, std::size_t> shared_;  // guarded by mutex_
};

// A rank's first such call may find the device full of kernels that wait for that very rank.
TEST(Windows, AreReducedThroughMemoryThatNobodySetsToZero) {
  auto made = std::make_unique<StagingDevice>();
  StagingDevice& device = *made;
  test::Ranks ranks(2, "p2p",
                    {{"WEFT_WINDOWS_REDUCE_FROM", "1B"}, {"WEFT_WINDOWS_STAGING", "1MiB"}},
                    std::move(made));
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      std::byte* const memory = device.buffers.at(rank).data();
      EXPECT_TRUE(ranks.communicators[rank]->register_window(memory, WindowDevice::kBytes));
      const Call call{.communicator = ranks.communicators[rank].get(),
                      .stream = ranks.streams[rank].get(),
                      .task = {.operation = Operation::kAllReduce, .type = WEFT_INT32, .count = 64},
                      .send = memory,
                      .recv = memory};
      for (int again = 0; again < 2; ++again)
        EXPECT_EQ(test::text_of(start_calls({&call, 1})), "");
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(device.reductions, 4);
  EXPECT_EQ(device.unset_bytes, 2U << 20U);
}

}  // namespace
}  // namespace weft
