// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Device memory of p2p that several connections share, with one peer or with others: how much is
// allocated, who takes it how often, and which descriptors stay open. Each rank has an instance of
// the plugin of its own, as ranks of different processes have.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tests/plugin/transport/fake_devices.h"
#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

struct Setting {
  const char* mode;
  const char* sharing;
};

class P2pArenas : public testing::TestWithParam<Setting> {
 protected:
  /// One end, and the blob of the other one.
  struct End {
    Rank* rank = nullptr;
    weft_connection* connection = nullptr;
    Bytes peer_blob;
    weft_result result = WEFT_IN_PROGRESS;
  };
  struct Link {
    End send;
    End recv;
  };

  static constexpr std::uint64_t kPage = FakeDevices::kPageBytes;
  static constexpr std::uint64_t kSlotBytes = std::uint64_t{512} << 10;
  // The ends that share a connection keep a socket each for either one's memory.
  static constexpr std::uint64_t kLinesOfAPair = 4;

  void SetUp() override {
    if (plugin_path().find("weft-p2p") == std::string::npos) GTEST_SKIP() << "not p2p";
    before = count_descriptors();
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ranks.push_back(std::make_unique<Rank>(
          load_plugin(plugin_path()),
          Rank::Options{
              .rank = rank,
              .ranks = 3,
              .device = static_cast<std::int32_t>(rank),
              .memory = &FakeDevices::table(),
              .parameters = {{"mode", GetParam().mode}, {"device_sharing", GetParam().sharing}}}));
    }
    exported_before = devices().exported();
  }
  void TearDown() override {
    if (ranks.empty()) return;
    for (const Link& link : links) {
      link.send.rank->close(link.send.connection);
      link.recv.rank->close(link.recv.connection);
    }
    ranks.clear();
    EXPECT_EQ(devices().allocations(), 0U);
    EXPECT_EQ(devices().imports(), 0U);
    EXPECT_EQ(count_descriptors(), before);
  }

  static int sockets_here() {
    int found = 0;
    for (int descriptor = 0; descriptor < 1024; ++descriptor) {
      struct stat status{};
      if (::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode)) ++found;
    }
    return found;
  }
  static FakeDevices& devices() { return FakeDevices::instance(); }
  [[nodiscard]] static bool by_descriptor() {
    return std::string(GetParam().sharing) == "descriptor";
  }
  /// The rank whose memory the slots of a link lie in is `owner`.
  void prepare(std::uint32_t owner, std::uint32_t other, std::uint64_t bytes = kSlotBytes) {
    const bool reads = std::string(GetParam().mode) == "read";
    Rank& sender = *ranks[reads ? owner : other];
    Rank& receiver = *ranks[reads ? other : owner];
    const std::vector<Protocol> of = {
        {WEFT_PROTOCOL_SIMPLE, 4, static_cast<std::uint32_t>(bytes / 4)}};
    const std::uint64_t number = links.size();
    Link& link = links.emplace_back();
    link.send.rank = &sender;
    link.send.connection = sender.prepare(WEFT_DIRECTION_SEND, receiver.number(), number, of);
    link.recv.rank = &receiver;
    link.recv.connection = receiver.prepare(WEFT_DIRECTION_RECV, sender.number(), number, of);
    link.send.peer_blob = receiver.blob(link.recv.connection);
    link.recv.peer_blob = sender.blob(link.send.connection);
  }
  /// All that are prepared.
  void connect() {
    for (int round = 0; round < 100; ++round) {
      for (Link& link : links) {
        for (End* const end : {&link.send, &link.recv}) {
          if (end->result == WEFT_IN_PROGRESS) {
            end->result = end->rank->connect(end->connection, end->peer_blob);
          }
        }
      }
    }
    for (const Link& link : links) {
      EXPECT_EQ(link.send.result, WEFT_OK) << link.send.rank->host().last_error().what;
      EXPECT_EQ(link.recv.result, WEFT_OK) << link.recv.rank->host().last_error().what;
    }
  }
  void connect(std::uint32_t owner, std::uint32_t other, std::uint64_t bytes = kSlotBytes) {
    prepare(owner, other, bytes);
    connect();
  }

  [[nodiscard]] std::uint64_t held_by(std::uint32_t rank) const {
    std::uint64_t bytes = 0;
    EXPECT_EQ(ranks[rank]->table().bytes_held(ranks[rank]->transport(), &bytes), WEFT_OK);
    return bytes;
  }
  [[nodiscard]] std::size_t exported() const { return devices().exported() - exported_before; }
  /// Descriptors but for those of the devices themselves, one an allocation, and of these
  /// instances.
  [[nodiscard]] std::uint64_t descriptors() const {
    return count_descriptors() - before - devices().allocations();
  }

  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<Link> links;
  std::uint64_t before = 0;
  std::size_t exported_before = 0;
};

