// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Many kernels in one thread: each is a fiber, which runs until it has to wait. Who goes on next is
// the caller's choice and the same each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

namespace weft::checker {

/// Fibers and their stacks, kept from one execution to the next: to begin one takes longer than
/// many a kernel runs.
class Stacks {
 public:
  Stacks();
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

 private:
  friend class Fibers;
  struct Fiber;
  [[nodiscard]] static std::size_t size();
  [[nodiscard]] Fiber& at(std::size_t index);

  std::vector<std::unique_ptr<Fiber>> fibers_;
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

/// Fibers that wait for one counter. It lies beside the counter, so that who raises it need not
/// look for them.
class Waiters {
  friend class Fibers;
  std::uint32_t first_ = 0;  // the fiber's number + 1
};

/// Numbers that follow from a seed, at a few instructions each (SplitMix64).
class Random {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = (state_ ^ state_ >> 30) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBU;
    return mixed ^ mixed >> 31;
  }
  /// Below `count`.
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(((*this)() >> 32) * count >> 32);
  }

 private:
  std::uint64_t state_;
};

class Fibers {
 public:
  /// `stacks` outlives this, and serves no others meanwhile.
  Fibers(Stacks& stacks, Turns turns, std::uint64_t seed);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Once: `body(fiber)` for each of `count`, until all have ended. Where none can go on, `stuck`
  /// is told who waits for what, and all waits end as if stop() had been called.
  void run(std::size_t count, const std::function<void(std::size_t)>& body,
           const std::function<void(const std::vector<Wait>&)>& stuck);

  // Called by fibers.

  /// False: stopped. `waiters` are those of the counter.
  [[nodiscard]] bool wait(const std::uint64_t* counter, std::uint64_t threshold, Waiters& waiters);
  [[nodiscard]] bool wait(const std::uint64_t* counter, std::uint64_t threshold) {
    return wait(counter, threshold, waiters_[counter]);
  }
  /// Another look at what it found unchanged `where` it looks. False: stopped.
  [[nodiscard]] bool look_again(std::uint32_t where);
  /// The counter was raised. `filled`: who waits for it is a receiver.
  void raised(const std::uint64_t* counter, bool filled, Waiters& waiters);
  void raised(const std::uint64_t* counter, bool filled) {
    raised(counter, filled, waiters_[counter]);
  }
  /// Something changed there that is looked at, not waited for.
  void changed(std::uint32_t where);
  /// Others may get their turn here.
  void perhaps_yield() {
    if (turns_ == Turns::kShuffled) yield_sometimes();
  }
  /// All waits end from now on.
  void stop();
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// The number of the fiber that runs.
  [[nodiscard]] std::uint32_t current() const;
  /// Whether it lies on the stack of the fiber that runs: what a lane has for itself.
  [[nodiscard]] bool is_own(const std::byte* at) const;

 private:
  friend class Stacks;
  using Fiber = Stacks::Fiber;
  /// Fibers in turn, each at most once.
  class Queue {
   public:
    void reserve(std::size_t count);
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::uint32_t size() const { return size_; }
    void push(std::uint32_t fiber) { at(size_++) = fiber; }
    std::uint32_t pop_front();
    std::uint32_t pop_back() { return at(--size_); }
    [[nodiscard]] std::uint32_t& at(std::uint32_t place) { return ring_[(first_ + place) & mask_]; }

   private:
    std::vector<std::uint32_t> ring_;
    std::uint32_t mask_ = 0;
    std::uint32_t first_ = 0;
    std::uint32_t size_ = 0;
  };
  /// What is looked at together.
  struct Outlook {
    std::uint64_t changes = 1;
    std::uint32_t looking = 0;  // as Waiters::first_
    bool overlooked = false;    // one of `overlooked_`
  };

  void switch_to(Fiber* next);
  void pause();
  Fiber* next();
  void make_ready(std::uint32_t fiber, bool late);
  void yield_sometimes();
  [[nodiscard]] Outlook& outlook(std::uint32_t where);
  void wake_looking(Outlook& there, Queue& queue);
  void wake_all();
  /// To the end of those that `first` begins.
  void append(std::uint32_t& first, Fiber& fiber);
  [[nodiscard]] Fiber& fiber(std::uint32_t number) { return *fibers_[number]; }

  Stacks& stacks_;
  const Turns turns_;
  Random random_;
  std::vector<Fiber*> fibers_;
  std::unique_ptr<Fiber> main_;
  Fiber* current_ = nullptr;
  const std::function<void(std::size_t)>* body_ = nullptr;
  Queue ready_;
  Queue late_;     // only when no other is ready
  Queue stirred_;  // that looked, and have something new to look at: only when none is late
  std::vector<std::uint32_t> overlooked_;  // where something changed, and who looks was not woken
  std::unordered_map<const std::uint64_t*, Waiters> waiters_;
  std::vector<Outlook> outlooks_;
  std::size_t left_ = 0;
  bool stopped_ = false;
  bool all_woken_ = false;
};

}  // namespace weft::checker
