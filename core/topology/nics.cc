// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Network interfaces. getifaddrs decides which exist: a process in another network namespace may
// still see the sysfs of the one it came from.

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <map>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "core/topology/codec.h"
#include "core/topology/discover.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address.sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr ? text.data()
                                                                                  : std::string();
}

/// How many leading bits a netmask has; 0 for none.
std::uint8_t prefix_of(const sockaddr* netmask, int family) {
  if (netmask == nullptr) return 0;
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (family == AF_INET) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(netmask)->sin_addr,
                sizeof(in_addr));
  } else {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(netmask)->sin6_addr,
                sizeof(in6_addr));
  }
  int bits = 0;
  for (const unsigned char byte : bytes) {
    bits += std::countl_one(byte);
    if (byte != 0xff) break;
  }
  return static_cast<std::uint8_t>(bits);
}

/// A decimal number that is the whole first line of a file. sysfs answers -1, or an error on
/// reading, where it does not know.
std::optional<std::uint32_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  return value;
}

/// Whether `name` looks like "0000:00:03.0".
bool is_pci_address(std::string_view name) {
  const std::size_t first = name.find(':');
  if (first == std::string_view::npos || first < 4 || name.size() != first + 8) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == first || i == first + 3) {
      if (name[i] != ':') return false;
    } else if (i == first + 6) {
      if (name[i] != '.') return false;
    } else if (name.substr(i, 1).find_first_not_of("0123456789abcdefABCDEF") !=
               std::string_view::npos) {
      return false;
    }
  }
  return true;
}

void describe_device(const fs::path& interface, const fs::path& sys_root, NicInfo& nic) {
  std::error_code error;
  const fs::path root = fs::canonical(sys_root, error);
  if (error) return;
  const fs::path place = fs::canonical(interface, error);
  if (error) return;
  const fs::path within = place.lexically_relative(root);
  nic.is_virtual = nic.loopback || within.string().starts_with("devices/virtual/");
  // A virtio interface hangs below a PCI device: what the device itself does not tell, one of its
  // parents does.
  for (fs::path device = fs::canonical(interface / "device", error);
       !error && device != root && device.has_relative_path(); device = device.parent_path()) {
    if (!nic.numa_node) nic.numa_node = read_number(device / "numa_node");
    if (nic.pci_path.empty() && is_pci_address(device.filename().string())) {
      nic.pci_path = device.filename().string();
    }
  }
}

}  // namespace

Result<std::vector<InterfaceState>> interface_states() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    return fail(Error::from_errno(errno, "listing the network interfaces (getifaddrs) failed"));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  struct Found {
    std::uint32_t flags = 0;
    std::vector<std::string> v4;
    std::vector<std::string> v6;
    std::vector<std::uint8_t> prefixes4;
    std::vector<std::uint8_t> prefixes6;
  };
  std::map<std::string, Found> by_name;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    Found& found = by_name[entry->ifa_name];
    found.flags |= entry->ifa_flags;
    if (entry->ifa_addr == nullptr) continue;
    const auto family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const bool v4 = family == AF_INET;
    (v4 ? found.v4 : found.v6).push_back(address_text(*entry->ifa_addr));
    (v4 ? found.prefixes4 : found.prefixes6).push_back(prefix_of(entry->ifa_netmask, family));
  }
  std::vector<InterfaceState> interfaces;
  for (auto& [name, found] : by_name) {
    InterfaceState state{.name = name,
                         .flags = found.flags,
                         .addresses = std::move(found.v4),
                         .prefixes = std::move(found.prefixes4)};
    state.addresses.insert(state.addresses.end(), found.v6.begin(), found.v6.end());
    state.prefixes.insert(state.prefixes.end(), found.prefixes6.begin(), found.prefixes6.end());
    interfaces.push_back(std::move(state));
  }
  return interfaces;
}

void ask_sysfs(const std::string& sys_root, std::vector<PciNode>& pci) {
  const fs::path devices = fs::path(sys_root) / "bus" / "pci" / "devices";
  std::vector<std::uint32_t> root_of;
  for (std::uint32_t i = 0; i < pci.size(); ++i) {
    root_of.push_back(pci[i].kind == PciKind::kRoot ? i : root_of[pci[i].parent]);
    PciNode& root = pci[root_of.back()];
    if (!root.numa_node && root_of.back() != i) {
      root.numa_node = read_number(devices / pci[i].address / "numa_node");
    }
  }
}

std::vector<NicInfo> describe_nics(std::span<const InterfaceState> interfaces,
                                   const std::string& sys_root) {
  std::vector<NicInfo> nics;
  for (const InterfaceState& interface : interfaces) {
    NicInfo nic;
    nic.name = interface.name;
    nic.addresses = interface.addresses;
    nic.prefixes = interface.prefixes;
    nic.up = (interface.flags & IFF_UP) != 0 && (interface.flags & IFF_RUNNING) != 0;
    nic.loopback = (interface.flags & IFF_LOOPBACK) != 0;
    nic.is_virtual = nic.loopback;
    const fs::path folder = fs::path(sys_root) / "class" / "net" / interface.name;
    nic.speed_mbps = read_number(folder / "speed");
    // Some drivers report "unknown" as the largest number.
    if (nic.speed_mbps == 0U || nic.speed_mbps == 0xFFFFFFFFU) nic.speed_mbps.reset();
    describe_device(folder, sys_root, nic);
    nics.push_back(std::move(nic));
  }
  std::ranges::sort(nics, {}, &NicInfo::name);
  return nics;
}

}  // namespace weft
