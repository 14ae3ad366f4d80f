// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A program's buffers, which p2p makes reachable for ranks on other devices.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "tests/plugin/transport/fake_devices.h"
#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kSize = 1 << 20;

/// A rank, and its buffer.
struct Owner {
  explicit Owner(std::unique_ptr<Rank> made, weft_memory_sharing sharing = WEFT_SHARING_DESCRIPTOR)
      : rank(std::move(made)), memory(FakeDevices::instance().allocate(kSize, sharing)) {}
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    for (weft_shared_buffer* buffer : {mine, theirs, of_third}) {
      if (buffer != nullptr) rank->table().release_buffer(rank->transport(), buffer);
    }
    FakeDevices::instance().release(memory);
  }

  weft_result share(std::uint64_t offset, std::uint64_t size) {
    exported.struct_size = sizeof(exported);
    return rank->table().export_buffer(rank->transport(), memory + offset, size, &exported, &mine);
  }
  weft_result reach(const Owner& other) { return reach(other, other.exported); }
  weft_result reach(const Owner& other, const weft_buffer_export& from) {
    return rank->table().import_buffer(rank->transport(), other.rank->number(), mine, &from, &seen,
                                       &theirs);
  }
  std::string said() { return rank->host().last_error().what; }

  std::unique_ptr<Rank> rank;
  std::byte* const memory;
  weft_shared_buffer* mine = nullptr;
  weft_shared_buffer* theirs = nullptr;
  weft_shared_buffer* of_third = nullptr;
  weft_buffer_export exported{};
  void* seen = nullptr;
};

class P2pBuffers : public testing::Test {
 protected:
  void SetUp() override {
    if (plugin_path().find("weft-p2p") == std::string::npos) GTEST_SKIP() << "not p2p";
  }
  std::unique_ptr<Rank> make_rank(std::uint32_t rank, std::uint64_t communicator = 42,
                                  const std::string& sharing = "auto",
                                  std::uint32_t ranks = 2) const {
    return std::make_unique<Rank>(entry,
                                  Rank::Options{.rank = rank,
                                                .ranks = ranks,
                                                .device = static_cast<std::int32_t>(rank),
                                                .communicator = communicator,
                                                .memory = &FakeDevices::table(),
                                                .parameters = {{"device_sharing", sharing}}});
  }
  /// Both ends in turn, as the core does.
  static void exchange(Owner& left, Owner& right) {
    weft_result one = WEFT_IN_PROGRESS;
    weft_result other = WEFT_IN_PROGRESS;
    for (int round = 0; round < 1000 && (one == WEFT_IN_PROGRESS || other == WEFT_IN_PROGRESS);
         ++round) {
      if (one == WEFT_IN_PROGRESS) one = left.reach(right);
      if (other == WEFT_IN_PROGRESS) other = right.reach(left);
    }
    ASSERT_EQ(one, WEFT_OK) << left.said();
    ASSERT_EQ(other, WEFT_OK) << right.said();
  }

  using Three = std::array<Owner, 3>;
  /// All three share their whole buffers.
  [[nodiscard]] std::unique_ptr<Three> three_that_share() const {
    const auto make = [&](std::uint32_t rank) { return make_rank(rank, 42, "auto", 3); };
    std::unique_ptr<Three> owners(new Three{Owner(make(0)), Owner(make(1)), Owner(make(2))});
    for (Owner& owner : *owners)
      EXPECT_EQ(owner.share(0, kSize), WEFT_OK) << owner.said();
    return owners;
  }
  /// What `left` is answered by a right one that hands its own out, and asks only for that of
  /// `third`, who hands out nothing.
  static weft_result reach_what_is_served(Owner& left, Owner& right, Owner& third) {
    weft_result done = WEFT_IN_PROGRESS;
    for (int round = 0; round < 100 && done == WEFT_IN_PROGRESS; ++round) {
      done = left.reach(right);
      void* ignored = nullptr;
      EXPECT_EQ(
          right.rank->table().import_buffer(right.rank->transport(), third.rank->number(),
                                            right.mine, &third.exported, &ignored, &right.of_third),
          WEFT_IN_PROGRESS)
          << right.said();
    }
    return done;
  }

  const weft_plugin_descriptor* entry = load_plugin(plugin_path());
};

TEST_F(P2pBuffers, AreReachedFromBothEnds) {
  for (const weft_memory_sharing way : {WEFT_SHARING_DESCRIPTOR, WEFT_SHARING_IPC}) {
    const std::uint64_t before = count_descriptors();
    {
      Owner left(make_rank(0), way);
      Owner right(make_rank(1), way);
      const std::uint64_t unshared = count_descriptors();
      ASSERT_EQ(left.share(4096, kSize - 8192), WEFT_OK) << left.said();
      ASSERT_EQ(right.share(0, kSize), WEFT_OK) << right.said();
      EXPECT_EQ(left.exported.offset, 4096U);
      EXPECT_EQ(left.exported.size, kSize - 8192);
      exchange(left, right);
      EXPECT_EQ(count_descriptors(), unshared) << "as long as the buffers last";
      static_cast<std::byte*>(right.seen)[5] = std::byte{17};
      EXPECT_EQ(left.memory[4096 + 5], std::byte{17});
      static_cast<std::byte*>(left.seen)[kSize - 1] = std::byte{19};
      EXPECT_EQ(right.memory[kSize - 1], std::byte{19});
    }
    EXPECT_EQ(FakeDevices::instance().imports(), 0U);
    EXPECT_EQ(count_descriptors(), before);
  }
}