// A child that lives on would else keep the memory, though its owner frees it.
TEST_P(P2pArenas, AreNotKeptByForkedChildren) {
  prepare(0, 1);
  EXPECT_EQ(devices().descriptors_in_child(), 0);
  connect();
}

// It has the lines' ends of those that give, who hear no end of their own.
TEST_P(P2pArenas, AreNotHeldForAProcessThatHasDiedByItsChildren) {
  connect(0, 1);
  const int sockets = sockets_here();
  EXPECT_EQ(in_forked_child([] { return sockets_here(); }),
            sockets - static_cast<int>(by_descriptor() ? kLinesOfAPair / 2 : 0U));
}

TEST_P(P2pArenas, ConnectionsFillPages) {
  for (int i = 0; i < 8; ++i)
    connect(0, 1);
  EXPECT_EQ(held_by(0), 3 * kPage) << "two of slots, which fill them, and one of words";
  EXPECT_EQ(held_by(1), kPage);
  EXPECT_EQ(devices().allocations(), 4U);
  EXPECT_EQ(devices().imports(), 4U) << "each once";
  EXPECT_EQ(exported(), by_descriptor() ? 4U : 0U);
  EXPECT_EQ(descriptors(), by_descriptor() ? kLinesOfAPair : 0U);
}

TEST_P(P2pArenas, WhatIsLeftOfPagesIsUsed) {
  connect(0, 1, 3 * kPage + kPage / 2);
  EXPECT_EQ(held_by(0), 4 * kPage);
  connect(0, 1, 4 * kPage);
  EXPECT_EQ(held_by(0), 8 * kPage);
  connect(0, 2, kPage / 4);
  EXPECT_EQ(held_by(0), 8 * kPage);
}

// Each takes it once, whenever it comes, and meanwhile no descriptor is kept.
TEST_P(P2pArenas, PeersShareThem) {
  connect(0, 1);
  EXPECT_EQ(descriptors(), by_descriptor() ? kLinesOfAPair : 0U);
  EXPECT_EQ(exported(), by_descriptor() ? 2U : 0U);
  connect(0, 2);
  EXPECT_EQ(held_by(0), kPage);
  EXPECT_EQ(devices().allocations(), 3U);
  EXPECT_EQ(devices().imports(), 4U) << "the first rank's twice";
  EXPECT_EQ(exported(), by_descriptor() ? 4U : 0U);
  EXPECT_EQ(descriptors(), by_descriptor() ? 2 * kLinesOfAPair : 0U);
  connect(0, 1);
  connect(2, 0);
  EXPECT_EQ(devices().imports(), 4U) << "both have it";
  EXPECT_EQ(exported(), by_descriptor() ? 4U : 0U);
  EXPECT_EQ(descriptors(), by_descriptor() ? 2 * kLinesOfAPair : 0U);
}

