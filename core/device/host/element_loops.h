// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The loops over elements that a processor runs fastest, compiled once per instruction set and
// chosen at run time by table. (Function multi-versioning by the compiler crashes under TSan.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/reductions.h"

namespace weft::device {

/// Combines `count` elements of `a` and `b` into `first` and, unless it is null, `second`.
/// Pointers need no alignment; a destination may be the very address of a source, and must not
/// overlap one otherwise.
using ReduceLoop = void (*)(std::byte* first, std::byte* second, const std::byte* a,
                            const std::byte* b, std::uint64_t count);

struct ElementLoops {
  const char* name;               ///< "baseline", "avx2", "avx512".
  ReduceLoop reduce[kLoopCount];  ///< By LoopId.
};

/// The fastest variant that this processor runs. The tables live as long as the library.
[[nodiscard]] const ElementLoops& best_element_loops();

/// All variants that this processor runs, slowest first; for tests.
[[nodiscard]] std::span<const ElementLoops* const> element_loop_variants();

/// Copies `bytes` bytes to `first` and, unless it is null, to `second`; overlap as for ReduceLoop.
void copy_bytes(std::byte* first, std::byte* second, const std::byte* source, std::uint64_t bytes);

}  // namespace weft::device
