// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Topologies made up for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/topology/topology.h"

namespace weft::test {

/// Where a rank of a made-up topology lives; hosts and processes are named by numbers.
struct Placement {
  std::uint32_t host = 0;
  std::uint32_t process = 0;  ///< Within its host.
};

inline HostInfo sample_host(std::uint32_t number) {
  HostInfo host;
  host.host_id = "host-" + std::to_string(number);
  host.host_name = "node" + std::to_string(number);
  host.boot_id = "boot-" + std::to_string(number);
  host.packages = 1;
  host.numa_nodes = {
      {.number = 0, .memory_bytes = std::uint64_t{64} << 30, .cpus = {{.first = 0, .last = 15}}}};
  host.cores = 8;
  host.hardware_threads = 16;
  host.memory_bytes = std::uint64_t{64} << 30;
  host.l2_bytes = 1 << 20;
  host.l3_bytes = 32 << 20;
  host.nics.push_back({.name = "eth0",
                       .speed_mbps = 25000,
                       .numa_node = 0,
                       .pci_path = "0000:00:03.0",
                       .addresses = {"10.0.0." + std::to_string(number + 1), "fe80::1"},
                       .up = true});
  host.nics.push_back(
      {.name = "lo", .addresses = {"127.0.0.1"}, .up = true, .loopback = true, .is_virtual = true});
  return host;
}

inline RankReport sample_report(std::uint32_t rank, Placement place) {
  RankReport report;
  report.host = sample_host(place.host);
  report.rank.rank = rank;
  report.rank.pid = 1000 + place.process;
  report.rank.process = report.host.host_id + "/" + std::to_string(place.process);
  report.rank.cores = 8;
  report.rank.cpus = {{.first = 0, .last = 15}};
  return report;
}

/// Rank r lives at places[r].
inline Topology sample_topology(std::span<const Placement> places) {
  std::vector<RankReport> reports;
  for (const Placement& place : places) {
    reports.push_back(sample_report(static_cast<std::uint32_t>(reports.size()), place));
  }
  return merge_reports(reports).value();
}

/// `ranks` processes on one host.
inline Topology one_host(std::uint32_t ranks) {
  std::vector<Placement> places;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    places.push_back({.host = 0, .process = rank});
  return sample_topology(places);
}

}  // namespace weft::test
