// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Addresses and TCP sockets: making them, setting them up, naming them in messages.
#pragma once

#include <chrono>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

#include "options.h"
#include "support.h"
#include "wire.h"

namespace weft::net_socket {

/// An IPv4 or IPv6 address with a port.
class Address {
 public:
  Address() = default;
  /// Of the first `size` bytes at `from`; another family gives an empty address.
  Address(const sockaddr* from, socklen_t size);
  /// An address off the wire; `scope` completes link-local ones (an interface index, or 0).
  Address(const WireAddress& from, uint32_t scope);

  [[nodiscard]] bool empty() const { return storage_.ss_family == AF_UNSPEC; }
  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const;
  [[nodiscard]] WireAddress wire() const;
  [[nodiscard]] bool loopback() const;
  [[nodiscard]] bool link_local() const;
  [[nodiscard]] Address with_port(uint16_t port) const;
  /// "10.0.0.1:4000", "[fe80::1%2]:4000"; without a port when that is 0.
  [[nodiscard]] std::string text() const;

 private:
  sockaddr_storage storage_{};
};

/// Whether both are the same address, whatever their ports; an empty one is like none.
[[nodiscard]] bool same_place(const Address& a, const Address& b);

/// The kernel's probes of an idle connection: the first after `idle` seconds of silence, then
/// `count` in all, `interval` seconds apart. The last unanswered one ends the connection.
struct Keepalive {
  int idle = 0;
  int interval = 0;
  int count = 0;
};
/// Probes that find a vanished peer within `bound`, or within kLeastKeepalive if that is more.
[[nodiscard]] Keepalive keepalive_of(std::chrono::nanoseconds bound);
/// The kernel counts in seconds, and one lost probe must not end a connection.
inline constexpr std::chrono::seconds kLeastKeepalive{4};

/// A non-blocking, close-on-exec TCP socket of the address family.
Result<Fd> make_socket(int family);
/// One that listens on `address`; its port is the kernel's choice where `address` has none.
Result<Fd> make_listening_socket(const Address& address, const Options& options);
/// What every stream wants: no delay for short messages, buffer sizes, keepalive.
Status configure_stream(int fd, const Options& options);
/// The buffer sizes, which must be set before a connection is made.
Status configure_buffers(int fd, const Options& options);

/// How fast a socket sends: the algorithm of the options, else, where the peer is of this host, one
/// that does not pace. There, nothing is ever lost for want of a pause, and each pause is a timer.
Status configure_congestion(int fd, const Options& options, bool local);
/// Whether the kernel takes the algorithm of the options.
Status check_congestion(const Options& options);

Address local_address(int fd);
Address peer_address(int fd);

}  // namespace weft::net_socket
