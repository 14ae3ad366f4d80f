// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element types, random inputs, and how results of reductions are judged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <weft/types.h>

#include "tests/gpu/call.h"

namespace weft::gpu_test {

/// Input of one rank of any call, of so many bytes: of copies any bits, else elements. Floats have
/// mixed signs and exponents, and sums of 16 ranks are finite; factors of products are near 1, so
/// that no result under way is subnormal.
[[nodiscard]] Bytes random_input(const Call& call, std::size_t bytes, std::uint64_t seed);

/// One element to multiply inputs by: of floats 0.5 to 4 with all digits, and of either sign; 1 or
/// 2 for whole numbers.
[[nodiscard]] Bytes random_factor(const Call& call, std::uint64_t seed);

/// A reduction over the ranks, and what it was made of.
struct Reduced {
  std::vector<Bytes> inputs;   ///< By rank, all of one size.
  std::vector<Bytes> factors;  ///< By rank; of pre-multiplied sums.
  Bytes result;                ///< By the host device.
};

/// What is wrong with `got`, the elements of the result from the `first` on, in words; empty if
/// nothing. Integers, maxima, minima, whole numbers and what two ranks make are exact, NaNs and
/// zeros compared as such. Floats of more ranks may differ by what another order makes of the
/// roundings.
[[nodiscard]] std::string judge(const Call& call, const Reduced& reduced, std::size_t first,
                                std::span<const std::byte> got);

}  // namespace weft::gpu_test
