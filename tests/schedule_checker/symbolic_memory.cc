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

SymbolicMemory::Place SymbolicMemory::find(const std::byte* at, std::uint64_t bytes) const {
  if (world_.connections != nullptr && world_.connections->holds(at)) {
    return {.in = Place::In::kSlot, .slot = world_.connections->slot_of(at, bytes)};
  }
  if (world_.buffers.holds(at)) return {.in = Place::In::kBuffer};
  if (world_.inboxes != nullptr && world_.inboxes->holds(at)) return {.in = Place::In::kInbox};
  if (world_.staged != nullptr && world_.staged->holds(at)) return {.in = Place::In::kStaged};
  return {.in = world_.fibers.is_own(at) ? Place::In::kStack : Place::In::kNothing};
}

std::uint32_t SymbolicMemory::hops_to(const Place& place, const std::byte* at) const {
  if (place.in == Place::In::kBuffer) return 0;
  if (place.in == Place::In::kSlot) return Connections::takes(actor_, place.slot) ? 0 : 1;
  return place.in == Place::In::kInbox && world_.inboxes->leaves(actor_, at) ? 1 : 0;
}

bool SymbolicMemory::may_read(const Place& place, const std::byte* at, std::uint64_t bytes) {
  if (world_.fibers.stopped()) return false;
  bool may = false;
  switch (place.in) {
    case Place::In::kSlot:
      may = world_.connections->may_read(actor_, place.slot, at, bytes);
      break;
    case Place::In::kInbox:
      may = world_.inboxes->may_read(actor_, at, bytes);
      break;
    case Place::In::kStaged:
      may = world_.staged->may_touch(actor_, at, bytes, false);
      break;
    case Place::In::kBuffer:
      may = world_.buffers.may_read(actor_, at, bytes);
      break;
    case Place::In::kStack:
      return true;
    case Place::In::kNothing:
      wrong(Rule::kOutside, "reads what is no memory of this call");
      break;
  }
  if (!may) stop_if_wrong();
  return may;
}

bool SymbolicMemory::may_write(const Place& place, const std::byte* at, std::uint64_t bytes) {
  if (world_.fibers.stopped()) return false;
  bool may = false;
  switch (place.in) {
    case Place::In::kSlot:
      may = world_.connections->may_write(actor_, place.slot, bytes);
      break;
    case Place::In::kInbox:
      may = world_.inboxes->may_write(actor_, at, bytes);
      break;
    case Place::In::kStaged:
      may = world_.staged->may_touch(actor_, at, bytes, true);
      break;
    case Place::In::kBuffer:
      may = world_.buffers.may_write(actor_, at, bytes);
      break;
    case Place::In::kStack:
      return true;
    case Place::In::kNothing:
      wrong(Rule::kOutside, "writes what is no memory of this call");
      break;
  }
  if (!may) stop_if_wrong();
  return may;
}

void SymbolicMemory::sent(const Place& place, std::uint64_t bytes) {
  if (place.in == Place::In::kSlot) {
    Connections::sent(place.slot, bytes);
  } else if (world_.inboxes != nullptr) {
    world_.inboxes->sent(actor_, bytes);
  }
}

void SymbolicMemory::changed(const Place& place, const std::byte* at) {
  if (place.in == Place::In::kSlot) {
    world_.fibers.changed(place.slot.connection->other_end(actor_.rank));
  } else if (place.in == Place::In::kInbox) {
    world_.fibers.changed(world_.inboxes->owner(at));
  }
}

// A counter, or a word of a slot: what a line of LL128 says of itself.
void SymbolicMemory::store_release(std::uint64_t* counter, std::uint64_t value) {
  const auto* const at = reinterpret_cast<const std::byte*>(counter);
  if (world_.connections == nullptr || !world_.connections->holds(at)) {
    return post(counter, nullptr, value);
  }
  const Place place = find(at, sizeof(value));
  if (!may_write(place, at, sizeof(value))) return;
  *counter = value;
  changed(place, at);
  world_.fibers.perhaps_yield();
}

