// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The machines of tests/fixtures/topology. Needs TOPOLOGY_FIXTURES, the folder, as a macro.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/topology/discover.h"
#include "core/topology/placement.h"

namespace weft::test {

inline std::string fixture_path(const std::string& name) {
  return std::string(TOPOLOGY_FIXTURES) + "/" + name + ".xml";
}

/// Ends the program where the file cannot be read.
inline HostInfo fixture_host(const std::string& name) {
  return discover_host(name, {.hwloc_xml = fixture_path(name)}).value();
}

inline Topology fixture_topology(const std::string& name, std::uint32_t hosts,
                                 std::uint32_t ranks) {
  return made_up_topology(fixture_host(name), hosts, ranks);
}

}  // namespace weft::test
