// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/discover.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sched.h>
#include <sodium.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/topology/codec.h"
#include "core/topology/cpu_limit.h"
#include "core/topology/import.h"
#include "core/topology/machine.h"

namespace weft {
namespace {

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

Status check_id(std::string_view variable, std::string_view id, std::string_view where) {
  const bool allowed = std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (allowed && !id.empty() && id.size() <= kMaxIdLength) return {};
  std::string shown(id.substr(0, kMaxIdLength));
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return fail(WEFT_ERROR_CONFIG, fmt::format("{} is \"{}\"", variable, shown),
              fmt::format("1 to {} letters, digits, '.', '_' or '-', {}", kMaxIdLength, where));
}

/// 16 hex digits.
std::string short_hash(std::string_view identity) {
  // crypto_generichash needs no sodium_init().
  static_assert(crypto_generichash_BYTES_MIN == 16);
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(),
                     reinterpret_cast<const unsigned char*>(identity.data()), identity.size(),
                     nullptr, 0);
  std::string text;
  constexpr std::size_t kHashBytes = 8;
  for (std::size_t i = 0; i < kHashBytes; ++i)
    text += fmt::format("{:02x}", hash[i]);
  return text;
}

}  // namespace

Status check_host_id(std::string_view host_id) {
  return check_id("WEFT_HOST_ID", host_id, "alike on all processes of a host and on no other");
}

Status check_fabric_id(std::string_view fabric_id) {
  return check_id("WEFT_FABRIC_ID", fabric_id,
                  "alike on all processes whose memory one fabric joins and on no other");
}

std::string derive_host_id(std::string_view boot_id, std::string_view host_name,
                           std::string_view network_namespace) {
  return short_hash(fmt::format("{}\n{}\n{}", boot_id, host_name, network_namespace));
}

Result<HostInfo> discover_host(std::string_view host_id, const DiscoverySources& sources) {
  if (!sources.hwloc_xml.empty()) return import_host(sources.hwloc_xml, host_id);
  HostInfo host;
  WEFT_TRY_ASSIGN(host.host_name, host_name_of_system());
  host.boot_id = first_line(sources.proc_root + "/sys/kernel/random/boot_id");
  if (host_id.empty()) {
    host.host_id = derive_host_id(host.boot_id, host.host_name, namespace_of(sources, "net"));
  } else {
    WEFT_TRY(check_host_id(host_id));
    host.host_id = host_id;
  }
  WEFT_TRY_ASSIGN(const Machine machine, load_machine());
  describe_machine(machine, host);
  ask_sysfs(sources.sys_root, host.pci);
  WEFT_TRY_ASSIGN(const std::vector<InterfaceState> interfaces, interface_states());
  host.nics = describe_nics(interfaces, sources.sys_root);
  if (host.nics.size() > kMaxNics) host.nics.resize(kMaxNics);
  for (NicInfo& nic : host.nics) {
    if (nic.addresses.size() > kMaxAddresses) nic.addresses.resize(kMaxAddresses);
    if (nic.prefixes.size() > kMaxAddresses) nic.prefixes.resize(kMaxAddresses);
  }
  return host;
}

Result<RankInfo> discover_process(const HostInfo& host, std::string_view fabric_id,
                                  const DiscoverySources& sources) {
  if (!fabric_id.empty()) WEFT_TRY(check_fabric_id(fabric_id));
  RankInfo rank;
  rank.memory_fabric = fabric_id;
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
  // The set has room for many more than there are: each process that joins looks through it.
  const auto all = static_cast<std::uint64_t>(CPU_COUNT_S(set_bytes, set.get()));
  std::uint64_t threads = 0;
  for (std::uint32_t cpu = 0; threads < all && rank.cpus.size() < kMaxCpuRanges; ++cpu) {
    if (!CPU_ISSET_S(cpu, set_bytes, set.get())) continue;
    ++threads;
    if (!rank.cpus.empty() && rank.cpus.back().last + 1 == cpu) {
      rank.cpus.back().last = cpu;
    } else {
      rank.cpus.push_back({.first = cpu, .last = cpu});
    }
  }
  const CpuLimit limit = cpu_limit_of_process(sources);
  if (limit.processors != 0) {
    rank.cpu_limit = limit.processors;
    // Paths may be long, and each namespace has its own.
    rank.cpu_group = short_hash(namespace_of(sources, "cgroup") + '\n' + limit.group);
    threads = std::min<std::uint64_t>(threads, limit.processors);
  }
  // Hardware threads of one core share its units: they count as their part of a core.
  const std::uint64_t per_core = std::max(1U, host.hardware_threads / std::max(1U, host.cores));
  rank.cores = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, threads / per_core));
  return rank;
}

Status export_host(const std::string& path) {
  WEFT_TRY_ASSIGN(const Machine machine, load_machine());
  WEFT_TRY_ASSIGN(const std::vector<InterfaceState> interfaces, interface_states());
  WEFT_TRY_ASSIGN(const std::string text,
                  export_machine(machine, describe_nics(interfaces, DiscoverySources{}.sys_root)));
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    return fail(Error::from_errno(errno, fmt::format("writing this machine to {} failed", path)));
  }
  return {};
}

}  // namespace weft
