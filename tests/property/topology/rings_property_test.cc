// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings over any hosts: each holds each rank once, hosts stay together, a channel's order is its
// own, what travelled gives the same, and ranks that leave a host are nearest to the channel's
// rail.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/topology/codec.h"
#include "core/topology/paths.h"
#include "core/topology/topology.h"
#include "tests/support/random_topology.h"

namespace weft {
namespace {

using Ring = std::vector<std::uint32_t>;

std::uint32_t hosts_with_ranks(const Topology& topology) {
  std::uint32_t count = 0;
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host)
    count += topology.ranks_on_host(host).empty() ? 0 : 1;
  return count;
}

RC_GTEST_PROP(RingsProperty, HoldEachRankOnceAndCrossEachHostOnce, ()) {
  const Topology topology = test::random_topology();
  const auto hosts = hosts_with_ranks(topology);
  for (const Ring& ring : rings(topology, 6)) {
    Ring sorted = ring;
    std::ranges::sort(sorted);
    Ring all(topology.rank_count());
    std::iota(all.begin(), all.end(), 0U);
    RC_ASSERT(sorted == all);
    std::uint32_t crossings = 0;
    for (std::size_t i = 0; i < ring.size(); ++i)
      crossings += topology.same_host(ring[i], ring[(i + 1) % ring.size()]) ? 0 : 1;
    RC_ASSERT(crossings == (hosts > 1 ? hosts : 0));
  }
}

RC_GTEST_PROP(RingsProperty, AreAlikeWhereverTheyAreComputed, ()) {
  const Topology topology = test::random_topology();
  const auto six = rings(topology, 6);
  RC_ASSERT(six == rings(topology, 6));
  // What a plan of fewer channels uses must be what the connections were made for.
  const auto fewer = *rc::gen::inRange<std::uint32_t>(0, 6);
  RC_ASSERT(rings(topology, fewer) ==
            std::vector<Ring>(six.begin(), six.begin() + static_cast<std::ptrdiff_t>(fewer)));
  const Topology travelled = decode(encode(topology).value()).value();
  RC_ASSERT(rings(travelled, 6) == six);
}

RC_GTEST_PROP(RingsProperty, LeaveByARankNearestToTheRail, ()) {
  const Topology topology = test::random_topology();
  if (hosts_with_ranks(topology) < 2) return;
  RC_CLASSIFY(std::ranges::any_of(topology.hosts,
                                  [](const HostInfo& host) { return !rails(host).empty(); }));
  const auto found = rings(topology, 6);
  for (std::uint32_t channel = 0; channel < found.size(); ++channel) {
    const Ring& ring = found[channel];
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::uint32_t rank = ring[i];
      if (topology.same_host(rank, ring[(i + 1) % ring.size()])) continue;
      const std::uint32_t host = topology.ranks[rank].host;
      const auto nics = rails(topology.hosts[host]);
      if (nics.empty()) {
        RC_ASSERT(rank == found[0][i]);  // one order for all channels
        continue;
      }
      const std::uint32_t nic = nics[channel % nics.size()];
      for (const std::uint32_t other : topology.ranks_on_host(host))
        RC_ASSERT(path_to_nic(topology, rank, nic) <= path_to_nic(topology, other, nic));
    }
  }
}

RC_GTEST_PROP(NearestNicsProperty, NameEachNicOnceByPathThenSpeed, ()) {
  const Topology topology = test::random_topology();
  for (const RankInfo& rank : topology.ranks) {
    const HostInfo& host = topology.hosts[rank.host];
    std::vector<std::uint32_t> nics = nearest_nics(topology, rank.rank);
    for (std::size_t i = 1; i < nics.size(); ++i) {
      const Path before = path_to_nic(topology, rank.rank, nics[i - 1]);
      const Path after = path_to_nic(topology, rank.rank, nics[i]);
      RC_ASSERT(before <= after);
      RC_ASSERT(before != after || host.nics[nics[i - 1]].speed_mbps.value_or(0) >=
                                       host.nics[nics[i]].speed_mbps.value_or(0));
    }
    std::ranges::sort(nics);
    RC_ASSERT(std::ranges::adjacent_find(nics) == nics.end());
  }
}

RC_GTEST_PROP(NearestNicsProperty, AreSharedEvenly, ()) {
  // Ranks that see all NICs alike: no NIC is the first of two more ranks than another.
  Topology topology = test::random_topology();
  for (RankInfo& rank : topology.ranks) {
    rank.device_pci.clear();
    rank.cpus = {{.first = 0, .last = 7}};
  }
  for (std::uint32_t number = 0; number < topology.hosts.size(); ++number) {
    const HostInfo& host = topology.hosts[number];
    std::vector<std::uint32_t> uses(host.nics.size(), 0);
    std::uint32_t best = 0;
    for (const std::uint32_t rank : topology.ranks_on_host(number)) {
      const std::vector<std::uint32_t> nics = nearest_nics(topology, rank);
      if (nics.empty()) continue;
      ++uses[nics.front()];
      best = static_cast<std::uint32_t>(std::ranges::count_if(nics, [&](std::uint32_t nic) {
        return path_to_nic(topology, rank, nic) == path_to_nic(topology, rank, nics.front()) &&
               host.nics[nic].speed_mbps == host.nics[nics.front()].speed_mbps;
      }));
    }
    if (best == 0) continue;
    const auto ranks = static_cast<std::uint32_t>(topology.ranks_on_host(number).size());
    RC_ASSERT(std::ranges::max(uses) == (ranks + best - 1) / best);
  }
}

}  // namespace
}  // namespace weft
