// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Why a communicator is unusable: the first cause, found once, told to everyone who asks. Shared by
// the communicator and the streams that carry its work, so that a stream can still tell the cause
// after the communicator is gone.
//
// Model: tests/models/abort.pml
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "core/base/error.h"

namespace weft {

/// Of an error of connecting: a rank that fails closes its ends, and those who were connecting to
/// it see only that, before or after the news of its failure comes.
[[nodiscard]] inline bool may_be_a_consequence(const Error& error) {
  return error.source() == ErrorSource::kPeer || error.code() == WEFT_ERROR_PEER ||
         error.code() == WEFT_ERROR_NETWORK || error.code() == WEFT_ERROR_ABORTED;
}

/// Evidence comes in two strengths. A broken data path is a *suspicion*: the peer may be dead, or
/// it may only have left because a third rank died. What the bootstrap's watch or the user says is
/// *established*. A suspicion stops the work at once, and becomes the cause when nothing better is
/// known after kPatience: so ranks that lose a connection to a rank that gave up still name the
/// rank that died.
///
/// Threads: all members from any thread. The hook runs on the thread that established the cause,
/// without the lock. Where it throws, as without memory, that thread gets it, and the next one that
/// asks runs the hook again, which an alarm does before long; else it runs once.
class Failure {
 public:
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// Until a hook that threw is tried again.
  static constexpr std::chrono::milliseconds kUntilMemory{100};

  /// Called once with the cause and whether other ranks still have to be told.
  using Hook = std::function<void(const Error& cause, bool tell_others)>;

  /// Raised as soon as work must stop; kernels poll it.
  [[nodiscard]] const std::atomic<std::uint32_t>& abort_flag() const { return abort_; }
  [[nodiscard]] bool stopped() const { return abort_.load(std::memory_order_acquire) != 0; }

  /// A second word that is raised with the flag, in memory that kernels of a device reach; null for
  /// none any more.
  void set_mirror(std::atomic<std::uint32_t>* mirror);

  /// Raised at once; counts as the cause after kPatience if no better one is established, when
  /// somebody asks. What is waited for may be another communicator's work: an alarm has it asked.
  void suspect(Error evidence);
  /// The first cause stays; later ones are dropped.
  void establish(Error cause, bool tell_others);
  /// The same where nothing may be thrown: a hook that lacks memory runs later.
  void note(Error cause, bool tell_others) noexcept;

  /// Never blocks: OK while all is well, and while a suspicion is younger than kPatience
  /// WEFT_ERROR_PEER already.
  [[nodiscard]] weft_result code();
  /// The same with its text, so far as it is known.
  [[nodiscard]] std::optional<Error> known();
  /// The cause, if there is one; waits at most kPatience for a suspicion to be settled, and until a
  /// running hook has ended. Not from the hook.
  [[nodiscard]] std::optional<Error> settle();

  /// Sets who has `known` called once a suspicion has had its time, or a hook that threw is to run
  /// again, and is told in how long; called under a lock: it must neither block nor throw. Null:
  /// nobody any more.
  using Alarm = std::function<void(std::chrono::nanoseconds)>;
  void set_alarm(Alarm alarm);

  /// Sets what is done when the cause is established; called at once if it already is.
  void set_hook(Hook hook);
  /// When it returns, the hook is not running and will not run.
  void clear_hook();

 private:
  using Time = std::chrono::steady_clock::time_point;
  void raise();
  void promote_if_ripe(std::unique_lock<std::mutex>& lock);
  void run_hook(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint32_t> abort_{0};
  std::atomic<std::uint32_t>* mirror_ = nullptr;  // guarded by mutex_
  std::optional<Error> suspicion_;                // guarded by mutex_, as all below
  Time suspected_at_{};
  std::optional<Error> cause_;
  bool tell_others_ = false;
  bool hook_due_ = false;
  bool hook_running_ = false;
  Hook hook_;
  Alarm alarm_;
};

}  // namespace weft
