// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a peer as the report of its host, and as a whole topology: what is let through can be
// sent on, merged and asked.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/topology/codec.h"
#include "core/topology/paths.h"
#include "core/topology/topology.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// Everything that walks over trees and ranks.
void ask(const weft::Topology& topology) {
  for (const auto& ring : weft::rings(topology, 3))
    require(ring.size() == topology.rank_count());
  if (topology.rank_count() > 8) return;  // what follows looks at each rank from each other one
  for (const weft::RankInfo& rank : topology.ranks) {
    for (const std::uint32_t nic : weft::nearest_nics(topology, rank.rank))
      require(nic < topology.hosts[rank.host].nics.size());
  }
  (void)weft::to_text(topology);
  (void)weft::to_yaml(topology);
  (void)weft::to_dot(topology);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto report = weft::decode_report(bytes)) {
    require(weft::encode_report(*report).has_value());
    const std::vector<std::vector<std::byte>> alone = {{bytes.begin(), bytes.end()}};
    if (const auto merged = weft::merge(alone)) {
      require(merged->rank_count() == 1 && merged->same_host(0, 0));
      (void)weft::host_channels(*merged);
      ask(*merged);
    }
  }
  if (const auto topology = weft::decode(bytes)) {
    require(weft::encode(*topology).has_value());
    ask(*topology);
  }
  return 0;
}
