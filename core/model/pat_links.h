// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's connections in parallel aggregated trees.
#pragma once

#include <cstdint>

#include "core/model/connection_view.h"
#include "core/model/pat_geometry.h"

namespace weft {

/// Of one rank on one channel, by level: those to and from the ranks 2^level places away on the
/// torus, ahead and behind where blocks are gathered, behind and ahead where they are reduced.
/// Memory that the device reads.
struct PatLinks {
  ConnectionView to[kMostPatLevels];
  ConnectionView from[kMostPatLevels];
  std::uint32_t levels = 0;
  std::uint32_t row = 1;  ///< PatTorus::row.
};

}  // namespace weft
