// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections of p2p between ranks on devices, in both of its modes: where each part lies, that
// data arrives, and what is refused. The devices' memory is that of fake_devices.h, which each end
// maps at addresses of its own.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/p2p/device_end.h"
#include "plugins/p2p/transport.h"
#include "tests/plugin/transport/fake_devices.h"
#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

using p2p::DeviceBlob;
using p2p::PeerInfo;

/// What a host says whose devices have no memory that travels so.
const weft_host_memory& without_descriptors() {
  static const weft_host_memory changed = [] {
    weft_host_memory table = FakeDevices::table();
    table.allocate = [](weft_host_instance* instance, weft_memory_kind kind, std::int32_t device,
                        std::uint64_t size, std::uint32_t sharing, weft_memory* out) {
      if (sharing == WEFT_SHARING_DESCRIPTOR) return weft_result{WEFT_ERROR_UNSUPPORTED};
      return FakeDevices::table().allocate(instance, kind, device, size, sharing, out);
    };
    return table;
  }();
  return changed;
}

class P2pDevices : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (plugin_path().find("weft-p2p") == std::string::npos) GTEST_SKIP() << "not p2p";
    left = make_rank(0, GetParam());
    right = make_rank(1, GetParam());
  }
  void TearDown() override {
    left.reset();
    right.reset();
    EXPECT_EQ(FakeDevices::instance().allocations(), 0U);
    EXPECT_EQ(FakeDevices::instance().imports(), 0U);
  }

  static std::unique_ptr<Rank> make_rank(std::uint32_t rank, const std::string& mode,
                                         const std::string& sharing = "auto",
                                         const weft_host_memory& memory = FakeDevices::table(),
                                         std::uint32_t ranks = 2) {
    return std::make_unique<Rank>(
        load_plugin(plugin_path()),
        Rank::Options{.rank = rank,
                      .ranks = ranks,
                      .device = static_cast<std::int32_t>(rank),
                      .memory = &memory,
                      .parameters = {{"mode", mode}, {"device_sharing", sharing}}});
  }
  [[nodiscard]] static bool reads() { return GetParam() == "read"; }

  /// From `left` to `right`, not connected.
  Pair prepare(std::uint64_t number, const std::vector<Protocol>& protocols = {Protocol{}}) {
    return {.send = left->prepare(WEFT_DIRECTION_SEND, 1, number, protocols),
            .recv = right->prepare(WEFT_DIRECTION_RECV, 0, number, protocols)};
  }
  Pair connected(std::uint64_t number, const std::vector<Protocol>& protocols = {Protocol{}}) {
    const Pair pair = prepare(number, protocols);
    const Bytes from_send = left->blob(pair.send);
    const Bytes from_recv = right->blob(pair.recv);
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    for (int round = 0; round < 100 && (sender > 0 || receiver > 0); ++round) {
      if (sender > 0) sender = left->connect(pair.send, from_recv);
      if (receiver > 0) receiver = right->connect(pair.recv, from_send);
    }
    EXPECT_EQ(sender, WEFT_OK) << left->host().last_error().what;
    EXPECT_EQ(receiver, WEFT_OK) << right->host().last_error().what;
    return pair;
  }
  void close(const Pair& pair) const {
    left->close(pair.send);
    right->close(pair.recv);
  }

  std::unique_ptr<Rank> left;
  std::unique_ptr<Rank> right;
};

TEST_P(P2pDevices, DataArrivesOverManyRoundsOfTheSlots) {
  for (const Protocol& of :
       {Protocol{WEFT_PROTOCOL_SIMPLE, 1, 128}, Protocol{WEFT_PROTOCOL_SIMPLE, 8, 1920},
        Protocol{WEFT_PROTOCOL_SIMPLE, 8, 524288}}) {
    const Pair pair = connected(of.step_bytes, {of});
    const weft_protocol_view to = left->describe(pair.send);
    const weft_protocol_view from = right->describe(pair.recv);
    const std::uint64_t count = (std::uint64_t{4} * of.steps) + 3;
    std::jthread sender([&] { send_pattern(to, count, 11); });
    EXPECT_EQ(receive_pattern(from, count, 11), 0U);
    sender.join();
    EXPECT_EQ(std::atomic_ref(*to.head).load(), count);
    close(pair);
  }
}

