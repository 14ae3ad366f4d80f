// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Addresses and socket options of net-socket.
#include "socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <linux/tcp.h>
#include <string_view>

#include <fmt/format.h>

namespace weft::net_socket {
namespace {

constexpr int kBacklog = 128;
/// TCP_RTO_MAX_MS of Linux 6.15, and what it may be.
constexpr int kLongestPause = 44;
constexpr std::chrono::milliseconds kLeastLongestPause{1'000};
constexpr std::chrono::milliseconds kMostLongestPause{120'000};

Status set_option(int fd, int level, int name, int value, const char* text) {
  if (::setsockopt(fd, level, name, &value, sizeof value) == 0) return {};
  return std::unexpected(
      system_failure(fmt::format("cannot set the socket option {}", text), errno));
}

}  // namespace

Address::Address(const sockaddr* from, socklen_t size) {
  if (from == nullptr) return;
  const size_t wanted = from->sa_family == AF_INET    ? sizeof(sockaddr_in)
                        : from->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                      : 0;
  if (wanted == 0 || size < wanted) return;
  std::memcpy(&storage_, from, wanted);
}

Address::Address(const WireAddress& from, uint32_t scope) {
  if (from.family == 4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(from.port);
    std::memcpy(&address.sin_addr, from.bytes.data(), sizeof address.sin_addr);
    std::memcpy(&storage_, &address, sizeof address);
  } else if (from.family == 6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(from.port);
    std::memcpy(&address.sin6_addr, from.bytes.data(), sizeof address.sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) address.sin6_scope_id = scope;
    std::memcpy(&storage_, &address, sizeof address);
  }
}

socklen_t Address::size() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

WireAddress Address::wire() const {
  WireAddress out;
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    out.family = 4;
    out.port = ntohs(address->sin_port);
    std::memcpy(out.bytes.data(), &address->sin_addr, sizeof address->sin_addr);
  } else {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
    out.family = 6;
    out.port = ntohs(address->sin6_port);
    std::memcpy(out.bytes.data(), &address->sin6_addr, sizeof address->sin6_addr);
  }
  return out;
}

bool Address::loopback() const {
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    return (ntohl(address->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
  return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr) != 0;
}

bool Address::link_local() const {
  if (family() != AF_INET6) return false;
  const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
  return IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) != 0;
}

Address Address::with_port(uint16_t port) const {
  Address out = *this;
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&out.storage_)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&out.storage_)->sin6_port = htons(port);
  }
  return out;
}

std::string Address::text() const {
  if (empty()) return "an unknown address";
  char buffer[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    ::inet_ntop(AF_INET, &address->sin_addr, buffer, sizeof buffer);
    const uint16_t port = ntohs(address->sin_port);
    return port == 0 ? std::string(buffer) : fmt::format("{}:{}", buffer, port);
  }
  const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
  ::inet_ntop(AF_INET6, &address->sin6_addr, buffer, sizeof buffer);
  const std::string scope =
      address->sin6_scope_id == 0 ? "" : fmt::format("%{}", address->sin6_scope_id);
  const uint16_t port = ntohs(address->sin6_port);
  return port == 0 ? buffer + scope : fmt::format("[{}{}]:{}", buffer, scope, port);
}

bool same_place(const Address& a, const Address& b) {
  return !a.empty() && !b.empty() && a.with_port(0).wire() == b.with_port(0).wire();
}

Keepalive keepalive_of(std::chrono::nanoseconds bound) {
  constexpr int64_t kMostProbes = 8;
  const auto seconds =
      std::max(kLeastKeepalive, std::chrono::floor<std::chrono::seconds>(bound)).count();
  const int64_t idle = seconds / 4;
  const int64_t count = std::min(kMostProbes, seconds - idle);
  return {.idle = static_cast<int>(idle),
          .interval = static_cast<int>((seconds - idle) / count),
          .count = static_cast<int>(count)};
}

Result<Fd> make_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (fd) return fd;
  return std::unexpected(system_failure("cannot make a TCP socket", errno));
}

Status configure_buffers(int fd, const Options& options) {
  if (options.send_buffer != 0) {
    if (Status done = set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.send_buffer),
                                 "SO_SNDBUF");
        !done) {
      return done;
    }
  }
  if (options.receive_buffer != 0) {
    return set_option(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(options.receive_buffer),
                      "SO_RCVBUF");
  }
  return {};
}

Result<Fd> make_listening_socket(const Address& address, const Options& options) {
  Result<Fd> fd = make_socket(address.family());
  if (!fd) return fd;
  if (address.family() == AF_INET6) {
    if (Status done = set_option(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"); !done) {
      return std::unexpected(done.error());
    }
  }
  // Accepted sockets inherit these.
  if (Status done = configure_buffers(fd->get(), options); !done) {
    return std::unexpected(done.error());
  }
  if (::bind(fd->get(), address.raw(), address.size()) != 0) {
    return std::unexpected(
        system_failure(fmt::format("cannot bind a socket to {}", address.text()), errno));
  }
  if (::listen(fd->get(), kBacklog) != 0) {
    return std::unexpected(
        system_failure(fmt::format("cannot listen on {}", address.text()), errno));
  }
  return fd;
}

Status configure_stream(int fd, const Options& options) {
  if (Status done = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"); !done) return done;
  if (options.peer_timeout.count() == 0) return {};
  // Whoever takes nothing for long is asked so often that several answers are due in time. Older
  // kernels ask more seldom.
  const auto pause =
      std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(options.peer_timeout / 4),
                 kLeastLongestPause, kMostLongestPause);
  const int pause_ms = static_cast<int>(pause.count());
  static_cast<void>(::setsockopt(fd, IPPROTO_TCP, kLongestPause, &pause_ms, sizeof pause_ms));
  // An end that only waits, or rests, learns by these that the path is gone.
  const Keepalive probes = keepalive_of(options.peer_timeout);
  if (Status done = set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"); !done) return done;
  if (Status done = set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, probes.idle, "TCP_KEEPIDLE"); !done) {
    return done;
  }
  if (Status done = set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probes.interval, "TCP_KEEPINTVL");
      !done) {
    return done;
  }
  return set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes.count, "TCP_KEEPCNT");
}

Status configure_congestion(int fd, const Options& options, bool local) {
  const auto choose = [fd](std::string_view name) {
    return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                        static_cast<socklen_t>(name.size())) == 0;
  };
  if (!options.congestion.empty()) {
    if (choose(options.congestion)) return {};
    Failure failure = system_failure(
        fmt::format("the kernel refuses the congestion control \"{}\"", options.congestion), errno,
        WEFT_ERROR_CONFIG);
    failure.hint =
        "net-socket.congestion must be one of "
        "/proc/sys/net/ipv4/tcp_allowed_congestion_control, or auto";
    return std::unexpected(std::move(failure));
  }
  // Every kernel has reno. One that refuses both costs speed alone.
  if (local && !choose("cubic")) choose("reno");
  return {};
}

Status check_congestion(const Options& options) {
  if (options.congestion.empty()) return {};
  Result<Fd> fd = make_socket(AF_INET);
  if (!fd) fd = make_socket(AF_INET6);
  if (!fd) return std::unexpected(fd.error());
  return configure_congestion(fd->get(), options, false);
}

Address local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return {reinterpret_cast<sockaddr*>(&storage), size};
}

Address peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return {reinterpret_cast<sockaddr*>(&storage), size};
}

}  // namespace weft::net_socket
