// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The order of ranks round each channel's ring.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/topology/paths.h"
#include "core/topology/topology.h"

namespace weft {
namespace {

/// The lowest rank of each rank's process: what ranks of one process have in common.
std::vector<std::uint32_t> process_leaders(const Topology& topology) {
  std::unordered_map<std::string_view, std::uint32_t> leaders;
  std::vector<std::uint32_t> result;
  result.reserve(topology.ranks.size());
  for (const RankInfo& rank : topology.ranks) {
    result.push_back(leaders.emplace(rank.process, rank.rank).first->second);
  }
  return result;
}

/// The ranks of one host in their order, and how channels turn it.
struct HostOrder {
  std::uint32_t host = 0;
  std::vector<std::uint32_t> ranks;
  std::vector<std::vector<Path>> paths;  // paths[rail][place in ranks]
  std::vector<std::uint32_t> left_by;    // how many channels leave by each place

  /// At which place `channel` begins. The rank before it is the one that leaves the host.
  std::size_t first_place(std::uint32_t channel) {
    const std::size_t count = ranks.size();
    if (paths.empty() || count < 2) return 0;
    const std::vector<Path>& to_rail = paths[channel % paths.size()];
    const auto cost = [&](std::size_t first) {
      const std::size_t last = (first + count - 1) % count;
      return std::tuple(to_rail[last], to_rail[first], left_by[last]);
    };
    std::size_t best = 0;
    for (std::size_t first = 1; first < count; ++first) {
      if (cost(first) < cost(best)) best = first;
    }
    // No rank's place is known: nothing says that another order is better.
    if (to_rail[(best + count - 1) % count] == Path::kUnknown) return 0;
    ++left_by[(best + count - 1) % count];
    return best;
  }
};

std::vector<HostOrder> host_orders(const Topology& topology) {
  const std::vector<std::uint32_t> leaders = process_leaders(topology);
  std::vector<HostOrder> by_host(topology.hosts.size());
  for (const RankInfo& rank : topology.ranks)
    by_host[rank.host].ranks.push_back(rank.rank);
  std::vector<HostOrder> orders;
  for (std::uint32_t host = 0; host < by_host.size(); ++host) {
    by_host[host].host = host;
    if (!by_host[host].ranks.empty()) orders.push_back(std::move(by_host[host]));
  }
  // Ranks still ascend: the first is the host's lowest.
  std::ranges::sort(orders, {}, [](const HostOrder& order) { return order.ranks.front(); });
  for (HostOrder& order : orders) {
    std::ranges::sort(order.ranks, {},
                      [&](std::uint32_t rank) { return std::tuple(leaders[rank], rank); });
    if (orders.size() == 1) continue;
    for (const std::uint32_t nic : rails(topology.hosts[order.host])) {
      std::vector<Path>& to_rail = order.paths.emplace_back();
      for (const std::uint32_t rank : order.ranks)
        to_rail.push_back(path_to_nic(topology, rank, nic));
    }
    order.left_by.resize(order.ranks.size());
  }
  return orders;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> rings(const Topology& topology, std::uint32_t channels) {
  std::vector<HostOrder> orders = host_orders(topology);
  std::vector<std::vector<std::uint32_t>> result(channels);
  for (std::uint32_t channel = 0; channel < channels; ++channel) {
    std::vector<std::uint32_t>& ring = result[channel];
    ring.reserve(topology.ranks.size());
    for (HostOrder& order : orders) {
      const auto first =
          order.ranks.begin() + static_cast<std::ptrdiff_t>(order.first_place(channel));
      ring.insert(ring.end(), first, order.ranks.end());
      ring.insert(ring.end(), order.ranks.begin(), first);
    }
  }
  return result;
}

}  // namespace weft
