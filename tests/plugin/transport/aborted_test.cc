// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What becomes of device memory when a rank leaves: kernels of peers may still use it, so it is
// used again once all who imported it have let go, and not before. Each rank has an instance of the
// plugin of its own, as ranks of different processes have.
#include <memory>
#include <string>
#include <vector>

#include "tests/plugin/transport/fake_devices.h"
#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

class P2pAborted : public testing::Test {
 protected:
  void SetUp() override {
    if (plugin_path().find("weft-p2p") == std::string::npos) GTEST_SKIP() << "not p2p";
  }

  void make_ranks(const std::string& sharing) {
    for (std::uint32_t rank : {0U, 1U}) {
      ranks.push_back(std::make_unique<Rank>(
          entry, Rank::Options{.rank = rank,
                               .device = static_cast<std::int32_t>(rank),
                               .memory = &FakeDevices::table(),
                               .parameters = {{"device_sharing", sharing}}}));
    }
  }
  static constexpr std::uint32_t kPage = FakeDevices::kPageBytes;

  /// Arenas of both ranks, imported by the other one.
  void connect(std::uint64_t number, const Protocol& of = {}) {
    weft_connection* send = ranks[0]->prepare(WEFT_DIRECTION_SEND, 1, number, {of});
    weft_connection* recv = ranks[1]->prepare(WEFT_DIRECTION_RECV, 0, number, {of});
    ASSERT_NE(send, nullptr) << ranks[0]->host().last_error().what;
    ASSERT_NE(recv, nullptr) << ranks[1]->host().last_error().what;
    const Bytes from_send = ranks[0]->blob(send);
    const Bytes from_recv = ranks[1]->blob(recv);
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    for (int round = 0; round < 100 && (sender != WEFT_OK || receiver != WEFT_OK); ++round) {
      if (sender != WEFT_OK) sender = ranks[0]->connect(send, from_recv);
      if (receiver != WEFT_OK) receiver = ranks[1]->connect(recv, from_send);
    }
    ASSERT_EQ(sender, WEFT_OK) << ranks[0]->host().last_error().what;
    ASSERT_EQ(receiver, WEFT_OK) << ranks[1]->host().last_error().what;
    open.emplace_back(send, recv);
  }
  void abort() {
    for (const auto& rank : ranks)
      rank->table().abort(rank->transport(), 77);
    for (const auto& [send, recv] : open) {
      ranks[0]->close(send);
      ranks[1]->close(recv);
    }
    open.clear();
  }
  static std::size_t arenas() { return FakeDevices::instance().allocations(); }

  const weft_plugin_descriptor* entry = load_plugin(plugin_path());
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<std::pair<weft_connection*, weft_connection*>> open;
};

TEST_F(P2pAborted, MemoryIsKeptUntilThePeerHasLetGo) {
  const std::uint64_t before = count_descriptors();
  make_ranks("descriptor");
  connect(1);
  connect(2, {.steps = 1, .step_bytes = 3 * kPage});  // needs no second socket that stays
  ASSERT_EQ(arenas(), 3U);
  abort();
  ranks[0]->leave();
  EXPECT_EQ(arenas(), 3U) << "the peer has it mapped";
  ranks[0]->join(43);
  EXPECT_EQ(arenas(), 3U) << "the peer has it mapped";
  ranks[1]->leave();
  EXPECT_EQ(arenas(), 1U) << "nobody has the second rank's any more";
  ranks[0]->leave();
  EXPECT_EQ(arenas(), 0U);
  ranks.clear();
  EXPECT_EQ(FakeDevices::instance().imports(), 0U);
  EXPECT_EQ(count_descriptors(), before);
}

TEST_F(P2pAborted, MemoryIsUsedAgainAfterThePeersEnd) {
  make_ranks("descriptor");
  connect(1);
  abort();
  ranks[0]->leave();
  ASSERT_EQ(arenas(), 2U);
  ranks.pop_back();
  ASSERT_EQ(arenas(), 1U);
  ranks[0]->join(43);
  EXPECT_EQ(arenas(), 0U);
}

// Nobody tells when a peer lets go of what travelled as bytes.
TEST_F(P2pAborted, MemoryOfCudaIpcIsKeptWhileTheInstanceLives) {
  make_ranks("ipc");
  connect(1);
  abort();
  ranks[0]->leave();
  ranks[1]->leave();
  for (const auto& rank : ranks)
    rank->join(43);
  EXPECT_EQ(arenas(), 2U);
  ranks.clear();
  EXPECT_EQ(arenas(), 0U);
}

// Who only sends has done all it has to before its receivers give its slots back.
TEST_F(P2pAborted, MemoryIsKeptForPeersThatAreNotDone) {
  make_ranks("descriptor");
  connect(1);
  ranks[0]->close(open[0].first);
  ranks[0]->leave();
  EXPECT_EQ(arenas(), 2U);
  ranks[0]->join(43);
  EXPECT_EQ(arenas(), 2U);
  ranks[1]->close(open[0].second);
  ranks[1]->leave();
  EXPECT_EQ(arenas(), 1U) << "nobody has the second rank's any more";
  ranks[0]->leave();
  EXPECT_EQ(arenas(), 0U);
}

// It would stay for as long as the instance, for each communicator.
TEST_F(P2pAborted, MemoryOfCudaIpcGoesAtOnceWithoutAnAbort) {
  make_ranks("ipc");
  connect(1);
  ranks[0]->close(open[0].first);
  ranks[0]->leave();
  EXPECT_EQ(arenas(), 1U);
  ranks[1]->close(open[0].second);
  ranks[1]->leave();
  EXPECT_EQ(arenas(), 0U);
}

}  // namespace
}  // namespace weft::test
