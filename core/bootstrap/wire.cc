// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace weft {
namespace {

constexpr std::size_t kReadBytes = 16UL * 1024;
constexpr auto kPauseSpan = std::chrono::milliseconds(100);
// The program may give back some of its own; longer than this nobody waits for it.
constexpr auto kExhaustedSpan = std::chrono::seconds(1);

void set_option(int fd, int level, int option, int value) {
  // These options exist on every supported kernel; a refusal costs latency, not correctness.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/// Nothing once the connection is broken.
std::optional<SocketAddress> remote_address(int fd) {
  sockaddr_storage native{};
  socklen_t length = sizeof(native);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&native), &length) != 0) return std::nullopt;
  return SocketAddress::from_native(reinterpret_cast<const sockaddr*>(&native));
}

}  // namespace

Status Wire::flush() {
  while (sent_ < output_.size()) {
    const ssize_t count = ::send(fd_.get(), output_.data() + sent_, output_.size() - sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      const int error = errno;  // remote() sets it, too
      return fail(Error::from_errno(error, "cannot send to " + remote()));
    }
    sent_ += static_cast<std::size_t>(count);
  }
  output_.clear();
  sent_ = 0;
  return {};
}

Result<Wire::Input> Wire::fill() {
  std::array<std::byte, kReadBytes> bytes;
  while (parser_.buffered() < parser_.message_bound()) {
    parser_.make_room(bytes.size());
    const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) return Input::kClosed;
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Input::kOpen;
      const int error = errno;  // remote() sets it, too
      return fail(Error::from_errno(error, "cannot receive from " + remote()));
    }
    parser_.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
  }
  return Input::kOpen;
}

std::string Wire::remote() const {
  const auto address = remote_address(fd_.get());
  return address ? address->to_string() : "a peer that is gone";
}

bool Wire::stays_on_host() const {
  const auto ours = local_address(fd_.get());
  const auto theirs = remote_address(fd_.get());
  return ours && theirs && ours->family == theirs->family && ours->bytes == theirs->bytes;
}

std::optional<std::size_t> Wire::room() const {
  tcp_info info{};
  socklen_t length = sizeof(info);
  int under_way = 0;
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_snd_wnd) + sizeof(info.tcpi_snd_wnd);
  if (getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || length < kNeeded ||
      ioctl(fd_.get(), SIOCOUTQ, &under_way) != 0) {
    return std::nullopt;
  }
  const std::size_t window = info.tcpi_snd_wnd;
  const auto taken = static_cast<std::size_t>(std::max(under_way, 0));
  return window > taken ? window - taken : 0;
}

std::optional<SocketAddress> local_address(int fd) {
  sockaddr_storage native{};
  socklen_t length = sizeof(native);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&native), &length) != 0) return std::nullopt;
  return SocketAddress::from_native(reinterpret_cast<const sockaddr*>(&native));
}

Result<UniqueFd> listen_at(SocketAddress& address, bool shared_port) {
  const bool v6 = address.family == SocketAddress::Family::kV6;
  UniqueFd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fail(Error::from_errno(errno, "cannot create a socket"));
  }
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (shared_port) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (v6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  sockaddr_storage native{};
  const socklen_t length = address.to_native(native);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&native), length) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    const int error = errno;
    return fail(Error::from_errno(error, "cannot listen at " + address.to_string(),
                                  error == EADDRINUSE
                                      ? "another port, or end the process that holds this one"
                                      : "select another interface"));
  }
  if (const auto bound = local_address(fd.get())) address.port = bound->port;
  return fd;
}

Result<UniqueFd> start_connect(const SocketAddress& address) {
  const bool v6 = address.family == SocketAddress::Family::kV6;
  UniqueFd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fail(Error::from_errno(errno, "cannot create a socket"));
  }
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  sockaddr_storage native{};
  const socklen_t length = address.to_native(native);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&native), length) != 0 &&
      errno != EINPROGRESS) {
    return fail(Error::from_errno(errno, "cannot connect to " + address.to_string()));
  }
  return fd;
}

int connect_errno(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Result<bool> poll_until(std::span<pollfd> entries, const Deadline& deadline) {
  while (true) {
    const int ready = ::poll(entries.data(), entries.size(), deadline.poll_timeout_ms());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) {
      return fail(Error::from_errno(errno, "cannot wait for sockets"));
    }
    if (deadline.passed()) {
      for (pollfd& entry : entries) {
        entry.revents = 0;
      }
      return false;
    }
  }
}

