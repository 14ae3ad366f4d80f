// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A topology for Graphviz.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/topology/describe.h"
#include "core/topology/topology.h"

namespace weft {
namespace {

std::string in_dot_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string nic_label(const NicInfo& nic) {
  std::string label = nic.name + "\n" + speed_text(nic.speed_mbps);
  if (nic.up != true) label += fmt::format(", {}", state_text(nic.up));
  return label;
}

/// Where a rank is drawn: a NUMA node that holds all of its CPUs, else beside them.
std::optional<std::uint32_t> numa_node_of(const HostInfo& host, const RankInfo& rank) {
  if (rank.cpus.empty()) return std::nullopt;
  for (const NumaNode& node : host.numa_nodes) {
    const bool inside = std::ranges::all_of(rank.cpus, [&](const CpuRange& cpus) {
      return std::ranges::any_of(node.cpus, [&](const CpuRange& own) {
        return own.first <= cpus.first && cpus.last <= own.last;
      });
    });
    if (inside) return node.number;
  }
  return std::nullopt;
}

bool has_device(const HostInfo& host, const RankInfo& rank) {
  return std::ranges::any_of(host.pci, [&](const PciNode& node) {
    return node.kind == PciKind::kGpu && node.address == rank.device_pci;
  });
}

class HostDrawing {
 public:
  HostDrawing(const Topology& topology, std::uint32_t number)
      : topology_(topology), host_(topology.hosts[number]), number_(number) {}

  std::string draw() {
    dot_ = fmt::format("  subgraph cluster_host{} {{\n    label={};\n", number_,
                       in_dot_quotes(fmt::format("{} ({}), {} cores", host_.host_name,
                                                 host_.host_id, host_.cores)));
    for (const NumaNode& node : host_.numa_nodes) {
      dot_ += fmt::format("    subgraph cluster_host{}_numa{} {{\n    label={};\n", number_,
                          node.number,
                          in_dot_quotes(fmt::format("NUMA node {}, {}", node.number,
                                                    memory_text(node.memory_bytes))));
      dot_ += "    style=\"rounded,filled\"; fillcolor=\"#f4f4f4\";\n";
      // A cluster without a node is not drawn.
      dot_ += fmt::format("    host{}_numa{} [label={}, shape=plaintext];\n", number_, node.number,
                          in_dot_quotes("CPUs " + cpus_text(node.cpus)));
      add_place(node.number);
      dot_ += "    }\n";
    }
    add_place(std::nullopt);
    for (const std::uint32_t nic : other_nics(host_)) {
      if (host_.nics[nic].up == true && !host_.nics[nic].loopback) add_nic(nic);
    }
    return dot_ + "  }\n";
  }

 private:
  /// Trees and ranks of one NUMA node, or of none.
  void add_place(std::optional<std::uint32_t> numa_node) {
    for (std::uint32_t index = 0; index < host_.pci.size(); ++index) {
      if (host_.pci[index].kind == PciKind::kRoot && host_.pci[index].numa_node == numa_node) {
        add_pci(index);
      }
    }
    for (const RankInfo& rank : topology_.ranks) {
      if (rank.host == number_ && !has_device(host_, rank) &&
          numa_node_of(host_, rank) == numa_node) {
        add_rank(rank);
      }
    }
  }

  void add_rank(const RankInfo& rank) {
    dot_ +=
        fmt::format("    rank{} [label={}, shape=circle, style=filled, fillcolor=\"#ffe9a8\"];\n",
                    rank.rank, in_dot_quotes(fmt::format("rank {}\npid {}", rank.rank, rank.pid)));
  }

  std::string name_of(std::uint32_t index) const {
    return fmt::format("host{}_pci{}", number_, index);
  }

  void add_nic(std::uint32_t nic) {
    dot_ += fmt::format(
        "    host{}_nic{} [label={}, shape=ellipse, style=filled, fillcolor=\"#cfe4f7\"];\n",
        number_, nic, in_dot_quotes(nic_label(host_.nics[nic])));
  }

  /// A node and all below it; bounded as the tree is.
  void add_pci(std::uint32_t index) {  // NOLINT(misc-no-recursion)
    const PciNode& node = host_.pci[index];
    const std::string name = name_of(index);
    if (node.kind == PciKind::kNic) {
      const std::vector<std::uint32_t> nics = nics_at(host_, node.address);
      for (const std::uint32_t nic : nics) {
        add_nic(nic);
        join(name_of(node.parent), fmt::format("host{}_nic{}", number_, nic));
      }
      if (!nics.empty()) return;
    }
    const bool gpu = node.kind == PciKind::kGpu;
    dot_ += fmt::format("    {} [label={}{}];\n", name,
                        in_dot_quotes(fmt::format("{}\n{}", pci_name(host_, index), node.address)),
                        gpu ? ", style=filled, fillcolor=\"#d5efd0\"" : "");
    if (node.kind != PciKind::kRoot) join(name_of(node.parent), name);
    for (const RankInfo& rank : topology_.ranks) {
      if (!gpu || rank.host != number_ || rank.device_pci != node.address) continue;
      add_rank(rank);
      join(name, fmt::format("rank{}", rank.rank));
    }
    for (const std::uint32_t child : pci_children(host_, index))
      add_pci(child);
  }

  void join(const std::string& above, const std::string& below) {
    dot_ += fmt::format("    {} -> {} [dir=none];\n", above, below);
  }

  const Topology& topology_;
  const HostInfo& host_;
  std::uint32_t number_;
  std::string dot_;
};

}  // namespace

std::string to_dot(const Topology& topology) {
  // Told apart on white and by the colour-blind; further rings begin again.
  constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                        "#56b4e9", "#e69f00", "#000000", "#8c6d31"};
  std::string dot =
      "digraph weft {\n  compound=true;\n  rankdir=LR;\n  node [shape=box, fontsize=11];\n";
  // Drawn from left to right, the last comes out on top.
  for (auto host = static_cast<std::uint32_t>(topology.hosts.size()); host-- > 0;)
    dot += HostDrawing(topology, host).draw();
  const std::vector<ShownRing> shown = shown_rings(topology);
  // Each edge once, with the colours of all rings that take it: Graphviz fails on parallel edges
  // that shall not move ranks apart. Within a host most rings take the same ones: grey.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::string_view>> edges;
  std::string legend;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const std::vector<std::uint32_t>& ring = shown[i].order;
    const std::string_view colour = kColours.at(i % kColours.size());
    for (std::size_t place = 0; place < ring.size(); ++place) {
      edges[{ring[place], ring[(place + 1) % ring.size()]}].push_back(colour);
    }
    legend += fmt::format("{}<font color=\"{}\">channel {}</font>", i == 0 ? "" : "<br/>", colour,
                          fmt::join(shown[i].channels, ", "));
  }
  if (shown.size() > 1) dot += fmt::format("  label=<{}>;\n  labelloc=t;\n", legend);
  for (const auto& [ends, colours] : edges) {
    const bool within = topology.same_host(ends.first, ends.second);
    dot +=
        fmt::format("  rank{} -> rank{} [color=\"{}\", constraint=false];\n", ends.first,
                    ends.second, within ? "#888888" : fmt::format("{}", fmt::join(colours, ":")));
  }
  return dot + "}\n";
}

}  // namespace weft
