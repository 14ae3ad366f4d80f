// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/socket_address.h"

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family_value = family == Family::kV4 ? AF_INET : AF_INET6;
  if (inet_ntop(family_value, bytes.data(), text.data(), text.size()) == nullptr) return "?";
  return text.data();
}

std::string SocketAddress::to_string() const {
  return family == Family::kV4 ? fmt::format("{}:{}", host(), port)
                               : fmt::format("[{}]:{}", host(), port);
}

bool SocketAddress::is_loopback() const {
  if (family == Family::kV4) return bytes[0] == std::byte{127};
  return std::memcmp(bytes.data(), &in6addr_loopback, 16) == 0;
}

bool SocketAddress::is_this_host() const {
  static constexpr std::array<std::byte, 4> kLocalhost{std::byte{127}, std::byte{0}, std::byte{0},
                                                       std::byte{1}};
  if (family == Family::kV4) return std::memcmp(bytes.data(), kLocalhost.data(), 4) == 0;
  return is_loopback();
}

bool SocketAddress::is_link_local() const {
  if (family == Family::kV4) return bytes[0] == std::byte{169} && bytes[1] == std::byte{254};
  return bytes[0] == std::byte{0xfe} && (bytes[1] & std::byte{0xc0}) == std::byte{0x80};
}

socklen_t SocketAddress::to_native(sockaddr_storage& out) const {
  std::memset(&out, 0, sizeof(out));
  if (family == Family::kV4) {
    sockaddr_in native{};
    native.sin_family = AF_INET;
    native.sin_port = htons(port);
    std::memcpy(&native.sin_addr, bytes.data(), 4);
    std::memcpy(&out, &native, sizeof(native));
    return sizeof(native);
  }
  sockaddr_in6 native{};
  native.sin6_family = AF_INET6;
  native.sin6_port = htons(port);
  std::memcpy(&native.sin6_addr, bytes.data(), 16);
  std::memcpy(&out, &native, sizeof(native));
  return sizeof(native);
}

std::optional<SocketAddress> SocketAddress::from_native(const sockaddr* address) {
  SocketAddress result;
  if (address->sa_family == AF_INET) {
    sockaddr_in native{};
    std::memcpy(&native, address, sizeof(native));
    result.family = Family::kV4;
    result.port = ntohs(native.sin_port);
    std::memcpy(result.bytes.data(), &native.sin_addr, 4);
    return result;
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 native{};
    std::memcpy(&native, address, sizeof(native));
    result.family = Family::kV6;
    result.port = ntohs(native.sin6_port);
    std::memcpy(result.bytes.data(), &native.sin6_addr, 16);
    return result;
  }
  return std::nullopt;
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view host, std::uint16_t port) {
  const std::string text(host);
  SocketAddress result;
  result.port = port;
  if (inet_pton(AF_INET, text.c_str(), result.bytes.data()) == 1) return result;
  if (inet_pton(AF_INET6, text.c_str(), result.bytes.data()) == 1) {
    result.family = Family::kV6;
    return result;
  }
  return std::nullopt;
}

std::string list_addresses(std::span<const SocketAddress> addresses) {
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const SocketAddress& address : addresses)
    texts.push_back(address.to_string());
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace weft
