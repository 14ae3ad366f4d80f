// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions of random numbers whose results have to be those of a plain loop over the ranks by
// their numbers, ((r0 + r1) + r2) + ..., each step rounded to the type: bit for bit, but for which
// NaN a NaN is. The arithmetic is not the library's. Uses the public API alone, and no test
// framework: programs of single ranks use it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/weft.h>

#include "tests/integration/api/trial.h"

namespace weft::test {

struct OrderedSum {
  Kind kind = Kind::kAllReduce;
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;
  bool premultiplied = false;  ///< Of sums of float32 and bfloat16.
  std::size_t count = 0;       ///< Of a block, where there are some; of blocks that differ at most.
  std::uint32_t root = 0;
  std::size_t shift = 0;  ///< Elements that the buffers begin after a 16-byte line.
  /// Types of 16 and of 8 bits are rounded to at the end alone: what a rank makes that has the
  /// inputs of all, without collectives.deterministic.
  bool rounds_once = false;

  [[nodiscard]] std::string describe() const;
};

/// All operations that reduce, all real types and reductions, though not all of them together;
/// counts up to `most`, with one element among them.
[[nodiscard]] std::vector<OrderedSum> ordered_sums(std::uint32_t ranks, std::size_t most);

/// Makes these calls, alike on all ranks, and waits for them. Answers what is wrong, one line for
/// each call with a wrong element; throws where a call fails.
[[nodiscard]] std::vector<std::string> wrong_sums(weft_context* context, weft_comm* comm,
                                                  const std::vector<OrderedSum>& sums,
                                                  std::uint64_t seed);

}  // namespace weft::test