// Each on the device that waits for it or polls it; slots of Simple are not polled.
TEST_P(P2pDevices, EachPartLiesWhereItIsWaitedFor) {
  const std::vector<Protocol> protocols = {
      {WEFT_PROTOCOL_LL128, 8, 1920}, {WEFT_PROTOCOL_SIMPLE, 4, 65536}, {WEFT_PROTOCOL_LL, 2, 128}};
  const Pair pair = connected(6, protocols);
  const auto is_own = [](const void* part) { return FakeDevices::instance().is_own(part); };
  for (const Protocol& one : protocols) {
    const weft_protocol_view to = left->describe(pair.send, one.protocol);
    const weft_protocol_view from = right->describe(pair.recv, one.protocol);
    const bool at_sender = reads() && one.protocol == WEFT_PROTOCOL_SIMPLE;
    EXPECT_EQ(is_own(to.buffer), at_sender) << one.protocol;
    EXPECT_EQ(is_own(from.buffer), !at_sender) << one.protocol;
    EXPECT_TRUE(is_own(to.head) && !is_own(from.head)) << one.protocol;
    EXPECT_TRUE(is_own(from.tail) && !is_own(to.tail)) << one.protocol;
    EXPECT_TRUE(is_own(from.slots) && !is_own(to.slots)) << one.protocol;
    EXPECT_TRUE(is_own(to.error) && !is_own(to.peer_error)) << one.protocol;
    EXPECT_TRUE(is_own(from.error) && !is_own(from.peer_error)) << one.protocol;
    for (const weft_protocol_view& view : {to, from}) {
      EXPECT_EQ(view.memory, WEFT_MEMORY_CUDA);
      EXPECT_EQ(view.steps, one.steps);
      EXPECT_EQ(view.step_bytes, one.step_bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.buffer) % 128, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.head) % 128, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.tail) % 128, 0U);
    }
  }
  close(pair);
}

// What one end stores everywhere the other one finds, and no part lies in another.
TEST_P(P2pDevices, BothEndsSeeTheSamePartsApart) {
  const std::vector<Protocol> protocols = {
      {WEFT_PROTOCOL_SIMPLE, 4, 4096}, {WEFT_PROTOCOL_LL, 2, 128}, {WEFT_PROTOCOL_LL128, 8, 1920}};
  for (const std::uint64_t number : {6U, 7U}) {  // the second one lies behind the first
    const Pair pair = connected(number, protocols);
    for (std::size_t i = 0; i < protocols.size(); ++i) {
      const weft_protocol_view to = left->describe(pair.send, protocols[i].protocol);
      const weft_protocol_view from = right->describe(pair.recv, protocols[i].protocol);
      std::memset(to.buffer, static_cast<int>(i + 1), std::size_t{to.steps} * to.step_bytes);
      for (std::uint32_t slot = 0; slot < to.steps; ++slot)
        to.slots[slot] = {slot, 0, i};
      *to.tail = i + 100;
      *from.head = i + 200;
      *to.peer_error = 5;
      *from.peer_error = 6;
    }
    for (std::size_t i = 0; i < protocols.size(); ++i) {
      const weft_protocol_view to = left->describe(pair.send, protocols[i].protocol);
      const weft_protocol_view from = right->describe(pair.recv, protocols[i].protocol);
      const auto* bytes = static_cast<const unsigned char*>(from.buffer);
      const std::size_t size = std::size_t{from.steps} * from.step_bytes;
      EXPECT_EQ(std::count(bytes, bytes + size, i + 1), static_cast<std::ptrdiff_t>(size));
      for (std::uint32_t slot = 0; slot < from.steps; ++slot) {
        EXPECT_EQ(from.slots[slot].size, slot);
        EXPECT_EQ(from.slots[slot].tag, i);
      }
      EXPECT_EQ(*from.tail, i + 100);
      EXPECT_EQ(*to.head, i + 200);
      EXPECT_EQ(*from.error, 5U);
      EXPECT_EQ(*to.error, 6U);
    }
    close(pair);
  }
}

