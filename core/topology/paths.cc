// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/paths.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>

namespace weft {
namespace {

const PciNode* find_device(const HostInfo& host, std::string_view address) {
  if (address.empty()) return nullptr;
  const auto found = std::ranges::find_if(host.pci, [&](const PciNode& node) {
    return (node.kind == PciKind::kNic || node.kind == PciKind::kGpu) && node.address == address;
  });
  return found == host.pci.end() ? nullptr : &*found;
}

/// A node on the way up from a device, and how many bridges lie between the two.
struct Ancestor {
  const PciNode* node = nullptr;
  std::uint32_t bridges = 0;
};

/// From the device's parent to its root. Parents stand before their children: this ends.
std::vector<Ancestor> ancestors(const HostInfo& host, const PciNode& device) {
  std::vector<Ancestor> way;
  const PciNode* below = &device;
  std::uint32_t bridges = 0;
  while (below->kind != PciKind::kRoot) {
    const PciNode& node = host.pci[below->parent];
    bridges += below->bridges;
    way.push_back({.node = &node, .bridges = bridges});
    ++bridges;
    below = &node;
  }
  return way;
}

Path between_roots(const PciNode& a, const PciNode& b) {
  if (!a.numa_node || !b.numa_node) return Path::kUnknown;
  return a.numa_node == b.numa_node ? Path::kNode : Path::kSys;
}

std::optional<std::uint32_t> numa_node_of(const HostInfo& host, std::string_view address) {
  const PciNode* device = find_device(host, address);
  return device == nullptr ? std::nullopt : ancestors(host, *device).back().node->numa_node;
}
std::optional<std::uint32_t> numa_node_of(const HostInfo& host, const NicInfo& nic) {
  return nic.numa_node ? nic.numa_node : numa_node_of(host, nic.pci_path);
}

std::span<const CpuRange> cpus_of(const HostInfo& host, std::optional<std::uint32_t> number) {
  if (!number) return {};
  const auto node = std::ranges::find(host.numa_nodes, *number, &NumaNode::number);
  return node == host.numa_nodes.end() ? std::span<const CpuRange>() : std::span(node->cpus);
}

bool overlap(std::span<const CpuRange> a, std::span<const CpuRange> b) {
  return std::ranges::any_of(a, [&](const CpuRange& one) {
    return std::ranges::any_of(b, [&](const CpuRange& other) {
      return one.first <= other.last && other.first <= one.last;
    });
  });
}

bool may_carry_data(const NicInfo& nic) {
  return !nic.loopback && !nic.is_virtual && nic.up != false;
}

/// A NIC as a rank sees it.
struct Candidate {
  Path path = Path::kUnknown;
  std::uint32_t speed_mbps = 0;  // 0: unknown
  std::uint32_t nic = 0;
  [[nodiscard]] bool as_good_as(const Candidate& other) const {
    return path == other.path && speed_mbps == other.speed_mbps;
  }
};

std::vector<Candidate> candidates(const Topology& topology, std::uint32_t rank) {
  const HostInfo& host = topology.hosts[topology.ranks[rank].host];
  std::vector<Candidate> found;
  for (std::uint32_t nic = 0; nic < host.nics.size(); ++nic) {
    if (!may_carry_data(host.nics[nic])) continue;
    found.push_back({.path = path_to_nic(topology, rank, nic),
                     .speed_mbps = host.nics[nic].speed_mbps.value_or(0),
                     .nic = nic});
  }
  std::ranges::sort(found, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.path, b.speed_mbps, a.nic) < std::tuple(b.path, a.speed_mbps, b.nic);
  });
  return found;
}

std::size_t best_count(const std::vector<Candidate>& sorted) {
  const auto end = std::ranges::find_if_not(
      sorted, [&](const Candidate& one) { return one.as_good_as(sorted.front()); });
  return static_cast<std::size_t>(end - sorted.begin());
}

bool same_best(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  const std::size_t count = best_count(a);
  return !a.empty() && count == best_count(b) &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin(),
                    [](const Candidate& x, const Candidate& y) { return x.nic == y.nic; });
}

}  // namespace

