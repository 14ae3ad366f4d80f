// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections in memory, with a finite number of slots, that notice a slot which is filled or read
// out of its turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/connection_view.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

/// What tells a receiver that a step has come.
enum class Arrival : std::uint8_t {
  kTail,       ///< The counter alone.
  kLines,      ///< The lines that its slot is filled with; tail counts it afterwards.
  kLinesAlone  ///< Those lines; nobody posts tail, for which the sender's cursor stands.
};

/// One direction between two ranks on one channel.
struct alignas(64) Connection {
  // What views point to.
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
  // The highest counters that the other end's kernel was seen to read: what it may rely on.
  std::uint64_t head_known = 0;
  std::uint64_t tail_known = 0;
  Waiters at_head;
  Waiters at_tail;
  std::uint32_t head_slot = 0;  ///< That holds the step `head`,
  std::uint32_t tail_slot = 0;  ///< `tail`.

  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t channel = 0;
  Arrival arrival = Arrival::kTail;
  std::uint32_t error = 0;
  std::uint64_t bytes = 0;      ///< Filled into slots.
  std::uint64_t announced = 0;  ///< The same as the slots' SlotMeta has it, where there is one.
  ConnectionCursor sender{};
  ConnectionCursor receiver{};
  std::optional<std::size_t> lends_to{};      ///< Whose steps its own slots hold.
  std::optional<std::size_t> borrows_from{};  ///< Whose slots hold some of its steps.

  [[nodiscard]] bool has_lines() const { return arrival != Arrival::kTail; }
  /// Steps that were filled.
  [[nodiscard]] std::uint64_t filled() const {
    return arrival == Arrival::kLinesAlone ? sender.step : tail;
  }
  [[nodiscard]] Waiters& waiters(const std::uint64_t* counter) {
    return counter == &tail ? at_tail : at_head;
  }
  /// Who does not touch it as `rank` does.
  [[nodiscard]] std::uint32_t other_end(std::uint32_t rank) const {
    return rank == from ? to : from;
  }
};

/// Divides by one number again and again, which a multiplication does as well: the slot of each
/// address is looked for.
class Divisor {
 public:
  explicit Divisor(std::uint32_t divisor) : divisor_(divisor), inverse_(UINT64_MAX / divisor + 1) {}
  [[nodiscard]] std::uint32_t quotient(std::uint32_t number) const {
    __extension__ using Wide = unsigned __int128;
    return divisor_ == 1 ? number : static_cast<std::uint32_t>(Wide{inverse_} * number >> 64);
  }

 private:
  std::uint32_t divisor_;
  std::uint64_t inverse_;  // 2^64 / divisor, rounded up: exact for all numbers of 32 bits
};

class Connections {
 public:
  /// `lines`: slots are filled with lines, unless add() says otherwise.
  Connections(Report& report, std::uint32_t steps, std::uint32_t step_bytes, bool lines = false)
      : report_(report),
        steps_(steps),
        step_bytes_(step_bytes),
        step_values_(step_bytes / sizeof(Value)),
        of_step_values_(step_values_),
        of_steps_(steps),
        arrival_(lines ? Arrival::kLines : Arrival::kTail) {}

  /// Answers its number. Before allocate().
  std::size_t add(std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    return add(from, to, channel, arrival_);
  }
  std::size_t add(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Arrival arrival);
  /// Of so many in all: they do not move while they are added.
  void reserve(std::size_t connections) { connections_.reserve(connections); }
  /// Calls by both ends (WorkItem::both_ends): the slots of `back` hold steps of `connection`.
  void lend_slots(std::size_t back, std::size_t connection) {
    connections_[back].lends_to = connection;
    connections_[connection].borrows_from = back;
  }
  void allocate();

  [[nodiscard]] ConnectionView sender(std::size_t connection);
  [[nodiscard]] ConnectionView receiver(std::size_t connection);
  [[nodiscard]] const std::vector<Connection>& all() const { return connections_; }
  [[nodiscard]] Connection& at(std::size_t connection) { return connections_[connection]; }

