// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings over nets: what a progress engine does between the slots of a sender and those of a
// receiver. What a sender lends it reads where it lies, and what may land it brings straight to the
// output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "core/model/connection_view.h"
#include "core/model/landing.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/connections.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/report.h"
#include "tests/schedule_checker/symbolic_memory.h"

namespace weft::checker {

class Nets {
 public:
  /// Between `ranks`; the number after theirs is that of all nets. `steps`: slots of a connection.
  Nets(World& world, Connections& connections, std::uint32_t ranks, std::uint32_t steps)
      : world_(world), connections_(connections), number_(ranks), slots_(steps) {}

  /// One more edge, over which `steps` steps go in all. Before Connections::allocate().
  void add(std::uint32_t from, std::uint32_t to, std::uint32_t channel, std::uint64_t steps);
  [[nodiscard]] std::size_t size() const { return edges_.size(); }
  /// Views of the ranks at the two ends of an edge.
  [[nodiscard]] ConnectionView sender(std::size_t edge);
  [[nodiscard]] ConnectionView receiver(std::size_t edge);
  /// Whether the end of a connection is a net's.
  [[nodiscard]] bool is_net(std::uint32_t rank) const { return rank == number_; }

  /// The receiver has begun a call of so many steps, which land where `walk` says.
  void begin(std::size_t edge, std::uint64_t steps, const LandingWalk& walk);
  /// A fiber's: all steps of an edge.
  void run(std::size_t edge);
  [[nodiscard]] std::string name(std::size_t edge) const;

 private:
  struct Landing {
    std::uint64_t end;
    LandingWalk walk;
  };
  struct Edge {
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t channel;
    std::uint64_t steps;
    std::size_t out;  ///< The connection from the sender to the net,
    std::size_t in;   ///< and on to the receiver.
    std::uint64_t begun = 0;
    Waiters at_begun{};
    std::deque<Landing> landings{};
  };
  [[nodiscard]] bool await(const Actor& net, Connection& connection, const std::uint64_t* counter,
                           std::uint64_t threshold);
  void post(const Actor& net, Connection& connection, std::uint64_t* counter, std::uint64_t value);
  [[nodiscard]] bool move(Edge& edge, const Actor& net, std::uint64_t step);
  /// False, and the end of all.
  bool wrong(const Actor& net, Rule rule, const std::string& what);
  bool stop();

  World& world_;
  Connections& connections_;
  const std::uint32_t number_;
  const std::uint32_t slots_;
  std::deque<Edge> edges_;  // where their counters stay
};

}  // namespace weft::checker
