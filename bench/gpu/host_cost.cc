// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What calls cost the thread that makes them. All ranks make the same ones at once, each by a
// thread of its own on a GPU of its own; a round is a burst of calls, after which the stream is
// emptied, which is not timed.
#include "bench/gpu/host_cost.h"

#include <algorithm>

#include "bench/gpu/rank.h"

namespace weft::gpu_bench {

namespace {

/// Answers the median, and lowers `least_us`, which is 0 before the first burst.
double median_of_burst(const std::vector<double>& us, double& least_us) {
  const double least = *std::min_element(us.begin(), us.end());
  least_us = least_us == 0 ? least : std::min(least_us, least);
  return median(us);
}

}  // namespace

void Rank::time_host(Contestant& contestant, const Case& which) {
  const std::string size = " " + bytes_text(which.shape.bytes);
  // In place, sums of sums would soon be infinite.
  if (which.in_place && !attempt(contestant, "fill" + size, [&] { fill(contestant, which); }))
    return;
  const size_t sets = buffers_.sets(which.shape.bytes);
  std::vector<Call> calls;
  calls.reserve(kHostCalls);
  for (size_t i = 0; i < kHostCalls; ++i)
    calls.push_back(buffers_.call(contestant.arena, which, i % sets));
  attempt(
      contestant, "time calls of" + size,
      [&] {
        const auto us =
            time_each<Clock>(kHostCalls, [&](size_t i) { contestant.api->call(calls[i]); });
        steps_.wait(*contestant.api);
        steps_.place().value = median_of_burst(us, contestant.least_us);
      },
      [&] { contestant.rounds.push_back(steps_.largest_value()); });
}

void Rank::time_launches() {
  cudaStream_t stream = steps_.seat().stream;
  for (const size_t bytes : kLaunchArguments) {
    std::vector<double> rounds;
    double least_us = 0;
    // The first round loads the kernel.
    for (uint32_t round = 0; round <= options_.rounds; ++round) {
      const Outcome outcome = steps_.together(
          "time bare launches",
          [&] {
            const auto us =
                time_each<Clock>(kHostCalls, [&](size_t) { launch_nothing(stream, bytes); });
            CHECK(cudaStreamSynchronize(stream));
            if (round != 0) steps_.place().value = median_of_burst(us, least_us);
          },
          [&] {
            if (round != 0) rounds.push_back(steps_.largest_value());
          });
      if (outcome != Outcome::kGood) return;
    }
    if (is_first()) report_.launches(bytes, rounds, least_us);
  }
}

}  // namespace weft::gpu_bench
