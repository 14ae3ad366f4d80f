// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A topology as YAML.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "core/topology/describe.h"
#include "core/topology/paths.h"
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
  emit_known(out, "up", nic.up);
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

void emit_numa_node(YAML::Emitter& out, const NumaNode& node) {
  out << YAML::BeginMap << YAML::Key << "number" << YAML::Value << node.number;
  out << YAML::Key << "cpus" << YAML::Value << YAML::DoubleQuoted << cpus_text(node.cpus);
  emit_size(out, "memory_bytes", node.memory_bytes);
  out << YAML::EndMap;
}

/// A node and all below it. The tree is no deeper than its number of nodes, which is bounded.
void emit_pci(YAML::Emitter& out, const HostInfo& host,  // NOLINT(misc-no-recursion)
              std::uint32_t index) {
  const PciNode& node = host.pci[index];
  out << YAML::BeginMap << YAML::Key << std::string(pci_name(host, index)) << YAML::Value
      << YAML::DoubleQuoted << node.address;
  if (node.kind == PciKind::kRoot) emit_known(out, "numa_node", node.numa_node);
  const std::vector<std::uint32_t> below = pci_children(host, index);
  if (!below.empty()) {
    out << YAML::Key << "below" << YAML::Value << YAML::BeginSeq;
    for (const std::uint32_t child : below)
      emit_pci(out, host, child);
    out << YAML::EndSeq;
  }
  out << YAML::EndMap;
}

void emit_host(YAML::Emitter& out, const HostInfo& host) {
  out << YAML::BeginMap;
  out << YAML::Key << "host_id" << YAML::Value << YAML::DoubleQuoted << host.host_id;
  out << YAML::Key << "host_name" << YAML::Value << host.host_name;
  out << YAML::Key << "boot_id" << YAML::Value << host.boot_id;
  out << YAML::Key << "packages" << YAML::Value << host.packages;
  out << YAML::Key << "cores" << YAML::Value << host.cores;
  out << YAML::Key << "hardware_threads" << YAML::Value << host.hardware_threads;
  emit_size(out, "memory_bytes", host.memory_bytes);
  emit_size(out, "l2_bytes", host.l2_bytes);
  emit_size(out, "l3_bytes", host.l3_bytes);
  out << YAML::Key << "numa_nodes" << YAML::Value << YAML::BeginSeq;
  for (const NumaNode& node : host.numa_nodes)
    emit_numa_node(out, node);
  out << YAML::EndSeq << YAML::Key << "pci" << YAML::Value << YAML::BeginSeq;
  for (std::uint32_t index = 0; index < host.pci.size(); ++index) {
    if (host.pci[index].kind == PciKind::kRoot) emit_pci(out, host, index);
  }
  out << YAML::EndSeq << YAML::Key << "nics" << YAML::Value << YAML::BeginSeq;
  for (const NicInfo& nic : host.nics)
    emit_nic(out, nic);
  out << YAML::EndSeq << YAML::EndMap;
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
    if (!rank.device_pci.empty()) {
      out << YAML::Key << "device_pci" << YAML::Value << YAML::DoubleQuoted << rank.device_pci;
    }
    if (!rank.memory_fabric.empty()) {
      out << YAML::Key << "memory_fabric" << YAML::Value << YAML::DoubleQuoted
          << rank.memory_fabric;
    }
    out << YAML::Key << "cores" << YAML::Value << rank.cores;
    out << YAML::Key << "cpus" << YAML::Value << YAML::DoubleQuoted << cpus_text(rank.cpus);
    if (rank.cpu_limit != 0) {
      out << YAML::Key << "cpu_limit" << YAML::Value << rank.cpu_limit;
      out << YAML::Key << "cpu_group" << YAML::Value << YAML::DoubleQuoted << rank.cpu_group;
    }
    out << YAML::Key << "nics" << YAML::Value << YAML::BeginSeq;
    for (const std::uint32_t nic : nearest_nics(topology, rank.rank)) {
      out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value
          << topology.hosts[rank.host].nics[nic].name << YAML::Key << "path" << YAML::Value
          << std::string(path_name(path_to_nic(topology, rank.rank, nic))) << YAML::EndMap;
    }
    out << YAML::EndSeq << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "rings" << YAML::Value << YAML::BeginSeq;
  for (const ShownRing& ring : shown_rings(topology))
    out << YAML::Flow << ring.order;
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + '\n';
}

}  // namespace weft
