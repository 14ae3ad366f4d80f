// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Looks at the machine this process runs on: hwloc for processors and memory, getifaddrs and sysfs
// for network interfaces, /proc for identity. The folders are parameters, so that tests can give
// made-up ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/topology/topology.h"

namespace weft {

/// Where discovery reads from.
struct DiscoverySources {
  std::string sys_root = "/sys";
  std::string proc_root = "/proc";
  /// A file written by export_host() or lstopo: its machine instead of this one, interfaces
  /// included, and nothing of this one; read as import_host() (import.h) says. Empty: this machine.
  std::string hwloc_xml{};
};

/// One interface of this process's network namespace, as getifaddrs tells it.
struct InterfaceState {
  std::string name;
  std::uint32_t flags = 0;  ///< IFF_*.
  std::vector<std::string> addresses{};
  std::vector<std::uint8_t> prefixes{};  ///< Bits of each address that name its network.
  friend bool operator==(const InterfaceState&, const InterfaceState&) = default;
};

/// The interfaces of this process's network namespace, ordered by name.
[[nodiscard]] Result<std::vector<InterfaceState>> interface_states();

/// Adds to `interfaces` what `sys_root`/class/net knows of them; a missing or unreadable file there
/// makes a property unknown and is no error.
[[nodiscard]] std::vector<NicInfo> describe_nics(std::span<const InterfaceState> interfaces,
                                                 const std::string& sys_root);

/// Fills in, from `sys_root`/bus/pci, the NUMA nodes of roots that are not known yet.
void ask_sysfs(const std::string& sys_root, std::vector<PciNode>& pci);

/// A host id given by the user: 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'. The error names
/// WEFT_HOST_ID.
[[nodiscard]] Status check_host_id(std::string_view host_id);

/// The same of the id of a memory fabric, given by WEFT_FABRIC_ID or told by a device.
[[nodiscard]] Status check_fabric_id(std::string_view fabric_id);

/// The identity of this host where none is given: 16 hex digits made from the boot id, the host
/// name and the network namespace. Ranks share a host id when they can hand memory to each other
/// over an abstract Unix socket, which ends at the network namespace: two containers on one machine
/// are two hosts unless they share theirs. The host name tells virtual machines apart that were
/// started from one snapshot and so have one boot id. Set WEFT_HOST_ID where this guess is wrong.
[[nodiscard]] std::string derive_host_id(std::string_view boot_id, std::string_view host_name,
                                         std::string_view network_namespace);

/// Describes this host; takes some 30 ms. `host_id` is the value of WEFT_HOST_ID, empty where it is
/// not set.
[[nodiscard]] Result<HostInfo> discover_host(std::string_view host_id,
                                             const DiscoverySources& sources = {});

/// Writes this machine to a file, in hwloc's XML, for DiscoverySources::hwloc_xml of another one.
/// It holds host name, hardware and IP addresses.
[[nodiscard]] Status export_host(const std::string& path);

/// Describes this process as a rank of `host`; the caller sets rank and local_index. `fabric_id` is
/// the value of WEFT_FABRIC_ID, empty where it is not set.
[[nodiscard]] Result<RankInfo> discover_process(const HostInfo& host, std::string_view fabric_id,
                                                const DiscoverySources& sources = {});

}  // namespace weft
