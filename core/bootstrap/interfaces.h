// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The network interfaces of this host, and the rule by which a user selects among them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"

namespace weft {

/// One address of one interface; an interface with two addresses appears twice. The port is 0.
struct InterfaceAddress {
  std::string name;
  SocketAddress address;
  bool up = true;
  bool loopback = false;

  bool operator==(const InterfaceAddress&) const = default;
};

/// Every IPv4 and IPv6 address of this host, in the kernel's order; link-local IPv6 is left out.
[[nodiscard]] Result<std::vector<InterfaceAddress>> list_interfaces();

/// The addresses that `selection` picks, pure. Items: "eth" takes names that begin so, "=eth0" that
/// name alone, "^docker" leaves out names that begin so, "^=docker0" that name alone. With only
/// leaving-out items everything else is taken. Only interfaces that are up count; others come
/// before loopback, which is there only when named or when there is nothing else. A selection that
/// matches nothing is an error that lists what exists.
[[nodiscard]] Result<std::vector<InterfaceAddress>> select_interfaces(
    std::span<const InterfaceAddress> all, std::span<const std::string> selection);

}  // namespace weft
