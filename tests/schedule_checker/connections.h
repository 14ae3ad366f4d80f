// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections in memory, with a finite number of slots, that notice a slot which is filled or read
// out of its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model/connection_view.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

/// What tells a receiver that a step has come.
enum class Arrival : std::uint8_t {
  kTail,       ///< The counter alone.
  kLines,      ///< The lines that its slot is filled with; tail counts it afterwards.
  kLinesAlone  ///< Those lines; nobody posts tail, for which the sender's cursor stands.
};

/// One direction between two ranks on one channel.
struct Connection {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t channel = 0;
  Arrival arrival = Arrival::kTail;

  // What views point to.
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
  std::uint32_t error = 0;
  ConnectionCursor sender;
  ConnectionCursor receiver;

  // The highest counters that the other end's kernel was seen to read: what it may rely on.
  std::uint64_t head_known = 0;
  std::uint64_t tail_known = 0;
  std::uint64_t bytes = 0;  ///< Filled into slots.

  [[nodiscard]] bool has_lines() const { return arrival != Arrival::kTail; }
  /// Steps that were filled.
  [[nodiscard]] std::uint64_t filled() const {
    return arrival == Arrival::kLinesAlone ? sender.step : tail;
  }
};

class Connections {
 public:
  /// `lines`: slots are filled with lines, unless add() says otherwise.
  Connections(Report& report, std::uint32_t steps, std::uint32_t step_bytes, bool lines = false)
      : report_(report),
        steps_(steps),
        step_bytes_(step_bytes),
        arrival_(lines ? Arrival::kLines : Arrival::kTail) {}

  /// Answers its number. Before allocate().
  std::size_t add(std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    return add(from, to, channel, arrival_);
  }
  std::size_t add(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Arrival arrival);
  void allocate();

  [[nodiscard]] ConnectionView sender(std::size_t connection);
  [[nodiscard]] ConnectionView receiver(std::size_t connection);
  [[nodiscard]] const std::vector<Connection>& all() const { return connections_; }

  [[nodiscard]] bool holds(const std::byte* at) const {
    const auto* first = reinterpret_cast<const std::byte*>(memory_.data());
    return at >= first && at < first + memory_.size() * sizeof(Value);
  }
  /// Whether it lies in a slot that comes to the actor.
  [[nodiscard]] bool takes(const Actor& actor, const std::byte* at);
  /// Of slots: whether the actor may touch all of it now; reports where not. What has come is its
  /// own, to write as well, until it gives the slot back.
  [[nodiscard]] bool may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes);

  /// So many bytes of elements were written into a slot of lines; those of other slots are counted
  /// as they are written.
  void sent(const std::byte* at, std::uint64_t bytes);

  /// Whether it is one of the counters.
  [[nodiscard]] bool counts(const std::uint64_t* counter) const;
  [[nodiscard]] bool is_tail(const std::uint64_t* counter) const;
  /// The actor has read a counter.
  void seen(const Actor& actor, const std::uint64_t* counter, std::uint64_t value);
  /// The actor raises a counter; false, and reported, where it must not.
  [[nodiscard]] bool post(const Actor& actor, std::uint64_t* counter, std::uint64_t value);
  /// "the tail of 0 -> 1 on channel 2, which is 5"
  [[nodiscard]] std::string describe(const std::uint64_t* counter) const;

 private:
  struct Slot {
    Connection* connection;
    std::uint64_t index;
  };
  [[nodiscard]] Connection* owner(const std::uint64_t* counter);
  [[nodiscard]] const Connection* owner(const std::uint64_t* counter) const;
  /// The slot that holds all of it; a null connection where none does.
  [[nodiscard]] Slot slot_of(const std::byte* at, std::uint64_t bytes);
  /// The first step from `first` on that lies in slot `index`.
  [[nodiscard]] std::uint64_t step_in(std::uint64_t index, std::uint64_t first) const {
    return first + (index + steps_ - first % steps_) % steps_;
  }
  /// Whether its receiver knows that the slot holds a step that it has not given back.
  [[nodiscard]] bool has_come(const Connection& connection, std::uint64_t index) const;
  [[nodiscard]] Value* slot(const Connection& connection, std::uint64_t index);
  [[nodiscard]] ConnectionView view(std::size_t connection);

  Report& report_;
  const std::uint32_t steps_;
  const std::uint32_t step_bytes_;
  const Arrival arrival_;
  std::vector<Connection> connections_;
  std::vector<SlotMeta> metas_;
  std::vector<Value> memory_;
};

}  // namespace weft::checker
