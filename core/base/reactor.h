// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One thread that sleeps in epoll until a watched descriptor is ready, then calls its watcher.
// A context owns one; it carries failure detection and what plugins watch, never payload.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/error.h"

namespace weft {

/// Threads: every member may be called from any thread, callbacks included. Callbacks run on the
/// reactor's thread, one at a time, and must not block.
class Reactor {
 public:
  using WatchId = std::uint64_t;
  /// `events` are EPOLL* bits.
  using Callback = std::function<void(std::uint32_t events)>;

  static Result<std::unique_ptr<Reactor>> create();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Watches `fd` (level-triggered; the caller keeps it open until remove returns).
  Result<WatchId> add(int fd, std::uint32_t events, Callback callback);

  /// Stops watching. When it returns, the callback is not running and will not run again, unless
  /// the call comes from that callback itself. Unknown ids are ignored.
  void remove(WatchId id);

  /// True on the reactor's own thread.
  [[nodiscard]] bool on_reactor_thread() const;

 private:
  Reactor();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
