// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/co_residency.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/device_runtime.h"

namespace weft {
namespace {

/// While one communicator waits for a late rank another one goes on beside it, and beside each
/// kernel a small one of the same may wait already.
std::uint32_t beside_another(std::uint32_t groups) {
  return std::max(groups / 2, kGroupsThatMayComeEarly + 1) - kGroupsThatMayComeEarly;
}

/// Instances of a device have multiprocessors of their own.
std::string device_of(const RankInfo& rank) {
  return rank.device_pci + rank.device_id;
}

GroupShare share_of(std::uint32_t groups, std::uint32_t sharing) {
  if (sharing == 1) {
    const std::uint32_t beside = beside_another(groups);
    return {.all = groups, .channels = beside, .parts = beside};
  }
  const std::uint32_t share = std::max(groups / (2 * sharing), 1U);
  return {.all = share, .channels = share, .parts = std::max(share / 2, 1U)};
}

}  // namespace

Result<GroupShare> groups_of_each_rank(const Topology& topology,
                                       std::span<const std::uint32_t> groups_at_once) {
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> ranks_on;
  for (const RankInfo& rank : topology.ranks) {
    if (!rank.device_pci.empty()) ++ranks_on[{rank.host, device_of(rank)}];
  }
  GroupShare least;
  for (const RankInfo& rank : topology.ranks) {
    const std::uint32_t groups = groups_at_once[rank.rank];
    if (groups == 0) continue;
    const std::uint32_t sharing =
        rank.device_pci.empty() ? 1 : ranks_on.at({rank.host, device_of(rank)});
    if (groups < sharing) {
      return fail(
          WEFT_ERROR_OUT_OF_RESOURCES,
          fmt::format("{} ranks share device {} of {}, which runs {} groups at once", sharing,
                      rank.device_pci, topology.hosts[rank.host].host_name, groups),
          "spread the ranks over more devices");
    }
    const GroupShare share = share_of(groups, sharing);
    least = least.all == 0 ? share
                           : GroupShare{.all = std::min(least.all, share.all),
                                        .channels = std::min(least.channels, share.channels),
                                        .parts = std::min(least.parts, share.parts)};
  }
  return least;
}

bool shares_device(const Topology& topology, std::uint32_t rank) {
  const RankInfo& own = topology.ranks[rank];
  return !own.device_pci.empty() && std::ranges::any_of(topology.ranks, [&](const RankInfo& other) {
    return other.rank != rank && other.host == own.host && device_of(other) == device_of(own);
  });
}

namespace {

constexpr std::uint32_t kMostDeviceNetPorts = 8;
constexpr std::uint32_t kFewNetPortsOfAll = 8;

struct HostShare {
  std::uint64_t ranks = 0;
  std::uint64_t processors = 0;  // that they may keep busy at once
};

HostShare host_share(const Topology& topology, std::uint32_t rank) {
  const std::uint32_t host = topology.ranks[rank].host;
  return {.ranks = topology.ranks_on_host(host).size(), .processors = usable_cpus(topology, host)};
}

}  // namespace

std::uint32_t processors_of_each(const Topology& topology, std::uint32_t rank) {
  const HostShare share = host_share(topology, rank);
  return static_cast<std::uint32_t>(share.processors / std::max<std::uint64_t>(share.ranks, 1));
}

std::uint32_t ranks_of_each_processor(const Topology& topology, std::uint32_t rank) {
  const HostShare share = host_share(topology, rank);
  if (share.processors == 0) return 1;
  const std::uint64_t ranks = (share.ranks + share.processors - 1) / share.processors;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(ranks, 1));
}

std::uint32_t device_net_ports(const Topology& topology, std::uint32_t rank) {
  return std::clamp(processors_of_each(topology, rank) / 2, 1U, kMostDeviceNetPorts);
}

namespace {

std::uint32_t least_net_ports(const Topology& topology) {
  std::uint32_t least = kMostDeviceNetPorts;
  for (const RankInfo& rank : topology.ranks)
    least = std::min(least, device_net_ports(topology, rank.rank));
  return least;
}

}  // namespace

std::uint32_t few_net_ports(const Topology& topology) {
  const std::uint32_t few = std::max(kFewNetPortsOfAll / topology.rank_count(), 1U);
  return std::min(few, least_net_ports(topology));
}

std::uint32_t net_stripes(const Topology& topology) {
  return std::min(few_net_ports(topology), std::max(least_net_ports(topology) / 2, 1U));
}

bool have_own_processors(const Topology& topology, std::uint32_t rank, std::uint32_t workers) {
  const HostShare share = host_share(topology, rank);
  return share.ranks * workers <= share.processors;
}

bool all_have_own_processors(const Topology& topology, std::uint32_t workers) {
  return std::ranges::all_of(topology.ranks, [&](const RankInfo& rank) {
    return have_own_processors(topology, rank.rank, workers);
  });
}

}  // namespace weft
