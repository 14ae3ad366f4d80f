// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections of a transport between two ranks of this process: what both ends see, in which order
// they may go, and what is refused. Where both ends map the same memory separately, a thread
// sanitizer does not see that they share it; suites that prove the order of accesses run on one
// mapping (p2p).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>

#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

class DataTest : public TransportTest,
                 public testing::WithParamInterface<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(DataTest, ArrivesOverManyRoundsOfTheSlots) {
  const auto [steps, step_bytes] = GetParam();
  const Pair pair = connected(5, {{WEFT_PROTOCOL_SIMPLE, steps, step_bytes}});
  const weft_protocol_view to = left->describe(pair.send);
  const weft_protocol_view from = right->describe(pair.recv);
  const std::uint64_t count = (std::uint64_t{4} * steps) + 3;
  std::jthread sender([&] { send_pattern(to, count, 11); });
  EXPECT_EQ(receive_pattern(from, count, 11), 0U);
  sender.join();
  EXPECT_EQ(std::atomic_ref(*to.head).load(), count);
  EXPECT_EQ(*from.error, 0U);
  close(pair);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DataTest,
                         testing::Values(std::tuple{1U, 128U}, std::tuple{2U, 4096U},
                                         std::tuple{8U, 1920U}, std::tuple{8U, 524288U},
                                         std::tuple{64U, 256U}));

TEST_F(TransportTest, TellsTheMemoryThatItHolds) {
  if (!WEFT_HAS(&left->table(), weft_transport_interface, bytes_held) ||
      left->table().bytes_held == nullptr) {
    GTEST_SKIP() << "the plugin does not tell";
  }
  const auto held = [](const Rank& rank) {
    std::uint64_t bytes = 1;
    EXPECT_EQ(rank.table().bytes_held(rank.transport(), &bytes), WEFT_OK);
    return bytes;
  };
  EXPECT_EQ(held(*left) + held(*right), 0U);
  const Pair first = connected(5, {{WEFT_PROTOCOL_SIMPLE, 8, 65536}});
  const std::uint64_t one = held(*left) + held(*right);
  EXPECT_GE(one, 8U * 65536) << "the slots lie at one of the ends at least";
  const Pair second = connected(6, {{WEFT_PROTOCOL_SIMPLE, 8, 65536}});
  EXPECT_EQ(held(*left) + held(*right), 2 * one);
  close(first);
  EXPECT_EQ(held(*left) + held(*right), one);
  close(second);
  EXPECT_EQ(held(*left) + held(*right), 0U);
}

TEST_F(TransportTest, DescribesEachProtocolApart) {
  const std::vector<Protocol> protocols = {
      {WEFT_PROTOCOL_LL128, 8, 1920}, {WEFT_PROTOCOL_SIMPLE, 4, 65536}, {WEFT_PROTOCOL_LL, 2, 128}};
  const Pair pair = connected(6, protocols);
  std::vector<weft_protocol_view> views;
  for (const Protocol& one : protocols) {
    const weft_protocol_view view = right->describe(pair.recv, one.protocol);
    EXPECT_EQ(view.protocol, one.protocol);
    EXPECT_EQ(view.steps, one.steps);
    EXPECT_EQ(view.step_bytes, one.step_bytes);
    EXPECT_EQ(view.memory, WEFT_MEMORY_HOST);
    EXPECT_EQ(view.device, -1);
    EXPECT_EQ(view.needs_flush, 0);
    EXPECT_GE(view.order_bytes, 8U);
    EXPECT_EQ(*view.head, 0U);
    EXPECT_EQ(*view.tail, 0U);
    ASSERT_NE(view.error, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.buffer) % 4096, 0U);
    const auto head = reinterpret_cast<std::uintptr_t>(view.head);
    const auto tail = reinterpret_cast<std::uintptr_t>(view.tail);
    EXPECT_NE(head / 128, tail / 128) << "head and tail share a line";
    EXPECT_NE(head / 128, reinterpret_cast<std::uintptr_t>(view.error) / 128);
    EXPECT_NE(tail / 128, reinterpret_cast<std::uintptr_t>(view.error) / 128);
    views.push_back(view);
  }
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    const weft_protocol_view to = left->describe(pair.send, protocols[i].protocol);
    std::memset(to.buffer, static_cast<int>(i + 1), std::size_t{to.steps} * to.step_bytes);
    for (std::uint32_t slot = 0; slot < to.steps; ++slot)
      to.slots[slot] = {slot, 0, i};
    std::atomic_ref(*to.tail).store(i + 100);
    std::atomic_ref(*views[i].head).store(i + 200);
  }
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(views[i].buffer);
    const std::size_t size = std::size_t{views[i].steps} * views[i].step_bytes;
    EXPECT_EQ(std::count(bytes, bytes + size, i + 1), static_cast<std::ptrdiff_t>(size));
    for (std::uint32_t slot = 0; slot < views[i].steps; ++slot) {
      EXPECT_EQ(views[i].slots[slot].size, slot);
      EXPECT_EQ(views[i].slots[slot].tag, i);
    }
    EXPECT_EQ(*views[i].tail, i + 100);
    EXPECT_EQ(*left->describe(pair.send, protocols[i].protocol).head, i + 200);
  }
  close(pair);
}

