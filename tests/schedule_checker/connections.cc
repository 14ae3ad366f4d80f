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
  connections_.push_back({.from = from,
                          .to = to,
                          .channel = channel,
                          .arrival = arrival,
                          .sender = {},
                          .receiver = {}});
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
  return &memory_[(number * steps_ + index) * step_bytes_ / sizeof(Value)];
}

Connections::Slot Connections::slot_of(const std::byte* at, std::uint64_t bytes) {
  const auto offset =
      static_cast<std::uint64_t>(at - reinterpret_cast<const std::byte*>(memory_.data()));
  const std::uint64_t number = offset / step_bytes_;
  if (offset % sizeof(Value) != 0 || bytes % sizeof(Value) != 0 ||
      offset % step_bytes_ + bytes > step_bytes_) {
    return {.connection = nullptr, .index = 0};
  }
  return {.connection = &connections_[number / steps_], .index = number % steps_};
}

bool Connections::has_come(const Connection& connection, std::uint64_t index) const {
  const std::uint64_t step = step_in(index, connection.head);
  return step < connection.tail && step < connection.tail_known;
}

bool Connections::takes(const Actor& actor, const std::byte* at) {
  const Connection* const connection = slot_of(at, sizeof(Value)).connection;
  return connection != nullptr && connection->to == actor.rank &&
         connection->channel == actor.channel;
}

bool Connections::may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const auto [connection, index] = slot_of(at, bytes);
  if (connection == nullptr || connection->to != actor.rank ||
      connection->channel != actor.channel) {
    report_.add(Rule::kOutside,
                fmt::format("{}: reads {} bytes of {}", actor.name(), bytes,
                            connection == nullptr ? "more than one slot" : name_of(*connection)));
    return false;
  }
  // Whoever looks at lines finds out; what it then takes is judged by what it says.
  if (connection->has_lines() || has_come(*connection, index)) return true;
  const std::uint64_t step = step_in(index, connection->head);
  const Value first = *reinterpret_cast<const Value*>(at);
  if (first == make_nothing(Nothing::kGivenBack)) {
    report_.add(Rule::kReadTooLate, fmt::format("{}: reads slot {} of {}, which it gave back",
                                                actor.name(), index, name_of(*connection)));
  } else {
    report_.add(Rule::kReadTooEarly,
                fmt::format("{}: reads slot {} of {} for step {}; {} steps are filled, it knows of "
                            "{}",
                            actor.name(), index, name_of(*connection), step, connection->tail,
                            connection->tail_known));
  }
  return false;
}

bool Connections::may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const auto [connection, index] = slot_of(at, bytes);
  if (takes(actor, at) && has_come(*connection, index)) return true;
  if (connection == nullptr || connection->from != actor.rank ||
      connection->channel != actor.channel) {
    report_.add(Rule::kOutside,
                fmt::format("{}: writes {} bytes of {}", actor.name(), bytes,
                            connection == nullptr ? "more than one slot" : name_of(*connection)));
    return false;
  }
  const std::uint64_t step = step_in(index, connection->filled());
  if (step >= connection->head + steps_ || step >= connection->head_known + steps_) {
    report_.add(Rule::kOverwritten,
                fmt::format("{}: fills slot {} of {} for step {} of {} slots; {} steps were taken, "
                            "it knows of {}",
                            actor.name(), index, name_of(*connection), step, steps_,
                            connection->head, connection->head_known));
    return false;
  }
  if (!connection->has_lines()) connection->bytes += bytes;
  return true;
}

void Connections::sent(const std::byte* at, std::uint64_t bytes) {
  Connection& connection = *slot_of(at, bytes).connection;
  if (connection.has_lines()) connection.bytes += bytes;
}

const Connection* Connections::owner(const std::uint64_t* counter) const {
  const auto* at = reinterpret_cast<const std::byte*>(counter);
  const auto* first = reinterpret_cast<const std::byte*>(connections_.data());
  if (at < first || at >= first + connections_.size() * sizeof(Connection)) return nullptr;
  const Connection& connection =
      connections_[static_cast<std::size_t>(at - first) / sizeof(Connection)];
  return counter == &connection.head || counter == &connection.tail ? &connection : nullptr;
}

Connection* Connections::owner(const std::uint64_t* counter) {
  return const_cast<Connection*>(std::as_const(*this).owner(counter));
}

bool Connections::counts(const std::uint64_t* counter) const {
  return owner(counter) != nullptr;
}

bool Connections::is_tail(const std::uint64_t* counter) const {
  const Connection* connection = owner(counter);
  return connection != nullptr && counter == &connection->tail;
}

void Connections::seen(const Actor& actor, const std::uint64_t* counter, std::uint64_t value) {
  Connection* connection = owner(counter);
  if (connection == nullptr) return;
  if (counter == &connection->tail && actor.rank == connection->to) {
    connection->tail_known = std::max(connection->tail_known, value);
  } else if (counter == &connection->head && actor.rank == connection->from) {
    connection->head_known = std::max(connection->head_known, value);
  }
}

bool Connections::post(const Actor& actor, std::uint64_t* counter, std::uint64_t value) {
  Connection& connection = *owner(counter);
  const bool fills = counter == &connection.tail;
  if (actor.rank != (fills ? connection.from : connection.to) ||
      actor.channel != connection.channel) {
    report_.add(Rule::kOutside, fmt::format("{}: posts the {} of {}", actor.name(),
                                            fills ? "tail" : "head", name_of(connection)));
    return false;
  }
  // All lines of a step may be taken before tail counts it.
  const std::uint64_t most =
      fills ? connection.head + steps_ : connection.filled() + (connection.has_lines() ? 1 : 0);
  if (value <= *counter || value > most) {
    report_.add(
        fills ? Rule::kOverwritten : Rule::kReadTooEarly,
        fmt::format("{}: raises the {} of {} from {} to {}, at most {} is possible", actor.name(),
                    fills ? "tail" : "head", name_of(connection), *counter, value, most));
    return false;
  }
  // Lines stay: what is old must be told from what is new.
  if (!fills && !connection.has_lines()) {
    for (std::uint64_t step = *counter; step < value; ++step) {
      std::fill_n(slot(connection, step % steps_), step_bytes_ / sizeof(Value),
                  make_nothing(Nothing::kGivenBack));
    }
  }
  *counter = value;
  return true;
}

std::string Connections::describe(const std::uint64_t* counter) const {
  const Connection& connection = *owner(counter);
  return fmt::format("the {} of {}, which is {}", counter == &connection.tail ? "tail" : "head",
                     name_of(connection), *counter);
}

}  // namespace weft::checker
