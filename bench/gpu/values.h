// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Elements of buffers, alike on hosts and in kernels: inputs are made from their place, so that
// what a buffer must hold after a call can be told without the other ranks' inputs.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define WEFT_BENCH_DEVICE __host__ __device__
#else
#define WEFT_BENCH_DEVICE
#endif

namespace weft::gpu_bench {

inline constexpr uint32_t kMaxRanks = 16;

/// Which inputs the elements of a region are, or are the sums of.
struct Origin {
  uint32_t first_rank;   ///< Whose input the region begins with.
  uint32_t summed;       ///< From there on so many ranks' inputs are added; 1: moved alone.
  uint64_t block;        ///< After so many elements the next rank's input follows.
  uint64_t offset;       ///< Where in that input each block begins.
  uint64_t input_count;  ///< Elements that a rank puts into a call.
};

/// Inputs of one case: `seed` differs from case to case, integers are within `range`, either sign.
struct Inputs {
  uint32_t seed;
  int32_t range;
};

/// Element `index` of a rank's inputs, counted through all sets of buffers.
WEFT_BENCH_DEVICE inline float input_value(const Inputs& inputs, uint32_t rank, uint64_t index) {
  // No two cases share a rank's inputs: what an earlier case left behind is wrong everywhere.
  uint32_t bits = static_cast<uint32_t>(index) * 0x9e3779b1U ^
                  static_cast<uint32_t>(index >> 32) * 0x27d4eb2fU ^
                  (inputs.seed * kMaxRanks + rank + 1) * 0x85ebca6bU;
  bits ^= bits >> 16;
  bits *= 0x7feb352dU;
  bits ^= bits >> 15;
  bits *= 0x846ca68bU;
  bits ^= bits >> 16;
  const auto values = static_cast<uint32_t>(2 * inputs.range + 1);
  return static_cast<float>(static_cast<int32_t>(bits % values) - inputs.range);
}

/// What element `index` of a region is, in buffers of set `set`. Sums are exact: see
/// ElementType::range.
WEFT_BENCH_DEVICE inline float value_of(const Inputs& inputs, const Origin& origin, uint64_t set,
                                        uint64_t index) {
  const auto rank = origin.first_rank + static_cast<uint32_t>(index / origin.block);
  const uint64_t at = set * origin.input_count + origin.offset + index % origin.block;
  float sum = 0;
  for (uint32_t i = 0; i < origin.summed; ++i)
    sum += input_value(inputs, rank + i, at);
  return sum;
}

}  // namespace weft::gpu_bench
