// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// An IPv4 or IPv6 address with a port, as a value: compared, printed, sent to peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace weft {

/// A value without scope: link-local IPv6 addresses are never used here.
struct SocketAddress {
  enum class Family : std::uint8_t { kV4 = 4, kV6 = 6 };

  Family family = Family::kV4;
  std::array<std::byte, 16> bytes{};  ///< Network order; IPv4 uses the first four.
  std::uint16_t port = 0;             ///< Host order.

  bool operator==(const SocketAddress&) const = default;

  /// "10.0.0.1:80" or "[fd00::1]:80".
  [[nodiscard]] std::string to_string() const;
  /// The address alone: "10.0.0.1".
  [[nodiscard]] std::string host() const;
  [[nodiscard]] bool is_loopback() const;
  [[nodiscard]] bool is_link_local() const;
  /// True for 127.0.0.1 and ::1 only: whoever uses these means this host. (A host name may stand
  /// for 127.0.1.1 on its own host and for something else elsewhere.)
  [[nodiscard]] bool is_this_host() const;

  /// Fills `out` and returns its length.
  [[nodiscard]] socklen_t to_native(sockaddr_storage& out) const;
  /// Nothing for families other than these two.
  static std::optional<SocketAddress> from_native(const sockaddr* address);
  /// Reads a numeric address; nothing for names and malformed text.
  static std::optional<SocketAddress> parse(std::string_view host, std::uint16_t port);
};

/// For people: "10.0.0.1:80, [fd00::1]:80".
[[nodiscard]] std::string list_addresses(std::span<const SocketAddress> addresses);

}  // namespace weft
