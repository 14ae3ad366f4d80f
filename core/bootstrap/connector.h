// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connects to whichever of a few addresses answers, and does not give up: the other end may not
// listen yet. Driven by poll, used by one thread.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <poll.h>
#include <utility>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/fd.h"
#include "core/bootstrap/socket_address.h"

namespace weft {

class Connector {
 public:
  /// Tries `addresses`, of which there is at least one, in turn.
  explicit Connector(std::vector<SocketAddress> addresses) : addresses_(std::move(addresses)) {}

  /// Appends the one entry to be polled; the next attempt begins here.
  void add_poll(std::vector<pollfd>& entries);
  /// When serve must be called although nothing is ready, in milliseconds; -1 for never.
  [[nodiscard]] int timeout_ms() const {
    return fd_ ? attempt_.poll_timeout_ms() : pause_.poll_timeout_ms();
  }
  /// The connected socket, when there is one.
  std::optional<UniqueFd> serve(const pollfd& entry);
  /// The connection that serve gave out was closed before its peer spoke: begins anew.
  void reset();

  /// The errno of the last attempt that failed, 0 when none did.
  [[nodiscard]] int last_errno() const { return last_errno_; }
  /// True when attempts fail for want of descriptors, which waiting does not cure.
  [[nodiscard]] bool out_of_descriptors() const {
    return last_errno_ == EMFILE || last_errno_ == ENFILE;
  }
  /// True once every address was refused in turn: nobody listens at any of them. One without a
  /// route from here does not count; one that does not answer leaves it open.
  [[nodiscard]] bool nobody_listens() const { return nobody_listens_; }
  [[nodiscard]] const std::vector<SocketAddress>& addresses() const { return addresses_; }

 private:
  void begin();
  void give_up_attempt();

  std::vector<SocketAddress> addresses_;
  std::size_t index_ = 0;
  UniqueFd fd_;
  int last_errno_ = 0;
  bool refused_ = false;  // by an address, since the first of them was tried
  bool in_doubt_ = false;
  bool nobody_listens_ = false;
  Deadline attempt_ = Deadline::never();
  Deadline pause_ = Deadline::after(std::chrono::nanoseconds(0));
};

}  // namespace weft
