// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Who takes part and on which machines: hosts, network interfaces and ranks as one value, the same
// on every rank. What is derived from it (paths.h, rings, numbers of channels) are pure functions,
// so every rank derives the same without asking. Discovery is in discover.h, travel over the wire
// in codec.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// Logical CPUs [first, last], numbered as the operating system does.
struct CpuRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend bool operator==(const CpuRange&, const CpuRange&) = default;
};

/// Memory that some CPUs are nearer to than others.
struct NumaNode {
  std::uint32_t number = 0;        ///< The operating system's.
  std::uint64_t memory_bytes = 0;  ///< 0: unknown or none.
  std::vector<CpuRange> cpus{};    ///< Ascending; empty for memory without CPUs.
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

enum class PciKind : std::uint8_t {
  kRoot = 0,    ///< A host bridge: where a tree of PCI devices hangs on the CPUs.
  kBridge = 1,  ///< A bridge or switch below which paths part.
  kNic = 2,
  kGpu = 3,
};

/// A node of the PCI trees, as far as they lead to NICs and GPUs. A bridge that leads to only one
/// of those parts no paths and is left out; `bridges` counts it.
struct PciNode {
  PciKind kind = PciKind::kRoot;
  std::string address;        ///< "0000:81:00.1"; of a root domain and first bus: "0000:80".
  std::uint32_t parent = 0;   ///< Index of an earlier node; of a root its own.
  std::uint32_t bridges = 0;  ///< Left out between this node and its parent.
  std::optional<std::uint32_t> numa_node{};  ///< Of a root alone: all below have the same.
  friend bool operator==(const PciNode&, const PciNode&) = default;
};

/// A network interface of a host. What the system does not tell is std::nullopt, never a guess.
struct NicInfo {
  std::string name;
  std::optional<std::uint32_t> speed_mbps{};
  std::optional<std::uint32_t> numa_node{};
  std::string pci_path{};                ///< "0000:00:03.0"; empty where it is no PCI device.
  std::vector<std::string> addresses{};  ///< IPv4 and IPv6 as text, IPv4 first, without a scope.
  /// Bits of each address that name its network; empty where they are unknown.
  std::vector<std::uint8_t> prefixes{};
  std::optional<bool> up{};  ///< Configured up, and with a carrier.
  bool loopback = false;
  bool is_virtual = false;  ///< No hardware of its own: bridge, veth, tunnel.
  friend bool operator==(const NicInfo&, const NicInfo&) = default;
};

/// One machine, or one part of it whose ranks can share memory: the same for all its processes.
struct HostInfo {
  /// Equal exactly for ranks that may hand memory to each other: WEFT_HOST_ID, or 16 hex digits.
  std::string host_id;
  std::string host_name{};
  std::string boot_id{};               ///< The kernel's; empty where it does not tell.
  std::uint32_t packages = 0;          ///< CPU sockets.
  std::uint32_t cores = 0;             ///< Physical cores of the machine.
  std::uint32_t hardware_threads = 0;  ///< Logical CPUs of the machine.
  std::uint64_t memory_bytes = 0;      ///< 0: unknown.
  std::uint64_t l2_bytes = 0;          ///< One level-2 cache; 0: unknown or none.
  std::uint64_t l3_bytes = 0;          ///< One level-3 cache; 0: unknown or none.
  std::vector<NumaNode> numa_nodes{};  ///< By number; at least 1 where hwloc answered.
  std::vector<PciNode> pci{};          ///< Parents before children; empty where unknown.
  std::vector<NicInfo> nics{};         ///< Ordered by name.
  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

/// One rank of the communicator.
struct RankInfo {
  std::uint32_t rank = 0;
  std::uint32_t host = 0;  ///< Index into Topology::hosts; set by merge().
  std::uint64_t pid = 0;   ///< As its own process sees it.
  /// Equal exactly for ranks of one process: host id, PID namespace, process id, start time.
  std::string process;
  std::uint32_t local_index = 0;  ///< Which of all that its context ever had this is, from 0.
  std::string device = "host";    ///< Kind of device that runs its kernels.
  std::string device_pci{};       ///< PCI address of that device; empty: the host, or unknown.
  /// Tells instances of one device apart (MIG), which have an address together: equal exactly for
  /// the same one. Empty: unknown.
  std::string device_id{};
  /// Equal exactly for ranks whose devices one memory fabric joins, across hosts: WEFT_FABRIC_ID,
  /// or what the device tells. Empty: none.
  std::string memory_fabric{};
  std::uint32_t cores = 0;     ///< Physical cores that its process may run on, at once.
  std::vector<CpuRange> cpus;  ///< Logical CPUs that its process may run on, ascending.
  /// So many logical CPUs' time may all processes of its control group use together; 0: no limit.
  std::uint32_t cpu_limit = 0;
  /// Equal exactly for ranks of one host that share that limit. Empty: no limit.
  std::string cpu_group{};
  friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

/// Hosts in the order of their lowest rank; ranks by number: ranks[r].rank == r.
struct Topology {
  std::vector<HostInfo> hosts;
  std::vector<RankInfo> ranks;

