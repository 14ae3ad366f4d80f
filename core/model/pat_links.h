// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's connections in parallel aggregated trees.
#pragma once

#include <cstdint>

#include "core/model/connection_view.h"
#include "core/model/pat_geometry.h"

namespace weft {

/// By level: those to and from the ranks 2^level places away on the torus.
struct PatHalf {
  ConnectionView to[kMostPatLevels];
  ConnectionView from[kMostPatLevels];
};

/// Of one rank on one channel. Memory that the device reads. One connection may be in both halves,
/// at different levels: what is ahead is behind as well, the other way round the ring.
struct PatLinks {
  PatHalf scatter;  ///< To the ranks behind, from those ahead; unless blocks are only gathered.
  PatHalf gather;   ///< To the ranks ahead, from those behind; unless they are only reduced.
  std::uint32_t levels = 0;
  std::uint32_t row = 1;  ///< PatTorus::row.
};

}  // namespace weft
