// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a group does with that which blocks, and what is left of it where the group fails.
#include "core/comm/group.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

class GroupThatBlocks : public testing::Test {
 protected:
  using Names = std::vector<std::string>;
  GroupThatBlocks() { group_.start(); }

  void add(
      std::uintptr_t communicator, std::string name, std::function<Status()> run,
      std::function<void()> deliver = [] {}) {
    group_.add_blocking(
        reinterpret_cast<const Communicator*>(communicator), std::move(run),
        [this, name, deliver = std::move(deliver)] {
          deliver();
          delivered_.push_back(name);
        },
        [this, name] { undone_.push_back(name); });
  }
  static Status succeed() { return {}; }
  static Status refuse() { return fail(WEFT_ERROR_MISMATCH, "refused"); }

  Group group_;
  Names delivered_;
  Names undone_;
};

TEST_F(GroupThatBlocks, HandsOverWhatSucceeded) {
  add(1, "first", succeed);
  add(2, "other", succeed);
  add(1, "second", succeed);
  EXPECT_TRUE(group_.end());
  EXPECT_EQ(delivered_, (Names{"first", "other", "second"}));
  EXPECT_TRUE(undone_.empty());
}

TEST_F(GroupThatBlocks, TakesBackWhatSucceededWhereTheGroupFails) {
  add(1, "first", succeed);
  add(2, "other", succeed);
  add(1, "second", refuse);
  add(1, "third", succeed);  // never begins
  EXPECT_FALSE(group_.end());
  EXPECT_TRUE(delivered_.empty());
  EXPECT_EQ(undone_, (Names{"first", "other"}));
}

TEST_F(GroupThatBlocks, TakesAllBackWhereSomethingCannotBeHandedOver) {
  add(1, "first", succeed);
  add(2, "other", succeed, [] { throw std::bad_alloc(); });
  EXPECT_THROW(static_cast<void>(group_.end()), std::bad_alloc);
  EXPECT_EQ(undone_, (Names{"first", "other"}));
}

/// Launches end at once, and nobody tells, as of a GPU.
class SilentDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> /*launches*/) override {
    return WEFT_OK;
  }
};

/// Two ranks of such a device, as handles of the C API.
class WindowsOfAGroup : public testing::Test {
 protected:
  WindowsOfAGroup() {
    owner_.context.reset(&ranks_.context());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      known_[rank] = ranks_.communicators[rank].get();
      comms_[rank].owner = &owner_;
      comms_[rank].member = std::make_unique<Member>(std::move(ranks_.communicators[rank]));
    }
  }
  ~WindowsOfAGroup() override {
    for (weft_comm& comm : comms_)
      comm.member.reset();
    static_cast<void>(owner_.context.release());  // it is ranks_'s
  }

  void call() {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Call call{.task = task_, .send = memory_.data(), .recv = memory_.data()};
        call.communicator = known_[rank];
        call.stream = ranks_.streams[rank].get();
        const Status called = start_calls({&call, 1});
        EXPECT_TRUE(called) << test::text_of(called);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  /// Two windows of each rank, the second of so many bytes.
  weft_result enter(std::array<std::size_t, 2> bytes) {
    EXPECT_EQ(weft_group_start(&owner_), WEFT_OK);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(weft_window_register(&comms_[rank], memory_.data(), 1024, &windows_[2 * rank]),
                WEFT_OK);
      EXPECT_EQ(weft_window_register(&comms_[rank], memory_.data() + 1024, bytes[rank],
                                     &windows_[2 * rank + 1]),
                WEFT_OK);
    }
    return weft_group_end(&owner_);
  }
  /// A communicator looks for the buffers of each call where it has windows.
  [[nodiscard]] bool has_windows(std::size_t rank) const {
    return known_[rank]->latest_bound(task_) == nullptr;
  }

  const Task task_{.operation = Operation::kAllReduce, .type = WEFT_INT8, .count = 1024};
  std::vector<std::byte> memory_{std::vector<std::byte>(4096)};
  test::Ranks ranks_{2,
                     "p2p",
                     {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}},
                     std::make_unique<SilentDevice>()};
  weft_context owner_;
  std::array<Communicator*, 2> known_{};
  std::array<weft_comm, 2> comms_{};
  std::array<weft_window*, 4> windows_{};
};

// No handle of them is there to give them up by, and their memory may be another's by the next.
TEST_F(WindowsOfAGroup, AreNotRegisteredWhereOneOfThemIsRefused) {
  call();
  EXPECT_EQ(enter({2048, 1024}), WEFT_ERROR_MISMATCH);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(has_windows(rank)) << "rank " << rank;
    EXPECT_TRUE(comms_[rank].windows.empty());
  }
  EXPECT_EQ(enter({2048, 2048}), WEFT_OK);
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(has_windows(rank)) << "rank " << rank;
  for (weft_window* const window : windows_)
    EXPECT_EQ(weft_window_deregister(window), WEFT_OK);
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_FALSE(has_windows(rank)) << "rank " << rank;
}

// A device is asked to put its streams in order, and takes each for its own.
TEST(GroupOfPairs, OnStreamsOfTwoDevicesIsRefused) {
  const test::Ranks ranks(2, "p2p");
  const test::Ranks elsewhere(1, "p2p");
  std::byte byte{1};
  std::array<Call, 2> calls;
  for (Call& call : calls) {
    call.communicator = ranks.communicators[0].get();
    call.task = {.operation = Operation::kSend, .type = WEFT_INT8, .root = 1, .count = 1};
    call.send = call.recv = &byte;
  }
  calls[1].task.operation = Operation::kRecv;
  for (const std::size_t own : {0, 1}) {
    calls[own].stream = ranks.streams[0].get();
    calls[1 - own].stream = elsewhere.streams[0].get();
    CallCutter cutter;
    const Status started = start_calls(calls, cutter);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code(), WEFT_ERROR_INVALID_ARGUMENT) << started.error().to_string();
    EXPECT_FALSE(ranks.communicators[0]->known_failure());
  }
}

}  // namespace
}  // namespace weft