TEST_F(TransportTest, DescribeRefusesWhatIsNotThere) {
  const Pair pair = prepare(7);
  weft_protocol_view view{};
  view.struct_size = sizeof(view);
  EXPECT_EQ(right->table().describe(pair.recv, WEFT_PROTOCOL_SIMPLE, &view),
            WEFT_ERROR_INVALID_USAGE);
  connect(pair);
  EXPECT_EQ(right->table().describe(pair.recv, WEFT_PROTOCOL_LL, &view),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(view.buffer, nullptr);
  close(pair);
}

TEST_F(TransportTest, NeitherEndWaitsForTheOther) {
  const Pair pair = prepare(8);
  const Bytes from_send = left->blob(pair.send);
  const Bytes from_recv = right->blob(pair.recv);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(right->connect(pair.recv, from_send), WEFT_IN_PROGRESS);
  }
  for (int i = 0; i < 20; ++i)
    EXPECT_GE(left->connect(pair.send, from_recv), 0);
  connect(pair);
  EXPECT_EQ(left->connect(pair.send, from_recv), WEFT_OK) << "once more is harmless";
  close(pair);
}

TEST_F(TransportTest, ManyConnectionsBothWaysInOneBatch) {
  constexpr std::uint64_t kCount = 70;
  const std::uint64_t descriptors = count_descriptors();
  const weft_protocol_request protocol = {sizeof(weft_protocol_request), WEFT_PROTOCOL_SIMPLE, 8,
                                          4096};
  struct Side {
    std::vector<weft_connection*> ends = std::vector<weft_connection*>(2 * kCount);
    std::vector<Bytes> blobs;
  };
  const auto prepare_side = [&](Rank& rank, Side* side) {
    std::vector<weft_connection_request> requests(2 * kCount);
    for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
      // Even numbers go from rank 0 to rank 1, odd ones back.
      const bool sends = (i % 2 == 0) == (rank.number() == 0);
      requests[i] = {sizeof(weft_connection_request),
                     sends ? WEFT_DIRECTION_SEND : WEFT_DIRECTION_RECV,
                     1 - rank.number(),
                     static_cast<std::uint32_t>(i),
                     i,
                     &protocol,
                     1,
                     sizeof(protocol)};
    }
    ASSERT_EQ(rank.table().prepare(rank.transport(), requests.data(), sizeof(requests[0]),
                                   requests.size(), side->ends.data()),
              WEFT_OK)
        << rank.host().last_error().what;
    for (weft_connection* end : side->ends)
      side->blobs.push_back(rank.blob(end));
  };
  Side one;
  Side two;
  prepare_side(*left, &one);
  prepare_side(*right, &two);
  // The second side connects its last half first: an end may be served while others are asked for.
  const auto connect_part = [](const Rank& rank, const Side& own, const Side& other,
                               std::uint64_t first, std::uint64_t count) {
    std::vector<weft_blob> blobs;
    for (std::uint64_t i = first; i < first + count; ++i)
      blobs.push_back(as_blob(other.blobs[i]));
    return rank.table().connect(rank.transport(), own.ends.data() + first, blobs.data(), count);
  };
  weft_result all = WEFT_IN_PROGRESS;
  weft_result first = WEFT_IN_PROGRESS;
  weft_result last = WEFT_IN_PROGRESS;
  for (int round = 0; round < 1000 && (all != 0 || first != 0 || last != 0); ++round) {
    all = connect_part(*left, one, two, 0, 2 * kCount);
    last = connect_part(*right, two, one, kCount, kCount);
    if (last == WEFT_OK) first = connect_part(*right, two, one, 0, kCount);
    ASSERT_GE(all, 0) << left->host().last_error().what;
    ASSERT_GE(first, 0) << right->host().last_error().what;
    ASSERT_GE(last, 0) << right->host().last_error().what;
  }
  ASSERT_EQ(all, WEFT_OK);
  ASSERT_EQ(first, WEFT_OK);
  EXPECT_EQ(count_descriptors(), descriptors) << "connected ends need no descriptor";
  for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
    *static_cast<std::uint64_t*>(left->describe(one.ends[i]).buffer) = i + 1;
  }
  for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
    EXPECT_EQ(*static_cast<std::uint64_t*>(right->describe(two.ends[i]).buffer), i + 1);
    left->close(one.ends[i]);
    right->close(two.ends[i]);
  }
  EXPECT_EQ(count_descriptors(), descriptors);
}

