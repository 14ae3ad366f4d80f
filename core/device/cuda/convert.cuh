// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Conversions of narrow floats by a GPU's instructions: the bits of half.h and float8.h, but for
// which NaN a NaN becomes, in a fraction of the instructions and of the time to compile them.
#pragma once

#include <cstdint>

#include "core/device/float8.h"
#include "core/device/half.h"

namespace weft::device::cuda {

__device__ inline float widen(Float16 half) {
  float value = 0;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
}
__device__ inline void narrow(float value, Float16& out) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
}

__device__ inline float widen(Bfloat16 half) {
  return Bfloat16::widen<float>(std::uint32_t{half.bits});
}
__device__ inline void narrow(float value, Bfloat16& out) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
}

__device__ inline float widen(Float8E5M2 code) {
  return widen(Float16{static_cast<std::uint16_t>(code.bits << 8)});
}

#if __CUDA_ARCH__ >= 890

__device__ inline float widen(Float8E4M3 code) {
  std::uint32_t halves = 0;
  const std::uint16_t codes = code.bits;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  return widen(Float16{static_cast<std::uint16_t>(halves)});
}

// The instructions make an infinity the largest number.
__device__ inline void narrow(float value, Float8E4M3& out) {
  std::uint16_t codes = 0;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(0.0F), "f"(value));
  const bool infinite = value == __builtin_inff() || value == -__builtin_inff();
  out.bits = static_cast<std::uint8_t>(infinite ? codes | 0x7FU : codes);
}
__device__ inline void narrow(float value, Float8E5M2& out) {
  std::uint16_t codes = 0;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(0.0F), "f"(value));
  const bool infinite = value == __builtin_inff() || value == -__builtin_inff();
  out.bits = static_cast<std::uint8_t>(infinite ? (codes & 0x80U) | 0x7CU : codes);
}

#else

__device__ inline float widen(Float8E4M3 code) {
  return Float8E4M3::widen<float>(std::uint32_t{code.bits});
}
template <class T>
__device__ inline void narrow(float value, T& out) {
  out.bits = static_cast<std::uint8_t>(T::template narrow<std::uint32_t>(value));
}

#endif

}  // namespace weft::device::cuda
