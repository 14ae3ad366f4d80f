// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One TCP connection that carries messages, and the ways to get one. Never blocks: whoever owns a
// Wire polls its descriptor.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/fork_closed.h"
#include "core/base/log.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/socket_address.h"

namespace weft {

class Wire {
 public:
  Wire(UniqueFd fd, const MessageKey& key) : fd_(std::move(fd)), key_(key), parser_(key) {}

  [[nodiscard]] int fd() const { return fd_.get(); }

  /// Appends a message to what is to be sent.
  void queue(MessageType type, std::span<const std::byte> payload) {
    append_message(output_, key_, type, payload);
  }
  [[nodiscard]] bool has_output() const { return sent_ < output_.size(); }
  /// Sends as much as the socket takes now.
  Status flush();

  /// See MessageParser.
  void allow_data() { parser_.allow_data(); }

  enum class Input { kOpen, kClosed };
  /// Reads what is there, up to a fixed bound that one message fits in; kClosed at the peer's end.
  /// An error carries the errno of a broken connection. Take messages out before the next call.
  Result<Input> fill();
  /// The next verified message; an error when the peer sends what is none.
  Result<std::optional<Message>> next() { return parser_.next(); }

  /// Bytes held that no message was made of yet.
  [[nodiscard]] std::size_t buffered() const { return parser_.buffered(); }

  /// The other end, for messages to people.
  [[nodiscard]] std::string remote() const;
  /// Both ends have one address, so that one kernel passes everything on.
  [[nodiscard]] bool stays_on_host() const;
  /// Bytes that the other end's kernel would take beyond those under way, whether or not anybody
  /// reads there; nothing where this one's does not tell (before Linux 5.4).
  [[nodiscard]] std::optional<std::size_t> room() const;

 private:
  UniqueFd fd_;
  MessageKey key_;
  MessageParser parser_;
  std::vector<std::byte> output_;
  std::size_t sent_ = 0;
};

/// A listening socket at `address`, whose port is filled in when it was 0. `shared_port` lets
/// others of this user hold the port as well (see job_environment.h).
[[nodiscard]] Result<UniqueFd> listen_at(SocketAddress& address, bool shared_port);

/// Starts to connect; the socket is writable once that succeeded or failed.
[[nodiscard]] Result<UniqueFd> start_connect(const SocketAddress& address);

/// 0 once connected, else the errno of the attempt.
[[nodiscard]] int connect_errno(int fd);

/// The local address of a connected socket.
[[nodiscard]] std::optional<SocketAddress> local_address(int fd);

/// poll(2) until `deadline`, through signals. Answers false when the deadline passed first.
[[nodiscard]] Result<bool> poll_until(std::span<pollfd> entries, const Deadline& deadline);

/// The earlier of two points in time for poll(2), in milliseconds; -1 is never.
[[nodiscard]] constexpr int earlier_ms(int a, int b) {
  if (a < 0) return b;
  if (b < 0) return a;
  return a < b ? a : b;
}

/// Listening sockets that strangers can reach. Each accepted connection has a bounded buffer and a
/// short time in which its first message must be complete and verified; anything else is dropped
/// with a log line and nothing more. Forked children close their copies of the listeners, so that
/// nobody is taken for listening who does not. Used by one thread.
class Acceptor {
 public:
  Acceptor(const MessageKey& key, Logger& log, std::string purpose,
           std::chrono::nanoseconds first_message_span = std::chrono::seconds(5))
      : key_(key),
        log_(log),
        purpose_(std::move(purpose)),
        first_message_span_(first_message_span) {}

  /// How many connections may be there that have said nothing complete: one more drops the oldest.
  void take_at_most(std::size_t pending) { most_pending_ = pending; }

  Status listen(SocketAddress address, bool shared_port);
  /// Listens at up to `most` of `addresses`, each at a port of its own; an error only when none can
  /// be used (an IPv6 address that is still being set up cannot).
  Status listen_at_some(std::span<const SocketAddress> addresses, std::size_t most);
  [[nodiscard]] const std::vector<SocketAddress>& endpoints() const { return endpoints_; }

  /// Appends what is to be polled; remember where it begins and call serve with the same vector.
  void add_poll(std::vector<pollfd>& entries) const;
  /// When serve must be called although nothing is ready, in milliseconds; -1 for never.
  [[nodiscard]] int timeout_ms() const;

  /// Why nobody can be accepted any more: descriptors are exhausted, for a while already, and not
  /// by strangers.
  [[nodiscard]] std::optional<Error> exhausted() const {
    return exhausted_until_.passed() ? exhausted_ : std::nullopt;
  }

  /// Accepts and reads. `arrived` is called with each connection and its first message.
  void serve(std::span<const pollfd> entries, std::size_t first,
             const std::function<void(Wire, const Message&)>& arrived);

 private:
  struct Listener {
    UniqueFd fd;
    std::unique_ptr<ClosedInChildren> not_in_children;
  };
  struct Pending {
    Wire wire;
    Deadline deadline;
    bool done = false;
    bool warned = false;  ///< Was here already when descriptors were exhausted.
  };
  void accept_from(int listener);
  void drop(Pending& pending, std::string_view why);

  MessageKey key_;
  Logger& log_;
  std::string purpose_;
  std::chrono::nanoseconds first_message_span_;
  bool warned_ = false;  ///< Of exhausted descriptors.
  std::optional<Error> exhausted_;
  Deadline exhausted_until_ = Deadline::never();  ///< When waiting for descriptors has no sense.
  std::size_t most_pending_ = 2048;
  std::vector<Listener> listeners_;
  std::vector<SocketAddress> endpoints_;
  std::vector<Pending> pending_;
  Deadline paused_until_ = Deadline::never();  ///< Set while descriptors are exhausted.
};

}  // namespace weft
