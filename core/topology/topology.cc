// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/topology.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/topology/codec.h"

namespace weft {
namespace {

/// Two ranks claim one host id: what must then be alike. Host names and interfaces may differ
/// (containers that share a network namespace, interfaces that come up meanwhile).
Status check_same_machine(const HostInfo& host, std::uint32_t first, const HostInfo& other,
                          std::uint32_t second) {
  const auto refuse = [&](std::string_view what, const auto& a, const auto& b) {
    return fail(
        WEFT_ERROR_MISMATCH,
        fmt::format("ranks {} ({}) and {} ({}) both have the host id \"{}\", but their {} "
                    "differ: {} and {}",
                    first, host.host_name, second, other.host_name, host.host_id, what, a, b),
        "give each machine a WEFT_HOST_ID of its own");
  };
  if (host.boot_id != other.boot_id) return refuse("boot ids", host.boot_id, other.boot_id);
  if (host.packages != other.packages) {
    return refuse("numbers of CPU packages", host.packages, other.packages);
  }
  if (host.cores != other.cores) return refuse("numbers of cores", host.cores, other.cores);
  if (host.hardware_threads != other.hardware_threads) {
    return refuse("numbers of hardware threads", host.hardware_threads, other.hardware_threads);
  }
  return {};
}

/// Cores of `host` that its ranks may keep busy at once, all together.
std::uint32_t usable_cores(const Topology& topology, std::uint32_t host) {
  const std::uint64_t cpus = usable_cpus(topology, host);
  const HostInfo& info = topology.hosts[host];
  if (cpus == 0 || info.hardware_threads == 0 || info.cores == 0) {
    std::uint32_t cores = 0;
    for (const RankInfo& rank : topology.ranks) {
      if (rank.host == host) cores = std::max(cores, rank.cores);
    }
    return cores;
  }
  // Hardware threads of one core share its units: they count as their part of a core.
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, cpus * info.cores / info.hardware_threads));
}

}  // namespace

bool Topology::same_host(std::uint32_t a, std::uint32_t b) const {
  return a < ranks.size() && b < ranks.size() && ranks[a].host == ranks[b].host;
}

bool Topology::same_fabric(std::uint32_t a, std::uint32_t b) const {
  if (a >= ranks.size() || b >= ranks.size()) return false;
  return same_host(a, b) ||
         (!ranks[a].memory_fabric.empty() && ranks[a].memory_fabric == ranks[b].memory_fabric);
}

bool Topology::same_process(std::uint32_t a, std::uint32_t b) const {
  return same_host(a, b) && ranks[a].process == ranks[b].process;
}

std::vector<std::uint32_t> Topology::ranks_on_host(std::uint32_t host) const {
  std::vector<std::uint32_t> result;
  for (const RankInfo& rank : ranks) {
    if (rank.host == host) result.push_back(rank.rank);
  }
  return result;
}

Result<Topology> merge_reports(std::span<const RankReport> reports) {
  Topology topology;
  std::unordered_map<std::string_view, std::uint32_t> hosts;
  std::vector<std::uint32_t> first_rank;  // by host
  for (std::uint32_t index = 0; index < reports.size(); ++index) {
    const RankReport& report = reports[index];
    if (report.rank.rank != index) {
      return fail(WEFT_ERROR_PEER, fmt::format("the report at place {} of {} says it is of rank {}",
                                               index, reports.size(), report.rank.rank));
    }
    const auto [found, added] =
        hosts.emplace(report.host.host_id, static_cast<std::uint32_t>(topology.hosts.size()));
    if (added) {
      topology.hosts.push_back(report.host);
      first_rank.push_back(index);
    } else {
      WEFT_TRY(check_same_machine(topology.hosts[found->second], first_rank[found->second],
                                  report.host, index));
    }
    RankInfo rank = report.rank;
    rank.host = found->second;
    topology.ranks.push_back(std::move(rank));
  }
  return topology;
}

Result<Topology> merge(std::span<const std::vector<std::byte>> reports) {
  std::vector<RankReport> decoded;
  decoded.reserve(reports.size());
  for (const std::vector<std::byte>& bytes : reports) {
    Result<RankReport> report = decode_report(bytes);
    if (!report) {
      return fail(std::move(report.error())
                      .with_context(fmt::format("reading what rank {} told of itself and its host",
                                                decoded.size())));
    }
    decoded.push_back(std::move(*report));
  }
  return merge_reports(decoded);
}

std::uint64_t usable_cpus(const Topology& topology, std::uint32_t host) {
  std::vector<CpuRange> ranges;
  std::map<std::string, std::uint32_t> limits;  // of control groups
  bool limited = true;
  for (const RankInfo& rank : topology.ranks) {
    if (rank.host != host) continue;
    ranges.insert(ranges.end(), rank.cpus.begin(), rank.cpus.end());
    limited = limited && rank.cpu_limit != 0;
    limits[rank.cpu_group] = rank.cpu_limit;
  }
  std::ranges::sort(ranges, {}, &CpuRange::first);
  std::uint64_t cpus = 0;
  std::uint64_t counted_to = 0;  // all below are counted, or nobody's
  for (const CpuRange& range : ranges) {
    const std::uint64_t end = std::uint64_t{range.last} + 1;
    if (end <= counted_to) continue;
    cpus += end - std::max<std::uint64_t>(range.first, counted_to);
    counted_to = end;
  }
  if (limited) {
    std::uint64_t left = 0;
    for (const auto& [group, limit] : limits)
      left += limit;
    cpus = std::min(cpus, left);
  }
  return cpus;
}

std::uint32_t host_channels(const Topology& topology) {
  constexpr std::uint32_t kMostChannels = 4;
  std::uint32_t channels = kMostChannels;
  std::vector<std::uint32_t> ranks(topology.hosts.size(), 0);
  for (const RankInfo& rank : topology.ranks)
    ++ranks[rank.host];
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
    if (ranks[host] == 0) continue;
    channels = std::min(channels, usable_cores(topology, host) / ranks[host]);
  }
  return std::max(channels, 1U);
}

}  // namespace weft
