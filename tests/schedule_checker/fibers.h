// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Many kernels in one thread: each is a fiber, which runs until it has to wait. Who goes on next is
// the caller's choice and the same each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace weft::checker {

/// Stacks, kept from one execution to the next.
class Stacks {
 public:
  Stacks();
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  [[nodiscard]] static std::size_t size();
  /// The lowest byte of stack `index`; below lies a page that ends who overruns it.
  [[nodiscard]] std::byte* at(std::size_t index);

 private:
  std::vector<std::byte*> maps_;
};

/// Who goes on first of those that can.
enum class Turns : std::uint8_t {
  kInOrder,         ///< Whoever could go on first.
  kShuffled,        ///< Anyone, by a seed; others also get their turn where nobody had to wait.
  kLateReceivers,   ///< Senders as long as they can, the one that could last; then receivers.
  kEarlyReceivers,  ///< The reverse.
};

/// What a fiber waits for.
struct Wait {
  std::size_t fiber = 0;
  const std::uint64_t* counter = nullptr;  ///< Null: it looks at several, none of which moved.
  std::uint64_t threshold = 0;
};

class Fibers {
 public:
  /// `stacks` outlives this.
  Fibers(Stacks& stacks, Turns turns, std::uint64_t seed);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Before run().
  void add(std::function<void()> body);
  /// Until all have ended. Where none can go on, `stuck` is told who waits for what, and all waits
  /// end as if stop() had been called.
  void run(const std::function<void(const std::vector<Wait>&)>& stuck);

  // Called by fibers.

  /// False: stopped.
  [[nodiscard]] bool wait(const std::uint64_t* counter, std::uint64_t threshold);
  /// Another look at what it found unchanged. False: stopped.
  [[nodiscard]] bool look_again();
  /// The counter was raised. `filled`: who waits for it is a receiver.
  void raised(const std::uint64_t* counter, bool filled);
  /// Something changed that is looked at, not waited for.
  void changed() { ++changes_; }
  /// Others may get their turn here.
  void perhaps_yield();
  /// All waits end from now on.
  void stop();
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Whether it lies on the stack of the fiber that runs: what a lane has for itself.
  [[nodiscard]] bool is_own(const std::byte* at) const;

 private:
  struct Fiber;
  static void enter(unsigned high, unsigned low);
  void switch_to(Fiber* next);
  void pause();
  Fiber* next();
  void make_ready(std::size_t fiber, bool late);
  [[nodiscard]] bool wake_looking();
  void wake_all();

  Stacks& stacks_;
  Turns turns_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unique_ptr<Fiber> main_;
  Fiber* current_ = nullptr;
  std::deque<std::size_t> ready_;
  std::deque<std::size_t> late_;  // only when no other is ready
  std::unordered_map<const std::uint64_t*, std::vector<std::size_t>> waiting_;
  std::vector<std::size_t> looking_;
  std::uint64_t changes_ = 1;
  std::size_t left_ = 0;
  bool stopped_ = false;
};

}  // namespace weft::checker
