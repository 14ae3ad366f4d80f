// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/network.h"

#include <arpa/inet.h>
#include <charconv>
#include <sys/socket.h>
#include <system_error>

#include <fmt/format.h>

#include "core/config/problems.h"

namespace weft {
namespace {

int address_bits(const IpAddress& address) {
  return address.v6 ? 128 : 32;
}

std::uint8_t mask_of_byte(int index, int prefix) {
  const int bits = prefix - 8 * index;
  if (bits >= 8) return 0xff;
  if (bits <= 0) return 0;
  return static_cast<std::uint8_t>(0xff << (8 - bits));
}

IpAddress masked(IpAddress address, int prefix) {
  for (int i = 0; i < 16; ++i) {
    auto& byte = address.bytes[static_cast<std::size_t>(i)];
    byte = static_cast<std::uint8_t>(byte & mask_of_byte(i, prefix));
  }
  return address;
}

std::unexpected<Error> bad(std::string what) {
  return fail(WEFT_ERROR_INVALID_ARGUMENT, std::move(what));
}

}  // namespace

std::string IpAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size()) == nullptr) {
    return "invalid address";
  }
  return text.data();
}

Result<IpAddress> parse_address(std::string_view text) {
  const std::string terminated(text);
  IpAddress address;
  // inet_pton stops at a zero byte, so text after one would pass unseen.
  if (terminated.find('\0') == std::string::npos) {
    if (inet_pton(AF_INET, terminated.c_str(), address.bytes.data()) == 1) return address;
    address.v6 = true;
    if (inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) return address;
  }
  return bad(fmt::format("{} is no IPv4 or IPv6 address", in_quotes(text)));
}

bool Network::contains(const IpAddress& address) const {
  return address.v6 == base.v6 && masked(address, prefix) == base;
}

bool Network::contains(const Network& other) const {
  return other.prefix >= prefix && contains(other.base);
}

std::string Network::to_string() const {
  return fmt::format("{}/{}", base.to_string(), prefix);
}

Result<Network> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  auto address = parse_address(text.substr(0, slash));
  if (!address) return bad(fmt::format("{} is no network, as 10.0.0.0/24", in_quotes(text)));
  if (slash == std::string_view::npos) {
    return bad(fmt::format("{} is an address and no network; write {}/{}", in_quotes(text),
                           address->to_string(), address_bits(*address)));
  }
  const std::string_view digits = text.substr(slash + 1);
  int prefix = -1;
  const auto [rest, code] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  const bool leading_zero = digits.size() > 1 && digits.front() == '0';
  if (code != std::errc{} || rest != digits.data() + digits.size() || leading_zero || prefix < 0 ||
      prefix > address_bits(*address)) {
    return bad(fmt::format("{} has no prefix length between 0 and {}", in_quotes(text),
                           address_bits(*address)));
  }
  const Network network{masked(*address, prefix), prefix};
  if (!(network.base == *address)) {
    return bad(fmt::format("{} has bits set beyond its prefix; write {}", in_quotes(text),
                           network.to_string()));
  }
  return network;
}

}  // namespace weft
