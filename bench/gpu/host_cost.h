// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What calls cost the thread that makes them. Needs no CUDA.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace weft::gpu_bench {

/// Calls that are made in a row, without a wait: of any library so few that nothing which it or the
/// driver queues them in is full.
inline constexpr size_t kHostCalls = 32;

/// Microseconds of each of so many calls: `call(i)`, and nothing between them. Of an operation that
/// takes several calls in a group all of these are one.
template <class Clock, class Call>
[[nodiscard]] std::vector<double> time_each(size_t calls, Call call) {
  std::vector<double> us;
  us.reserve(calls);
  for (size_t i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    call(i);
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return us;
}

}  // namespace weft::gpu_bench
