// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A lock for what takes some dozens of instructions and is almost never contended: one atomic
// exchange, where a mutex takes two and a few calls. Not for what blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/base/wait.h"

namespace weft {

/// Meets the requirements of a mutex. Whoever finds it taken looks again for a little, then gives
/// its processor away, then naps: who holds it may have lost its own, or have a lower priority.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[nodiscard]] bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void wait() {
    constexpr std::uint32_t kSpins = 64;
    constexpr std::uint32_t kYields = 256;
    constexpr std::chrono::microseconds kNap(50);
    for (std::uint32_t turn = 0;; ++turn) {
      if (!taken_.load(std::memory_order_relaxed) && try_lock()) return;
      if (turn < kSpins) {
        cpu_relax();
      } else if (turn < kSpins + kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kNap);
      }
    }
  }

  std::atomic<bool> taken_{false};
};

}  // namespace weft
