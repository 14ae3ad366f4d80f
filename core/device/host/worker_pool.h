// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Threads that run the items of a piece of work side by side. The pool makes as many as may be
// busy at once and keeps them; idle ones sleep without limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/wait.h"

namespace weft::device {

/// Counts the device's threads against a limit.
class ThreadBudget {
 public:
  /// 0: no limit but the system's.
  explicit ThreadBudget(std::uint32_t most) : most_(most) {}

  /// Starts a thread; false when the limit or the system's is reached. The caller joins it and
  /// calls ended().
  template <class Function>
  bool start(std::thread& thread, Function function);
  void ended() { running_.fetch_sub(1, std::memory_order_relaxed); }

  [[nodiscard]] std::uint32_t running() const { return running_.load(std::memory_order_relaxed); }

 private:
  const std::uint32_t most_;
  std::atomic<std::uint32_t> running_{0};
};

class WorkerPool {
 public:
  /// What a worker does: item `index` of a job, waiting with the worker's own Waiter.
  using Job = void (*)(void* context, std::uint32_t index, Waiter& waiter);

  /// `asleep` counts sleeping workers, for statistics. Both outlive the pool.
  WorkerPool(ThreadBudget& budget, std::atomic<std::uint32_t>& asleep);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  /// No job may be running.
  ~WorkerPool();

  /// Promises `count` more workers at once; makes threads as needed. False, and nothing promised,
  /// when no thread can be made. Any thread.
  [[nodiscard]] bool reserve(std::uint32_t count);
  /// Gives a promise back; the threads stay.
  void unreserve(std::uint32_t count);

  /// Runs job(context, 0) on the calling thread and 1 to count - 1 on reserved workers, all at
  /// once; returns when all have ended. Any thread.
  void run(std::uint32_t count, Job job, void* context, Waiter& waiter);

 private:
  struct Worker;
  void work(Worker& worker);

  ThreadBudget& budget_;
  std::atomic<std::uint32_t>& asleep_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Worker* idle_ = nullptr;  ///< The last that ended comes first: its caches are warm.
  std::uint32_t reserved_ = 0;
};

template <class Function>
bool ThreadBudget::start(std::thread& thread, Function function) {
  const std::uint32_t before = running_.fetch_add(1, std::memory_order_relaxed);
  if (most_ != 0 && before >= most_) {
    ended();
    return false;
  }
  try {
    thread = std::thread(function);
    return true;
  } catch (const std::exception&) {  // no thread, or no memory for one
    ended();
    return false;
  }
}

}  // namespace weft::device
