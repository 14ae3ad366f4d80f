// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The loops over elements that a processor runs fastest, compiled once per instruction set and
// chosen at run time by table. (Function multi-versioning by the compiler crashes under TSan.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <weft/types.h>

namespace weft::device {

/// Combines `count` elements of `a` and `b` into `first` and, unless it is null, `second`.
/// Pointers need no alignment; a destination may be the very address of a source, and must not
/// overlap one otherwise.
using ReduceLoop = void (*)(std::byte* first, std::byte* second, const std::byte* a,
                            const std::byte* b, std::uint64_t count);

/// Copies `bytes` bytes to `first` and, unless it is null, to `second`; overlap as for ReduceLoop.
using CopyLoop = void (*)(std::byte* first, std::byte* second, const std::byte* source,
                          std::uint64_t bytes);

/// Divides `count` elements at `first` in place, and copies them to `second` unless it is null.
using DivideLoop = void (*)(std::byte* first, std::byte* second, std::uint64_t count,
                            std::uint32_t divisor);

/// Combines `count` elements of from[0] to from[ranks - 1] in that order as float32, divides them
/// by `divisor` and rounds them once into `first` and, unless it is null, `second`; pointers as for
/// ReduceLoop.
using AccumulateLoop = void (*)(std::byte* first, std::byte* second, const std::byte* const* from,
                                std::uint32_t ranks, std::uint64_t count, float divisor);

/// Types that can be reduced, numbered as weft_data_type is, and ways to combine two elements,
/// numbered as weft_reduction is (an average is a sum that is divided at its end).
inline constexpr std::uint32_t kLoopTypeCount = 12;
inline constexpr std::uint32_t kCombineCount = 4;
inline constexpr std::uint32_t kLoopCount = kLoopTypeCount * kCombineCount;

[[nodiscard]] constexpr std::uint32_t loop_index(weft_data_type type, weft_reduction reduction) {
  return static_cast<std::uint32_t>(type) * kCombineCount + static_cast<std::uint32_t>(reduction);
}

/// Floats of 16 and of 8 bits, and their sums and products, which accumulates() holds for.
inline constexpr std::uint32_t kAccumulateCount = 4 * 2;

[[nodiscard]] constexpr std::uint32_t accumulate_index(weft_data_type type,
                                                       weft_reduction reduction) {
  const std::uint32_t narrow =
      type == WEFT_FLOAT16 ? 0 : 1 + static_cast<std::uint32_t>(type - WEFT_BFLOAT16);
  return narrow * 2 + (reduction == WEFT_PROD ? 1 : 0);
}

struct ElementLoops {
  const char* name;  ///< "baseline", "avx2", "avx512".
  CopyLoop copy;
  ReduceLoop reduce[kLoopCount];                ///< By loop_index().
  AccumulateLoop accumulate[kAccumulateCount];  ///< By accumulate_index().
};

/// The fastest variant that this processor runs. The tables live as long as the library.
[[nodiscard]] const ElementLoops& best_element_loops();

/// All variants that this processor runs, slowest first; for tests.
[[nodiscard]] std::span<const ElementLoops* const> element_loop_variants();

}  // namespace weft::device
