// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The reductions that kernels are instantiated for. One line here, one in work_item_kernel.h and
// one in the host device's table of loops make a new one.
#pragma once

#include <cstdint>
#include <type_traits>

#include <weft/types.h>

#include "core/device/half.h"
#include "core/device/portability.h"

namespace weft::device {

/// Position of a reduction in tables of loops.
enum class LoopId : std::uint8_t {
  kSumF32 = 0,
  kMaxF32 = 1,
  kSumI32 = 2,
  kMaxI32 = 3,
  kSumF16 = 4,
  kMaxF16 = 5,
  kSumBf16 = 6,
  kMaxBf16 = 7,
};
inline constexpr std::uint32_t kLoopCount = 8;

template <class T>
struct LoopsOf;
template <>
struct LoopsOf<float> {
  static constexpr LoopId kSum = LoopId::kSumF32;
  static constexpr LoopId kMax = LoopId::kMaxF32;
};
template <>
struct LoopsOf<std::int32_t> {
  static constexpr LoopId kSum = LoopId::kSumI32;
  static constexpr LoopId kMax = LoopId::kMaxI32;
};
template <>
struct LoopsOf<Float16> {
  static constexpr LoopId kSum = LoopId::kSumF16;
  static constexpr LoopId kMax = LoopId::kMaxF16;
};
template <>
struct LoopsOf<Bfloat16> {
  static constexpr LoopId kSum = LoopId::kSumBf16;
  static constexpr LoopId kMax = LoopId::kMaxBf16;
};

/// a + b. Signed integers wrap; 16-bit floats are added as floats and rounded once.
template <class T>
struct Sum {
  using Element = T;
  static constexpr LoopId kLoop = LoopsOf<T>::kSum;
  WEFT_HD static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else if constexpr (half_float<T>) {
      return from_float<T>(to_float(a) + to_float(b));
    } else {
      return a + b;
    }
  }
};

/// The larger of both. A NaN on either side gives a NaN; of two equal values, zeros of both signs
/// included, the right one. A ring computes each element on one rank and copies it to the others,
/// so all ranks hold the same bits.
template <class T>
struct Max {
  using Element = T;
  static constexpr LoopId kLoop = LoopsOf<T>::kMax;
  WEFT_HD static T combine(T a, T b) {
    if constexpr (half_float<T>) {
      return from_float<T>(Max<float>::combine(to_float(a), to_float(b)));
    } else if constexpr (std::is_floating_point_v<T>) {
      return a > b || a != a ? a : b;  // NOLINT(misc-redundant-expression): true for a NaN alone
    } else {
      return a > b ? a : b;
    }
  }
};

/// Stands where an algorithm only copies.
struct NoReduction {};

}  // namespace weft::device
