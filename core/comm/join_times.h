// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long a rank took to join, and for what: for whoever waits for it.
#pragma once

#include <chrono>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace weft {

/// Used by one thread.
class JoinTimes {
 public:
  /// What was done since the last one.
  void end(const char* part) {
    const Clock::time_point now = Clock::now();
    parts_.emplace_back(part, now - last_);
    last_ = now;
  }

  /// "3.1 ms: to meet 1.9, topology 0.4"
  [[nodiscard]] std::string text() const {
    std::string text = fmt::format("{:.1f} ms", milliseconds(last_ - begin_));
    for (const auto& [part, taken] : parts_) {
      fmt::format_to(std::back_inserter(text), "{} {} {:.1f}",
                     part == parts_.front().first ? ':' : ',', part, milliseconds(taken));
    }
    return text;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double milliseconds(Clock::duration taken) {
    return std::chrono::duration<double, std::milli>(taken).count();
  }

  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  std::vector<std::pair<const char*, Clock::duration>> parts_;
};

}  // namespace weft
