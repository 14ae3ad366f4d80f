// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A connection to another rank of the communicator, made by this one: tries that one's addresses
// until it answers a hello, which shows both that the other knows the communicator's secret.
#pragma once

#include <optional>
#include <poll.h>
#include <utility>
#include <vector>

#include "core/bootstrap/connector.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/wire.h"

namespace weft {

/// Driven by poll, used by one thread.
class Caller {
 public:
  /// There is at least one address.
  Caller(std::vector<SocketAddress> addresses, const MessageKey& key, const RingHelloMessage& hello)
      : connector_(std::move(addresses)), key_(key), hello_(hello) {}

  /// Appends the one entry to be polled; the next attempt begins here.
  void add_poll(std::vector<pollfd>& entries);
  /// When serve must be called although nothing is ready, in milliseconds; -1 for never.
  [[nodiscard]] int timeout_ms() const { return wire_ ? -1 : connector_.timeout_ms(); }
  /// Until it has answered; what comes after that is for wire().
  void serve(const pollfd& entry);
  /// Gives up the connection and begins anew.
  void reset();

  [[nodiscard]] bool answered() const { return answered_; }
  /// Of one that has answered.
  [[nodiscard]] Wire& wire() { return *wire_; }
  [[nodiscard]] const Connector& connector() const { return connector_; }

 private:
  Connector connector_;
  MessageKey key_;
  RingHelloMessage hello_;
  std::optional<Wire> wire_;
  bool answered_ = false;
};

}  // namespace weft
