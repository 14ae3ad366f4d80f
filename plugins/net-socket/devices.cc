// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Interface discovery by getifaddrs and sysfs.
#include "devices.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <memory>
#include <net/if.h>
#include <string_view>
#include <sys/stat.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::net_socket {
namespace {

constexpr std::string_view kNet = "/sys/class/net/";

/// A number from sysfs, or `otherwise`: many files are absent or say -1 on virtual machines.
int64_t sysfs_number(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

std::string device_path(const std::string& name) {
  const std::string link = fmt::format("{}{}/device", kNet, name);
  const std::unique_ptr<char, decltype(&std::free)> path(::realpath(link.c_str(), nullptr),
                                                         &std::free);
  return path ? path.get() : "";
}

/// Names what a loopback interface joins: the processes of one network namespace of one boot.
uint64_t loopback_fabric() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  struct stat space{};
  if (::stat("/proc/self/ns/net", &space) == 0) text += fmt::format("/{}", space.st_ino);
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash | 1;
}

uint64_t hardware_address(const sockaddr* from) {
  const auto* link = reinterpret_cast<const sockaddr_ll*>(from);
  uint64_t value = 0;
  for (unsigned i = 0; i < std::min<unsigned>(link->sll_halen, 8); ++i) {
    value = value << 8 | link->sll_addr[i];
  }
  return value;
}

void take_address(Interface& interface, const sockaddr* from, const sockaddr* mask) {
  if (from->sa_family == AF_PACKET) {
    interface.guid = hardware_address(from);
  } else if (from->sa_family == AF_INET) {
    if (!interface.ipv4.empty()) return;
    interface.ipv4 = Address(from, sizeof(sockaddr_in));
    interface.ipv4_mask = Address(mask, sizeof(sockaddr_in));
  } else if (from->sa_family == AF_INET6) {
    const Address address(from, sizeof(sockaddr_in6));
    if (interface.ipv6.empty() || (interface.ipv6.link_local() && !address.link_local())) {
      interface.ipv6 = address;
      interface.ipv6_mask = Address(mask, sizeof(sockaddr_in6));
    }
  }
}

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with('=')) return name == pattern.substr(1);
  return name.starts_with(pattern);
}

/// Where an interface stands when nobody asked for an order.
int rank_of(const Interface& interface) {
  if (interface.loopback) return 2;
  const std::string_view name = interface.name;
  return name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("br-") ? 1 : 0;
}

void keep_family(Interface& interface, Family family) {
  if (family == Family::kIpv4) interface.ipv6 = {};
  if (family == Family::kIpv6) interface.ipv4 = {};
}

std::string listed(const std::vector<Interface>& interfaces) {
  std::vector<std::string> texts;
  for (const Interface& interface : interfaces) {
    std::vector<std::string> addresses;
    if (!interface.ipv4.empty()) addresses.push_back(interface.ipv4.text());
    if (!interface.ipv6.empty()) addresses.push_back(interface.ipv6.text());
    texts.push_back(fmt::format("{} ({})", interface.name, fmt::join(addresses, " ")));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return std::unexpected(system_failure("cannot list the network interfaces", errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> guard(first, &::freeifaddrs);

  std::vector<Interface> all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || entry->ifa_addr == nullptr) continue;
    auto found = std::ranges::find(all, entry->ifa_name, &Interface::name);
    if (found == all.end()) {
      Interface interface;
      interface.name = entry->ifa_name;
      interface.index = ::if_nametoindex(entry->ifa_name);
      interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      all.push_back(std::move(interface));
      found = all.end() - 1;
    }
    take_address(*found, entry->ifa_addr, entry->ifa_netmask);
  }
  std::erase_if(all, [](const Interface& i) { return i.ipv4.empty() && i.ipv6.empty(); });
  for (Interface& interface : all) {
    const std::string folder = fmt::format("{}{}", kNet, interface.name);
    interface.speed_mbps =
        static_cast<uint64_t>(std::max<int64_t>(0, sysfs_number(folder + "/speed", 0)));
    interface.pci_path = device_path(interface.name);
    interface.numa_node =
        static_cast<int32_t>(std::max<int64_t>(-1, sysfs_number(folder + "/device/numa_node", -1)));
    if (interface.loopback) interface.fabric_id = loopback_fabric();
  }
  std::ranges::sort(all, {}, &Interface::index);
  return all;
}

bool shares_network(const Interface& interface, const Address& other) {
  const bool v4 = other.family() == AF_INET;
  const Address& own = v4 ? interface.ipv4 : interface.ipv6;
  const Address& mask = v4 ? interface.ipv4_mask : interface.ipv6_mask;
  if (own.empty() || mask.empty() || other.link_local()) return false;
  const auto a = own.wire().bytes;
  const auto b = other.wire().bytes;
  const auto bits = mask.wire().bytes;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (((a.at(i) ^ b.at(i)) & bits.at(i)) != 0) return false;
  }
  return true;
}

