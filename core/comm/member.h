// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a handle of the API stands for: a rank that has joined its communicator, or one that joins,
// or ends, in the background.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/bootstrap/unique_id.h"
#include "core/comm/communicator.h"

namespace weft {

/// Ownership: owns the communicator from its first moment on, so that it can be aborted while it
/// joins, and at most one thread, which works for it in the background: it joins, later it starts
/// calls that need connections first, and waits for the end of the work. While that thread runs it
/// alone uses the communicator, but for what any thread may call: abort, rank and ranks. `state_`
/// is what passes it on: whoever reads kReady sees a communicator that has joined, whoever reads
/// kNotJoined or kEnded sees `error_`.
///
/// Threads: abort, query, rank and ranks by any thread at any time; all else by one at a time.
class Member {
 public:
  /// Of a communicator that has joined.
  explicit Member(std::unique_ptr<Communicator> joined);
  /// Joins in the background; `before`, if any, is called there first, with a descriptor that
  /// becomes readable when the join is given up.
  static Result<std::unique_ptr<Member>> start(std::unique_ptr<Communicator> joining, UniqueId id,
                                               std::function<Status(int cancel_fd)> before);
  /// Waits for the work, unless the communicator has failed; gives up a join that has not ended,
  /// and a comparison with the last calls of others.
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  [[nodiscard]] std::uint32_t rank() const { return communicator_->rank(); }
  [[nodiscard]] std::uint32_t ranks() const { return communicator_->ranks(); }

  /// For calls: INVALID_USAGE while it joins, while an earlier call goes on in the background, and
  /// once it was finalized; why not if it could not join.
  Result<Communicator*> for_calls() {
    if (state_.load(std::memory_order_acquire) == State::kReady) [[likely]] {
      return communicator_.get();
    }
    return why_unusable();
  }
  /// Where calls of this rank go on that would block; null where they block.
  [[nodiscard]] Member* background() { return cancel_ ? this : nullptr; }
  /// Keeps a rank that is ready from calls until release(); after that and before `done` who holds
  /// it lets go of it.
  void hold(std::shared_future<void> done);
  void release() { state_.store(State::kReady, std::memory_order_release); }
  /// Of a rank with a background that is held: lets a thread do `work`, which starts calls and
  /// releases whoever is held for them; it must not throw. Nor does this.
  Status start_calls(std::function<void()> work) { return start_thread(std::move(work)); }
  /// Whether it has finalized, and does no more so in the background.
  [[nodiscard]] bool has_ended() const {
    return state_.load(std::memory_order_acquire) == State::kEnded;
  }
  /// Once it has joined, for what is not a call; else null.
  [[nodiscard]] Communicator* joined() const;
  /// IN_PROGRESS while it joins, starts calls or ends, then OK or the failure. Never blocks.
  Result<weft_result> query();
  /// Waits for the work. One that joined in the background does so there, and answers IN_PROGRESS;
  /// asked again it says how far that is.
  Result<weft_result> finalize();
  void abort();

 private:
  enum class State : std::uint8_t { kJoining, kNotJoined, kReady, kStarting, kEnding, kEnded };

  Member(std::unique_ptr<Communicator> joining, UniqueFd cancel);
  Result<Communicator*> why_unusable() const;
  Status finish_all(bool may_work);
  /// The state is `now` until `work` has ended; where that cannot begin it stays what it is.
  Status start_phase(std::function<Status()> work, State now, State after, State failed);
  /// Throws nothing.
  Status start_thread(std::function<void()> work);

  const UniqueFd cancel_;  // none where nothing is done in the background; outlives communicator_
  const std::unique_ptr<Communicator> communicator_;
  std::atomic<State> state_;
  std::optional<Error> error_;  // written before state_
  std::thread worker_;
  std::shared_future<void> held_;  // by calls that go on in the background
};

}  // namespace weft