bool SymbolicMemory::report_nothing(Value value) {
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

void SymbolicMemory::store_word(std::uint32_t* word, std::uint32_t value) {
  *word = value;
  world_.fibers.changed(actor_.rank);
}

bool SymbolicMemory::replace_word(std::uint32_t* word, std::uint32_t expected,
                                  std::uint32_t desired) {
  if (*word != expected) return false;
  store_word(word, desired);
  return true;
}

void SymbolicMemory::yield() {
  world_.fibers.perhaps_yield();
}

bool SymbolicMemory::look_again(std::uint32_t turn) {
  world_.fibers.perhaps_yield();
  return turn == 0;
}

std::uint64_t SymbolicMemory::load_acquire(std::uint64_t* counter) {
  const auto* const at = reinterpret_cast<const std::byte*>(counter);
  if (world_.connections != nullptr) {
    if (Connection* const connection = world_.connections->owner(counter)) {
      Connections::seen(actor_, *connection, counter, *counter);
      return *counter;
    }
    if (world_.connections->holds(at)) return may_read(at, sizeof(*counter)) ? *counter : 0;
  }
  if (world_.inboxes != nullptr) world_.inboxes->seen(actor_, counter, *counter);
  return *counter;
}

device::WaitResult SymbolicMemory::wait_at_least(std::uint64_t* counter, std::uint32_t* /*waiters*/,
                                                 std::uint64_t threshold,
                                                 std::uint32_t* /*error*/) {
  world_.fibers.perhaps_yield();
  Connection* const connection =
      world_.connections == nullptr ? nullptr : world_.connections->owner(counter);
  const bool came = connection == nullptr
                        ? world_.fibers.wait(counter, threshold)
                        : world_.fibers.wait(counter, threshold, connection->waiters(counter));
  if (!came) return {.status = device::WaitStatus::kAborted, .value = 0};
  if (connection == nullptr) {
    return {.status = device::WaitStatus::kReady, .value = load_acquire(counter)};
  }
  Connections::seen(actor_, *connection, counter, *counter);
  return {.status = device::WaitStatus::kReady, .value = *counter};
}

void SymbolicMemory::post(std::uint64_t* counter, std::uint32_t* /*waiters*/, std::uint64_t value) {
  if (world_.fibers.stopped()) return;
  const auto* const at = reinterpret_cast<const std::byte*>(counter);
  if (Connection* const connection =
          world_.connections == nullptr ? nullptr : world_.connections->owner(counter)) {
    if (!world_.connections->post(actor_, *connection, counter, value)) return stop_if_wrong();
    world_.fibers.raised(counter, counter == &connection->tail, connection->waiters(counter));
    world_.fibers.changed(connection->other_end(actor_.rank));
  } else if (world_.inboxes != nullptr && world_.inboxes->holds(at)) {
    const Place place = find(at, sizeof(value));
    if (!may_write(place, at, sizeof(value))) return;
    *counter = value;
    world_.inboxes->posted(actor_, counter, value);
    world_.fibers.raised(counter, true);
    changed(place, at);
  } else {
    return wrong(Rule::kOutside, "posts a counter that is none of its connections'");
  }
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
      !may_write(find(to, bytes), to, bytes)) {
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
  return world_.fibers.look_again(actor_.rank) ? KernelOutcome{} : kAborted;
}

KernelOutcome SymbolicMemory::keep_waiting(std::uint32_t /*turn*/, const DirectPeers& /*peers*/) {
  return world_.fibers.look_again(actor_.rank) ? KernelOutcome{} : kAborted;
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
  const Place place = find(to, sizeof(line));
  if (!may_write(place, to, sizeof(line))) return;
  const std::uint32_t hops = hops_to(place, to);
  line.low += hops;
  line.high += hops;
  std::memcpy(to, &line, sizeof(line));
}

device::Line SymbolicMemory::load_words(const std::byte* from) {
  return load_line(from);
}

// The words of a line come one by one, in any order.
void SymbolicMemory::store_words(std::byte* to, device::Line line) {
  const Place place = find(to, sizeof(line));
  if (!may_write(place, to, sizeof(line))) return;
  const std::uint64_t payload = device::payload_of(line);
  if (is_value(payload)) {
    if (!is_something(payload)) return;
    const std::uint32_t hops = hops_to(place, to);
    line.low += hops;
    if (hops != 0) sent(place, sizeof(payload));
  }
  auto* words = reinterpret_cast<std::uint64_t*>(to);
  words[1] = line.high;
  changed(place, to);
  world_.fibers.perhaps_yield();
  words[0] = line.low;
  changed(place, to);
  world_.fibers.perhaps_yield();
}

void SymbolicMemory::store_word_of_line(std::byte* to, std::uint64_t word) {
  const Place place = find(to, sizeof(word));
  if (!may_write(place, to, sizeof(word))) return;
  if (is_value(word)) {
    if (!is_something(word)) return;
    const std::uint32_t hops = hops_to(place, to);
    word += hops;
    if (hops != 0) sent(place, sizeof(word));
  }
  *reinterpret_cast<std::uint64_t*>(to) = word;
  changed(place, to);
  world_.fibers.perhaps_yield();
}

void SymbolicMemory::take_line(const std::byte* from) {
  if (!world_.fibers.stopped()) world_.inboxes->taken(from, sizeof(device::Line));
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
    const Place place = find(to, bytes);
    if (!may_write(place, to, bytes)) return;
    const std::uint32_t hops = hops_to(place, to);
    if (hops != 0) sent(place, bytes);
    for (std::uint64_t i = 0; i < count; ++i)
      reinterpret_cast<Value*>(to)[i] = values[i] + hops;
  }
}

