// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's buffers: where each call's lie, what is put there before, and what must be there after.
//
// A case has several sets of buffers; a *pass* is one call on each. So the buffers of large sizes
// do not lie in the L2, and a replay of the graph (one pass) can be checked in place as well.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/contestant.h"
#include "bench/gpu/kernels.h"

namespace weft::gpu_bench {

class Buffers {
 public:
  /// Of sizes up to the largest of the options.
  Buffers(const Options& options, const Seat& seat) : options_(options), seat_(seat) {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  /// Once the device is set.
  void allocate();
  [[nodiscard]] const Arena& plain() const { return plain_; }
  [[nodiscard]] size_t arena_bytes() const { return arena_bytes_; }

  [[nodiscard]] size_t sets(size_t bytes) const;

  /// A library's call on one set.
  [[nodiscard]] Call call(const Arena& arena, const Case& which, size_t set) const;

  /// Appends to the stream: new inputs, and poison where calls write, or should not.
  void fill(const Arena& arena, const Case& which, uint32_t seed) const;
  /// The same: looks at all that calls wrote, or should not have written.
  void compare(const Arena& arena, const Case& which, uint32_t seed);
  /// Once the stream is empty: what was found in all places together, in words if it is wrong.
  [[nodiscard]] uint64_t mismatches() const;
  [[nodiscard]] std::string describe(const Arena& arena, const Case& which, uint32_t seed) const;

 private:
  /// What is compared: the regions of a set, and the poison behind the last of them.
  static constexpr size_t kMostParts = 4;

  [[nodiscard]] Place place(const Case& which) const;
  [[nodiscard]] std::byte* at(const Arena& arena, const Case& which, const Region& region,
                              size_t set) const;
  [[nodiscard]] Inputs inputs(uint32_t seed) const { return {seed, options_.type.range}; }
  /// Where in the receive buffer the poison behind the results begins, and how much it is.
  [[nodiscard]] size_t tail_first(const Case& which) const;
  [[nodiscard]] size_t tail_bytes(const Case& which, size_t set) const;
  [[nodiscard]] std::string describe_element(const Arena& arena, const Case& which,
                                             const Region& region, uint32_t seed,
                                             uint64_t index) const;

  const Options& options_;
  const Seat& seat_;
  Arena plain_;
  size_t arena_bytes_ = 0;
  Mismatch* found_on_device_ = nullptr;
  std::vector<Mismatch> found_;
};

}  // namespace weft::gpu_bench
