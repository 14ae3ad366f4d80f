// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends between two ranks that a net joins, small ones by lines that ports carry and others by
// steps: the kernels' templates, the transfers that calls make and the ports, over a net in memory.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/pair_calls.h"
#include "core/device/pair_batch.h"
#include "core/transport/net_port.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/support/loopback_net.h"

namespace weft {
namespace {

using device::testing::LaneFibers;
using device::testing::LaneGroup;
using device::testing::LaneMemory;
using device::testing::LaneTeams;
using test::LoopbackNet;

constexpr std::uint32_t kRanksOfPair = 2;
constexpr std::uint32_t kLanesOfRank = 8;
constexpr SlotGeometry kSlotsOfPair{.steps = 4, .step_bytes = 512, .line_payload = 256};
constexpr std::byte kUnwritten{0x5a};

std::byte byte_of(std::uint32_t from, std::uint64_t at, std::uint64_t call) {
  return static_cast<std::byte>(from * 131 + at * 7 + call * 29);
}

/// Two ranks with a port each, and a connection each way.
class Pair {
 public:
  Pair() {
    for (Rank& rank : ranks_) {
      rank.net = net_.open();
      rank.port = std::make_unique<NetPort>(net_.plugin(), rank.net, net_.runtime(), rank.memory,
                                            [this](const Error& error) { note(error); });
      rank.ends.spread = {.channels = 1, .most_by_lines_of_net = kSlotsOfPair.line_payload};
      rank.ends.towards = [&rank](std::uint32_t, std::uint32_t) -> const PairConnections& {
        return rank.connections;
      };
    }
    for (std::uint32_t from = 0; from < kRanksOfPair; ++from) {
      const LoopbackNet::Pair pair = net_.connect(ranks_[from].net, ranks_[1 - from].net);
      add(from, ranks_[from].connections.to, pair.sender, WEFT_DIRECTION_SEND);
      add(1 - from, ranks_[1 - from].connections.from, pair.receiver, WEFT_DIRECTION_RECV);
    }
  }
  ~Pair() {
    for (Rank& rank : ranks_) {
      rank.port.reset();
      net_.plugin().close(rank.net);
    }
    EXPECT_EQ(net_.open_objects(), 0);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// Rank r sends sent[r] bytes and receives received[r], both in one group; 0: it does not.
  /// Answers how the kernels end.
  std::vector<KernelOutcome> run(const std::uint64_t (&sent)[kRanksOfPair],
                                 const std::uint64_t (&received)[kRanksOfPair],
                                 std::uint64_t call) {
    std::vector<KernelOutcome> outcomes(kRanksOfPair);
    std::uint32_t left = kRanksOfPair;
    LaneTeams teams;
    for (std::uint32_t r = 0; r < kRanksOfPair; ++r) {
      Rank& rank = ranks_[r];
      prepare(r, sent[r], received[r], call);
      teams.add("rank " + std::to_string(r), kLanesOfRank, [&, r](LaneGroup& group) {
        LaneMemory memory(abort_);
        const KernelOutcome outcome = device::PairBatch<LaneGroup, LaneMemory>(
                                          group, memory, rank.transfers.data(),
                                          static_cast<std::uint32_t>(rank.transfers.size()))
                                          .run();
        if (!group.leader()) return;
        outcomes[r] = outcome;
        --left;
      });
    }
    teams.add("ports", 1, [&](LaneGroup& /*group*/) {
      const auto move = [&] {
        bool moved = false;
        for (Rank& rank : ranks_)
          moved = rank.port->progress() || moved;
        return moved;
      };
      while (left != 0 || move()) {
        move();
        LaneFibers::look_again({.what = "messages"});
      }
    });
    teams.run();
    return outcomes;
  }

  /// What is wrong with what a rank received.
  [[nodiscard]] std::string mistake_of(std::uint32_t rank, std::uint64_t bytes,
                                       std::uint64_t call) const {
    const std::vector<std::byte>& got = ranks_[rank].output;
    for (std::uint64_t at = 0; at < got.size(); ++at) {
      const std::byte wanted = at < bytes ? byte_of(1 - rank, at, call) : kUnwritten;
      if (got[at] != wanted) return "byte " + std::to_string(at) + " of " + std::to_string(bytes);
    }
    return "";
  }
  [[nodiscard]] bool goes_by_lines(std::uint32_t rank, std::size_t transfer) const {
    return ranks_[rank].transfers[transfer].payload == PairPayload::kLines;
  }
  [[nodiscard]] std::vector<std::string> failures() {
    const std::scoped_lock lock(mutex_);
    return failures_;
  }

 private:
  struct Rank {
    explicit Rank(DeviceRuntime& runtime) : memory(runtime) {}
    weft_net* net = nullptr;
    MemoryAccount memory;
    std::unique_ptr<NetPort> port;
    PairConnections connections;
    ConnectionCursor cursors[2]{};
    PairEnds ends;
    PairNumbers numbers;
    std::vector<std::byte> input;
    std::vector<std::byte> output;
    std::vector<PairTransfer> transfers;
  };

  void add(std::uint32_t r, ConnectionEnd& end, weft_net_connection* connection,
           weft_direction direction) {
    Rank& rank = ranks_[r];
    end.port = rank.port.get();
    end.port_connection = rank.port->add(connection, direction, 1 - r, kSlotsOfPair).value();
    end.view = rank.port->view(end.port_connection);
    end.line_view = rank.port->line_view(end.port_connection);
    for (ConnectionView* const view : {&end.view, &end.line_view}) {
      view->cursor = &rank.cursors[direction == WEFT_DIRECTION_SEND ? 0 : 1];
      view->error = &error_;  // which these lanes want, and no net has
    }
  }

  void prepare(std::uint32_t r, std::uint64_t sent, std::uint64_t received, std::uint64_t call) {
    Rank& rank = ranks_[r];
    rank.input.resize(sent);
    for (std::uint64_t at = 0; at < sent; ++at)
      rank.input[at] = byte_of(r, at, call);
    rank.output.assign(received + 16, kUnwritten);
    std::vector<Call> calls;
    const auto task = [r](Operation operation, std::uint64_t bytes) {
      return Task{.operation = operation, .type = WEFT_INT8, .root = 1 - r, .count = bytes};
    };
    Call send{.task = task(Operation::kSend, sent)};
    send.send = rank.input.data();
    Call receive{.task = task(Operation::kRecv, received)};
    receive.recv = rank.output.data();
    const std::vector<const Call*> pointers{&send, &receive};
    std::vector<PairMessage> messages;
    std::vector<PairTask> tasks;
    rank.transfers.clear();
    make_transfers(pointers, r, rank.numbers, rank.ends, rank.transfers, messages, tasks);
    for (const PairMessage& message : messages)
      message.port->enqueue({&message.operation, 1});
  }
  void note(const Error& error) {
    const std::scoped_lock lock(mutex_);
    failures_.push_back(error.to_string());
  }

  std::mutex mutex_;
  std::vector<std::string> failures_;
  LoopbackNet net_{{.seed = 11, .again_percent = 30, .shuffle = true}};
  Rank ranks_[kRanksOfPair]{Rank(net_.runtime()), Rank(net_.runtime())};
  std::atomic<std::uint32_t> abort_{0};
  std::uint32_t error_ = 0;
};

TEST(SendsOverANet, GoByLinesUpToWhatTheseHoldAndByStepsBeyond) {
  Pair pair;
  std::minstd_rand random(5);
  const std::uint64_t sizes[] = {1, 7, 8, 64, 255, 256, 257, 512, 513, 5000};
  for (std::uint64_t call = 0; call < 200; ++call) {
    const std::uint64_t there = sizes[random() % std::size(sizes)];
    const std::uint64_t back = call % 5 == 0 ? 0 : sizes[random() % std::size(sizes)];
    SCOPED_TRACE("call " + std::to_string(call));
    for (const KernelOutcome& outcome : pair.run({there, back}, {back, there}, call))
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
    ASSERT_EQ(pair.mistake_of(1, there, call), "");
    ASSERT_EQ(pair.mistake_of(0, back, call), "");
    EXPECT_EQ(pair.goes_by_lines(0, 0), there <= 256);
    ASSERT_EQ(pair.failures(), std::vector<std::string>{});
  }
}

// Where both ends have different lengths in mind each finds the other's message, whichever way it
// takes that itself.
TEST(SendsOverANet, EndReceivesOfAnotherLength) {
  const std::uint64_t sizes[] = {8, 64, 400, 5000};
  for (const std::uint64_t sent : sizes) {
    for (const std::uint64_t received : sizes) {
      if (sent == received) continue;
      SCOPED_TRACE(std::to_string(sent) + " received as " + std::to_string(received));
      Pair pair;
      for (const KernelOutcome& outcome : pair.run({64, 600}, {600, 64}, 0))
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
      // As many steps as slots, so the sender waits for nobody.
      if (sent > kSlotsOfPair.steps * std::uint64_t{kSlotsOfPair.step_bytes}) continue;
      const std::vector<KernelOutcome> outcomes = pair.run({sent, 0}, {0, received}, 1);
      EXPECT_EQ(outcomes[0].end, KernelEnd::kDone);
      EXPECT_EQ(outcomes[1].end, KernelEnd::kTagMismatch);
      EXPECT_EQ(pair.failures(), std::vector<std::string>{});
    }
  }
}

}  // namespace
}  // namespace weft
