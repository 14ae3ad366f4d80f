// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A point in time after which waiting is an error. C++20, usable by device code.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <optional>

namespace weft {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  /// Never passes.
  static Deadline never() { return Deadline(std::nullopt); }
  static Deadline after(std::chrono::nanoseconds span) { return Deadline(Clock::now() + span); }

  [[nodiscard]] bool passed() const { return at_ && Clock::now() >= *at_; }
  [[nodiscard]] bool is_never() const { return !at_; }

  /// Milliseconds left for poll(2): -1 without a deadline, rounded up so that a wait never ends
  /// just before it, 0 once it has passed.
  [[nodiscard]] int poll_timeout_ms() const {
    if (!at_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
  }

 private:
  explicit Deadline(std::optional<Clock::time_point> at) : at_(at) {}
  std::optional<Clock::time_point> at_;
};

}  // namespace weft
