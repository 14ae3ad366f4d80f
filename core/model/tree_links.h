// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's place in a tree: what its kernel sees of its neighbours there.
#pragma once

#include <cstdint>

#include "core/model/connection_view.h"

namespace weft {

/// Channels of trees that a call can use.
inline constexpr std::uint32_t kMostTreeChannels = 64;

/// Two of another host, or of this one, and one of this host below a leader.
inline constexpr std::uint32_t kMostTreeChildren = 3;

/// One rank's connections in the tree of one channel. Memory that the device reads.
struct TreeLinks {
  ConnectionView to_parent;    ///< Not connected at the root.
  ConnectionView from_parent;  ///< Not connected at the root.
  ConnectionView from_child[kMostTreeChildren];
  ConnectionView to_child[kMostTreeChildren];
  std::uint32_t children = 0;
  bool root = false;
};

/// How many chunks of an all-reduce a rank sends up before it takes the first that comes down: as
/// many as can be, to keep a deep tree busy. The root passes a chunk down as soon as it has it, and
/// waits there when a child has not taken the one `steps` before; that child must not wait in turn
/// for a slot upwards, of which there are `steps` as well.
[[nodiscard]] constexpr std::uint64_t tree_lag(std::uint32_t steps) {
  return 2 * std::uint64_t{steps};
}

}  // namespace weft
