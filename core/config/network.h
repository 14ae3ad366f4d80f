// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// IP addresses and networks as the rules of the configuration name them, parsed strictly: no host
// bits beyond the prefix, no octal, no names.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace weft {

/// An IPv4 or IPv6 address; an IPv4 address fills the first four bytes.
struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};

  /// Dotted quad or the shortest IPv6 spelling.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

/// WEFT_ERROR_INVALID_ARGUMENT where `text` is not one address (an interface scope is refused).
[[nodiscard]] Result<IpAddress> parse_address(std::string_view text);

/// The addresses that share their first `prefix` bits with `base`.
struct Network {
  IpAddress base;
  int prefix = 0;

  [[nodiscard]] bool contains(const IpAddress& address) const;
  /// Whether every address of `other` lies in this network.
  [[nodiscard]] bool contains(const Network& other) const;
  /// `10.0.0.0/24`, `fd00::/8`.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Network&, const Network&) = default;
};

/// WEFT_ERROR_INVALID_ARGUMENT says what is wrong: no address, no prefix, bits beyond the prefix.
[[nodiscard]] Result<Network> parse_network(std::string_view text);

}  // namespace weft