std::string_view path_name(Path path) {
  constexpr std::array<std::string_view, 7> kNames = {"self", "pix", "pxb",    "phb",
                                                      "node", "sys", "unknown"};
  return kNames.at(static_cast<std::size_t>(path));
}

Path path_between(const HostInfo& host, std::string_view a, std::string_view b) {
  const PciNode* first = find_device(host, a);
  const PciNode* second = find_device(host, b);
  if (first == nullptr || second == nullptr) return Path::kUnknown;
  if (first == second) return Path::kSelf;
  const std::vector<Ancestor> up = ancestors(host, *first);
  const std::vector<Ancestor> down = ancestors(host, *second);
  for (const Ancestor& one : up) {
    const auto met = std::ranges::find(down, one.node, &Ancestor::node);
    if (met == down.end()) continue;
    if (one.node->kind == PciKind::kRoot) return Path::kPhb;
    // A switch is a bridge with further bridges below it, one a port.
    return std::max(one.bridges, met->bridges) <= 1 ? Path::kPix : Path::kPxb;
  }
  return between_roots(*up.back().node, *down.back().node);
}

Path path_between(const HostInfo& host, std::span<const CpuRange> cpus, const NicInfo& nic) {
  const std::span<const CpuRange> near = cpus_of(host, numa_node_of(host, nic));
  if (near.empty() || cpus.empty()) return Path::kUnknown;
  return overlap(cpus, near) ? Path::kNode : Path::kSys;
}

Path path_to_nic(const Topology& topology, std::uint32_t rank, std::uint32_t nic) {
  const RankInfo& info = topology.ranks[rank];
  const HostInfo& host = topology.hosts[info.host];
  return info.device_pci.empty() ? path_between(host, info.cpus, host.nics[nic])
                                 : path_between(host, info.device_pci, host.nics[nic].pci_path);
}

std::vector<CpuRange> cpus_near_device(const Topology& topology, std::uint32_t rank) {
  const RankInfo& info = topology.ranks[rank];
  const HostInfo& host = topology.hosts[info.host];
  const std::span<const CpuRange> near = cpus_of(host, numa_node_of(host, info.device_pci));
  return {near.begin(), near.end()};
}

std::vector<std::uint32_t> nearest_nics(const Topology& topology, std::uint32_t rank) {
  std::vector<Candidate> mine = candidates(topology, rank);
  std::size_t before = 0;
  for (std::uint32_t other = 0; other < rank; ++other) {
    if (topology.same_host(rank, other) && same_best(mine, candidates(topology, other))) ++before;
  }
  if (!mine.empty()) {
    const std::size_t best = best_count(mine);
    std::rotate(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(before % best),
                mine.begin() + static_cast<std::ptrdiff_t>(best));
  }
  std::vector<std::uint32_t> nics;
  nics.reserve(mine.size());
  for (const Candidate& one : mine)
    nics.push_back(one.nic);
  return nics;
}

std::vector<std::uint32_t> rails(const HostInfo& host) {
  std::vector<std::uint32_t> found;
  std::uint32_t fastest = 0;
  for (std::uint32_t nic = 0; nic < host.nics.size(); ++nic) {
    const NicInfo& info = host.nics[nic];
    if (!may_carry_data(info) || !info.up || !info.speed_mbps || info.addresses.empty() ||
        find_device(host, info.pci_path) == nullptr) {
      continue;
    }
    found.push_back(nic);
    fastest = std::max(fastest, *info.speed_mbps);
  }
  std::erase_if(found, [&](std::uint32_t nic) { return host.nics[nic].speed_mbps != fastest; });
  if (found.size() < 2) return {};
  // Names are given in the order of discovery, places are alike on hosts that are built alike.
  std::ranges::sort(found, {}, [&](std::uint32_t nic) {
    return std::tie(host.nics[nic].pci_path, host.nics[nic].name);
  });
  return found;
}

}  // namespace weft
