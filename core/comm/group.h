// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of one thread that start together: joins of several ranks, and operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/start.h"

namespace weft {

class Communicator;

/// Used by its own thread alone.
class Group {
 public:
  [[nodiscard]] bool is_open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// Closes one level; the outermost one runs everything: joins first (side by side, a thread
  /// each), then operations, all of a stream's launches together.
  Status end();

  /// A join that waits for the end: `join` makes the communicator, `deliver` hands it over if all
  /// joins of the group succeeded.
  void add_join(std::function<Result<std::unique_ptr<Communicator>>()> join,
                std::function<void(std::unique_ptr<Communicator>)> deliver);
  void add_call(const Call& call) { calls_.push_back(call); }
  /// An error found when a call was noted: the end answers it and starts nothing.
  void note_error(const Error& error);

 private:
  struct Join {
    std::function<Result<std::unique_ptr<Communicator>>()> join;
    std::function<void(std::unique_ptr<Communicator>)> deliver;
  };
  static Status run_joins(std::vector<Join> joins);
  Status run_calls(const std::vector<Call>& calls);

  std::uint32_t depth_ = 0;
  std::vector<Join> joins_;
  std::vector<Call> calls_;
  std::unique_ptr<Error> error_;
};

/// The groups of a context, one a thread.
class Groups {
 public:
  /// Whether any thread has an open group: one relaxed load for the calls that have none.
  [[nodiscard]] bool any_open() const { return open_.load(std::memory_order_relaxed) != 0; }
  Group& of_this_thread();
  void opened() { open_.fetch_add(1, std::memory_order_relaxed); }
  void closed() { open_.fetch_sub(1, std::memory_order_relaxed); }
  /// Forgets the group of this thread, when it is closed.
  void forget_this_thread();

 private:
  std::atomic<std::uint32_t> open_{0};
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Group>> groups_;  // guarded by mutex_
};

}  // namespace weft
