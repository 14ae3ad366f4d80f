// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/whole_lines.h"

#include <algorithm>
#include <string>

namespace weft {
namespace {

constexpr std::uint32_t kWordBytes = 8;  // which memory keeps together everywhere

/// `device`: empty where it is unknown.
bool vouches_for(const Hello& hello, const std::string& device) {
  return !device.empty() && std::ranges::find(hello.line_peers, device) != hello.line_peers.end();
}

}  // namespace

std::uint32_t common_line_bytes(const Topology& topology, std::span<const Hello> hellos) {
  std::uint32_t least = UINT32_MAX;
  for (const Hello& hello : hellos)
    least = std::min(least, hello.line_bytes);
  if (least <= kWordBytes) return least;
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
    const auto ranks = topology.ranks_on_host(host);
    for (const std::uint32_t from : ranks) {
      const std::string& own = topology.ranks[from].device_pci;
      for (const std::uint32_t to : ranks) {
        const std::string& other = topology.ranks[to].device_pci;
        const bool is_same = from == to || (!own.empty() && own == other);
        if (!is_same && !vouches_for(hellos[from], other)) return kWordBytes;
      }
    }
  }
  return least;
}

}  // namespace weft