  [[nodiscard]] bool holds(const std::byte* at) const {
    const auto* first = reinterpret_cast<const std::byte*>(memory_.data());
    return at >= first && at < first + memory_.size() * sizeof(Value);
  }
  struct Slot {
    Connection* connection = nullptr;  ///< Whose steps it holds.
    std::uint32_t index = 0;
    bool is_borrowed = false;
  };
  /// Of what it holds: the slot with all of it; a null connection where none has.
  [[nodiscard]] Slot slot_of(const std::byte* at, std::uint64_t bytes) {
    const auto offset =
        static_cast<std::uint64_t>(at - reinterpret_cast<const std::byte*>(memory_.data()));
    const std::uint32_t number =
        of_step_values_.quotient(static_cast<std::uint32_t>(offset / sizeof(Value)));
    if ((offset | bytes) % sizeof(Value) != 0 ||
        offset - std::uint64_t{number} * step_bytes_ + bytes > step_bytes_) {
      return {};
    }
    const std::uint32_t connection = of_steps_.quotient(number);
    Connection& owner = connections_[connection];
    return {.connection = owner.lends_to ? &connections_[*owner.lends_to] : &owner,
            .index = number - connection * steps_,
            .is_borrowed = owner.lends_to.has_value()};
  }
  /// Whether it is one that comes to the actor.
  [[nodiscard]] static bool takes(const Actor& actor, const Slot& slot) {
    return slot.connection != nullptr && slot.connection->to == actor.rank &&
           slot.connection->channel == actor.channel;
  }
  /// Whether the actor may touch what was looked up now; reports where not. What has come is its
  /// own, to write as well, until it gives the slot back.
  [[nodiscard]] bool may_read(const Actor& actor, const Slot& slot, const std::byte* at,
                              std::uint64_t bytes) {
    // Whoever looks at lines finds out; what it then takes is judged by what it says.
    if (takes(actor, slot) && (slot.connection->has_lines() || has_come(slot))) return true;
    return report_read(actor, slot, at, bytes);
  }
  [[nodiscard]] bool may_write(const Actor& actor, const Slot& slot, std::uint64_t bytes) {
    Connection* const connection = slot.connection;
    if (connection == nullptr || connection->from != actor.rank ||
        connection->channel != actor.channel) {
      return (takes(actor, slot) && has_come(slot)) || report_outside(actor, slot, bytes);
    }
    const std::uint64_t step = step_to_fill(slot);
    if (step >= connection->head + steps_ || step >= connection->head_known + steps_) {
      return report_overwritten(actor, slot, step);
    }
    if (!lies_there(slot, step)) return report_outside(actor, slot, bytes);
    if (!connection->has_lines()) connection->bytes += bytes;
    return true;
  }
  /// So many bytes of elements were written into a slot of lines; those of other slots are counted
  /// as they are written.
  static void sent(const Slot& slot, std::uint64_t bytes) {
    if (slot.connection->has_lines()) slot.connection->bytes += bytes;
  }

  /// That the counter is of; null: it is none.
  [[nodiscard]] Connection* owner(const std::uint64_t* counter) {
    const auto* at = reinterpret_cast<const std::byte*>(counter);
    const auto* first = reinterpret_cast<const std::byte*>(connections_.data());
    if (at < first || at >= first + connections_.size() * sizeof(Connection)) return nullptr;
    Connection& connection =
        connections_[static_cast<std::size_t>(at - first) / sizeof(Connection)];
    return counter == &connection.head || counter == &connection.tail ? &connection : nullptr;
  }
  /// The actor has read its counter.
  static void seen(const Actor& actor, Connection& connection, const std::uint64_t* counter,
                   std::uint64_t value) {
    if (counter == &connection.tail && actor.rank == connection.to) {
      connection.tail_known = std::max(connection.tail_known, value);
    } else if (counter == &connection.head && actor.rank == connection.from) {
      connection.head_known = std::max(connection.head_known, value);
    }
  }
  /// The actor raises its counter; false, and reported, where it must not.
  [[nodiscard]] bool post(const Actor& actor, Connection& connection, std::uint64_t* counter,
                          std::uint64_t value);
  /// "the tail of 0 -> 1 on channel 2, which is 5"; nothing of what is no counter of these.
  [[nodiscard]] std::string describe(const std::uint64_t* counter);

 private:
  /// Of a slot that can be filled: the step that is filled there next.
  [[nodiscard]] std::uint64_t step_to_fill(const Slot& slot) const {
    const Connection& connection = *slot.connection;
    if (connection.arrival != Arrival::kLinesAlone) {
      return connection.tail + distance(connection.tail_slot, slot.index);
    }
    const std::uint64_t filled = connection.sender.step;
    return filled + distance(static_cast<std::uint32_t>(filled % steps_), slot.index);
  }
  [[nodiscard]] std::uint32_t distance(std::uint32_t from, std::uint32_t to) const {
    return to >= from ? to - from : to + steps_ - from;
  }
  /// The step that its receiver takes from the slot next.
  [[nodiscard]] std::uint64_t step_to_take(const Slot& slot) const {
    return slot.connection->head + distance(slot.connection->head_slot, slot.index);
  }
  /// Whether the step belongs into the slot, of those that have its number.
  [[nodiscard]] static bool lies_there(const Slot& slot, std::uint64_t step) {
    const BothEnds ends = both_ends_of(slot.connection->channel);
    return slot.is_borrowed == (slot.connection->borrows_from && lies_at_other_end(ends, step));
  }
  /// Whether its receiver knows that the slot holds a step that it has not given back.
  [[nodiscard]] bool has_come(const Slot& slot) const {
    const std::uint64_t step = step_to_take(slot);
    return step < slot.connection->tail && step < slot.connection->tail_known &&
           lies_there(slot, step);
  }
  // These answer false.
  bool report_read(const Actor& actor, const Slot& slot, const std::byte* at, std::uint64_t bytes);
  bool report_outside(const Actor& actor, const Slot& slot, std::uint64_t bytes);
  bool report_overwritten(const Actor& actor, const Slot& slot, std::uint64_t step);
  [[nodiscard]] Value* slot(const Connection& connection, std::uint64_t index);
  [[nodiscard]] ConnectionView view(std::size_t connection);

  Report& report_;
  const std::uint32_t steps_;
  const std::uint32_t step_bytes_;
  const std::uint32_t step_values_;
  const Divisor of_step_values_;
  const Divisor of_steps_;
  const Arrival arrival_;
  std::vector<Connection> connections_;
  std::vector<SlotMeta> metas_;
  std::vector<Value> memory_;
};

}  // namespace weft::checker
