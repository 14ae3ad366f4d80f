// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/placement.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace weft {
namespace {

struct Gpu {
  std::string address;
  std::optional<std::uint32_t> numa_node;
};

std::vector<Gpu> gpus_of(const HostInfo& host) {
  std::vector<Gpu> gpus;
  std::optional<std::uint32_t> numa_node;
  // All nodes of a tree follow its root.
  for (const PciNode& node : host.pci) {
    if (node.kind == PciKind::kRoot) numa_node = node.numa_node;
    if (node.kind == PciKind::kGpu)
      gpus.push_back({.address = node.address, .numa_node = numa_node});
  }
  return gpus;
}

std::vector<CpuRange> all_cpus(const HostInfo& host) {
  std::vector<CpuRange> cpus;
  for (const NumaNode& node : host.numa_nodes)
    cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  std::ranges::sort(cpus, {}, &CpuRange::first);
  return cpus;
}

void place(RankInfo& rank, const HostInfo& host, std::uint32_t index, std::uint32_t ranks) {
  const std::vector<Gpu> gpus = gpus_of(host);
  if (!gpus.empty()) {
    const Gpu& gpu = gpus[index % gpus.size()];
    rank.device = "cuda";
    rank.device_pci = gpu.address;
    const auto node = std::ranges::find(host.numa_nodes, gpu.numa_node, &NumaNode::number);
    rank.cpus = node == host.numa_nodes.end() ? all_cpus(host) : node->cpus;
    return;
  }
  std::vector<const NumaNode*> nodes;
  for (const NumaNode& node : host.numa_nodes) {
    if (!node.cpus.empty()) nodes.push_back(&node);
  }
  // More nodes than ranks: each rank gets several, and none of them would be a guess.
  rank.cpus = nodes.size() > ranks || nodes.empty() ? all_cpus(host)
                                                    : nodes[index * nodes.size() / ranks]->cpus;
}

}  // namespace

Topology made_up_topology(const HostInfo& host, std::uint32_t hosts, std::uint32_t ranks) {
  Topology topology;
  for (std::uint32_t number = 0; number < hosts; ++number) {
    HostInfo& copy = topology.hosts.emplace_back(host);
    if (hosts > 1) copy.host_id += fmt::format("-{}", number);
    for (std::uint32_t index = 0; index < ranks; ++index) {
      RankInfo rank;
      rank.rank = topology.rank_count();
      rank.host = number;
      rank.pid = index + 1;
      rank.process = fmt::format("{}/{}", copy.host_id, index);
      place(rank, host, index, ranks);
      std::uint64_t threads = 0;
      for (const CpuRange& cpus : rank.cpus)
        threads += cpus.last - cpus.first + 1;
      const std::uint64_t per_core = std::max(1U, host.hardware_threads / std::max(1U, host.cores));
      rank.cores = static_cast<std::uint32_t>(threads / per_core);
      topology.ranks.push_back(std::move(rank));
    }
  }
  return topology;
}

}  // namespace weft
