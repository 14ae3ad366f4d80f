// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A topology for people: YAML and Graphviz.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "core/topology/topology.h"

namespace weft {
namespace {

template <typename T>
void emit_known(YAML::Emitter& out, const char* key, const std::optional<T>& value) {
  out << YAML::Key << key << YAML::Value;
  if (value) {
    out << *value;
  } else {
    out << "unknown";
  }
}

/// 0 stands for "the system does not tell".
void emit_size(YAML::Emitter& out, const char* key, std::uint64_t bytes) {
  emit_known(out, key, bytes == 0 ? std::nullopt : std::optional(bytes));
}

void emit_nic(YAML::Emitter& out, const NicInfo& nic) {
  out << YAML::BeginMap;
  out << YAML::Key << "name" << YAML::Value << nic.name;
  out << YAML::Key << "up" << YAML::Value << nic.up;
  emit_known(out, "speed_mbps", nic.speed_mbps);
  emit_known(out, "numa_node", nic.numa_node);
  if (!nic.pci_path.empty()) {
    // Quoted: YAML 1.1 readers take digits with colons for a number of base 60.
    out << YAML::Key << "pci" << YAML::Value << YAML::DoubleQuoted << nic.pci_path;
  }
  if (nic.loopback) out << YAML::Key << "loopback" << YAML::Value << true;
  if (nic.is_virtual) out << YAML::Key << "virtual" << YAML::Value << true;
  out << YAML::Key << "addresses" << YAML::Value << YAML::Flow << YAML::BeginSeq;
  for (const std::string& address : nic.addresses)
    out << YAML::DoubleQuoted << address;
  out << YAML::EndSeq << YAML::EndMap;
}

void emit_host(YAML::Emitter& out, const HostInfo& host) {
  out << YAML::BeginMap;
  out << YAML::Key << "host_id" << YAML::Value << YAML::DoubleQuoted << host.host_id;
  out << YAML::Key << "host_name" << YAML::Value << host.host_name;
  out << YAML::Key << "boot_id" << YAML::Value << host.boot_id;
  out << YAML::Key << "packages" << YAML::Value << host.packages;
  out << YAML::Key << "numa_nodes" << YAML::Value << host.numa_nodes;
  out << YAML::Key << "cores" << YAML::Value << host.cores;
  out << YAML::Key << "hardware_threads" << YAML::Value << host.hardware_threads;
  emit_size(out, "memory_bytes", host.memory_bytes);
  emit_size(out, "l2_bytes", host.l2_bytes);
  emit_size(out, "l3_bytes", host.l3_bytes);
  out << YAML::Key << "nics" << YAML::Value << YAML::BeginSeq;
  for (const NicInfo& nic : host.nics)
    emit_nic(out, nic);
  out << YAML::EndSeq << YAML::EndMap;
}

std::string cpus_text(const std::vector<CpuRange>& cpus) {
  std::vector<std::string> parts;
  parts.reserve(cpus.size());
  for (const CpuRange& range : cpus) {
    parts.push_back(range.first == range.last ? fmt::format("{}", range.first)
                                              : fmt::format("{}-{}", range.first, range.last));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string dot_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string to_yaml(const HostInfo& host) {
  YAML::Emitter out;
  emit_host(out, host);
  return std::string(out.c_str()) + '\n';
}

std::string to_yaml(const Topology& topology) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "hosts" << YAML::Value << YAML::BeginSeq;
  for (const HostInfo& host : topology.hosts)
    emit_host(out, host);
  out << YAML::EndSeq << YAML::Key << "ranks" << YAML::Value << YAML::BeginSeq;
  for (const RankInfo& rank : topology.ranks) {
    out << YAML::BeginMap;
    out << YAML::Key << "rank" << YAML::Value << rank.rank;
    out << YAML::Key << "host" << YAML::Value << YAML::DoubleQuoted
        << (rank.host < topology.hosts.size() ? topology.hosts[rank.host].host_id : "?");
    out << YAML::Key << "pid" << YAML::Value << rank.pid;
    out << YAML::Key << "local_index" << YAML::Value << rank.local_index;
    out << YAML::Key << "device" << YAML::Value << rank.device;
    out << YAML::Key << "cores" << YAML::Value << rank.cores;
    out << YAML::Key << "cpus" << YAML::Value << YAML::DoubleQuoted << cpus_text(rank.cpus);
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + '\n';
}

std::string to_dot(const Topology& topology) {
  std::string dot = "digraph weft {\n  compound=true;\n  node [shape=box];\n";
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
    const HostInfo& info = topology.hosts[host];
    dot += fmt::format(
        "  subgraph cluster_host{} {{\n    label={};\n", host,
        dot_quoted(fmt::format("{} ({}), {} cores", info.host_name, info.host_id, info.cores)));
    for (std::size_t nic = 0; nic < info.nics.size(); ++nic) {
      if (!info.nics[nic].up || info.nics[nic].loopback) continue;
      const std::string speed = info.nics[nic].speed_mbps
                                    ? fmt::format("{} Mbit/s", *info.nics[nic].speed_mbps)
                                    : std::string("speed unknown");
      dot += fmt::format("    host{}_nic{} [shape=ellipse, label={}];\n", host, nic,
                         dot_quoted(info.nics[nic].name + ", " + speed));
    }
    std::map<std::string_view, std::vector<std::uint32_t>> processes;
    for (const RankInfo& rank : topology.ranks) {
      if (rank.host == host) processes[rank.process].push_back(rank.rank);
    }
    for (const auto& [process, ranks] : processes) {
      dot += fmt::format("    subgraph cluster_process{} {{\n      label=\"pid {}\";\n",
                         ranks.front(), topology.ranks[ranks.front()].pid);
      for (const std::uint32_t rank : ranks) {
        dot += fmt::format("      rank{} [label=\"rank {}\"];\n", rank, rank);
      }
      dot += "    }\n";
    }
    dot += "  }\n";
  }
  const std::vector<std::uint32_t> ring = rings(topology, 1).front();
  for (std::size_t i = 0; ring.size() > 1 && i < ring.size(); ++i) {
    dot += fmt::format("  rank{} -> rank{};\n", ring[i], ring[(i + 1) % ring.size()]);
  }
  return dot + "}\n";
}

}  // namespace weft