// A child that lives on would else keep the memory, though its owner frees it.
TEST_F(P2pBuffers, AreNotKeptByForkedChildren) {
  const auto owners = three_that_share();
  auto& [left, right, third] = *owners;
  EXPECT_EQ(FakeDevices::instance().descriptors_in_child(), 0);
  EXPECT_EQ(reach_what_is_served(left, right, third), WEFT_IN_PROGRESS);
  EXPECT_EQ(FakeDevices::instance().descriptors_in_child(), 0) << "what has come waits for others";
  exchange(left, right);
}

// The peer may stop asking as soon as it has what it needs: this end has it by then as well.
TEST_F(P2pBuffers, NobodyIsDoneBeforeThePeerHasAllItNeeds) {
  const auto owners = three_that_share();
  auto& [left, right, third] = *owners;
  EXPECT_EQ(reach_what_is_served(left, right, third), WEFT_IN_PROGRESS);
  exchange(left, right);
}

// A peer that is not handed what it asks for waits for that, and in the end gives all up.
TEST_F(P2pBuffers, WhoCannotReachThePeersHandsOutItsOwn) {
  const std::uint64_t before = count_descriptors();
  {
    const auto owners = three_that_share();
    auto& [left, right, third] = *owners;
    FakeDevices::instance().refuses_imports = true;
    weft_result failed = reach_what_is_served(left, right, third);
    EXPECT_EQ(failed, WEFT_IN_PROGRESS);
    weft_result done = WEFT_IN_PROGRESS;
    for (int round = 0; round < 1000 && (failed == WEFT_IN_PROGRESS || done == WEFT_IN_PROGRESS);
         ++round) {
      FakeDevices::instance().refuses_imports = true;
      if (failed == WEFT_IN_PROGRESS) failed = left.reach(right);
      FakeDevices::instance().refuses_imports = false;
      if (done == WEFT_IN_PROGRESS) done = right.reach(left);
    }
    EXPECT_EQ(failed, WEFT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(done, WEFT_OK) << right.said();
  }
  EXPECT_EQ(count_descriptors(), before);
}

TEST_F(P2pBuffers, WhatCannotBeSharedIsRefused) {
  Owner bound(make_rank(0), WEFT_SHARING_NONE);
  EXPECT_EQ(bound.share(0, kSize), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(bound.said(), "p2p: this memory cannot be handed to other processes");
  Owner beyond(make_rank(0));
  EXPECT_EQ(beyond.share(4096, kSize), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(beyond.said(),
            "p2p: 1048576 bytes of a buffer reach beyond its allocation, which has 1044480 from "
            "there on");
  Owner by_ipc(make_rank(0, 42, "ipc"));
  EXPECT_EQ(by_ipc.share(0, kSize), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(by_ipc.said(),
            "p2p: p2p.device_sharing, or a peer, leaves out the way in which this memory can be "
            "handed on");
  Rank on_cpu(entry, {});
  std::array<std::byte, 64> bytes{};
  weft_buffer_export out{};
  out.struct_size = sizeof(out);
  weft_shared_buffer* buffer = nullptr;
  EXPECT_EQ(on_cpu.table().export_buffer(on_cpu.transport(), bytes.data(), 64, &out, &buffer),
            WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(on_cpu.host().last_error().what, "p2p: buffers of CPU ranks are not shared");
}

TEST_F(P2pBuffers, WordsOfPeersAreNotTrusted) {
  Owner left(make_rank(0), WEFT_SHARING_IPC);
  Owner right(make_rank(1), WEFT_SHARING_IPC);
  Owner stranger(make_rank(1, 43), WEFT_SHARING_IPC);
  for (Owner* owner : {&left, &right, &stranger})
    ASSERT_EQ(owner->share(4096, 8192), WEFT_OK) << owner->said();
  EXPECT_EQ(left.reach(stranger), WEFT_ERROR_PEER);
  EXPECT_EQ(left.said(),
            "p2p: what rank 1 says of its buffer is damaged or belongs to another communicator");
  weft_buffer_export told = right.exported;
  told.size = 8191;
  EXPECT_EQ(left.reach(right, told), WEFT_ERROR_PEER);
  told = right.exported;
  --told.blob.size;
  EXPECT_EQ(left.reach(right, told), WEFT_ERROR_PEER);
  EXPECT_EQ(left.said(),
            "p2p: what rank 1 says of its buffer has another size than this version's");
  // Its offset, 24 bytes from the begin, reaches beyond the memory.
  Bytes damaged = copy_blob(right.exported.blob);
  const std::uint64_t offset = kSize - 8191;
  std::memcpy(damaged.data() + 24, &offset, sizeof(offset));
  told = right.exported;
  told.blob = as_blob(damaged);
  EXPECT_EQ(left.reach(right, told), WEFT_ERROR_PEER);
  EXPECT_EQ(left.said(), "p2p: the buffer of rank 1 reaches beyond the memory that it shares");
}

}  // namespace
}  // namespace weft::test
