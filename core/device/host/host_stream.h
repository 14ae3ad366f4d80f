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
//
// A stream waits for another one (order_after) by a *barrier* in its queue: a piece without work
// that names the other stream and the number of that one's last piece. At the head of its queue it
// is passed, by whoever looks, once that piece has ended, well or badly; until then nobody claims
// what stands behind it.
// - The stream's worker sleeps until that piece has ended. It first sees to it that the other
//   stream's worker looks, if the piece was deferred.
// - A thread that synchronizes helps: it goes from barrier to barrier to a stream whose head can be
//   run, runs that head, and begins anew. It holds no claim while it waits or goes on, and a
//   barrier only ever names a piece that was launched before it, so there is no circle.
// - A barrier owns the stream that it names: the object outlives destroy_stream, which ends its
//   worker, until the last barrier is passed.
// - Who ends a piece stores its number under the lock of the stream: numbers only grow, though
//   several threads pass and run pieces, and several wait for them. Who is going to sleep until a
//   piece has ended says so under that lock first (is_awaited_), so that where nobody does the end
//   of a piece is an ordinary store. That is forgotten when the queue is empty: all are woken then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/spin_lock.h"
#include "core/base/wait.h"
#include "core/device/host/element_loops.h"
#include "core/device/host/worker_pool.h"
#include "core/model/work_item.h"

namespace weft::device {

class HostStream;
using HostStreams = std::vector<std::shared_ptr<HostStream>>;

/// How pieces came to their threads. Written by one thread at a time, read by any.
struct PieceCounts {
  std::atomic<std::uint64_t> by_caller{0};
  std::atomic<std::uint64_t> by_worker{0};
  std::atomic<std::uint64_t> deferred{0};
  std::atomic<std::uint64_t> woken{0};
  std::atomic<std::uint64_t> handed_over{0};

  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  void add(const PieceCounts& other) {
    count(by_caller, other.by_caller.load(std::memory_order_relaxed));
    count(by_worker, other.by_worker.load(std::memory_order_relaxed));
    count(deferred, other.deferred.load(std::memory_order_relaxed));
    count(woken, other.woken.load(std::memory_order_relaxed));
    count(handed_over, other.handed_over.load(std::memory_order_relaxed));
  }
};

/// What the streams of one device share. Outlives them.
struct HostShared {
  HostShared(const ElementLoops& chosen_loops, std::uint32_t most_threads)
      : loops(chosen_loops), budget(most_threads), pool(budget, asleep) {}

  /// Wakes the workers of all streams that hold a deferred piece. One relaxed load where none does.
  void wake_deferred() {
    if (deferred_streams.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_all_deferred();
  }
  /// Under streams_mutex.
  void add(std::shared_ptr<HostStream> stream);

  const ElementLoops& loops;
  ThreadBudget budget;
  std::atomic<std::uint32_t> asleep{0};
  /// As far as they are counted: see has_several.
  std::atomic<std::uint32_t> deferred_streams{0};
  /// Whether the device ever had more than one stream: a thread that is about to block in the only
  /// one looks after it anyway, so nobody counts whether it holds a deferred piece. Stored before
  /// add() takes each stream's lock, loaded under that: so each that holds one is counted, by
  /// itself or there.
  std::atomic<bool> has_several{false};
  WorkerPool pool;
  std::mutex streams_mutex;  ///< Taken before any stream's own.
  HostStreams streams;
  PieceCounts of_closed_streams;  ///< Written under streams_mutex.

 private:
  void wake_all_deferred();
};

// What other threads write lies on lines of its own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  explicit HostStream(HostShared& shared);
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  ~HostStream();
  /// Waits for what is queued and ends the worker. Nothing may be launched afterwards.
  void close();

  /// As in DeviceRuntime.
  weft_result reserve(const LaunchRoom& room);
  weft_result launch(std::span<const Launch> launches);
  weft_result synchronize();
  weft_result query();
  /// WEFT_ERROR_OUT_OF_RESOURCES or WEFT_ERROR_OUT_OF_MEMORY: then nothing is queued.
  weft_result order_after(HostStream& earlier, std::uint64_t up_to);
  /// Of the thread that launches, which alone changes it.
  [[nodiscard]] std::uint64_t last_piece() const { return launched_; }
  [[nodiscard]] const PieceCounts& counts() const { return counts_; }

