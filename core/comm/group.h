// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of one thread that start together: what blocks until other ranks do it as well, joins of
// ranks and registered windows, and operations.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
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
  /// Closes one level; the outermost one runs everything: what blocks first (side by side, a thread
  /// for each communicator), then operations, all of a stream's launches together.
  /// WEFT_IN_PROGRESS where the operations go on in the background: see begin_calls.
  Result<weft_result> end();

  /// What blocks, until the end: `run` does it, `deliver` hands over what it made if all of the
  /// group succeeded. Else, and where something could not be handed over, `undo` takes back what
  /// succeeded; it must neither throw nor wait for other ranks, whose groups may have succeeded.
  /// What is of one communicator runs in the order of the calls; `of` is null for one that is yet
  /// to be.
  void add_blocking(const Communicator* of, std::function<Status()> run,
                    std::function<void()> deliver, std::function<void()> undo);
  void add_call(Call call) { calls_.push_back(std::move(call)); }
  /// An error found when a call was noted: the end answers it and starts nothing.
  void note_error(const Error& error);
  /// The same of one that could not be noted for lack of memory. Takes none.
  void note_lack_of_memory() { lacked_memory_ = true; }
  /// Whether anything was noted of a communicator; null for one that has not been joined.
  [[nodiscard]] bool holds(const Communicator* communicator) const;
  /// Forgets what was noted of a communicator that goes; where there was anything, that is an
  /// error. Null for one that has not been joined.
  void leave_out(const Communicator* communicator);

 private:
  struct Blocking {
    const Communicator* of = nullptr;
    std::function<Status()> run;
    std::function<void()> deliver;
    std::function<void()> undo;
  };
  static Status run_blocking(const std::vector<Blocking>& calls);
  Status run_calls(const std::vector<Call>& calls);

  std::uint32_t depth_ = 0;
  std::vector<Blocking> blocking_;
  std::vector<Call> calls_;
  std::vector<Call> started_;  // with their memory, which the next group takes
  CallCutter cutter_;
  std::unique_ptr<Error> error_;
  bool lacked_memory_ = false;
};

/// The groups of a context, one a thread. A thread that has one finds it without a lock.
class Groups {
 public:
  /// That of this thread, if it is open; else null. One relaxed load where no thread has one.
  [[nodiscard]] Group* open_one() {
    if (open_.load(std::memory_order_relaxed) == 0) [[likely]]
      return nullptr;
    return find_open();
  }
  /// Opens one more level of this thread's.
  Group& start();
  /// Forgets the group of this thread, which has been closed.
  void closed();

 private:
  // A thread's own for as long as it is named; the group stays for the next one, with its memory.
  struct Place {
    std::atomic<std::thread::id> thread{};
    Group group;
  };
  Group* find_open();
  Place* place_of(std::thread::id thread);

  std::atomic<std::uint32_t> open_{0};
  std::array<Place, 16> places_;
  std::mutex mutex_;
  // Guarded by mutex_: of the threads that found no place.
  std::map<std::thread::id, std::unique_ptr<Group>> others_;
};

}  // namespace weft
