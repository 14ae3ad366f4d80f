// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The float types that are computed with as floats: those of 16 and of 8 bits.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "core/device/float8.h"
#include "core/device/half.h"
#include "core/device/portability.h"
#if defined(__CUDACC__)
#include "core/device/cuda/convert.cuh"
#endif

namespace weft::device {

template <class T>
concept narrow_float = std::same_as<T, Float16> || std::same_as<T, Bfloat16> ||
                       std::same_as<T, Float8E4M3> || std::same_as<T, Float8E5M2>;

template <narrow_float T>
WEFT_HD constexpr float to_float(T narrow) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) return cuda::widen(narrow);
#endif
  return T::template widen<float>(std::uint32_t{narrow.bits});
}

template <narrow_float T>
WEFT_HD constexpr T from_float(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    T narrow{};
    cuda::narrow(value, narrow);
    return narrow;
  }
#endif
  return T{static_cast<decltype(T::bits)>(T::template narrow<std::uint32_t>(value))};
}

}  // namespace weft::device
