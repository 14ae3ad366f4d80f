// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Several ports of one rank to a net, each with an engine of its own: they move messages side by
// side, and one that fails takes the others along.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/wait.h"
#include "core/transport/net_devices.h"
#include "core/transport/net_port.h"
#include "core/transport/progress_engine.h"
#include "tests/support/loopback_net.h"
#include "tests/support/net_workers.h"

namespace weft {
namespace {

using test::LoopbackNet;
using test::LoopbackOptions;
using test::NetWorker;

constexpr std::size_t kPorts = 3;
constexpr SlotGeometry kSlots{.steps = 4, .step_bytes = 256};

// Looks for what must come, up to a limit that is for what is broken.
template <typename Condition>
bool comes(Condition condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Two ranks' ports, a connection from each of the first rank's to one of the second's.
class NetPorts : public testing::Test {
 protected:
  struct Lane {
    weft_net* from = nullptr;
    weft_net* to = nullptr;
    LoopbackNet::Pair pair;
    std::unique_ptr<ProgressEngine> engine;
    std::unique_ptr<NetPort> sender;
    std::unique_ptr<NetPort> receiver;
  };

  void start(LoopbackOptions options) {
    net_ = std::make_unique<LoopbackNet>(options);
    memory_ = std::make_unique<MemoryAccount>(net_->runtime());
    for (Lane& lane : lanes_) {
      lane.from = net_->open();
      lane.to = net_->open();
      lane.pair = net_->connect(lane.from, lane.to);
      lane.engine = ProgressEngine::create(net_->logger()).value();
      const auto failed = [this](const Error& error) { fail(error); };
      lane.sender = std::make_unique<NetPort>(net_->plugin(), lane.from, net_->runtime(), *memory_,
                                              failed, options.unregistered);
      lane.receiver = std::make_unique<NetPort>(net_->plugin(), lane.to, net_->runtime(), *memory_,
                                                failed, options.unregistered);
      ASSERT_TRUE(lane.sender->add(lane.pair.sender, WEFT_DIRECTION_SEND, 1, kSlots));
      ASSERT_TRUE(lane.receiver->add(lane.pair.receiver, WEFT_DIRECTION_RECV, 0, kSlots));
      ASSERT_TRUE(lane.engine->add(*lane.sender));
      ASSERT_TRUE(lane.engine->add(*lane.receiver));
    }
  }
  void TearDown() override {
    for (Lane& lane : lanes_) {
      lane.engine->remove(*lane.sender);
      lane.engine->remove(*lane.receiver);
      lane.sender.reset();
      lane.receiver.reset();
      net_->plugin().close(lane.from);
      net_->plugin().close(lane.to);
    }
    EXPECT_EQ(memory_->bytes_held(), 0U);
    EXPECT_EQ(net_->open_objects(), 0);
  }
  // As a communicator does: what it hears first counts, and all that it has gives up.
  void fail(const Error& error) {
    {
      const std::scoped_lock lock(mutex_);
      failures_.push_back(error.to_string());
      if (failures_.size() > 1) return;
    }
    failed_.store(true);
  }
  void abort_all() {
    for (Lane& lane : lanes_) {
      lane.sender->abort();
      lane.receiver->abort();
    }
  }
  static void enqueue(NetPort& port, std::uint64_t steps) {
    const ProgressOp operation{.connection = 0, .reserved = 0, .steps = steps};
    port.enqueue({&operation, 1});
  }
  static void fill(Lane& lane, std::uint64_t step) {
    const ConnectionView view = lane.sender->view(0);
    test::fill_slot(view, step, 100, 70 + step);
    post(view.tail, view.tail_waiters, step + 1);
  }
  static void hand_over(Lane& lane) {
    lane.engine->take_over(*lane.sender);
    lane.engine->take_over(*lane.receiver);
  }
  [[nodiscard]] static std::uint64_t arrived(const Lane& lane) {
    return load_counter(lane.receiver->view(0).tail);
  }

  std::unique_ptr<LoopbackNet> net_;
  std::unique_ptr<MemoryAccount> memory_;
  std::array<Lane, kPorts> lanes_;
  std::mutex mutex_;
  std::vector<std::string> failures_;
  std::atomic<bool> failed_{false};
};

constexpr weft_direction kSent = WEFT_DIRECTION_SEND;

TEST(PortOfChannel, RingsTakeTurnsWhoeverThePeersAre) {
  for (std::uint32_t channel = 0; channel < 8; ++channel) {
    for (const std::uint32_t peer : {0U, 1U, 5U})
      EXPECT_EQ(port_of_channel(channel, peer, kSent, 3), channel % 3);
  }
  EXPECT_EQ(port_of_channel(7, 1, kSent, 1), 0U);
}

TEST(PortOfChannel, EachKindOfConnectionsUsesAllPortsEvenly) {
  for (const std::uint32_t first : {0U, kFirstTreeChannel, kFirstLLChannel, kFirstLL128Channel,
                                    kFirstSmallChannel, kPairChannel}) {
    for (const std::size_t ports : {1U, 2U, 3U, 7U}) {
      std::vector<int> connections(ports);
      for (std::uint32_t channel = 0; channel < 2 * ports; ++channel)
        ++connections.at(port_of_channel(first + channel, 4, kSent, ports));
      EXPECT_EQ(connections, std::vector<int>(ports, 2)) << first;
    }
  }
}

TEST(PortOfChannel, PartnersOfSendsBeginWithAnotherPortEach) {
  for (const std::size_t ports : {1U, 2U, 4U, 8U}) {
    std::set<std::size_t> first;
    for (std::uint32_t peer = 0; peer < ports; ++peer) {
      first.insert(port_of_channel(kPairChannel, peer, kSent, ports));
      EXPECT_EQ(port_of_channel(kDirectChannel, peer, kSent, ports),
                port_of_channel(kPairChannel, peer, kSent, ports));
      EXPECT_EQ(port_of_channel(kPairChannel + 1, peer, kSent, ports),
                (port_of_channel(kPairChannel, peer, kSent, ports) + 1) % ports);
      EXPECT_EQ(port_of_channel(inbox_channel(1), peer, kSent, ports),
                (port_of_channel(kPairChannel, peer, kSent, ports) + 1) % ports);
    }
    EXPECT_EQ(first.size(), ports);
  }
}

// Who sends and receives at once has a thread for each, where there are two.
TEST(PortOfChannel, WhatIsReceivedComesByOtherPortsThanWhatIsSent) {
  for (const std::uint32_t channel :
       {0U, 3U, kFirstTreeChannel, kFirstSmallChannel, kDirectChannel, kPairChannel + 1}) {
    for (const std::size_t ports : {1U, 2U, 3U, 4U, 8U}) {
      const std::size_t sent = port_of_channel(channel, 1, kSent, ports);
      const std::size_t received = port_of_channel(channel, 1, WEFT_DIRECTION_RECV, ports);
      EXPECT_LT(received, ports);
      EXPECT_EQ(sent == received, ports == 1) << channel << " of " << ports;
    }
  }
}

// By bit reversal: messages of two channels with four partners in a row, of four with two.
TEST(PortOfChannel, PartnersThatAreNearEachOtherShareNoPorts) {
  constexpr std::size_t kPorts = 8;
  for (const std::uint32_t channels : {1U, 2U, 4U, 8U}) {
    const std::uint32_t partners = kPorts / channels;
    for (std::uint32_t begin = 0; begin < 3 * kPorts; begin += partners) {
      std::set<std::size_t> used;
      for (std::uint32_t partner = begin; partner < begin + partners; ++partner) {
        for (std::uint32_t channel = 0; channel < channels; ++channel)
          used.insert(port_of_channel(kPairChannel + channel, partner, kSent, kPorts));
      }
      EXPECT_EQ(used.size(), kPorts) << channels << " channels, from " << begin;
    }
  }
}

// An engine that cannot get on with its port holds up no other one's.
TEST_F(NetPorts, MoveMessagesSideBySide) {
  start({});
  for (Lane& lane : lanes_) {
    enqueue(*lane.sender, 2);
    enqueue(*lane.receiver, 2);
    fill(lane, 0);
    fill(lane, 1);
  }
  {
    const auto held = lanes_[0].sender->lock();
    for (Lane& lane : lanes_)
      hand_over(lane);
    for (std::size_t i = 1; i < kPorts; ++i)
      EXPECT_TRUE(comes([&] { return arrived(lanes_[i]) == 2; })) << "port " << i;
    EXPECT_EQ(arrived(lanes_[0]), 0U);
  }
  for (Lane& lane : lanes_)
    EXPECT_TRUE(comes([&] { return lane.engine->ports_on_duty() == 0; }));
  for (const Lane& lane : lanes_) {
    for (std::uint64_t step = 0; step < 2; ++step)
      EXPECT_EQ(test::check_slot(lane.receiver->view(0), step, 100, 70 + step), "");
  }
  EXPECT_TRUE(failures_.empty());
}

TEST_F(NetPorts, CarryWhatWorkersSendAndReceiveAtOnce) {
  start({.again_percent = 10, .shuffle = true});
  std::vector<std::unique_ptr<NetWorker>> workers;
  for (Lane& lane : lanes_) {
    workers.push_back(std::make_unique<NetWorker>(*lane.sender, *lane.engine));
    workers.push_back(std::make_unique<NetWorker>(*lane.receiver, *lane.engine));
  }
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      threads.emplace_back([&workers, i] {
        for (std::uint64_t call = 0; call < 40; ++call) {
          if (i % 2 == 0) {
            workers[i]->send(call, 1 + call % 5);
          } else {
            workers[i]->receive(call, 1 + call % 5);
          }
        }
      });
    }
  }
  for (const auto& worker : workers)
    EXPECT_EQ(worker->mistake(), "");
  for (Lane& lane : lanes_)
    EXPECT_TRUE(comes([&] { return lane.engine->ports_on_duty() == 0; }));
  EXPECT_TRUE(failures_.empty());
}

// What the ports do that are told to give up because of another one is no failure of theirs.
TEST_F(NetPorts, AllRestOnceOneHasFailedAndNoneButThatReports) {
  start({});
  net_->break_after(lanes_[1].pair, 0);
  for (Lane& lane : lanes_) {
    enqueue(*lane.sender, 4);
    enqueue(*lane.receiver, 4);
    // Nothing comes of the others: only the abort ends their duty.
    if (&lane == &lanes_[1]) fill(lane, 0);
    lane.engine->take_over(*lane.sender);
  }
  ASSERT_TRUE(comes([&] { return failed_.load(); }));
  abort_all();
  for (Lane& lane : lanes_) {
    EXPECT_TRUE(comes([&] { return lane.engine->ports_on_duty() == 0; }));
    EXPECT_FALSE(lane.sender->busy() || lane.receiver->busy());
    lane.receiver->progress();
  }
  const std::scoped_lock lock(mutex_);
  EXPECT_EQ(failures_,
            std::vector<std::string>{"moving messages to rank 1: plugin loopback: the wire of the "
                                     "sender broke"});
}

}  // namespace
}  // namespace weft