TEST_F(TransportTest, EitherEndMayCloseFirst) {
  const std::uint64_t descriptors = count_descriptors();
  for (const bool sender_first : {true, false}) {
    const Pair pair = connected(9);
    const weft_protocol_view to = left->describe(pair.send);
    const weft_protocol_view from = right->describe(pair.recv);
    if (sender_first) {
      send_pattern(to, 3, 1);
      left->close(pair.send);
      EXPECT_EQ(receive_pattern(from, 3, 1), 0U);
      right->close(pair.recv);
    } else {
      right->close(pair.recv);
      send_pattern(to, 3, 1);
      EXPECT_EQ(*to.tail, 3U);
      left->close(pair.send);
    }
    EXPECT_FALSE(is_mapped(to.buffer));
    EXPECT_FALSE(is_mapped(from.buffer));
  }
  EXPECT_EQ(count_descriptors(), descriptors);
}

TEST_F(TransportTest, ClosingWithoutConnectingLeavesNothing) {
  const std::uint64_t descriptors = count_descriptors();
  const std::uint64_t mappings = count_lines("/proc/self/maps", "memfd:weft");
  for (int begun = 0; begun < 3; ++begun) {
    const Pair pair = prepare(10);
    const Bytes from_send = left->blob(pair.send);
    const Bytes from_recv = right->blob(pair.recv);
    if (begun > 0) {
      EXPECT_GE(left->connect(pair.send, from_recv), 0);
    }
    if (begun > 1) {
      EXPECT_GE(right->connect(pair.recv, from_send), 0);
    }
    close(pair);
    EXPECT_EQ(count_descriptors(), descriptors);
    EXPECT_EQ(count_lines("/proc/self/maps", "memfd:weft"), mappings);
  }
}

/// Bytes of address space in use.
std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

TEST_F(TransportTest, UnconnectedMemoryIsGivenBack) {
  constexpr std::uint32_t kStepBytes = 32U << 20U;
  const std::uint64_t before = address_space();
  const Pair pair = prepare(22, {{WEFT_PROTOCOL_SIMPLE, 1, kStepBytes}});
  EXPECT_GE(address_space(), before + kStepBytes);
  close(pair);
  EXPECT_LT(address_space(), before + kStepBytes);
}

TEST_F(TransportTest, SenderIsToldThatTheReceiverHasLeft) {
  const Pair pair = prepare(11);
  const Bytes from_recv = right->blob(pair.recv);
  right->close(pair.recv);
  weft_result result = WEFT_IN_PROGRESS;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (result == WEFT_IN_PROGRESS && std::chrono::steady_clock::now() < limit) {
    result = left->connect(pair.send, from_recv);
    std::this_thread::yield();
  }
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  EXPECT_NE(left->host().last_error().what.find("rank 1"), std::string::npos);
  left->close(pair.send);
}

constexpr std::size_t kUnusedByReceivers = 40;

