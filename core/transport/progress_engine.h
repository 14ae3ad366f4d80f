// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The thread that moves messages when no kernel's worker is there to do it. It sleeps on
// descriptors: without work on its own wake-up alone, on duty on those of its ports as well.
#pragma once

#include <memory>

#include "core/base/error.h"
#include "core/base/log.h"

namespace weft {

class NetPort;

/// One per device and context, shared by its communicators.
///
/// Duty: a port is on duty from take_over until it has nothing under way. Workers that wait drive
/// their port themselves (NetPort::try_progress); they call take_over when that has brought nothing
/// for long and they are about to sleep, or when they leave with sends still under way.
///
/// Ports that keep messages (NetPort::keep) are looked after: the engine sleeps no longer than they
/// may, and moves them then. A rank that goes on calling sends them itself before that.
///
/// Threads: every member from any thread.
class ProgressEngine {
 public:
  static Result<std::unique_ptr<ProgressEngine>> create(Logger& logger);
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  /// Makes a port known; it must be removed before it is destroyed.
  Status add(NetPort& port);
  /// When it returns, the engine does not touch the port any more.
  void remove(NetPort& port);

  /// Puts a port on duty. Cheap when it already is.
  void take_over(NetPort& port);
  /// Moves the port's messages when it need not keep them any longer. Cheap when it is going to.
  void look_in(NetPort& port);

  /// Ports on duty at this moment, for tests and status.
  [[nodiscard]] std::size_t ports_on_duty() const;

 private:
  ProgressEngine();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
