// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/discover.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sched.h>
#include <sodium.h>
#include <string>
#include <string_view>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <hwloc.h>

#include "core/topology/codec.h"

namespace weft {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

Error hwloc_error(std::string_view what) {
  return Error::from_errno(errno, fmt::format("hwloc could not {}", what));
}

/// The whole machine, also the part that this process may not use: a description that differed
/// between processes with different affinities could not be compared.
Result<HwlocTopology> load_machine(const DiscoverySources& sources) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(hwloc_error("start"));
  HwlocTopology topology(raw);
  if (!sources.hwloc_xml.empty() &&
      hwloc_topology_set_xml(topology.get(), sources.hwloc_xml.c_str()) != 0) {
    return fail(hwloc_error(fmt::format("read {}", sources.hwloc_xml)));
  }
  if (hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0) {
    return fail(hwloc_error("take its flags"));
  }
  if (hwloc_topology_load(topology.get()) != 0) {
    return fail(hwloc_error("describe this machine"));
  }
  return topology;
}

std::uint32_t count_of(const HwlocTopology& topology, hwloc_obj_type_t type) {
  const int count = hwloc_get_nbobjs_by_type(topology.get(), type);
  return static_cast<std::uint32_t>(std::clamp(count, 0, static_cast<int>(kMaxCpus)));
}

std::uint64_t cache_bytes(const HwlocTopology& topology, hwloc_obj_type_t type) {
  const hwloc_obj* const cache = hwloc_get_obj_by_type(topology.get(), type, 0);
  return cache == nullptr || cache->attr == nullptr ? 0 : cache->attr->cache.size;
}

/// The first line of a file under /proc, at most `kMaxTextLength` bytes; empty where it cannot be
/// read.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  line.resize(std::min(line.size(), kMaxTextLength));
  return line;
}

/// "net:[4026531833]"; empty where /proc does not tell.
std::string namespace_of(const DiscoverySources& sources, const char* kind) {
  std::error_code error;
  return std::filesystem::read_symlink(sources.proc_root + "/self/ns/" + kind, error).string();
}

Result<std::string> host_name_of_system() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return fail(Error::from_errno(errno, "reading the host name failed"));
  }
  std::string text(name.data());
  // The kernel takes any bytes; a name travels to peers, who refuse what cannot be printed.
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

/// When this process started, in clock ticks since boot: tells it from an earlier one that had the
/// same process id. Field 22 of /proc/self/stat; the second may hold spaces and parentheses.
std::string start_time(const DiscoverySources& sources) {
  std::ifstream file(sources.proc_root + "/self/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos) return "0";
  constexpr int kFieldsBetween = 20;
  for (int field = 0; field < kFieldsBetween; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return "0";
  }
  return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

}  // namespace

Status check_host_id(std::string_view host_id) {
  const bool allowed = std::ranges::all_of(host_id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (allowed && !host_id.empty() && host_id.size() <= kMaxHostIdLength) return {};
  std::string shown(host_id.substr(0, kMaxHostIdLength));
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return fail(WEFT_ERROR_CONFIG, fmt::format("WEFT_HOST_ID is \"{}\"", shown),
              fmt::format("1 to {} letters, digits, '.', '_' or '-', alike on all processes of a "
                          "host and on no other",
                          kMaxHostIdLength));
}

std::string derive_host_id(std::string_view boot_id, std::string_view host_name,
                           std::string_view network_namespace) {
  const std::string identity = fmt::format("{}\n{}\n{}", boot_id, host_name, network_namespace);
  // crypto_generichash needs no sodium_init().
  static_assert(crypto_generichash_BYTES_MIN == 16);
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(),
                     reinterpret_cast<const unsigned char*>(identity.data()), identity.size(),
                     nullptr, 0);
  std::string text;
  constexpr std::size_t kHostIdBytes = 8;
  for (std::size_t i = 0; i < kHostIdBytes; ++i)
    text += fmt::format("{:02x}", hash[i]);
  return text;
}

Result<HostInfo> discover_host(std::string_view host_id, const DiscoverySources& sources) {
  HostInfo host;
  WEFT_TRY_ASSIGN(host.host_name, host_name_of_system());
  host.boot_id = first_line(sources.proc_root + "/sys/kernel/random/boot_id");
  if (host_id.empty()) {
    host.host_id = derive_host_id(host.boot_id, host.host_name, namespace_of(sources, "net"));
  } else {
    WEFT_TRY(check_host_id(host_id));
    host.host_id = host_id;
  }
  WEFT_TRY_ASSIGN(const HwlocTopology machine, load_machine(sources));
  host.packages = count_of(machine, HWLOC_OBJ_PACKAGE);
  host.numa_nodes = count_of(machine, HWLOC_OBJ_NUMANODE);
  host.cores = count_of(machine, HWLOC_OBJ_CORE);
  host.hardware_threads = count_of(machine, HWLOC_OBJ_PU);
  // Some virtual machines and architectures report no cores.
  if (host.cores == 0) host.cores = host.hardware_threads;
  host.memory_bytes = hwloc_get_root_obj(machine.get())->total_memory;
  host.l2_bytes = cache_bytes(machine, HWLOC_OBJ_L2CACHE);
  host.l3_bytes = cache_bytes(machine, HWLOC_OBJ_L3CACHE);
  WEFT_TRY_ASSIGN(const std::vector<InterfaceState> interfaces, interface_states());
  host.nics = describe_nics(interfaces, sources.sys_root);
  if (host.nics.size() > kMaxNics) host.nics.resize(kMaxNics);
  for (NicInfo& nic : host.nics) {
    if (nic.addresses.size() > kMaxAddresses) nic.addresses.resize(kMaxAddresses);
  }
  return host;
}

Result<RankInfo> discover_process(const HostInfo& host, const DiscoverySources& sources) {
  RankInfo rank;
  rank.pid = static_cast<std::uint64_t>(getpid());
  rank.process = fmt::format("{}/{}/{}/{}", host.host_id, namespace_of(sources, "pid"), rank.pid,
                             start_time(sources));
  // The affinity of the main thread: that of the caller may be a worker's own.
  struct FreeCpuSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(kMaxCpus));
  if (!set) return fail(WEFT_ERROR_OUT_OF_MEMORY, "no memory for a set of CPUs");
  const std::size_t set_bytes = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(set_bytes, set.get());
  if (sched_getaffinity(getpid(), set_bytes, set.get()) != 0) {
    return fail(Error::from_errno(errno, "reading which CPUs this process may use failed"));
  }
  std::uint64_t threads = 0;
  for (std::uint32_t cpu = 0; cpu < kMaxCpus && rank.cpus.size() < kMaxCpuRanges; ++cpu) {
    if (!CPU_ISSET_S(cpu, set_bytes, set.get())) continue;
    ++threads;
    if (!rank.cpus.empty() && rank.cpus.back().last + 1 == cpu) {
      rank.cpus.back().last = cpu;
    } else {
      rank.cpus.push_back({.first = cpu, .last = cpu});
    }
  }
  // Hardware threads of one core share its units: they count as their part of a core.
  const std::uint64_t per_core = std::max(1U, host.hardware_threads / std::max(1U, host.cores));
  rank.cores = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, threads / per_core));
  return rank;
}

}  // namespace weft