Result<std::vector<Interface>> select_interfaces(std::vector<Interface> all,
                                                 const std::vector<std::string>& patterns,
                                                 Family family) {
  const std::string there_is = listed(all);
  for (Interface& interface : all)
    keep_family(interface, family);
  std::erase_if(all, [](const Interface& i) { return i.ipv4.empty() && i.ipv6.empty(); });
  std::ranges::stable_sort(all, {}, rank_of);

  std::vector<Interface> chosen;
  const auto is_negative = [](const std::string& pattern) { return pattern.starts_with('^'); };
  const bool any_positive = !std::ranges::all_of(patterns, is_negative);
  if (any_positive) {
    for (const std::string& pattern : patterns) {
      if (is_negative(pattern)) continue;
      for (const Interface& interface : all) {
        const bool known =
            std::ranges::find(chosen, interface.name, &Interface::name) != chosen.end();
        if (!known && matches(pattern, interface.name)) chosen.push_back(interface);
      }
    }
  } else {
    chosen = all;
  }
  for (const std::string& pattern : patterns) {
    if (!is_negative(pattern)) continue;
    const std::string_view rest = std::string_view(pattern).substr(1);
    std::erase_if(chosen, [&](const Interface& i) { return matches(rest, i.name); });
  }
  if (!chosen.empty()) return chosen;

  const char* family_text = family == Family::kIpv4   ? " with an IPv4 address"
                            : family == Family::kIpv6 ? " with an IPv6 address"
                                                      : "";
  return std::unexpected(Failure{
      .code = WEFT_ERROR_CONFIG,
      .what = fmt::format("net-socket.interfaces [{}] matches no interface{} that is up; there "
                          "are: {}",
                          fmt::join(patterns, ", "), family_text, there_is),
      .hint = "correct net-socket.interfaces, or leave it out to use all of them"});
}

uint32_t streams_by_cost(const Interface& interface, bool local, uint32_t processors) {
  if (local || interface.loopback) return 1;
  const uint64_t wanted = interface.speed_mbps == 0
                              ? kStreamsUnknown
                              : (interface.speed_mbps + kStreamMbps - 1) / kStreamMbps;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(std::min<uint64_t>(wanted, processors), 1, kMaxStreams));
}

std::vector<weft_net_device> describe(const std::vector<Interface>& interfaces) {
  std::vector<weft_net_device> devices;
  for (const Interface& interface : interfaces) {
    weft_net_device device{};
    device.struct_size = sizeof device;
    device.capabilities = WEFT_NET_HOST_MEMORY | WEFT_NET_NEEDS_PROGRESS | WEFT_NET_CAN_SLEEP |
                          WEFT_NET_GLOBAL_REGISTRATION | WEFT_NET_UNREGISTERED;
    device.name = interface.name.c_str();
    device.pci_path = interface.pci_path.c_str();
    device.guid = interface.guid;
    device.speed_mbps = interface.speed_mbps;
    device.fabric_id = interface.fabric_id;
    device.rail = -1;
    device.plane = -1;
    device.numa_node = interface.numa_node;
    device.max_receives = kMaxReceives;
    device.max_requests = kMaxRequests;
    device.max_message = kMaxMessage;
    devices.push_back(device);
  }
  return devices;
}

}  // namespace weft::net_socket
