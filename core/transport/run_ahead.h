// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Whether a rank runs ahead of those it sends to, as one does that only sends: its calls follow
// each other closely, and none has to wait. Small messages of such a rank cost the kernel less when
// several go at once, and nobody gets further by having them one by one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace weft {

/// Threads: any. Who comes at the same time as others may be told of their calls instead of its
/// own: then messages are sent at once that could have been kept, or kept for a moment that need
/// not.
class RunAhead {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// So long after it has sent a rank may keep what comes.
  static constexpr std::chrono::microseconds kWindow{50};
  /// Calls in a row that did not wait, before one's messages are kept: a rank that makes a few and
  /// then computes lets nobody wait for the last.
  static constexpr std::uint32_t kCallsAhead = 3;

  /// A call has to wait: the rank is not ahead.
  void waits() { calls_.store(0, std::memory_order_relaxed); }

  /// A call ends at `now`. Until when its messages may be kept, if they may.
  std::optional<Time> call_ended(Time now) {
    if (calls_.fetch_add(1, std::memory_order_relaxed) < kCallsAhead) return std::nullopt;
    const Time until =
        Time(Time::duration(sent_.load(std::memory_order_relaxed))) + Time::duration(kWindow);
    if (until <= now) return std::nullopt;
    return until;
  }
  /// All messages were sent at `now`.
  void sent(Time now) { sent_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<Time::rep> sent_{0};
};

}  // namespace weft
