// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that do not exist, for looking at machines that are not here.
#pragma once

#include <cstdint>

#include "core/topology/topology.h"

namespace weft {

/// `hosts` machines like `host`, each with `ranks` processes placed as a launcher that binds them
/// would: one a GPU if there are any, with the CPUs of its NUMA node, else in equal parts on the
/// NUMA nodes that have CPUs. Host ids of several hosts get a number each.
[[nodiscard]] Topology made_up_topology(const HostInfo& host, std::uint32_t hosts,
                                        std::uint32_t ranks);

}  // namespace weft
