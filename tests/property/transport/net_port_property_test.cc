// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Whatever order ends fill, free, enqueue and drive in, each message arrives once, in order and
// whole; no slot is filled anew before it was sent, nor received into before it was freed.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/base/wait.h"
#include "core/transport/net_port.h"
#include "tests/support/loopback_net.h"
#include "tests/support/net_workers.h"

namespace weft {
namespace {

using test::LoopbackNet;

// One connection from one of two ports to the other, with what its two kernels have done.
struct Stream {
  NetPort* from = nullptr;
  NetPort* to = nullptr;
  std::uint32_t sender = 0;
  std::uint32_t receiver = 0;
  std::vector<std::uint32_t> sizes = {};
  std::uint64_t send_target = 0;
  std::uint64_t receive_target = 0;
  std::uint64_t filled = 0;
  std::uint64_t freed = 0;
};

void enqueue(NetPort& port, std::uint32_t connection, std::uint64_t steps) {
  const ProgressOp operation{.connection = connection, .reserved = 0, .steps = steps};
  port.enqueue({&operation, 1});
}

// Fills one slot, if the operation and the room allow one.
void fill(Stream& stream, std::uint32_t size) {
  const ConnectionView view = stream.from->view(stream.sender);
  if (stream.filled >= stream.send_target ||
      stream.filled - load_counter(view.head) >= view.steps) {
    return;
  }
  test::fill_slot(view, stream.filled, size % (view.step_bytes + 1), stream.filled);
  stream.sizes.push_back(size % (view.step_bytes + 1));
  post(view.tail, view.tail_waiters, ++stream.filled);
}

// Looks at one slot that came, and frees it.
void take(Stream& stream) {
  const ConnectionView view = stream.to->view(stream.receiver);
  const std::uint64_t arrived = load_counter(view.tail);
  RC_ASSERT(arrived <= stream.filled && arrived <= stream.receive_target);
  if (stream.freed >= arrived) return;
  RC_ASSERT(test::check_slot(view, stream.freed, stream.sizes[stream.freed], stream.freed) == "");
  post(view.head, view.head_waiters, ++stream.freed);
}

// As a worker that waits, one that leaves, and the engine.
void act(NetPort& port, std::uint32_t amount) {
  constexpr NetPort::Time kMuchLater = NetPort::Time::max();
  switch (amount % 3) {
    case 0:
      port.progress();
      break;
    case 1:
      port.try_progress();
      break;
    default:
      port.keep(kMuchLater);
  }
}

RC_GTEST_PROP(NetPortProperty, MovesEachMessageOnceInAnyInterleaving, ()) {
  LoopbackNet net({.seed = *rc::gen::inRange<std::uint32_t>(1, 1'000'000),
                   .again_percent = *rc::gen::inRange<std::uint32_t>(0, 60),
                   .max_requests = *rc::gen::inRange<std::uint32_t>(1, 10),
                   .shuffle = *rc::gen::arbitrary<bool>()});
  const SlotGeometry geometry{.steps = *rc::gen::inRange<std::uint32_t>(1, 9),
                              .step_bytes = *rc::gen::inRange<std::uint32_t>(1, 300)};
  weft_net* nets[2] = {net.open(), net.open()};
  {
    const auto failed = [](const Error& error) { RC_FAIL(error.to_string()); };
    MemoryAccount memory(net.runtime());
    NetPort left(net.plugin(), nets[0], net.runtime(), memory, failed);
    NetPort right(net.plugin(), nets[1], net.runtime(), memory, failed);
    std::vector<Stream> streams;
    const auto count = *rc::gen::inRange(1, 4);
    for (int i = 0; i < count; ++i) {
      const bool rightwards = i % 2 == 0;
      NetPort& from = rightwards ? left : right;
      NetPort& to = rightwards ? right : left;
      const auto pair = net.connect(nets[rightwards ? 0 : 1], nets[rightwards ? 1 : 0]);
      streams.push_back(
          {.from = &from,
           .to = &to,
           .sender = from.add(pair.sender, WEFT_DIRECTION_SEND, 1, geometry).value(),
           .receiver = to.add(pair.receiver, WEFT_DIRECTION_RECV, 0, geometry).value()});
    }

    const auto moves = *rc::gen::container<std::vector<std::uint32_t>>(
        rc::gen::inRange<std::uint32_t>(0, 1'000'000));
    for (const std::uint32_t move : moves) {
      Stream& stream = streams[move / 8 % streams.size()];
      const std::uint32_t amount = move / 64;
      switch (move % 8) {
        case 0:
          enqueue(*stream.from, stream.sender, amount % 20);
          stream.send_target += amount % 20;
          break;
        case 1:
          enqueue(*stream.to, stream.receiver, amount % 20);
          stream.receive_target += amount % 20;
          break;
        case 2:
        case 3:
          fill(stream, amount);
          break;
        case 4:
        case 5:
          take(stream);
          break;
        case 6:
          act(left, amount);
          break;
        default:
          act(right, amount);
      }
    }

    // Both ends end up with the same operations; then all of it moves.
    for (Stream& stream : streams) {
      const std::uint64_t target = std::max(stream.send_target, stream.receive_target);
      enqueue(*stream.from, stream.sender, target - stream.send_target);
      enqueue(*stream.to, stream.receiver, target - stream.receive_target);
      stream.send_target = stream.receive_target = target;
    }
    for (int round = 0; round < 100'000 && (left.busy() || right.busy()); ++round) {
      for (Stream& stream : streams) {
        fill(stream, static_cast<std::uint32_t>(round) * 37);
        take(stream);
      }
      left.progress();
      right.progress();
    }
    RC_ASSERT(!left.busy() && !right.busy());
    for (Stream& stream : streams) {
      while (stream.freed < stream.receive_target)
        take(stream);
      RC_ASSERT(stream.freed == stream.filled);
      RC_ASSERT(load_counter(stream.from->view(stream.sender).head) == stream.filled);
    }
    RC_ASSERT(left.describe_waiting().empty() && right.describe_waiting().empty());
  }
  for (weft_net* each : nets)
    net.plugin().close(each);
  RC_ASSERT(net.open_objects() == 0);
}

}  // namespace
}  // namespace weft
