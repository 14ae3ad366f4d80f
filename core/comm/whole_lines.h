// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long a line is that arrives whole between any two ranks.
#pragma once

#include <cstdint>
#include <span>

#include "core/comm/hello.h"
#include "core/topology/topology.h"

namespace weft {

/// The least line_bytes of all, and no more than 8 where two ranks of a host have different devices
/// of which one does not count the other among its line_peers. Of ranks on different hosts the
/// least is enough: memory of another host is reached over a fabric alone, and addresses of two
/// hosts are no names of devices. hellos[r] is of rank r.
[[nodiscard]] std::uint32_t common_line_bytes(const Topology& topology,
                                              std::span<const Hello> hellos);

}  // namespace weft