Value SymbolicMemory::load_element(const std::byte* from) {
  return may_read(from, sizeof(Value)) ? *reinterpret_cast<const Value*>(from)
                                       : make_nothing(Nothing::kUnwritten);
}

void SymbolicMemory::store_element(std::byte* to, Value value) {
  if (may_write(find(to, sizeof(Value)), to, sizeof(Value)) && is_something(value)) {
    *reinterpret_cast<Value*>(to) = value;
  }
}

Value SymbolicMemory::combine(Value a, Value b) {
  const World::Combined& latest = world_.latest;
  if (latest.left != kNothing && element_of(a) == element_of(b) &&
      a >> kExpressionShift == (kValueMark >> kExpressionShift | latest.left) &&
      b >> kExpressionShift == (kValueMark >> kExpressionShift | latest.right)) {
    return make_value(latest.both, element_of(a), std::max(hops_of(a), hops_of(b)));
  }
  return combine_others(a, b);
}

Value SymbolicMemory::combine_others(Value a, Value b) {
  if (!is_something(a) || !is_something(b)) return make_nothing(Nothing::kUnwritten);
  Expressions& expressions = world_.expressions;
  const Expression left = expression_of(a);
  const Expression right = expression_of(b);
  const Expression both = expressions.combine(left, right);
  const Value value = make_value(both, element_of(a), std::max(hops_of(a), hops_of(b)));
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
  } else {
    world_.latest = {.left = left, .right = right, .both = both};
  }
  return value;
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

// Words that no rank has staged lie behind the elements. The order is that of a switch, and no
// promise.
device::Line SymbolicMemory::reduce_load(const SymbolicReduction& reduction,
                                         const MulticastView& view, std::uint64_t at) {
  const auto word = [&](std::uint64_t place) -> Value {
    if (world_.fibers.stopped() || !world_.staged->may_touch_all(actor_, place)) return {};
    const auto staged = world_.staged->staged(actor_, place);
    if (staged == StagedMemory::Staged::kByNone) return {};
    if (staged == StagedMemory::Staged::kBySome) {
      wrong(Rule::kReadTooEarly, "combines what not all ranks have staged");
      return {};
    }
    Value sum = world_.staged->value(view.ranks - 1, place);
    for (std::uint32_t rank = view.ranks - 1; rank-- > 0;)
      sum = reduction.combine(sum, world_.staged->value(rank, place));
    return (reduction.finishes() ? reduction.finish(sum) : sum) + 1;  // a hop
  };
  const device::Line line{.low = word(at), .high = word(at + sizeof(Value))};
  stop_if_wrong();
  world_.fibers.perhaps_yield();
  return line;
}