TEST_F(TransportTest, RefusesDamagedBlobs) {
  const std::uint64_t descriptors = count_descriptors();
  const Pair sample = prepare(12);
  const std::size_t size = right->blob(sample.recv).size();
  EXPECT_LE(size, 1024U * 1024);
  close(sample);
  for (std::size_t i = 0; i <= size; ++i) {
    const Pair pair = prepare(13);
    Bytes from_recv = right->blob(pair.recv);
    Bytes from_send = left->blob(pair.send);
    if (i == size) {
      from_recv.assign(size, 0xAA);
      from_send.assign(size, 0xAA);
    } else {
      from_recv[i] ^= static_cast<std::uint8_t>(1U << (i % 8));
      from_send[i] ^= static_cast<std::uint8_t>(1U << (i % 8));
    }
    weft_result sender = left->connect(pair.send, from_recv);
    EXPECT_LT(sender, 0) << "byte " << i;
    // What a blob ends with may say nothing to a receiver, which waits for its sender then.
    const weft_result receiver = right->connect(pair.recv, from_send);
    EXPECT_NE(receiver, WEFT_OK) << "byte " << i;
    if (i < size - std::min(size, kUnusedByReceivers)) {
      EXPECT_LT(receiver, 0) << "byte " << i;
    }
    const Bytes shorter(from_recv.begin(), from_recv.begin() + static_cast<std::ptrdiff_t>(i) / 2);
    sender = left->connect(pair.send, shorter);
    EXPECT_EQ(sender, WEFT_ERROR_PEER);
    EXPECT_EQ(right->connect(pair.recv, shorter), WEFT_ERROR_PEER);
    close(pair);
    ASSERT_EQ(count_descriptors(), descriptors);
  }
}

TEST_F(TransportTest, RefusesBlobsOfOtherConnections) {
  const Pair one = prepare(14);
  const Pair two = prepare(15);
  EXPECT_EQ(left->connect(one.send, right->blob(two.recv)), WEFT_ERROR_PEER);
  EXPECT_EQ(right->connect(one.recv, left->blob(two.send)), WEFT_ERROR_PEER);
  EXPECT_EQ(left->connect(one.send, left->blob(one.send)), WEFT_ERROR_PEER);
  connect(one);
  connect(two);
  close(one);
  close(two);
}

