// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/connections.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace weft::checker {
namespace {

std::string name_of(const Connection& connection) {
  return fmt::format("{} -> {} on channel {}{}", connection.from, connection.to, connection.channel,
                     connection.arrival == Arrival::kLinesAlone ? " by lines" : "");
}

}  // namespace

std::size_t Connections::add(std::uint32_t from, std::uint32_t to, std::uint32_t channel,
                             Arrival arrival) {
  Connection& connection = connections_.emplace_back();
  connection.from = from;
  connection.to = to;
  connection.channel = channel;
  connection.arrival = arrival;
  return connections_.size() - 1;
}

void Connections::allocate() {
  const std::size_t slots = connections_.size() * steps_;
  metas_.assign(slots, {});
  memory_.assign(slots * step_bytes_ / sizeof(Value), make_nothing(Nothing::kNeverFilled));
  // Lines begin as transports give them.
  for (const Connection& connection : connections_) {
    if (!connection.has_lines()) continue;
    std::fill_n(slot(connection, 0), std::size_t{steps_} * step_bytes_ / sizeof(Value), Value{0});
  }
}

ConnectionView Connections::view(std::size_t connection) {
  Connection& it = connections_[connection];
  return {.buffer = reinterpret_cast<std::byte*>(slot(it, 0)),
          .head = &it.head,
          .tail = &it.tail,
          .head_waiters = nullptr,
          .tail_waiters = nullptr,
          .slots = &metas_[connection * steps_],
          .error = &it.error,
          .peer_error = nullptr,
          .cursor = nullptr,
          .steps = steps_,
          .step_bytes = step_bytes_,
          .order_bytes = 128,
          .peer = 0};
}

ConnectionView Connections::sender(std::size_t connection) {
  ConnectionView result = view(connection);
  result.cursor = &connections_[connection].sender;
  result.peer = connections_[connection].to;
  return result;
}

ConnectionView Connections::receiver(std::size_t connection) {
  ConnectionView result = view(connection);
  result.cursor = &connections_[connection].receiver;
  result.peer = connections_[connection].from;
  return result;
}

Value* Connections::slot(const Connection& connection, std::uint64_t index) {
  const auto number = static_cast<std::size_t>(&connection - connections_.data());
  return &memory_[(number * steps_ + index) * step_values_];
}

bool Connections::report_outside(const Actor& actor, const Slot& slot, std::uint64_t bytes) {
  report_.add(Rule::kOutside, fmt::format("{}: writes {} bytes of {}", actor.name(), bytes,
                                          slot.connection == nullptr ? "more than one slot"
                                                                     : name_of(*slot.connection)));
  return false;
}

bool Connections::report_read(const Actor& actor, const Slot& slot, const std::byte* at,
                              std::uint64_t bytes) {
  const Connection* const connection = slot.connection;
  if (!takes(actor, slot)) {
    report_.add(Rule::kOutside,
                fmt::format("{}: reads {} bytes of {}", actor.name(), bytes,
                            connection == nullptr ? "more than one slot" : name_of(*connection)));
    return false;
  }
  const Value first = *reinterpret_cast<const Value*>(at);
  if (first == make_nothing(Nothing::kGivenBack)) {
    report_.add(Rule::kReadTooLate, fmt::format("{}: reads slot {} of {}, which it gave back",
                                                actor.name(), slot.index, name_of(*connection)));
  } else {
    report_.add(Rule::kReadTooEarly,
                fmt::format("{}: reads slot {} of {} for step {}; {} steps are filled, it knows of "
                            "{}",
                            actor.name(), slot.index, name_of(*connection), step_to_take(slot),
                            connection->tail, connection->tail_known));
  }
  return false;
}

bool Connections::report_overwritten(const Actor& actor, const Slot& slot, std::uint64_t step) {
  const Connection& connection = *slot.connection;
  report_.add(Rule::kOverwritten,
              fmt::format("{}: fills slot {} of {} for step {} of {} slots; {} steps were taken, "
                          "it knows of {}",
                          actor.name(), slot.index, name_of(connection), step, steps_,
                          connection.head, connection.head_known));
  return false;
}

bool Connections::post(const Actor& actor, Connection& connection, std::uint64_t* counter,
                       std::uint64_t value) {
  const bool fills = counter == &connection.tail;
  if (actor.rank != (fills ? connection.from : connection.to) ||
      actor.channel != connection.channel) {
    report_.add(Rule::kOutside, fmt::format("{}: posts the {} of {}", actor.name(),
                                            fills ? "tail" : "head", name_of(connection)));
    return false;
  }
  // All lines of a step may be taken before tail counts it.
  const std::uint64_t free =
      connection.has_lines() ? connection.head : std::min(connection.head, connection.head_known);
  const std::uint64_t most =
      fills ? free + steps_ : connection.filled() + (connection.has_lines() ? 1 : 0);
  if (value <= *counter || value > most) {
    report_.add(
        fills ? Rule::kOverwritten : Rule::kReadTooEarly,
        fmt::format("{}: raises the {} of {} from {} to {}, at most {} is possible", actor.name(),
                    fills ? "tail" : "head", name_of(connection), *counter, value, most));
    return false;
  }
  std::uint32_t& place = fills ? connection.tail_slot : connection.head_slot;
  const std::size_t first_slot = (&connection - connections_.data()) * std::size_t{steps_};
  for (std::uint64_t step = *counter; step < value; ++step) {
    if (fills) connection.announced += metas_[first_slot + place].size;
    // Lines stay: what is old must be told from what is new.
    if (!fills && !connection.has_lines()) {
      const bool is_lent =
          connection.borrows_from && lies_at_other_end(both_ends_of(connection.channel), step);
      const Connection& holder = is_lent ? connections_[*connection.borrows_from] : connection;
      std::fill_n(slot(holder, place), step_values_, make_nothing(Nothing::kGivenBack));
    }
    place = place + 1 == steps_ ? 0 : place + 1;
  }
  *counter = value;
  return true;
}

std::string Connections::describe(const std::uint64_t* counter) {
  const Connection* const connection = owner(counter);
  if (connection == nullptr) return {};
  return fmt::format("the {} of {}, which is {}", counter == &connection->tail ? "tail" : "head",
                     name_of(*connection), *counter);
}

}  // namespace weft::checker