  /// Hands a deferred piece to the worker at once. Any thread.
  void wake_if_deferred();
  /// The same, by a thread that is going to sleep until a piece of this stream has ended.
  void wake_to_await();
  /// Counts it, if it holds a deferred piece that was not counted. Any thread.
  void count_if_deferred();

 private:
  struct LaunchState;
  struct Piece;
  enum class Next : std::uint8_t {
    kNothing,  ///< All has ended.
    kRun,      ///< `piece`, which is claimed.
    kAwait,    ///< Another thread runs piece `number`.
    kHeld,     ///< Piece `number` of `other` comes first.
  };
  /// What a thread that synchronizes can do for a stream.
  struct Step {
    Next next = Next::kNothing;
    Piece* piece = nullptr;
    std::uint64_t number = 0;
    std::shared_ptr<HostStream> other;
    weft_result result = WEFT_OK;  ///< kNothing of a whole stream: the first error since the last.
  };

  Piece* take_piece(Piece*& free);
  void give_back(Piece& piece);
  bool append(Piece& piece);
  bool announce();
  void count_deferred();
  void leave();
  weft_result prepare(std::uint32_t items);
  static bool make_room(Piece& piece, std::uint32_t launches);
  bool fill(Piece& piece, std::span<const Launch> launches, std::uint32_t items);
  Piece& claim();
  void undefer();
  bool pass_barriers();
  void retire();
  void hand_over();
  void wake_waiters();
  void next_step(std::uint64_t up_to, Step& step);
  bool look(std::uint64_t up_to, Step& step);
  [[nodiscard]] bool has_ended(std::uint64_t number) { return load_counter(&completed_) >= number; }
  weft_result help(Step& step);
  void run(Piece& piece);
  void run_item(Piece& piece, std::uint32_t index, Waiter& waiter);
  static void end_launch(LaunchState& state);
  void end(Piece& piece);
  void complete(Piece& piece);
  void complete_and_look(Piece& piece, Step& step);
  void ring();
  void work();
  [[nodiscard]] bool callers_claim() const;

  HostShared& shared_;

  SpinLock mutex_;
  /// `deferred` and `woken` are written by the thread that launches, the others under mutex_.
  PieceCounts counts_;
  std::unique_ptr<Piece> pieces_;  ///< All that were made, each of which owns the one before.
  Piece* free_ = nullptr;
  std::uint32_t free_count_ = 0;     ///< Of that list.
  std::uint32_t most_launches_ = 1;  ///< That each gets room for: the most reserved, or launched.
  Piece* free_barriers_ = nullptr;   ///< Apart: they never got room for work.
  Piece* head_ = nullptr;            ///< The next to run or to pass, or the one that runs.
  Piece* last_ = nullptr;
  bool running_ = false;   ///< head_ is claimed.
  bool deferred_ = false;  ///< The worker leaves the queue to synchronize() for now.
  bool counted_ = false;   ///< In deferred_streams.
  bool resting_ = false;   ///< The worker sleeps without limit.
  bool stopping_ = false;
  std::uint32_t caller_streak_ = 0;  ///< Pieces in a row that synchronize() claimed.
  std::uint32_t reserved_ = 0;       ///< Workers promised until the queue is empty.
  bool is_awaited_ = false;          ///< Somebody may sleep on completed_.
  bool attended_ = false;  ///< A thread that synchronizes is at work for what holds this stream.
  std::uint64_t launched_ = 0;
  weft_result error_ = WEFT_OK;

  Waiter run_waiter_;  ///< Of whoever runs a piece.
  std::thread worker_;

  /// Number of the last piece that ended. Written under mutex_.
  alignas(128) std::uint64_t completed_ = 0;
  std::uint32_t completed_waiters_ = 0;
  std::uint32_t doorbell_waiters_ = 0;
  std::uint64_t doorbell_ = 0;  ///< Raised, under mutex_, to make the worker look.
};

}  // namespace weft::device
