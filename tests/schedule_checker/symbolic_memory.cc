// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/symbolic_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "core/device/flagged_line.h"

namespace weft::checker {
namespace {

constexpr KernelOutcome kAborted{.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};

}  // namespace

void SymbolicMemory::wrong(Rule rule, std::string_view what) {
  world_.report.add(rule, fmt::format("{}: {}", actor_.name(), what));
  world_.fibers.stop();
}

void SymbolicMemory::stop_if_wrong() {
  if (!world_.report.empty()) world_.fibers.stop();
}

bool SymbolicMemory::may_read(const std::byte* at, std::uint64_t bytes) {
  if (world_.fibers.stopped()) return false;
  bool may = false;
  if (world_.connections != nullptr && world_.connections->holds(at)) {
    may = world_.connections->may_read(actor_, at, bytes);
  } else if (world_.inboxes != nullptr && world_.inboxes->holds(at)) {
    may = world_.inboxes->may_read(actor_, at, bytes);
  } else if (world_.staged != nullptr && world_.staged->holds(at)) {
    may = world_.staged->may_touch(actor_, at, bytes, false);
  } else if (world_.buffers.holds(at)) {
    may = world_.buffers.may_read(actor_, at, bytes);
  } else if (world_.fibers.is_own(at)) {
    return true;
  } else {
    wrong(Rule::kOutside, "reads what is no memory of this call");
  }
  stop_if_wrong();
  return may;
}

bool SymbolicMemory::may_write(const std::byte* at, std::uint64_t bytes) {
  if (world_.fibers.stopped()) return false;
  bool may = false;
  if (world_.connections != nullptr && world_.connections->holds(at)) {
    may = world_.connections->may_write(actor_, at, bytes);
  } else if (world_.inboxes != nullptr && world_.inboxes->holds(at)) {
    may = world_.inboxes->may_write(actor_, at, bytes);
  } else if (world_.staged != nullptr && world_.staged->holds(at)) {
    may = world_.staged->may_touch(actor_, at, bytes, true);
  } else if (world_.buffers.holds(at)) {
    may = world_.buffers.may_write(actor_, at, bytes);
  } else if (world_.fibers.is_own(at)) {
    return true;
  } else {
    wrong(Rule::kOutside, "writes what is no memory of this call");
  }
  stop_if_wrong();
  return may;
}

void SymbolicMemory::sent(const std::byte* at, std::uint64_t bytes) {
  if (world_.connections != nullptr && world_.connections->holds(at)) {
    world_.connections->sent(at, bytes);
  } else if (world_.inboxes != nullptr) {
    world_.inboxes->sent(actor_, bytes);
  }
}

// A counter, or a word of a slot: what a line of LL128 says of itself.
void SymbolicMemory::store_release(std::uint64_t* counter, std::uint64_t value) {
  const auto* const at = reinterpret_cast<const std::byte*>(counter);
  if (world_.connections == nullptr || !world_.connections->holds(at)) {
    return post(counter, nullptr, value);
  }
  if (!may_write(at, sizeof(value))) return;
  *counter = value;
  world_.fibers.changed();
  world_.fibers.perhaps_yield();
}

std::uint32_t SymbolicMemory::hops_to(const std::byte* at) const {
  if (world_.connections != nullptr && world_.connections->holds(at)) {
    return world_.connections->takes(actor_, at) ? 0 : 1;
  }
  return world_.inboxes != nullptr && world_.inboxes->holds(at) &&
                 world_.inboxes->leaves(actor_, at)
             ? 1
             : 0;
}

bool SymbolicMemory::is_something(Value value) {
  if (is_value(value) && expression_of(value) != kNothing) return true;
  if (world_.fibers.stopped()) return false;
  if (value == make_nothing(Nothing::kGivenBack)) {
    wrong(Rule::kReadTooLate, "takes an element from a slot that was given back");
  } else if (value == make_nothing(Nothing::kUnwritten)) {
    wrong(Rule::kNotWritten, "takes an element of a buffer that nobody wrote");
  } else {
    wrong(Rule::kReadTooEarly, "takes an element from memory that nobody filled");
  }
  return false;
}

std::uint64_t SymbolicMemory::load_acquire(std::uint64_t* counter) {
  const auto* const at = reinterpret_cast<const std::byte*>(counter);
  if (world_.connections != nullptr && world_.connections->holds(at)) {
    return may_read(at, sizeof(*counter)) ? *counter : 0;
  }
  if (world_.connections != nullptr) world_.connections->seen(actor_, counter, *counter);
  if (world_.inboxes != nullptr) world_.inboxes->seen(actor_, counter, *counter);
  return *counter;
}

device::WaitResult SymbolicMemory::wait_at_least(std::uint64_t* counter, std::uint32_t* /*waiters*/,
                                                 std::uint64_t threshold,
                                                 std::uint32_t* /*error*/) {
  world_.fibers.perhaps_yield();
  if (!world_.fibers.wait(counter, threshold)) {
    return {.status = device::WaitStatus::kAborted, .value = 0};
  }
  return {.status = device::WaitStatus::kReady, .value = load_acquire(counter)};
}

void SymbolicMemory::post(std::uint64_t* counter, std::uint32_t* /*waiters*/, std::uint64_t value) {
  if (world_.fibers.stopped()) return;
  bool filled = true;
  if (world_.connections != nullptr && world_.connections->counts(counter)) {
    filled = world_.connections->is_tail(counter);
    if (!world_.connections->post(actor_, counter, value)) return stop_if_wrong();
  } else if (world_.inboxes != nullptr &&
             world_.inboxes->holds(reinterpret_cast<const std::byte*>(counter))) {
    if (!may_write(reinterpret_cast<const std::byte*>(counter), sizeof(value))) return;
    *counter = value;
    world_.inboxes->posted(actor_, counter, value);
  } else {
    return wrong(Rule::kOutside, "posts a counter that is none of its connections'");
  }
  world_.fibers.raised(counter, filled);
  world_.fibers.perhaps_yield();
}

KernelOutcome SymbolicMemory::read_peer(const ConnectionView& view, std::byte* to,
                                        std::uint64_t address, std::uint64_t bytes) {
  world_.fibers.perhaps_yield();  // a sender that does not wait goes on
  if (world_.fibers.stopped()) return kAborted;
  const auto* const from = reinterpret_cast<const std::byte*>(address);
  if (!world_.buffers.holds(from)) {
    wrong(Rule::kOutside, "reads at an address that is of no buffer");
    return kAborted;
  }
  if (!world_.buffers.may_borrow(actor_, view.peer, world_.under_way.at(view.peer), from, bytes) ||
      !may_write(to, bytes)) {
    stop_if_wrong();
    return kAborted;
  }
  for (std::uint64_t i = 0; i < bytes / sizeof(Value); ++i) {
    const Value value = reinterpret_cast<const Value*>(from)[i];
    if (!is_something(value)) return kAborted;
    reinterpret_cast<Value*>(to)[i] = value + 1;
  }
  return {};
}

KernelOutcome SymbolicMemory::pause(std::uint32_t /*turn*/) {
  return world_.fibers.look_again() ? KernelOutcome{} : kAborted;
}

KernelOutcome SymbolicMemory::keep_waiting(std::uint32_t /*turn*/, const DirectPeers& /*peers*/) {
  return world_.fibers.look_again() ? KernelOutcome{} : kAborted;
}

KernelOutcome SymbolicMemory::why_leave(const DirectPeers& /*peers*/) const {
  return world_.fibers.stopped() ? kAborted : KernelOutcome{};
}

void SymbolicMemory::store_all(const MulticastView& view, std::uint64_t at, device::Line line) {
  for (const std::uint64_t half : {0U, 1U}) {
    const std::uint64_t place = at + half * sizeof(Value);
    if (world_.fibers.stopped()) return;
    if (!world_.staged->may_touch_all(actor_, place)) return stop_if_wrong();
    if (!world_.staged->staged_by(actor_, actor_.rank, place)) continue;
    const Value value = half == 0 ? line.low : line.high;
    if (!is_something(value)) return;
    world_.inboxes->sent(actor_, sizeof(Value));
    for (std::uint32_t rank = 0; rank < view.ranks; ++rank)
      world_.staged->value(rank, place) = value + 1;  // a hop
  }
  world_.fibers.perhaps_yield();
}

device::Line SymbolicMemory::load_line(const std::byte* from) {
  device::Line line{};
  if (may_read(from, sizeof(line))) std::memcpy(&line, from, sizeof(line));
  return line;
}

void SymbolicMemory::store_line(std::byte* to, device::Line line) {
  if (!may_write(to, sizeof(line))) return;
  line.low += hops_to(to);
  line.high += hops_to(to);
  std::memcpy(to, &line, sizeof(line));
}

device::Line SymbolicMemory::load_words(const std::byte* from) {
  return load_line(from);
}

// The words of a line come one by one, in any order.
void SymbolicMemory::store_words(std::byte* to, device::Line line) {
  if (!may_write(to, sizeof(line))) return;
  const std::uint64_t payload = device::payload_of(line);
  if (is_value(payload)) {
    if (!is_something(payload)) return;
    const std::uint32_t hops = hops_to(to);
    line.low += hops;
    if (hops != 0) sent(to, sizeof(payload));
  }
  auto* words = reinterpret_cast<std::uint64_t*>(to);
  words[1] = line.high;
  world_.fibers.changed();
  world_.fibers.perhaps_yield();
  words[0] = line.low;
  world_.fibers.changed();
  world_.fibers.perhaps_yield();
}

void SymbolicMemory::copy(device::SingleLane& /*group*/, std::byte* first, std::byte* second,
                          const std::byte* source, std::uint64_t bytes) {
  if (bytes == 0 || !may_read(source, bytes)) return;
  const std::uint64_t count = bytes / sizeof(Value);
  const auto* values = reinterpret_cast<const Value*>(source);
  for (std::uint64_t i = 0; i < count; ++i)
    if (!is_something(values[i])) return;
  for (std::byte* to : {first, second}) {
    if (to == nullptr) continue;
    if (!may_write(to, bytes)) return;
    const std::uint32_t hops = hops_to(to);
    if (hops != 0) sent(to, bytes);
    for (std::uint64_t i = 0; i < count; ++i)
      reinterpret_cast<Value*>(to)[i] = values[i] + hops;
  }
}

Value SymbolicMemory::load_element(const std::byte* from) {
  return may_read(from, sizeof(Value)) ? *reinterpret_cast<const Value*>(from)
                                       : make_nothing(Nothing::kUnwritten);
}

void SymbolicMemory::store_element(std::byte* to, Value value) {
  if (may_write(to, sizeof(Value)) && is_something(value)) *reinterpret_cast<Value*>(to) = value;
}

Value SymbolicMemory::combine(Value a, Value b) {
  if (!is_something(a) || !is_something(b)) return make_nothing(Nothing::kUnwritten);
  Expressions& expressions = world_.expressions;
  const Expression left = expression_of(a);
  const Expression right = expression_of(b);
  if (element_of(a) != element_of(b)) {
    wrong(Rule::kWrongElement,
          fmt::format("combines element {} with element {}", element_of(a), element_of(b)));
  } else if (std::uint64_t{expressions.contributions(left)} + expressions.contributions(right) >
             world_.ranks) {
    wrong(Rule::kTwice, fmt::format("combines {} contributions with {}, of {} ranks",
                                    expressions.contributions(left),
                                    expressions.contributions(right), world_.ranks));
  } else if (expressions.is_finished(left) || expressions.is_finished(right)) {
    wrong(Rule::kTwice, "adds to what was finished");
  } else if (expressions.is_raw(left) || expressions.is_raw(right)) {
    wrong(Rule::kMissing, "combines an input that was not multiplied");
  }
  return make_value(expressions.combine(left, right), element_of(a),
                    std::max(hops_of(a), hops_of(b)));
}

Value SymbolicMemory::premultiplied(Value value) {
  if (!is_something(value)) return value;
  if (!world_.expressions.is_raw(expression_of(value))) {
    wrong(Rule::kTwice, "multiplies what is no input, or was multiplied");
    return value;
  }
  return make_value(world_.expressions.premultiplied(expression_of(value)), element_of(value),
                    hops_of(value));
}

Value SymbolicMemory::finished(Value value) {
  if (!is_something(value)) return value;
  if (world_.expressions.is_finished(expression_of(value))) {
    wrong(Rule::kTwice, "finishes what was finished");
  }
  return make_value(world_.expressions.finished(expression_of(value)), element_of(value),
                    hops_of(value));
}

}  // namespace weft::checker
