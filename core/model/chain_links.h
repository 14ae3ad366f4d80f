// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's place in the chain of all ranks by their numbers: what its kernel sees of its
// neighbours there.
#pragma once

#include <cstdint>

#include "core/model/connection_view.h"

namespace weft {

/// One rank's connections on one channel: above is the rank of the next higher number, below that
/// of the next lower one. Memory that the device reads.
struct ChainLinks {
  ConnectionView to_above;  ///< Not connected at the last rank, as from_above.
  ConnectionView from_above;
  ConnectionView to_below;  ///< Not connected at rank 0, as from_below.
  ConnectionView from_below;
  std::uint32_t rank = 0;
  std::uint32_t root = 0;  ///< Of operations that have one: its rank.
};

/// How many chunks a rank sends up before it takes the first that comes down: as many as can be, to
/// keep a long chain busy. The last rank holds the one that it completes until there is room for it
/// below; the rank below must not wait in turn for the slot that it lies in.
[[nodiscard]] constexpr std::uint64_t chain_lag(std::uint32_t steps) {
  return 2 * std::uint64_t{steps} - 1;
}

}  // namespace weft