// Before the first one of them has come, all ask for what there is.
TEST_P(P2pArenas, ManyThatConnectAtOnceKeepOneSocketOfEachPeer) {
  for (std::uint32_t i = 0; i < 40; ++i)
    prepare(0, 1 + i % 2);
  connect();
  EXPECT_EQ(held_by(0), 11 * kPage);
  EXPECT_EQ(devices().allocations(), 13U);
  EXPECT_EQ(exported(), by_descriptor() ? 13U : 0U);
  EXPECT_EQ(descriptors(), by_descriptor() ? 2 * kLinesOfAPair : 0U);
}

// Nobody would hand it out any more.
TEST_P(P2pArenas, AnEndIsReadyOnceItsPeerHasItsMemory) {
  for (const bool sends : {true, false}) {
    prepare(sends ? 0 : 2, 1, kPage);  // words have an arena of their own
    End& end = sends ? links.back().send : links.back().recv;
    const Rank& peer = *(sends ? links.back().recv : links.back().send).rank;
    for (int round = 0; round < 100; ++round) {
      EXPECT_EQ(peer.table().connect(peer.transport(), nullptr, nullptr, 0), WEFT_OK);
      if (end.result > 0) end.result = end.rank->connect(end.connection, end.peer_blob);
    }
    EXPECT_EQ(end.result, by_descriptor() ? WEFT_IN_PROGRESS : WEFT_OK) << sends;
    connect();
  }
}

// A peer that has the memory has used other parts of it meanwhile.
TEST_P(P2pArenas, NewPartsAreZeroed) {
  const auto words_are_zero = [](const weft_protocol_view& view) {
    const bool metadata = std::all_of(view.slots, view.slots + view.steps, [](const auto& slot) {
      return slot.size == 0 && slot.tag == 0;
    });
    return *view.head == 0 && *view.tail == 0 && *view.error == 0 && *view.peer_error == 0 &&
           metadata;
  };
  for (std::uint32_t i = 0; i < 6; ++i) {
    connect(0, 1 + i % 2, kSlotBytes / 8);
    for (const End* const end : {&links.back().send, &links.back().recv}) {
      const weft_protocol_view view = end->rank->describe(end->connection);
      const auto* bytes = static_cast<const std::byte*>(view.buffer);
      const std::uint64_t size = std::uint64_t{view.steps} * view.step_bytes;
      EXPECT_TRUE(std::all_of(bytes, bytes + size, [](std::byte one) {
        return one == std::byte{};
      })) << i;
      EXPECT_TRUE(words_are_zero(view)) << i;
    }
    const weft_protocol_view used = links.back().send.rank->describe(links.back().send.connection);
    std::memset(used.buffer, 1, std::size_t{used.steps} * used.step_bytes);
    std::memset(used.slots, 1, used.steps * sizeof(*used.slots));
    *used.head = *used.tail = 9;
    *used.error = *used.peer_error = 9;
  }
}

// After an abort nobody waits for anybody; any of its peers may still use it. Of what travels as
// bytes nobody tells when they have let go.
TEST_P(P2pArenas, StayUntilTheLastPeerHasLeft) {
  connect(0, 1, kPage);
  connect(0, 2);
  for (const auto& rank : ranks)
    rank->table().abort(rank->transport(), 77);
  for (const Link& link : links) {
    link.send.rank->close(link.send.connection);
    link.recv.rank->close(link.recv.connection);
  }
  links.clear();
  ranks[0]->leave();
  ASSERT_EQ(devices().allocations(), 4U);
  ranks[1]->leave();
  ranks[0]->join(43);
  EXPECT_EQ(devices().allocations(), by_descriptor() ? 3U : 4U)
      << "two of the first, one of the third rank";
  ranks[2]->leave();
  ranks[0]->leave();
  EXPECT_EQ(devices().allocations(), by_descriptor() ? 0U : 4U);
}

INSTANTIATE_TEST_SUITE_P(Settings, P2pArenas,
                         testing::Values(Setting{"write", "descriptor"}, Setting{"write", "ipc"},
                                         Setting{"read", "descriptor"}),
                         [](const auto& info) {
                           return std::string(info.param.mode) + "_" + info.param.sharing;
                         });

}  // namespace
}  // namespace weft::test
