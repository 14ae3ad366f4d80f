// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The 16-bit float types as they lie in memory, and their conversions to and from float. To float
// is exact; from float rounds to nearest, ties to even, overflows to infinity, keeps subnormals and
// makes any NaN a quiet one.
//
// Reductions convert, compute in float and round once. A sum rounded to float first and then to 16
// bits is the exact sum rounded once, since float has more than twice the digits and two (Figueroa
// 1995): an instruction that adds two 16-bit floats at once gives the same bits, NaNs aside.
#pragma once

#include <cstdint>

#include "core/device/portability.h"

namespace weft::device {

// Each conversion exists once, as an expression over `Word` and `Real`: std::uint32_t and float, or
// the compiler's vectors of them, of one length. Bits of a 16-bit float are in a word's lower half.
// Always inlined, since element loops for different instruction sets include them.

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  std::uint16_t bits;

  template <class Real, class Word>
  WEFT_HD_INLINE static constexpr Real widen(Word half) {
    const Word magnitude = (half & 0x7FFFU) << 13;
    const Word exponent = magnitude & 0x0F800000U;
    const Word rebased = magnitude + (112U << 23);
    // A subnormal has no leading one: let it count 2^-14, then take that away. All numbers met are
    // normal floats, so that a thread that flushes subnormals gets the same.
    const Real small = __builtin_bit_cast(Real, rebased + (1U << 23)) - 0x1p-14F;
    const Word special = rebased + (112U << 23);
    Word result = exponent == 0x0F800000U ? special : rebased;
    result = exponent == 0U ? __builtin_bit_cast(Word, small) : result;
    return __builtin_bit_cast(Real, result | ((half & 0x8000U) << 16));
  }

  template <class Word, class Real>
  WEFT_HD_INLINE static constexpr Word narrow(Real value) {
    const Word word = __builtin_bit_cast(Word, value);
    const Word magnitude = word & 0x7FFFFFFFU;
    const Real absolute = __builtin_bit_cast(Real, magnitude);
    // Half an ulp less one, and one more if the last bit that stays is set: ties go to even.
    const Word normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    // An ulp of 0.5 is that of a subnormal: the addition rounds.
    const Word small = __builtin_bit_cast(Word, absolute + 0.5F) - 0x3F000000U;
    const Word infinity = (magnitude & 0U) | 0x7C00U;
    const Word nan = ((magnitude >> 13) & 0x3FFU) | 0x7E00U;
    Word result = absolute < 0x1p16F ? normal : infinity;
    result = absolute < 0x1p-14F ? small : result;
    result = value != value ? nan : result;  // NOLINT(misc-redundant-expression): NaNs alone
    return result | ((word >> 16) & 0x8000U);
  }

  friend bool operator==(Float16, Float16) = default;
};

/// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct Bfloat16 {
  std::uint16_t bits;

  template <class Real, class Word>
  WEFT_HD_INLINE static constexpr Real widen(Word half) {
    return __builtin_bit_cast(Real, half << 16);
  }

  template <class Word, class Real>
  WEFT_HD_INLINE static constexpr Word narrow(Real value) {
    const Word word = __builtin_bit_cast(Word, value);
    const Word rounded = word + 0x7FFFU + ((word >> 16) & 1U);
    const Word zero = word & 0U;
    // These bits make anything a quiet NaN, whatever rounding made of a NaN.
    // NOLINTNEXTLINE(misc-redundant-expression): true for a NaN alone
    const Word nan = value != value ? zero | 0x7FC00000U : zero;
    return (rounded | nan) >> 16;
  }

  friend bool operator==(Bfloat16, Bfloat16) = default;
};

}  // namespace weft::device