TEST_F(TransportTest, NamesDifferentSizesAtBothEnds) {
  Pair pair;
  pair.send = left->prepare(WEFT_DIRECTION_SEND, 1, 16, {{WEFT_PROTOCOL_SIMPLE, 8, 4096}});
  pair.recv = right->prepare(WEFT_DIRECTION_RECV, 0, 16, {{WEFT_PROTOCOL_SIMPLE, 8, 8192}});
  EXPECT_EQ(left->connect(pair.send, right->blob(pair.recv)), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(right->connect(pair.recv, left->blob(pair.send)), WEFT_ERROR_MISMATCH);
  close(pair);
}

TEST_F(TransportTest, AbortReachesThePeer) {
  const Pair pair = connected(17);
  const weft_protocol_view to = left->describe(pair.send);
  const weft_protocol_view from = right->describe(pair.recv);
  left->table().abort(left->transport(), 77);
  EXPECT_EQ(std::atomic_ref(*from.error).load(), 77U);
  EXPECT_EQ(std::atomic_ref(*to.error).load(), 0U) << "its own end is told by the core";
  right->table().abort(right->transport(), 78);
  EXPECT_EQ(std::atomic_ref(*to.error).load(), 78U);
  *static_cast<char*>(to.buffer) = 1;  // Still mapped.
  close(pair);
}

// A sleeper may miss a wake-up that comes between its look at the error word and its sleep, so the
// abort is repeated until it has left; without any wake-up the test does not end.
TEST_F(TransportTest, AbortWakesSleepersAtBothEnds) {
  const Pair pair = connected(18, {{WEFT_PROTOCOL_SIMPLE, 1, 128}});
  const weft_protocol_view to = left->describe(pair.send);
  const weft_protocol_view from = right->describe(pair.recv);
  for (const bool receiver : {true, false}) {
    const weft_protocol_view& view = receiver ? from : to;
    std::atomic<bool> left_sleep = false;
    std::jthread sleeper([&] {
      if (receiver) {
        wait_for(view.tail, view.tail_waiters, 1, view.error);
      } else {
        wait_for(view.head, view.head_waiters, 1, view.error);
      }
      left_sleep.store(true);
    });
    std::uint32_t* waiters = receiver ? view.tail_waiters : view.head_waiters;
    while (std::atomic_ref(*waiters).load() == 0)
      std::this_thread::yield();
    Rank& other = receiver ? *left : *right;
    while (!left_sleep.load()) {
      other.table().abort(other.transport(), 5);
      std::this_thread::yield();
    }
  }
  close(pair);
}

TEST_F(TransportTest, AbortMayComeFromAnyThread) {
  std::atomic<bool> stop = false;
  std::jthread aborter([&] {
    while (!stop.load())
      left->table().abort(left->transport(), 3);
  });
  for (std::uint64_t i = 0; i < 20; ++i)
    close(connected(100 + i));
  stop.store(true);
}

TEST_F(TransportTest, RunsOutOfDescriptorsWithAnError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  const std::uint64_t descriptors = count_descriptors();
  const ScopedLimit limit(RLIMIT_NOFILE);
  bool refused = false;
  bool done = false;
  // The highest descriptor in use may lie above the count, so the limit starts well below it.
  for (rlim_t files = 1; files < 400 && !done; ++files) {
    limit.set(files);
    Pair pair;
    pair.send = left->prepare(WEFT_DIRECTION_SEND, 1, 19, {Protocol{}});
    pair.recv = right->prepare(WEFT_DIRECTION_RECV, 0, 19, {Protocol{}});
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    if (pair.recv == nullptr) {
      EXPECT_EQ(right->host().last_error().code, WEFT_ERROR_OUT_OF_RESOURCES);
      EXPECT_NE(right->host().last_error().hint.find("ulimit -n"), std::string::npos);
      refused = true;
    } else {
      const Bytes from_send = left->blob(pair.send);
      const Bytes from_recv = right->blob(pair.recv);
      for (int i = 0; i < 20 && (sender > 0 || receiver > 0); ++i) {
        if (sender > 0) sender = left->connect(pair.send, from_recv);
        if (sender >= 0 && receiver > 0) receiver = right->connect(pair.recv, from_send);
        if (sender < 0 || receiver < 0) {
          const Rank& at_fault = sender < 0 ? *left : *right;
          const ReportedError error = const_cast<Rank&>(at_fault).host().last_error();
          EXPECT_EQ(error.code, WEFT_ERROR_OUT_OF_RESOURCES) << error.what;
          EXPECT_NE(error.hint.find("ulimit -n"), std::string::npos) << error.hint;
          refused = true;
          break;
        }
      }
      done = sender == WEFT_OK && receiver == WEFT_OK;
      right->close(pair.recv);
    }
    left->close(pair.send);
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(done);
  limit.set(descriptors + 400);
  EXPECT_EQ(count_descriptors(), descriptors);
}

TEST_F(TransportTest, RunsOutOfAddressSpaceWithAnError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the address space itself";
  const std::uint64_t descriptors = count_descriptors();
  {
    const ScopedLimit limit(RLIMIT_AS);
    limit.set(rlim_t{1} << 28U);
    EXPECT_EQ(right->prepare(WEFT_DIRECTION_RECV, 0, 20, {{WEFT_PROTOCOL_SIMPLE, 8, 1U << 26U}}),
              nullptr);
  }
  const ReportedError error = right->host().last_error();
  EXPECT_EQ(error.code, WEFT_ERROR_OUT_OF_MEMORY) << error.what;
  EXPECT_EQ(error.source, WEFT_SOURCE_ERRNO);
  EXPECT_EQ(error.native, ENOMEM);
  EXPECT_NE(error.what.find("rank 0"), std::string::npos) << error.what;
  EXPECT_NE(error.hint, "");
  EXPECT_EQ(count_descriptors(), descriptors);
}

TEST_F(TransportTest, MoreMemoryThanThereIsIsAnError) {
  const std::uint64_t descriptors = count_descriptors();
  // 512 GiB: more than a machine that runs this has to give.
  EXPECT_EQ(right->prepare(WEFT_DIRECTION_RECV, 0, 21, {{WEFT_PROTOCOL_SIMPLE, 256, 1U << 31U}}),
            nullptr);
  EXPECT_EQ(right->host().last_error().code, WEFT_ERROR_OUT_OF_MEMORY)
      << right->host().last_error().what;
  EXPECT_EQ(count_descriptors(), descriptors);
}

}  // namespace
}  // namespace weft::test