Status Acceptor::listen(SocketAddress address, bool shared_port) {
  WEFT_TRY_ASSIGN(UniqueFd fd, listen_at(address, shared_port));
  auto not_in_children = std::make_unique<ClosedInChildren>(fd.get());
  listeners_.push_back({.fd = std::move(fd), .not_in_children = std::move(not_in_children)});
  endpoints_.push_back(address);
  return {};
}

Status Acceptor::listen_at_some(std::span<const SocketAddress> addresses, std::size_t most) {
  Status last = fail(WEFT_ERROR_NETWORK, purpose_ + " has no address to listen at");
  for (SocketAddress address : addresses) {
    if (endpoints_.size() == most) break;
    address.port = 0;
    last = listen(address, false);
  }
  if (endpoints_.empty()) return last;
  return {};
}

void Acceptor::add_poll(std::vector<pollfd>& entries) const {
  const bool paused = !paused_until_.is_never() && !paused_until_.passed();
  for (const Listener& listener : listeners_) {
    entries.push_back({.fd = paused ? -1 : listener.fd.get(), .events = POLLIN, .revents = 0});
  }
  for (const Pending& pending : pending_) {
    entries.push_back({.fd = pending.wire.fd(), .events = POLLIN, .revents = 0});
  }
}

int Acceptor::timeout_ms() const {
  int result =
      paused_until_.is_never() || paused_until_.passed() ? -1 : paused_until_.poll_timeout_ms();
  // The oldest connection comes first, and all have the same span.
  if (!pending_.empty()) result = earlier_ms(result, pending_.front().deadline.poll_timeout_ms());
  return result;
}

void Acceptor::drop(Pending& pending, std::string_view why) {
  log_.info(Topic::kBootstrap, "{}: dropped a connection of {}: {}", purpose_,
            pending.wire.remote(), why);
  pending.done = true;
}

void Acceptor::accept_from(int listener) {
  // A bound on the connections taken in one go keeps a flood from starving those already here.
  for (int i = 0; i < 64; ++i) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        const Error error = Error::from_errno(errno, "cannot accept a connection");
        if (!warned_) log_.warn(Topic::kBootstrap, "{}: {}", purpose_, error.to_string());
        warned_ = true;
        // Those who belong here speak within the pause: whoever is silent after it makes room.
        for (Pending& pending : pending_) {
          if (pending.warned && !pending.done) drop(pending, "its descriptor is needed");
          pending.warned = true;
        }
        if (pending_.empty() && !exhausted_) {
          exhausted_ = error;
          exhausted_until_ = Deadline::after(kExhaustedSpan);
        }
        paused_until_ = Deadline::after(kPauseSpan);
      }
      return;
    }
    exhausted_.reset();
    exhausted_until_ = Deadline::never();
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    if (pending_.size() >= most_pending_) drop(pending_.front(), "too many unknown connections");
    std::erase_if(pending_, [](const Pending& pending) { return pending.done; });
    pending_.push_back(
        {.wire = Wire(std::move(fd), key_), .deadline = Deadline::after(first_message_span_)});
  }
}

void Acceptor::serve(std::span<const pollfd> entries, std::size_t first,
                     const std::function<void(Wire, const Message&)>& arrived) {
  const std::size_t pending_first = first + listeners_.size();
  for (std::size_t i = 0; i < pending_.size() && pending_first + i < entries.size(); ++i) {
    Pending& pending = pending_[i];
    if (pending.deadline.passed()) {
      // However busily it talks.
      drop(pending, "it said nothing complete in time");
      continue;
    }
    if (entries[pending_first + i].revents == 0) continue;
    const auto input = pending.wire.fill();
    auto message = pending.wire.next();
    if (!message) {
      drop(pending, "it sent " + message.error().what());
    } else if (*message) {
      pending.done = true;
      arrived(std::move(pending.wire), **message);
    } else if (!input) {
      drop(pending, input.error().to_string());
    } else if (*input == Wire::Input::kClosed) {
      drop(pending, "it closed without a word");
    }
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (entries[first + i].revents != 0) accept_from(listeners_[i].fd.get());
  }
  std::erase_if(pending_, [](const Pending& pending) { return pending.done; });
}

}  // namespace weft