// One request behind the other, whatever each of them needs.
TEST_P(P2pDevices, ManyConnectionsBothWaysInOneBatch) {
  constexpr std::uint64_t kCount = 20;
  const std::array<weft_protocol_request, 2> protocols = {
      {{sizeof(weft_protocol_request), WEFT_PROTOCOL_SIMPLE, 2, 1152},
       {sizeof(weft_protocol_request), WEFT_PROTOCOL_LL, 2, 384}}};
  struct Side {
    std::vector<weft_connection*> ends = std::vector<weft_connection*>(kCount);
    std::vector<Bytes> blobs;
  };
  std::array<Side, 2> sides;
  for (Rank* const rank : {left.get(), right.get()}) {
    Side& side = sides[rank->number()];
    std::vector<weft_connection_request> requests(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      // Even numbers go from rank 0 to rank 1, odd ones back; every third by lines, too.
      const bool sends = (i % 2 == 0) == (rank->number() == 0);
      requests[i] = {sizeof(weft_connection_request),
                     sends ? WEFT_DIRECTION_SEND : WEFT_DIRECTION_RECV,
                     1 - rank->number(),
                     static_cast<std::uint32_t>(i),
                     i,
                     protocols.data(),
                     i % 3 == 0 ? 2U : 1U,
                     sizeof(protocols[0])};
    }
    ASSERT_EQ(rank->table().prepare(rank->transport(), requests.data(), sizeof(requests[0]), kCount,
                                    side.ends.data()),
              WEFT_OK)
        << rank->host().last_error().what;
    for (weft_connection* const end : side.ends)
      side.blobs.push_back(rank->blob(end));
  }
  std::array<weft_result, 2> joined = {WEFT_IN_PROGRESS, WEFT_IN_PROGRESS};
  for (int round = 0; round < 100 && (joined[0] > 0 || joined[1] > 0); ++round) {
    for (const Rank* const rank : {left.get(), right.get()}) {
      std::vector<weft_blob> blobs;
      for (const Bytes& blob : sides[1 - rank->number()].blobs)
        blobs.push_back(as_blob(blob));
      joined[rank->number()] = rank->table().connect(
          rank->transport(), sides[rank->number()].ends.data(), blobs.data(), kCount);
    }
  }
  ASSERT_EQ(joined[0], WEFT_OK) << left->host().last_error().what;
  ASSERT_EQ(joined[1], WEFT_OK) << right->host().last_error().what;
  const auto fill = [&](std::uint64_t i, weft_protocol protocol) {
    const weft_protocol_view view = left->describe(sides[0].ends[i], protocol);
    std::memset(view.buffer, static_cast<int>(i + 50 * static_cast<unsigned>(protocol)),
                std::size_t{view.steps} * view.step_bytes);
  };
  const auto expect_filled = [&](std::uint64_t i, weft_protocol protocol) {
    const weft_protocol_view view = right->describe(sides[1].ends[i], protocol);
    const auto* bytes = static_cast<const unsigned char*>(view.buffer);
    const std::size_t size = std::size_t{view.steps} * view.step_bytes;
    EXPECT_EQ(std::count(bytes, bytes + size, i + 50 * static_cast<unsigned>(protocol)),
              static_cast<std::ptrdiff_t>(size))
        << i;
  };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    fill(i, WEFT_PROTOCOL_SIMPLE);
    if (i % 3 == 0) fill(i, WEFT_PROTOCOL_LL);
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    expect_filled(i, WEFT_PROTOCOL_SIMPLE);
    if (i % 3 == 0) expect_filled(i, WEFT_PROTOCOL_LL);
    left->close(sides[0].ends[i]);
    right->close(sides[1].ends[i]);
  }
}

TEST_P(P2pDevices, SlotsAreHeldByTheEndThatHasThem) {
  const auto held = [](const Rank& rank) {
    std::uint64_t bytes = 1;
    EXPECT_EQ(rank.table().bytes_held(rank.transport(), &bytes), WEFT_OK);
    return bytes;
  };
  const Pair pair = connected(5, {{WEFT_PROTOCOL_SIMPLE, 8, 524288}});
  const Rank& owner = reads() ? *left : *right;
  const Rank& other = reads() ? *right : *left;
  EXPECT_EQ(held(owner), 3 * FakeDevices::kPageBytes) << "slots, and words";
  EXPECT_EQ(held(other), FakeDevices::kPageBytes);
  close(pair);
}

