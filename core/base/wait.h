// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Waiting for a 64-bit counter to reach a value: spin, yield, sleep in a futex. For counters that
// other threads or other processes over shared memory raise, and for those who raise them.
//
// A sleeper adds itself to the waiters word and then reads the counter again; a poster stores the
// counter and then reads the waiters word. Both are sequentially consistent operations, so one of
// the two sees the other. (Fences would do as well, but thread sanitizers do not see them.)
//
// C++20 and header-only: device code and the progress engine include it.
//
// Model: tests/models/step_fifo.pml
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace weft {

static_assert(std::endian::native == std::endian::little, "the low half of a counter comes first");
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

/// One breath of a spinning thread.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

[[nodiscard]] inline std::uint64_t load_counter(std::uint64_t* counter) {
  return std::atomic_ref<std::uint64_t>(*counter).load(std::memory_order_acquire);
}

/// Wakes all who sleep on the counter, in this process and in others that map it.
inline void wake_sleepers(std::uint64_t* counter) {
  syscall(SYS_futex, counter, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Publishes `value` (everything written before is seen by who reads it) and wakes sleepers.
/// `waiters` may be null: then nobody may sleep. No system call while nobody sleeps. Any thread,
/// one at a time per counter.
inline void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
  const std::atomic_ref<std::uint64_t> shared(*counter);
  if (waiters == nullptr) {
    shared.store(value, std::memory_order_release);
    return;
  }
  shared.store(value, std::memory_order_seq_cst);
  if (std::atomic_ref<std::uint32_t>(*waiters).load(std::memory_order_seq_cst) != 0) {
    wake_sleepers(counter);
  }
}

/// Sleeps until the counter is woken, at most `at_most` (negative: without limit); returns at once
/// when it has reached `threshold`. May return early: the caller looks again.
inline void sleep_on(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t threshold,
                     std::chrono::nanoseconds at_most) {
  const std::atomic_ref<std::uint64_t> shared(*counter);
  const std::atomic_ref<std::uint32_t> sleepers(*waiters);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint64_t seen = shared.load(std::memory_order_seq_cst);
  if (seen < threshold) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
    timespec limit{};
    limit.tv_sec = seconds.count();
    limit.tv_nsec = (at_most - seconds).count();
    // Not FUTEX_PRIVATE: the counter may lie in memory shared between processes.
    syscall(SYS_futex, counter, FUTEX_WAIT, static_cast<std::uint32_t>(seen),
            at_most.count() < 0 ? nullptr : &limit, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

/// How one thread waits. It learns whether spinning pays: where cores are fewer than threads that
/// wait, it yields almost at once. One thread at a time.
class Waiter {
 public:
  /// Waits until the counter reaches `threshold` and answers what was read (acquire). Answers a
  /// smaller value when `leave()` became true; it is asked at least every 50 ms.
  ///
  /// `progress(about_to_sleep)` is called while there is nothing to do but wait and answers whether
  /// it achieved something; with true it is the last call before a sleep, after which nobody drives
  /// what it drives. `waiters` may be null: then the thread naps instead of sleeping in a futex.
  template <class Leave, class Progress>
  std::uint64_t wait(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t threshold,
                     Leave&& leave, Progress&& progress) {
    std::uint64_t seen = load_counter(counter);
    if (seen >= threshold) return seen;
    const std::uint32_t looks = spins();
    for (std::uint32_t i = 0; i < looks; ++i) {
      cpu_relax();
      seen = load_counter(counter);
      if (seen >= threshold) {
        spins_ = std::min(kMostSpins, spins_ + kSpinStep);
        return seen;
      }
    }
    return wait_patiently(counter, waiters, threshold, leave, progress);
  }

  /// Whether nobody whom the thread waits for should need its processor: then it looks on for
  /// longer before it yields. False unless told.
  void expect_own_processor(bool own) { own_processor_ = own; }

  /// Whether what the thread waits for comes by its own `progress`: then it does not look at the
  /// counter alone first. False unless told.
  void expect_progress(bool needed) { needs_progress_ = needed; }

  /// How often it looks before it does anything else: by what it has learnt, never where it needs
  /// progress.
  [[nodiscard]] std::uint32_t spins() const { return needs_progress_ ? 0 : spins_; }

  /// How often a thread went to sleep in the kernel.
  [[nodiscard]] std::uint64_t sleeps() const { return sleeps_; }

 private:
  using Time = std::chrono::steady_clock;

  // A pause takes 15 to 50 ns: at most 1 to 3 us.
  static constexpr std::uint32_t kMostSpins = 64;
  static constexpr std::uint32_t kLeastSpins = 4;
  static constexpr std::uint32_t kSpinStep = 16;
  // A wait that ended so soon after the spinning would better have been spun through.
  static constexpr std::chrono::microseconds kShortWait{4};
  static constexpr std::chrono::microseconds kYieldTime{200};
  // Two threads that yield to each other stay on one processor though another is idle: the system
  // moves only those that have waited for longer than half a millisecond (Linux's
  // sched_migration_cost).
  static constexpr std::chrono::microseconds kLookTime{1000};
  static constexpr std::chrono::milliseconds kLongestSleep{50};
  static constexpr std::chrono::microseconds kFirstNap{50};
  static constexpr std::chrono::microseconds kLongestNap{1000};

  template <class Leave, class Progress>
  std::uint64_t wait_patiently(std::uint64_t* counter, std::uint32_t* waiters,
                               std::uint64_t threshold, Leave& leave, Progress& progress) {
    const auto look_time = own_processor_ ? kLookTime : std::chrono::microseconds(0);
    const Time::time_point begin = Time::now();
    Time::time_point active = begin;
    Time::time_point now = begin;
    std::chrono::nanoseconds nap = kFirstNap;
    for (;;) {
      const std::uint64_t seen = load_counter(counter);
      if (seen >= threshold) {
        spins_ = now - begin <= kShortWait ? std::min(kMostSpins, spins_ + kSpinStep)
                                           : std::max(kLeastSpins, spins_ / 2);
        return seen;
      }
      if (leave()) return seen;
      const auto idle = now - active;
      const bool patient = idle < look_time + kYieldTime;
      if (progress(!patient)) {
        active = now;
      } else if (idle < look_time) {
        cpu_relax();
      } else if (patient) {
        sched_yield();
      } else if (waiters != nullptr) {
        ++sleeps_;
        sleep_on(counter, waiters, threshold, kLongestSleep);
      } else {
        const timespec span{0, static_cast<long>(nap.count())};
        nanosleep(&span, nullptr);
        nap = std::min<std::chrono::nanoseconds>(2 * nap, kLongestNap);
      }
      now = Time::now();
    }
  }

  std::uint32_t spins_ = kMostSpins;
  std::uint64_t sleeps_ = 0;
  bool own_processor_ = false;
  bool needs_progress_ = false;
};

}  // namespace weft
