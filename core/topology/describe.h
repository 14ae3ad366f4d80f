// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the forms of a topology for people have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/topology/topology.h"

namespace weft {

/// "0-3,8"
[[nodiscard]] std::string cpus_text(std::span<const CpuRange> cpus);
/// "100 Gbit/s", "2.5 Gbit/s", "speed unknown"
[[nodiscard]] std::string speed_text(std::optional<std::uint32_t> speed_mbps);
/// "up", "down", "state unknown"
[[nodiscard]] std::string_view state_text(std::optional<bool> up);
/// "512 GiB", "4.5 GiB", "memory unknown"
[[nodiscard]] std::string memory_text(std::uint64_t bytes);

/// "root", "switch" (what hangs below has ports of its own), "bridge", "nic", "gpu".
[[nodiscard]] std::string_view pci_name(const HostInfo& host, std::uint32_t index);
/// Indices of the nodes right below one.
[[nodiscard]] std::vector<std::uint32_t> pci_children(const HostInfo& host, std::uint32_t index);

/// The interfaces of a PCI device, as indices of HostInfo::nics: ports of a card may share one.
[[nodiscard]] std::vector<std::uint32_t> nics_at(const HostInfo& host, std::string_view address);
/// Interfaces that the PCI trees do not show.
[[nodiscard]] std::vector<std::uint32_t> other_nics(const HostInfo& host);

/// One order of ranks and the channels that take it.
struct ShownRing {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> channels;
};
/// The rings of as many channels as the host with the most rails has, at least one; by order.
/// Empty for fewer than two ranks.
[[nodiscard]] std::vector<ShownRing> shown_rings(const Topology& topology);

}  // namespace weft
