// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/describe.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/topology/paths.h"

namespace weft {

std::string cpus_text(std::span<const CpuRange> cpus) {
  std::vector<std::string> parts;
  parts.reserve(cpus.size());
  for (const CpuRange& range : cpus) {
    parts.push_back(range.first == range.last ? fmt::format("{}", range.first)
                                              : fmt::format("{}-{}", range.first, range.last));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string speed_text(std::optional<std::uint32_t> speed_mbps) {
  if (!speed_mbps) return "speed unknown";
  if (*speed_mbps < 1000) return fmt::format("{} Mbit/s", *speed_mbps);
  return fmt::format("{:g} Gbit/s", *speed_mbps / 1000.0);
}

std::string_view state_text(std::optional<bool> up) {
  if (!up) return "state unknown";
  return *up ? "up" : "down";
}

std::string memory_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes == 0) return "memory unknown";
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit)
    size /= 1024;
  return fmt::format("{:.4g} {}", size, kUnits.at(unit));
}

std::string_view pci_name(const HostInfo& host, std::uint32_t index) {
  switch (host.pci[index].kind) {
    case PciKind::kRoot:
      return "root";
    case PciKind::kNic:
      return "nic";
    case PciKind::kGpu:
      return "gpu";
    case PciKind::kBridge:
      break;
  }
  const bool ports = std::ranges::any_of(pci_children(host, index), [&](std::uint32_t child) {
    return host.pci[child].bridges > 0 || host.pci[child].kind == PciKind::kBridge;
  });
  return ports ? "switch" : "bridge";
}

std::vector<std::uint32_t> pci_children(const HostInfo& host, std::uint32_t index) {
  std::vector<std::uint32_t> children;
  for (std::uint32_t child = index + 1; child < host.pci.size(); ++child) {
    if (host.pci[child].parent == index) children.push_back(child);
  }
  return children;
}

std::vector<std::uint32_t> nics_at(const HostInfo& host, std::string_view address) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t nic = 0; nic < host.nics.size(); ++nic) {
    if (!address.empty() && host.nics[nic].pci_path == address) found.push_back(nic);
  }
  return found;
}

std::vector<std::uint32_t> other_nics(const HostInfo& host) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t nic = 0; nic < host.nics.size(); ++nic) {
    const bool shown = std::ranges::any_of(host.pci, [&](const PciNode& node) {
      return node.kind == PciKind::kNic && node.address == host.nics[nic].pci_path;
    });
    if (!shown) found.push_back(nic);
  }
  return found;
}

std::vector<ShownRing> shown_rings(const Topology& topology) {
  std::vector<ShownRing> shown;
  if (topology.rank_count() < 2) return shown;
  std::size_t channels = 1;
  for (const HostInfo& host : topology.hosts)
    channels = std::max(channels, rails(host).size());
  const auto orders = rings(topology, static_cast<std::uint32_t>(channels));
  for (std::uint32_t channel = 0; channel < orders.size(); ++channel) {
    auto found = std::ranges::find(shown, orders[channel], &ShownRing::order);
    if (found == shown.end()) {
      found = shown.insert(shown.end(), {.order = orders[channel], .channels = {}});
    }
    found->channels.push_back(channel);
  }
  return shown;
}

}  // namespace weft
