// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What rank 0 says: lines for the reader, and JSON objects for the file of results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/gpu/contestant.h"
#include "bench/gpu/nvml.h"

namespace weft::gpu_bench {

class Report {
 public:
  Report(const Options& options, std::string mode, const Seat& seat)
      : options_(options), mode_(std::move(mode)), seat_(seat) {}

  void joined(const Contestant& contestant, const Joined& joined) const;
  /// The same of one of several communicators beside each other, counted from 1. `called_bytes` of
  /// one that has made calls: what it takes then.
  void communicator(const Contestant& contestant, uint32_t number, const Joined& joined,
                    std::optional<double> called_bytes) const;
  /// Bare launches, beside what was measured of the operation: medians of rounds, and the least.
  void launches(size_t argument_bytes, const std::vector<double>& rounds, double least_us) const;
  /// Once for the operation, then its cases.
  void heading() const;
  /// A case that everybody ran, or was refused.
  void results(const Case& which, const std::vector<Contestant>& contestants, size_t sets) const;
  void left_out(const std::string& what) const;

 private:
  void time_row(const Case& which, const Contestant& contestant, size_t sets,
                double best_nccl) const;
  void host_row(const Case& which, const Contestant& contestant, double best_nccl) const;
  void problem_row(const Case& which, const Contestant& contestant) const;
  /// What both kinds of rows begin with, without the braces.
  [[nodiscard]] std::string subject(const Case& which, const Contestant& contestant) const;
  [[nodiscard]] unsigned megahertz(NvmlApi::Clock clock) const;

  const Options& options_;
  const std::string mode_;
  const Seat& seat_;
  const Loaded<NvmlApi> nvml_;
};

/// The first line of all, and the first object. Throws Failure.
void describe_machine(const Options& options, const std::vector<std::string>& arguments);

}  // namespace weft::gpu_bench
