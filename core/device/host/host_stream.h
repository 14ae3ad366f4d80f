// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A stream of the host device: a queue of pieces of work, run in order by the thread that
// synchronizes or by the stream's own worker, whoever claims a piece first.
//
// Handing work to a sleeping thread costs microseconds, and a caller who synchronizes anyway can do
// it at once. So where a stream's last pieces were all claimed by synchronize(), launch() wakes
// nobody: the piece is deferred. Two things keep a deferred piece from waiting for ever: the worker
// looks every half millisecond, and a thread that is about to block in one stream wakes the workers
// of all streams that hold one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/wait.h"
#include "core/device/host/element_loops.h"
#include "core/device/host/worker_pool.h"
#include "core/model/work_item.h"

namespace weft::device {

class HostStream;

/// What the streams of one device share. Outlives them.
struct HostShared {
  HostShared(const ElementLoops& chosen_loops, std::uint32_t most_threads)
      : loops(chosen_loops), budget(most_threads), pool(budget, asleep) {}

  /// Wakes the workers of all streams that hold a deferred piece. One relaxed load where none does.
  void wake_deferred();

  const ElementLoops& loops;
  ThreadBudget budget;
  std::atomic<std::uint32_t> asleep{0};
  std::atomic<std::uint32_t> deferred_streams{0};
  std::atomic<std::uint64_t> pieces_by_caller{0};
  std::atomic<std::uint64_t> pieces_by_worker{0};
  std::atomic<std::uint64_t> pieces_deferred{0};
  std::atomic<std::uint64_t> pieces_woken{0};
  std::atomic<std::uint64_t> handed_over{0};
  std::mutex streams_mutex;  ///< Taken before any stream's own.
  std::vector<HostStream*> streams;
  WorkerPool pool;
};

// What other threads write lies on lines of its own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class HostStream {
 public:
  explicit HostStream(HostShared& shared);
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  /// Waits for what is queued.
  ~HostStream();

  /// As in DeviceRuntime.
  weft_result launch(std::span<const Launch> launches);
  weft_result synchronize();
  weft_result query();

  /// Hands a deferred piece to the worker at once. Any thread.
  void wake_if_deferred();

 private:
  struct LaunchState;
  struct Piece;

  weft_result prepare(std::uint32_t items);
  bool fill(Piece& piece, std::span<const Launch> launches, std::uint32_t items);
  Piece& claim();
  void undefer();
  void run(Piece& piece);
  void run_item(Piece& piece, std::uint32_t index, Waiter& waiter);
  void end_launch(LaunchState& state);
  void complete(Piece& piece);
  void ring();
  void work();
  [[nodiscard]] bool callers_claim() const;

  HostShared& shared_;

  std::mutex mutex_;
  std::unique_ptr<Piece> free_;
  std::unique_ptr<Piece> head_;  ///< The next to run, or the one that runs.
  Piece* last_ = nullptr;
  bool running_ = false;   ///< head_ is claimed.
  bool deferred_ = false;  ///< The worker leaves the queue to synchronize() for now.
  bool resting_ = false;   ///< The worker sleeps without limit.
  bool stopping_ = false;
  std::uint32_t caller_streak_ = 0;  ///< Pieces in a row that synchronize() claimed.
  std::uint32_t reserved_ = 0;       ///< Workers promised until the queue is empty.
  std::uint64_t launched_ = 0;
  weft_result error_ = WEFT_OK;

  Waiter run_waiter_;   ///< Of whoever runs a piece.
  Waiter sync_waiter_;  ///< Of whoever waits for the worker.
  std::thread worker_;

  alignas(128) std::uint64_t completed_ = 0;  ///< Number of the last piece that ended.
  std::uint32_t completed_waiters_ = 0;
  std::uint32_t doorbell_waiters_ = 0;
  std::uint64_t doorbell_ = 0;  ///< Raised, under mutex_, to make the worker look.
};

}  // namespace weft::device
