// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/interfaces.h"

#include <algorithm>
#include <cerrno>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {
namespace {

struct Rule {
  bool exclude = false;
  bool exact = false;
  std::string_view name;

  explicit Rule(std::string_view text) {
    if (text.starts_with('^')) {
      exclude = true;
      text.remove_prefix(1);
    }
    if (text.starts_with('=')) {
      exact = true;
      text.remove_prefix(1);
    }
    name = text;
  }
  [[nodiscard]] bool matches(std::string_view interface) const {
    return exact ? interface == name : interface.starts_with(name);
  }
};

std::string list_names(std::span<const InterfaceAddress> all) {
  std::vector<std::string> names;
  for (const auto& entry : all) {
    names.push_back(
        fmt::format("{} ({}{})", entry.name, entry.address.host(), entry.up ? "" : ", down"));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_interfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    return fail(Error::from_errno(errno, "cannot list the network interfaces"));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const auto address = SocketAddress::from_native(entry->ifa_addr);
    if (!address) continue;
    if (address->family == SocketAddress::Family::kV6 && address->is_link_local()) continue;
    result.push_back({.name = entry->ifa_name,
                      .address = *address,
                      .up = (entry->ifa_flags & IFF_UP) != 0,
                      .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
    result.back().address.port = 0;
  }
  return result;
}

Result<std::vector<InterfaceAddress>> select_interfaces(std::span<const InterfaceAddress> all,
                                                        std::span<const std::string> selection) {
  std::vector<Rule> include;
  std::vector<Rule> exclude;
  for (const std::string& item : selection) {
    const Rule rule(item);
    if (rule.name.empty()) {
      return fail(WEFT_ERROR_CONFIG,
                  fmt::format("bootstrap.interfaces: \"{}\" names no interface", item),
                  "write eth, =eth0, ^docker or ^=docker0");
    }
    (rule.exclude ? exclude : include).push_back(rule);
  }
  const auto matches_any = [](const std::vector<Rule>& rules, std::string_view name) {
    return std::any_of(rules.begin(), rules.end(),
                       [name](const Rule& rule) { return rule.matches(name); });
  };
  std::vector<InterfaceAddress> result;
  std::vector<InterfaceAddress> loopback;
  for (const InterfaceAddress& entry : all) {
    if (!entry.up || matches_any(exclude, entry.name)) continue;
    if (!include.empty() && !matches_any(include, entry.name)) continue;
    (entry.loopback ? loopback : result).push_back(entry);
  }
  if (result.empty() || !include.empty()) {
    result.insert(result.end(), loopback.begin(), loopback.end());
  }
  if (result.empty()) {
    if (selection.empty()) {
      return fail(WEFT_ERROR_NETWORK,
                  fmt::format("no network interface is up; this host has: {}", list_names(all)),
                  "ip link set lo up");
    }
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("bootstrap.interfaces [{}] matches no interface that is up; this host "
                            "has: {}",
                            fmt::join(selection, ", "), list_names(all)),
                "correct bootstrap.interfaces, or leave it out to use every interface");
  }
  return result;
}

}  // namespace weft
