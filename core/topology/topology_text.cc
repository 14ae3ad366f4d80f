// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A topology as text: the tree of each host, then ranks and rings.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/topology/describe.h"
#include "core/topology/paths.h"
#include "core/topology/topology.h"

namespace weft {
namespace {

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string nic_text(const NicInfo& nic) {
  std::string text =
      fmt::format("{}, {}, {}", nic.name, speed_text(nic.speed_mbps), state_text(nic.up));
  if (nic.loopback) {
    text += ", loopback";
  } else if (nic.is_virtual) {
    text += ", virtual";
  }
  if (!nic.addresses.empty()) text += fmt::format(", {}", fmt::join(nic.addresses, " "));
  return text;
}

std::string ranks_at(const Topology& topology, std::uint32_t host, std::string_view address) {
  std::vector<std::uint32_t> ranks;
  for (const RankInfo& rank : topology.ranks) {
    if (rank.host == host && rank.device_pci == address) ranks.push_back(rank.rank);
  }
  if (ranks.empty()) return {};
  return fmt::format(", rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// A node of the PCI tree and all below it; bounded as the tree is.
void add_pci(const Topology& topology, std::uint32_t host,  // NOLINT(misc-no-recursion)
             std::uint32_t index, std::size_t indent, std::string& text) {
  const HostInfo& info = topology.hosts[host];
  const PciNode& node = info.pci[index];
  std::string line = fmt::format("{:{}}", "", indent);
  switch (node.kind) {
    case PciKind::kRoot:
      line += fmt::format("PCI {}", node.address);
      break;
    case PciKind::kBridge:
      line += fmt::format("{} {}", pci_name(info, index), node.address);
      break;
    case PciKind::kGpu:
      line += fmt::format("GPU {}{}", node.address, ranks_at(topology, host, node.address));
      break;
    case PciKind::kNic: {
      const std::vector<std::uint32_t> nics = nics_at(info, node.address);
      if (nics.empty()) line += fmt::format("NIC {}, no interface", node.address);
      for (std::size_t i = 0; i < nics.size(); ++i) {
        line += fmt::format("{}NIC {} {}", i == 0 ? "" : fmt::format("\n{:{}}", "", indent),
                            node.address, nic_text(info.nics[nics[i]]));
      }
      break;
    }
  }
  text += line + '\n';
  for (const std::uint32_t child : pci_children(info, index))
    add_pci(topology, host, child, indent + 2, text);
}

void add_roots(const Topology& topology, std::uint32_t host, std::optional<std::uint32_t> numa_node,
               std::string& text) {
  const HostInfo& info = topology.hosts[host];
  for (std::uint32_t index = 0; index < info.pci.size(); ++index) {
    if (info.pci[index].kind == PciKind::kRoot && info.pci[index].numa_node == numa_node) {
      add_pci(topology, host, index, 4, text);
    }
  }
}

/// From each GPU to each NIC of the PCI trees.
void add_paths(const HostInfo& host, std::string& text) {
  std::vector<std::string_view> gpus;
  std::vector<const NicInfo*> nics;
  for (const PciNode& node : host.pci) {
    if (node.kind == PciKind::kGpu) gpus.push_back(node.address);
    for (const std::uint32_t nic : nics_at(host, node.address))
      nics.push_back(&host.nics[nic]);
  }
  if (gpus.empty() || nics.empty()) return;
  std::string head = fmt::format("  {:<14}", "paths");
  for (const NicInfo* nic : nics)
    head += fmt::format("  {:<7}", nic->name);
  text += head.substr(0, head.find_last_not_of(' ') + 1) + '\n';
  for (const std::string_view gpu : gpus) {
    std::string line = fmt::format("    {:<12}", gpu);
    for (const NicInfo* nic : nics) {
      line += fmt::format("  {:<{}}", path_name(path_between(host, gpu, nic->pci_path)),
                          std::max<std::size_t>(7, nic->name.size()));
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
}

void add_host(const Topology& topology, std::uint32_t number, std::string& text) {
  const HostInfo& host = topology.hosts[number];
  text +=
      fmt::format("host {} ({}): {}, {}, {}, {}, {}\n", host.host_name, host.host_id,
                  counted(host.packages, "package"), counted(host.numa_nodes.size(), "NUMA node"),
                  counted(host.cores, "core"), counted(host.hardware_threads, "hardware thread"),
                  memory_text(host.memory_bytes));
  for (const NumaNode& node : host.numa_nodes) {
    text += fmt::format("  NUMA node {}: CPUs {}, {}\n", node.number,
                        node.cpus.empty() ? "none" : cpus_text(node.cpus),
                        memory_text(node.memory_bytes));
    add_roots(topology, number, node.number, text);
  }
  std::string unplaced;
  add_roots(topology, number, std::nullopt, unplaced);
  if (!unplaced.empty()) text += "  NUMA node unknown\n" + unplaced;
  const std::vector<std::uint32_t> others = other_nics(host);
  if (!others.empty()) text += "  other interfaces\n";
  for (const std::uint32_t nic : others)
    text += fmt::format("    {}\n", nic_text(host.nics[nic]));
  add_paths(host, text);
}

void add_rank(const Topology& topology, const RankInfo& rank, std::string& text) {
  const HostInfo& host = topology.hosts[rank.host];
  text += fmt::format("  rank {}: {}, pid {}, device {}", rank.rank, host.host_name, rank.pid,
                      rank.device);
  if (!rank.device_pci.empty()) text += " " + rank.device_pci;
  if (!rank.memory_fabric.empty()) text += ", memory fabric " + rank.memory_fabric;
  text += fmt::format(", CPUs {}", rank.cpus.empty() ? "unknown" : cpus_text(rank.cpus));
  if (rank.cpu_limit != 0) {
    text += fmt::format(", of which its control group leaves it the time of {}", rank.cpu_limit);
  }
  const std::vector<std::uint32_t> nics = nearest_nics(topology, rank.rank);
  if (!nics.empty()) {
    text += fmt::format(", nearest NIC {} ({})", host.nics[nics.front()].name,
                        path_name(path_to_nic(topology, rank.rank, nics.front())));
  }
  text += '\n';
}

}  // namespace

std::string to_text(const Topology& topology) {
  std::string text;
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host)
    add_host(topology, host, text);
  if (!topology.ranks.empty()) text += "ranks\n";
  for (const RankInfo& rank : topology.ranks)
    add_rank(topology, rank, text);
  const std::vector<ShownRing> shown = shown_rings(topology);
  if (!shown.empty()) text += "rings\n";
  for (const ShownRing& ring : shown) {
    const bool all = shown.size() == 1;
    text += fmt::format("  {}: {}\n",
                        all ? std::string("every channel")
                            : fmt::format("channel {}", fmt::join(ring.channels, ", ")),
                        fmt::join(ring.order, " -> "));
  }
  return text;
}

}  // namespace weft
