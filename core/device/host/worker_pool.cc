// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Hand-over goes through one counter each way, which lies in the worker and not in the job.
#include "core/device/host/worker_pool.h"

#include <chrono>
#include <new>
#include <utility>

#include "core/base/thread_name.h"

namespace weft::device {

/// Lives as long as the pool: a worker may still be about to wake its waiter when the job's own
/// memory is gone.
struct alignas(128) WorkerPool::Worker {
  std::uint64_t assigned = 0;  ///< Jobs given; written by who gives them.
  std::uint64_t finished = 0;  ///< Jobs done; written by the worker.
  std::uint32_t assigned_waiters = 0;
  std::uint32_t finished_waiters = 0;
  std::uint64_t given = 0;  ///< Private copy of `assigned`, for who holds the worker.
  Job job = nullptr;        ///< Null: end.
  void* context = nullptr;
  std::uint32_t index = 0;
  Waiter waiter;
  Worker* next = nullptr;
  std::thread thread;
};

WorkerPool::WorkerPool(ThreadBudget& budget, std::atomic<std::uint32_t>& asleep)
    : budget_(budget), asleep_(asleep) {}

WorkerPool::~WorkerPool() {
  for (const auto& worker : workers_) {
    worker->job = nullptr;
    post(&worker->assigned, &worker->assigned_waiters, ++worker->given);
    worker->thread.join();
    budget_.ended();
  }
}

bool WorkerPool::reserve(std::uint32_t count) {
  const std::scoped_lock lock(mutex_);
  try {
    while (workers_.size() < reserved_ + count) {
      workers_.reserve(workers_.size() + 1);
      auto worker = std::make_unique<Worker>();
      Worker* raw = worker.get();
      if (!budget_.start(raw->thread, [this, raw] {
            name_this_thread("weft-worker");
            work(*raw);
          }))
        return false;
      raw->next = idle_;
      idle_ = raw;
      workers_.push_back(std::move(worker));
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  reserved_ += count;
  return true;
}

void WorkerPool::unreserve(std::uint32_t count) {
  const std::scoped_lock lock(mutex_);
  reserved_ -= count;
}

void WorkerPool::run(std::uint32_t count, Job job, void* context, Waiter& waiter) {
  Worker* taken = nullptr;
  if (count > 1) {
    const std::scoped_lock lock(mutex_);
    for (std::uint32_t i = 1; i < count; ++i) {
      Worker* worker = idle_;
      idle_ = worker->next;
      worker->next = taken;
      taken = worker;
    }
  }
  std::uint32_t index = 1;
  for (Worker* worker = taken; worker != nullptr; worker = worker->next) {
    worker->job = job;
    worker->context = context;
    worker->index = index++;
    post(&worker->assigned, &worker->assigned_waiters, ++worker->given);
  }
  job(context, 0, waiter);
  if (taken == nullptr) return;
  Worker* last = taken;
  for (Worker* worker = taken; worker != nullptr; worker = worker->next) {
    waiter.wait(
        &worker->finished, &worker->finished_waiters, worker->given, [] { return false; },
        [](bool) { return false; });
    last = worker;
  }
  const std::scoped_lock lock(mutex_);
  last->next = idle_;
  idle_ = taken;
}

void WorkerPool::work(Worker& worker) {
  for (std::uint64_t turn = 1;; ++turn) {
    while (load_counter(&worker.assigned) < turn) {
      asleep_.fetch_add(1, std::memory_order_relaxed);
      sleep_on(&worker.assigned, &worker.assigned_waiters, turn, std::chrono::nanoseconds(-1));
      asleep_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (worker.job == nullptr) return;
    worker.job(worker.context, worker.index, worker.waiter);
    post(&worker.finished, &worker.finished_waiters, turn);
  }
}

}  // namespace weft::device
