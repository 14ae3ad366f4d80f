// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Executes groups of sends and receives, and exchanges, symbolically, as execute() does plans.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/model/operation.h"
#include "tests/schedule_checker/checker.h"

namespace weft::checker {

struct PairCall {
  bool sends = false;
  std::uint32_t partner = 0;  ///< May be the rank itself.
  std::uint64_t count = 0;    ///< Elements of 8 bytes; may be 0.
};
/// What one rank calls in one group, in this order.
using PairGroup = std::vector<PairCall>;

/// What all ranks call in a group, by rank.
using PairGroups = std::vector<PairGroup>;

/// A call of all ranks that is carried out in pairs.
struct ExchangeCall {
  Operation operation = Operation::kAllToAll;
  std::uint32_t root = 0;
  std::uint64_t count = 0;  ///< Elements of 8 bytes of a block; may be 0.
  /// Of all-to-all-v: those from each rank to each, [from * ranks + to].
  std::vector<std::uint64_t> counts{};
  bool in_place = false;  ///< Of gather and scatter: the root's own block lies where it must be.
};

struct PairExecution {
  std::uint32_t ranks = 2;
  std::uint32_t steps = 2;  ///< Slots of each connection.
  std::uint32_t step_bytes = 64;
  /// Messages of up to so many bytes go by lines, with a connection of their own for those and for
  /// the headers of longer ones; 0: none do. Its slots are as the others.
  std::uint64_t line_bytes = 0;
  /// A connection for each of so many parts of a message, of 16 elements at least; and of one by
  /// lines that is longer than `line_bytes`.
  std::uint32_t channels = 1;
  std::uint32_t line_channels = 1;
  /// Messages of so many bytes and more are lent: the receiver reads them where they lie.
  std::uint64_t least_lent_bytes = UINT64_MAX;
  /// One after the other, over the same connections. Of groups: the n-th send of a rank to another
  /// and the n-th receive there have the same count; what a rank sends to itself it receives in the
  /// same group.
  std::vector<std::variant<PairGroups, ExchangeCall>> rounds{};
  Turns turns = Turns::kInOrder;
  std::uint64_t seed = 0;
  Kernel kernel = run_kernel;
};

[[nodiscard]] Verdict execute_pairs(Stacks& stacks, const PairExecution& execution);

}  // namespace weft::checker