// Who only sends may have done all it has to, and leave, before its receiver has looked.
TEST_P(P2pDevices, WhatWasSentStaysUntilItsReceiverHasLeft) {
  const Pair pair = connected(9);
  send_pattern(left->describe(pair.send), 3, 1);
  left->close(pair.send);
  left->leave();
  left->join(43);
  weft_connection* const next = left->prepare(WEFT_DIRECTION_SEND, 1, 9, {Protocol{}});
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(FakeDevices::instance().allocations(), 3U) << "of another communicator";
  EXPECT_EQ(receive_pattern(right->describe(pair.recv), 3, 1), 0U);
  right->close(pair.recv);
  right->leave();
  left->close(next);
  left->leave();
  EXPECT_EQ(FakeDevices::instance().allocations(), 0U);
}

TEST_P(P2pDevices, NamesDifferentModesAtBothEnds) {
  const std::string other = reads() ? "write" : "read";
  right = make_rank(1, other);
  const Pair pair = prepare(16);
  EXPECT_EQ(left->connect(pair.send, right->blob(pair.recv)), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(left->host().last_error().what,
            "p2p: p2p.mode is " + GetParam() + " here and " + other + " at rank 1");
  EXPECT_EQ(right->connect(pair.recv, left->blob(pair.send)), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(right->host().last_error().what,
            "p2p: p2p.mode is " + other + " here and " + GetParam() + " at rank 0");
  close(pair);
}

TEST_P(P2pDevices, NamesDifferentSizesAtBothEnds) {
  Pair pair;
  pair.send = left->prepare(WEFT_DIRECTION_SEND, 1, 16, {{WEFT_PROTOCOL_SIMPLE, 8, 4096}});
  pair.recv = right->prepare(WEFT_DIRECTION_RECV, 0, 16, {{WEFT_PROTOCOL_SIMPLE, 8, 8192}});
  EXPECT_EQ(left->connect(pair.send, right->blob(pair.recv)), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(right->connect(pair.recv, left->blob(pair.send)), WEFT_ERROR_MISMATCH);
  close(pair);
}

// Up to where it tells how memory travels, which the host looks at.
TEST_P(P2pDevices, RefusesDamagedBlobs) {
  const Pair pair = prepare(13);
  const Bytes from_recv = right->blob(pair.recv);
  const Bytes from_send = left->blob(pair.send);
  ASSERT_EQ(from_recv.size(), sizeof(DeviceBlob));
  const auto refuse = [&](std::size_t at, std::uint8_t flipped) {
    Bytes of_recv = from_recv;
    Bytes of_send = from_send;
    of_recv[at] ^= flipped;
    of_send[at] ^= flipped;
    EXPECT_LT(left->connect(pair.send, of_recv), 0) << "byte " << at;
    EXPECT_LT(right->connect(pair.recv, of_send), 0) << "byte " << at;
  };
  for (std::size_t at = 0; at < offsetof(DeviceBlob, sharing); ++at)
    refuse(at, static_cast<std::uint8_t>(1U << (at % 8)));
  for (std::size_t at = offsetof(DeviceBlob, protocols); at < offsetof(DeviceBlob, words); ++at)
    refuse(at, static_cast<std::uint8_t>(1U << (at % 8)));
  refuse(offsetof(DeviceBlob, mode), 2);
  EXPECT_NE(left->host().last_error().what.find("is damaged"), std::string::npos);
  EXPECT_EQ(left->connect(pair.send, Bytes(from_recv.begin(), from_recv.end() - 1)),
            WEFT_ERROR_PEER);
  close(pair);
}

// Both ends know how much there has to be, whatever a peer says of its parts.
TEST_P(P2pDevices, RefusesPartsBeyondWhatIsShared) {
  constexpr std::uint64_t kSlotBytes = std::uint64_t{8} * 4096;
  struct Case {
    std::size_t of;
    std::uint64_t offset;
    bool fits;
  };
  constexpr std::uint64_t kLast = FakeDevices::kPageBytes - kSlotBytes;
  constexpr std::size_t kWords = offsetof(DeviceBlob, words) + offsetof(p2p::PartPlace, offset);
  constexpr std::size_t kBuffers = offsetof(DeviceBlob, buffers) + offsetof(p2p::PartPlace, offset);
  for (const Case& one :
       {Case{kWords, 64, false}, Case{kWords, kLast, true},
        Case{kWords, FakeDevices::kPageBytes - 128, false}, Case{kWords, UINT64_MAX - 127, false},
        Case{kBuffers, 64, false}, Case{kBuffers, kLast, true}, Case{kBuffers, kLast + 128, false},
        Case{kBuffers, UINT64_MAX - 127, false}}) {
    SCOPED_TRACE(testing::Message() << one.of << " " << one.offset);
    const Pair pair = prepare(14);
    const auto move = [&](Bytes blob) {
      std::memcpy(&blob[one.of], &one.offset, sizeof(one.offset));
      return blob;
    };
    const Bytes from_recv = move(right->blob(pair.recv));
    const Bytes from_send = move(left->blob(pair.send));
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    for (int round = 0; round < 100 && (sender > 0 || receiver > 0); ++round) {
      if (sender > 0) sender = left->connect(pair.send, from_recv);
      if (receiver > 0) receiver = right->connect(pair.recv, from_send);
    }
    // Only one of the ends has buffers, which the other one looks for.
    const bool for_sender = one.of == kWords || !reads();
    const bool for_receiver = one.of == kWords || reads();
    EXPECT_EQ(sender, one.fits || !for_sender ? WEFT_OK : WEFT_ERROR_PEER);
    EXPECT_EQ(receiver, one.fits || !for_receiver ? WEFT_OK : WEFT_ERROR_PEER);
    close(pair);
    left->leave();
    right->leave();
    left->join(42);
    right->join(42);
  }
}

TEST_P(P2pDevices, TellsItsModeWhereItSaysYes) {
  const weft_can_connect near = left->can_connect(1, right->peer_info());
  EXPECT_NE(near.capabilities & WEFT_TRANSPORT_DEVICE_MEMORY, 0U);
  EXPECT_EQ(std::string(near.reason),
            std::string("CUDA devices of one process, by ") + (reads() ? "reads" : "writes"));
}

// Only of what travels by a descriptor a sender learns when its receivers have let go.
TEST_P(P2pDevices, ReadsNothingThatTravelsByCudaIpc) {
  Bytes elsewhere = right->peer_info();
  ++elsewhere.at(offsetof(PeerInfo, network_namespace));
  const weft_can_connect far = left->can_connect(1, elsewhere);
  EXPECT_EQ(far.capabilities == 0, reads()) << far.reason;
  if (reads()) {
    EXPECT_TRUE(std::string_view(far.reason).starts_with("p2p.mode read needs")) << far.reason;
  }
  left = make_rank(0, GetParam(), "auto", without_descriptors());
  weft_result result = WEFT_OK;
  weft_connection* const end = left->prepare(WEFT_DIRECTION_SEND, 1, 1, {Protocol{}}, &result);
  EXPECT_EQ(result, reads() ? WEFT_ERROR_UNSUPPORTED : WEFT_OK);
  if (end != nullptr) left->close(end);
  if (!reads()) return;
  EXPECT_EQ(left->host().last_error().what,
            "p2p: CUDA device 0 has no memory that travels by a descriptor, which p2p.mode read "
            "needs");
  EXPECT_EQ(left->host().last_error().hint, "set p2p.mode to write");
}

/// The first of three ranks, of which the last one cannot be handed descriptors.
class P2pDevicesOfThree : public P2pDevices {
 protected:
  void meet(const std::string& sharing, const weft_host_memory& memory = FakeDevices::table()) {
    first_ = make_rank(0, GetParam(), sharing, memory, 3);
    const auto third = make_rank(2, GetParam(), sharing, FakeDevices::table(), 3);
    Bytes elsewhere = third->peer_info();
    ++elsewhere.at(offsetof(PeerInfo, user));
    far_ = first_->can_connect(2, elsewhere);
    const auto second = make_rank(1, GetParam(), sharing, FakeDevices::table(), 3);
    EXPECT_NE(first_->can_connect(1, second->peer_info()).capabilities, 0U);
  }
  /// How what a connection to that peer takes of this rank's memory travels.
  weft_memory_sharing way_to(std::uint32_t peer) {
    weft_connection* const end =
        first_->prepare(WEFT_DIRECTION_RECV, peer, ++number_, {Protocol{}});
    if (end == nullptr) {
      ADD_FAILURE() << first_->host().last_error().what;
      return WEFT_SHARING_NONE;
    }
    DeviceBlob blob;
    const Bytes bytes = first_->blob(end);
    std::memcpy(static_cast<void*>(&blob), bytes.data(), sizeof(blob));
    first_->close(end);
    return blob.sharing;
  }
  void TearDown() override {
    first_.reset();
    P2pDevices::TearDown();
  }

  std::unique_ptr<Rank> first_;
  weft_can_connect far_{};
  std::uint64_t number_ = 0;
};

// A rule may join that pair by a net; the others are none the worse for it.
TEST_P(P2pDevicesOfThree, JoinsNobodyWhoTakesNoDescriptorWhereThereIsNoOtherWay) {
  meet("descriptor");
  EXPECT_EQ(far_.capabilities, 0U);
  EXPECT_TRUE(
      std::string_view(far_.reason)
          .starts_with(reads() ? "p2p.mode read needs" : "p2p.device_sharing descriptor needs"))
      << far_.reason;
  EXPECT_EQ(way_to(1), WEFT_SHARING_DESCRIPTOR);
}

TEST_P(P2pDevicesOfThree, GoesByCudaIpcWithThemAlone) {
  if (reads()) GTEST_SKIP() << "reads go by descriptors alone";
  for (const auto& order : {std::vector<std::uint32_t>{1, 2, 1, 2}, {2, 1, 2, 1}}) {
    meet("auto");
    EXPECT_NE(far_.capabilities, 0U) << far_.reason;
    for (const std::uint32_t peer : order)
      EXPECT_EQ(way_to(peer), peer == 1 ? WEFT_SHARING_DESCRIPTOR : WEFT_SHARING_IPC) << peer;
    EXPECT_EQ(FakeDevices::instance().allocations(), 2U) << "one of each kind";
    first_.reset();
  }
}

TEST_P(P2pDevicesOfThree, GoesByCudaIpcWithAllWhereThereIsNothingElse) {
  if (reads()) GTEST_SKIP() << "reads go by descriptors alone";
  for (const auto& [sharing, memory] :
       {std::pair{"ipc", &FakeDevices::table()}, {"auto", &without_descriptors()}}) {
    meet(sharing, *memory);
    for (const std::uint32_t peer : {1U, 2U, 1U})
      EXPECT_EQ(way_to(peer), WEFT_SHARING_IPC) << sharing << ", " << peer;
    EXPECT_EQ(FakeDevices::instance().allocations(), 1U) << sharing;
    first_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, P2pDevicesOfThree, testing::Values("write", "read"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Modes, P2pDevices, testing::Values("write", "read"),
                         [](const auto& info) { return info.param; });

/// What init says of these parameters.
std::string refusal(const std::string& mode, const std::string& sharing) {
  try {
    const Rank rank(load_plugin(plugin_path()),
                    Rank::Options{.parameters = {{"mode", mode}, {"device_sharing", sharing}}});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

TEST(P2pMode, RefusesWhatItDoesNotKnow) {
  if (plugin_path().find("weft-p2p") == std::string::npos) GTEST_SKIP() << "not p2p";
  EXPECT_EQ(refusal("pull", "auto"), "init: p2p.mode: \"pull\" is none of write, read");
  EXPECT_EQ(refusal("read", "ipc"),
            "init: p2p.mode: read needs GPU memory that travels by a descriptor, which "
            "p2p.device_sharing leaves out");
  EXPECT_EQ(refusal("read", "descriptor"), "");
  EXPECT_EQ(refusal("write", "ipc"), "");
}

}  // namespace
}  // namespace weft::test