template <class Combine>
void SymbolicMemory::reduce_each(std::byte* first, std::byte* second, const std::byte* a,
                                 const std::byte* b, std::uint64_t count, Combine combine) {
  const std::uint64_t bytes = count * sizeof(Value);
  if (count == 0 || !may_read(a, bytes) || !may_read(b, bytes)) return;
  const Place to = find(first, bytes);
  if (!may_write(to, first, bytes)) return;
  const std::uint32_t first_hops = hops_to(to, first);
  std::uint32_t second_hops = 0;
  if (second != nullptr) {
    const Place also = find(second, bytes);
    if (!may_write(also, second, bytes)) return;
    second_hops = hops_to(also, second);
    if (second_hops != 0) sent(also, bytes);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const Value value =
        combine(reinterpret_cast<const Value*>(a)[i], reinterpret_cast<const Value*>(b)[i]);
    reinterpret_cast<Value*>(first)[i] = value + first_hops;
    if (second != nullptr) reinterpret_cast<Value*>(second)[i] = value + second_hops;
  }
}

void SymbolicMemory::reduce(const SymbolicReduction& /*reduction*/, device::SingleLane& /*group*/,
                            std::byte* first, std::byte* second, const std::byte* a,
                            const std::byte* b, std::uint64_t count) {
  reduce_each(first, second, a, b, count, [this](Value x, Value y) { return combine(x, y); });
}

void SymbolicMemory::premultiply_copy(const SymbolicReduction& /*reduction*/,
                                      device::SingleLane& /*group*/, std::byte* to,
                                      const std::byte* input, std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(Value);
  if (count == 0 || !may_read(input, bytes)) return;
  const Place place = find(to, bytes);
  if (!may_write(place, to, bytes)) return;
  const std::uint32_t hops = hops_to(place, to);
  if (hops != 0) sent(place, bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Value value = premultiplied(reinterpret_cast<const Value*>(input)[i]);
    reinterpret_cast<Value*>(to)[i] = value + hops;
  }
}

void SymbolicMemory::premultiply_reduce(const SymbolicReduction& reduction,
                                        device::SingleLane& /*group*/, std::byte* first,
                                        std::byte* second, const std::byte* other,
                                        const std::byte* input, std::uint64_t count,
                                        bool input_first) {
  reduce_each(first, second, other, input, count, [&](Value x, Value y) {
    const Value own = premultiplied(y);
    return input_first ? reduction.combine(own, x) : reduction.combine(x, own);
  });
}

void SymbolicMemory::finish(const SymbolicReduction& reduction, device::SingleLane& /*group*/,
                            std::byte* first, std::byte* second, std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(Value);
  if (count == 0) return;
  const Place place = find(first, bytes);
  if (!may_read(place, first, bytes) || !may_write(place, first, bytes)) return;
  std::uint32_t second_hops = 0;
  if (second != nullptr) {
    const Place also = find(second, bytes);
    if (!may_write(also, second, bytes)) return;
    second_hops = hops_to(also, second);
    if (second_hops != 0) sent(also, bytes);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    Value& value = reinterpret_cast<Value*>(first)[i];
    value = reduction.finish(value);
    if (second != nullptr) reinterpret_cast<Value*>(second)[i] = value + second_hops;
  }
}

Value SymbolicReduction::combine(Value a, Value b) const {
  return memory_->combine(a, b);
}

Value SymbolicReduction::finish(Value value) const {
  return memory_->finished(value);
}

std::uint64_t SymbolicReduction::combine_payloads(std::uint64_t a, std::uint64_t b) const {
  return combine(a, b);
}

std::uint64_t SymbolicReduction::finish_payload(std::uint64_t payload) const {
  return averages_ ? finish(payload) : payload;
}

std::uint64_t SymbolicReduction::load_payload(const std::byte* from,
                                              std::uint64_t /*bytes*/) const {
  return memory_->load_element(from);
}

void SymbolicReduction::store_payload(std::byte* to, std::uint64_t payload,
                                      std::uint64_t /*bytes*/) const {
  memory_->store_element(to, payload);
}

}  // namespace weft::checker