  [[nodiscard]] std::uint32_t rank_count() const {
    return static_cast<std::uint32_t>(ranks.size());
  }
  /// False as well for a rank that does not exist.
  [[nodiscard]] bool same_host(std::uint32_t a, std::uint32_t b) const;
  /// Of one host, or joined by one memory fabric. False as well for a rank that does not exist.
  [[nodiscard]] bool same_fabric(std::uint32_t a, std::uint32_t b) const;
  /// False as well for a rank that does not exist.
  [[nodiscard]] bool same_process(std::uint32_t a, std::uint32_t b) const;
  /// Ascending; empty for a host that does not exist.
  [[nodiscard]] std::vector<std::uint32_t> ranks_on_host(std::uint32_t host) const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// What one rank tells the others about itself.
struct RankReport {
  RankInfo rank;
  HostInfo host;
  friend bool operator==(const RankReport&, const RankReport&) = default;
};

/// One topology out of what every rank reported; reports[r] must be of rank r. Ranks with one host
/// id become one host, described by its lowest rank (interfaces come and go, the others' view of
/// them is dropped); they must agree on boot id and processors. Errors name both ranks.
[[nodiscard]] Result<Topology> merge_reports(std::span<const RankReport> reports);

/// merge_reports over what encode_report() of each rank gave (see codec.h).
[[nodiscard]] Result<Topology> merge(std::span<const std::vector<std::byte>> reports);

/// The order of ranks round the ring, for each of `channels`: ranks of one host stand together,
/// hosts follow each other by their lowest rank, ranks of a host by process (in the order of the
/// process's lowest rank), then by number. A ring over h > 1 hosts has exactly h edges between
/// hosts. A host without rails (see rails() in paths.h) keeps that order on every channel, so that
/// its ranks need two neighbours only. On a host with n rails channel c turns the order so that the
/// rank which leaves the host is one nearest to rail c mod n, and the one which is entered, its
/// successor in the host, as near as can be; among equals the one that fewer channels leave by. A
/// channel's order does not depend on how many others there are.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> rings(const Topology& topology,
                                                            std::uint32_t channels);

/// Logical CPUs that the ranks on `host` may keep busy at once, all together: those that any of
/// them may run on, and no more than their control groups leave them the time of. 0 where nothing
/// is known.
[[nodiscard]] std::uint64_t usable_cpus(const Topology& topology, std::uint32_t host);

/// How many channels pay where CPUs do the work: the cores that a rank has to itself on the most
/// crowded host, at least 1 and at most 4.
[[nodiscard]] std::uint32_t host_channels(const Topology& topology);

/// For people: the tree of each host, NICs and GPUs where they hang, then the ranks.
[[nodiscard]] std::string to_text(const Topology& topology);
/// For people and programs: a YAML document.
[[nodiscard]] std::string to_yaml(const Topology& topology);
[[nodiscard]] std::string to_yaml(const HostInfo& host);
/// For Graphviz: hosts as clusters, NUMA nodes in them with their PCI trees, ranks where they run,
/// rings as edges.
[[nodiscard]] std::string to_dot(const Topology& topology);

}  // namespace weft
