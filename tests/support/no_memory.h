// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A thread that is out of memory. Whoever uses it links no_memory.cc, whose operator new all of the
// program has then; not under sanitizers, which have their own (kSanitized): who would use it there
// is skipped.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/base/fd.h"
#include "core/base/reactor.h"

namespace weft::test {

/// While it lives operator new throws in this thread, once it has given `more`.
class NoMemory {
 public:
  explicit NoMemory(std::uint64_t more = 0);
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory();
  /// What was not given to any thread so far.
  [[nodiscard]] static std::uint64_t refusals();
};

/// While it lives operator new throws in all threads but this one.
class NoMemoryElsewhere {
 public:
  NoMemoryElsewhere();
  NoMemoryElsewhere(const NoMemoryElsewhere&) = delete;
  NoMemoryElsewhere& operator=(const NoMemoryElsewhere&) = delete;
  ~NoMemoryElsewhere();
  /// Until another thread has wanted some and got none.
  void await_refusal() const;

 private:
  const std::uint64_t refused_before_ = NoMemory::refusals();
};

/// The thread of a reactor that is out of memory as long as this lives.
class ReactorWithoutMemory {
 public:
  explicit ReactorWithoutMemory(Reactor& reactor);
  ReactorWithoutMemory(const ReactorWithoutMemory&) = delete;
  ReactorWithoutMemory& operator=(const ReactorWithoutMemory&) = delete;
  ~ReactorWithoutMemory();
  /// Until the thread, or another, has wanted some and got none.
  void await_refusal() const;

 private:
  void await_turn(bool is_out);

  Reactor& reactor_;
  UniqueFd turn_;
  Reactor::WatchId watch_ = 0;
  std::optional<NoMemory> none_;  // the reactor's thread alone
  std::atomic<bool> is_out_{false};
  std::uint64_t refused_before_ = 0;
};

}  // namespace weft::test
