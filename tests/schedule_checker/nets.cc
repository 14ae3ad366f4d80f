// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/nets.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace weft::checker {

void Nets::add(std::uint32_t from, std::uint32_t to, std::uint32_t channel, std::uint64_t steps) {
  const std::size_t out = connections_.add(from, number_, channel);
  edges_.push_back({.from = from,
                    .to = to,
                    .channel = channel,
                    .steps = steps,
                    .out = out,
                    .in = connections_.add(number_, to, channel)});
}

ConnectionView Nets::sender(std::size_t edge) {
  ConnectionView view = connections_.sender(edges_[edge].out);
  view.peer = edges_[edge].to;
  view.borrows = true;
  return view;
}

ConnectionView Nets::receiver(std::size_t edge) {
  ConnectionView view = connections_.receiver(edges_[edge].in);
  view.peer = edges_[edge].from;
  view.lands = true;
  return view;
}

void Nets::begin(std::size_t edge, std::uint64_t steps, const LandingWalk& walk) {
  Edge& it = edges_[edge];
  it.begun += steps;
  it.landings.push_back({.end = it.begun, .walk = walk});
  world_.fibers.raised(&it.begun, false, it.at_begun);
}

std::string Nets::name(std::size_t edge) const {
  return fmt::format("the net from {} to {}, channel {},", edges_[edge].from, edges_[edge].to,
                     edges_[edge].channel);
}

void Nets::run(std::size_t edge) {
  Edge& it = edges_[edge];
  const Actor net{.rank = number_, .channel = it.channel};
  Connection& out = connections_.at(it.out);
  Connection& in = connections_.at(it.in);
  for (std::uint64_t step = 0; step < it.steps; ++step) {
    // What is received is posted by the call that it is for.
    if (!world_.fibers.wait(&it.begun, step + 1, it.at_begun) ||
        !await(net, out, &out.tail, step + 1) ||
        !await(net, in, &in.head, step < slots_ ? 0 : step + 1 - slots_)) {
      return;
    }
    world_.fibers.perhaps_yield();
    if (world_.fibers.stopped() || !move(it, net, step)) return;
    post(net, in, &in.tail, step + 1);
    post(net, out, &out.head, step + 1);
  }
}

bool Nets::await(const Actor& net, Connection& connection, const std::uint64_t* counter,
                 std::uint64_t threshold) {
  if (!world_.fibers.wait(counter, threshold, connection.waiters(counter))) return false;
  Connections::seen(net, connection, counter, *counter);
  return true;
}

void Nets::post(const Actor& net, Connection& connection, std::uint64_t* counter,
                std::uint64_t value) {
  if (!connections_.post(net, connection, counter, value)) {
    stop();
    return;
  }
  world_.fibers.raised(counter, counter == &connection.tail, connection.waiters(counter));
}

bool Nets::move(Edge& edge, const Actor& net, std::uint64_t step) {
  const ConnectionView from = connections_.receiver(edge.out);
  const ConnectionView to = connections_.sender(edge.in);
  const std::uint64_t place = step % slots_;
  const SlotMeta& meta = from.slots[place];
  const std::byte* const slot = from.buffer + place * from.step_bytes;
  const bool lent = meta.offset == kLent;
  const std::byte* payload = lent ? nullptr : slot + meta.offset;
  if (lent) {
    std::memcpy(static_cast<void*>(&payload), slot, sizeof(payload));
    if (!world_.buffers.holds(payload)) {
      return wrong(net, Rule::kOutside, "is lent what lies in no buffer");
    }
    if (!world_.buffers.may_borrow(net, edge.from, world_.under_way.at(edge.from), payload,
                                   meta.size)) {
      return stop();
    }
    connections_.at(edge.out).bytes += meta.size;
  } else if (!connections_.may_read(net, connections_.slot_of(payload, meta.size), payload,
                                    meta.size)) {
    return stop();
  }
  while (edge.landings.front().end <= step)
    edge.landings.pop_front();
  const LandingWalk::Step due = edge.landings.front().walk.next();
  if (due.bytes != 0 && due.bytes != meta.size) {
    return wrong(net, Rule::kTraffic,
                 fmt::format("brings {} bytes where {} are to land", meta.size, due.bytes));
  }
  std::byte* const target = due.target != nullptr ? due.target : to.buffer + place * to.step_bytes;
  const Actor receiver{.rank = edge.to, .channel = edge.channel};
  if (due.target != nullptr && !world_.buffers.holds(target)) {
    return wrong(net, Rule::kOutside, "is to let something land in no buffer");
  }
  const bool may =
      due.target == nullptr
          ? connections_.may_write(net, connections_.slot_of(target, meta.size), meta.size)
          : world_.buffers.may_write(receiver, target, meta.size);
  if (!may) return stop();
  for (std::size_t i = 0; i < meta.size / sizeof(Value); ++i) {
    const Value value = reinterpret_cast<const Value*>(payload)[i];
    if (value < kFirstSomething) {
      return wrong(net, lent ? Rule::kNotWritten : Rule::kReadTooEarly,
                   "takes an element that nobody wrote");
    }
    // A hop, which what lies in a slot has made already.
    reinterpret_cast<Value*>(target)[i] = value + (lent ? 1 : 0);
  }
  to.slots[place] = {
      .size = meta.size, .offset = due.target == nullptr ? 0 : kLent, .tag = meta.tag};
  return true;
}

bool Nets::wrong(const Actor& net, Rule rule, const std::string& what) {
  world_.report.add(rule, fmt::format("a net, channel {}: {}", net.channel, what));
  return stop();
}

bool Nets::stop() {
  world_.fibers.stop();
  return false;
}

}  // namespace weft::checker
