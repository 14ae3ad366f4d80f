// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Random machines and topologies; for properties.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rapidcheck.h>

#include "core/topology/topology.h"

namespace weft::test {

/// From `first` up to, not including, `end`: all of them from the first trial on.
inline std::uint32_t pick(std::uint32_t first, std::uint32_t end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, end));
}

/// A forest with parents first, bridges that part nothing among them.
inline std::vector<PciNode> random_pci() {
  std::vector<PciNode> nodes;
  std::vector<std::uint32_t> above;  // what may have children
  const auto count = pick(0, 30);
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool root = above.empty() || pick(0, 6) == 0;
    PciNode node{.kind = root ? PciKind::kRoot
                              : *rc::gen::element(PciKind::kBridge, PciKind::kBridge, PciKind::kNic,
                                                  PciKind::kGpu),
                 .address = fmt::format("0000:{:02x}:00.0", i),
                 .parent = root ? i : *rc::gen::elementOf(above)};
    if (root && pick(0, 3) != 0) {
      node.numa_node = pick(0, 3);
    }
    if (root || node.kind == PciKind::kBridge) above.push_back(i);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// `pci` with a NIC for most of its network cards, and one that hangs nowhere.
inline HostInfo random_host(std::uint32_t number) {
  HostInfo host;
  host.host_id = fmt::format("host-{}", number);
  host.host_name = host.host_id;
  host.cores = 4;
  host.hardware_threads = 8;
  for (std::uint32_t node = 0; node < 2; ++node) {
    host.numa_nodes.push_back(
        {.number = node, .cpus = {{.first = 4 * node, .last = 4 * node + 3}}});
  }
  host.pci = random_pci();
  for (const PciNode& node : host.pci) {
    if (node.kind != PciKind::kNic || pick(0, 6) == 0) continue;
    NicInfo nic{.name = "eth" + node.address, .pci_path = node.address};
    if (pick(0, 6) != 0) nic.speed_mbps = *rc::gen::element(100000U, 100000U, 25000U);
    if (pick(0, 6) != 0) nic.up = pick(0, 6) != 0;
    if (pick(0, 6) != 0) nic.addresses = {"10.0.0.1"};
    host.nics.push_back(std::move(nic));
  }
  host.nics.push_back({.name = "lo", .up = true, .loopback = true, .is_virtual = true});
  std::ranges::sort(host.nics, {}, &NicInfo::name);
  return host;
}

/// Up to four hosts and ten ranks, on GPUs and CPUs that are there, or are not, or are unknown.
inline Topology random_topology() {
  std::vector<RankReport> reports;
  std::vector<HostInfo> hosts;
  const auto host_count = pick(1, 5);
  for (std::uint32_t number = 0; number < host_count; ++number)
    hosts.push_back(random_host(number));
  const auto ranks = pick(0, 11);
  for (std::uint32_t number = 0; number < ranks; ++number) {
    RankReport report;
    report.host = *rc::gen::elementOf(hosts);
    report.rank.rank = number;
    report.rank.process = fmt::format("{}/{}", report.host.host_id, pick(0, 4));
    const auto first = pick(0, 8);
    if (pick(0, 5) != 0) {
      report.rank.cpus = {{.first = first, .last = pick(first, 9)}};
    }
    if (!report.host.pci.empty() && pick(0, 2) == 0) {
      report.rank.device_pci = (*rc::gen::elementOf(report.host.pci)).address;
    }
    reports.push_back(std::move(report));
  }
  return merge_reports(reports).value();
}

}  // namespace weft::test
