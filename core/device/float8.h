// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The 8-bit float types as they lie in memory, and their conversions to and from float. To float is
// exact; from float rounds to nearest, ties to even, and keeps subnormals and NaNs.
//
// What is finite stays finite: a number beyond the largest one becomes the largest one, as GPUs
// convert (cvt.rn.satfinite, __NV_SATFINITE). An infinity, which only an operand of e5m2 brings
// along, stays one, unlike there: whoever looks for infinities finds them. e4m3 has none; an
// infinite float becomes its NaN.
#pragma once

#include <cstdint>

#include "core/device/half.h"
#include "core/device/portability.h"

namespace weft::device {

// Over `Word` and `Real` as those of half.h; bits of an 8-bit float are in a word's lowest byte.

/// OCP E4M3 ("e4m3fn"): 4 bits of exponent, 3 of fraction; no infinities, the largest is 448, both
/// codes with all bits set but the sign are NaNs.
struct Float8E4M3 {
  std::uint8_t bits;

  template <class Real, class Word>
  WEFT_HD_INLINE static constexpr Real widen(Word code) {
    const Word magnitude = (code & 0x7FU) << 20;
    const Word rebased = magnitude + (120U << 23);
    // As Float16: a subnormal counts a leading one, 2^-6, that is taken away.
    const Real small = __builtin_bit_cast(Real, rebased + (1U << 23)) - 0x1p-6F;
    const Word nan = (magnitude & 0U) | 0x7FC00000U;
    Word result = (magnitude >> 23) == 0U ? __builtin_bit_cast(Word, small) : rebased;
    result = magnitude == (0x7FU << 20) ? nan : result;
    return __builtin_bit_cast(Real, result | ((code & 0x80U) << 24));
  }

  template <class Word, class Real>
  WEFT_HD_INLINE static constexpr Word narrow(Real value) {
    const Word word = __builtin_bit_cast(Word, value);
    const Word magnitude = word & 0x7FFFFFFFU;
    const Real absolute = __builtin_bit_cast(Real, magnitude);
    const Word normal = (magnitude - (120U << 23) + 0x7FFFFU + ((magnitude >> 20) & 1U)) >> 20;
    // An ulp of 2^14 is that of a subnormal: the addition rounds.
    const Word small = __builtin_bit_cast(Word, absolute + 0x1p14F) - 0x46800000U;
    const Word most = (magnitude & 0U) | 0x7EU;
    const Word nan = (magnitude & 0U) | 0x7FU;
    Word result = absolute < 448.0F ? normal : most;
    result = absolute < 0x1p-6F ? small : result;
    result = absolute < __builtin_inff() ? result : nan;
    return result | ((word >> 24) & 0x80U);
  }

  friend bool operator==(Float8E4M3, Float8E4M3) = default;
};

/// The upper byte of a binary16: 5 bits of exponent, 2 of fraction; the largest number is 57344.
struct Float8E5M2 {
  std::uint8_t bits;

  template <class Real, class Word>
  WEFT_HD_INLINE static constexpr Real widen(Word code) {
    return Float16::widen<Real, Word>(code << 8);
  }

  template <class Word, class Real>
  WEFT_HD_INLINE static constexpr Word narrow(Real value) {
    const Word word = __builtin_bit_cast(Word, value);
    const Word magnitude = word & 0x7FFFFFFFU;
    const Real absolute = __builtin_bit_cast(Real, magnitude);
    const Word normal = (magnitude - (112U << 23) + 0xFFFFFU + ((magnitude >> 21) & 1U)) >> 21;
    // An ulp of 2^7 is that of a subnormal: the addition rounds.
    const Word small = __builtin_bit_cast(Word, absolute + 0x1p7F) - 0x43000000U;
    const Word most = (magnitude & 0U) | 0x7BU;
    const Word infinity = (magnitude & 0U) | 0x7CU;
    const Word nan = ((magnitude >> 21) & 0x3U) | 0x7EU;
    Word result = absolute < 57344.0F ? normal : most;
    result = absolute < 0x1p-14F ? small : result;
    result = absolute < __builtin_inff() ? result : infinity;
    result = value != value ? nan : result;  // NOLINT(misc-redundant-expression): NaNs alone
    return result | ((word >> 24) & 0x80U);
  }

  friend bool operator==(Float8E5M2, Float8E5M2) = default;
};

}  // namespace weft::device
