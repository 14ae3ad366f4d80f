// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How near things of a host are to each other: pure functions of the topology, so that all ranks
// compute alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/topology/topology.h"

namespace weft {

/// What lies between two things of one host, nearest first; the names are those that GPU vendors'
/// tools print. Unknown compares as farther than all others.
enum class Path : std::uint8_t {
  kSelf = 0,     ///< One and the same device.
  kPix = 1,      ///< At most one PCI switch.
  kPxb = 2,      ///< Several PCI switches, but not the host bridge.
  kPhb = 3,      ///< One host bridge.
  kNode = 4,     ///< Several host bridges of one NUMA node; CPUs and a device of one NUMA node.
  kSys = 5,      ///< The link between NUMA nodes.
  kUnknown = 6,  ///< The system does not tell.
};

/// "self", "pix", "pxb", "phb", "node", "sys", "unknown".
[[nodiscard]] std::string_view path_name(Path path);

/// Between two PCI devices of `host`, named by address. A device that HostInfo::pci does not hold:
/// kUnknown.
[[nodiscard]] Path path_between(const HostInfo& host, std::string_view a, std::string_view b);

/// Between CPUs and a NIC of `host`: kNode if some of the CPUs lie on the NIC's NUMA node, kSys if
/// none does.
[[nodiscard]] Path path_between(const HostInfo& host, std::span<const CpuRange> cpus,
                                const NicInfo& nic);

/// From where a rank works to a NIC of its host: from its device if that is a PCI device, else from
/// its CPUs.
[[nodiscard]] Path path_to_nic(const Topology& topology, std::uint32_t rank, std::uint32_t nic);

/// The CPUs of the NUMA node that the rank's device hangs on; empty where that is unknown, and of
/// the host device.
[[nodiscard]] std::vector<CpuRange> cpus_near_device(const Topology& topology, std::uint32_t rank);

/// The NICs of the rank's host that may carry data (hardware, not known to be down), as indices of
/// HostInfo::nics, best first: by path, then by speed. Ranks to which the same ones are equally
/// good begin at different ones of these, in turn.
[[nodiscard]] std::vector<std::uint32_t> nearest_nics(const Topology& topology, std::uint32_t rank);

/// The NICs of a host that are equally good to leave it by, as indices of HostInfo::nics by PCI
/// address: up, with an address, their places and speeds known, as fast as the fastest of these.
/// Empty where there are fewer than two.
[[nodiscard]] std::vector<std::uint32_t> rails(const HostInfo& host);

}  // namespace weft
