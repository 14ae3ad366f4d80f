// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element types, random inputs, and how results are judged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <weft/types.h>

namespace weft::gpu_test {

using Bytes = std::vector<std::byte>;

struct Type {
  const char* name;
  weft_data_type weft;
  std::size_t bytes;
};
std::ostream& operator<<(std::ostream& out, const Type& type);
inline constexpr Type kFloat32{"float32", WEFT_FLOAT32, 4};
inline constexpr Type kInt32{"int32", WEFT_INT32, 4};
inline constexpr Type kFloat16{"float16", WEFT_FLOAT16, 2};
inline constexpr Type kBfloat16{"bfloat16", WEFT_BFLOAT16, 2};
inline constexpr std::array kTypes{kFloat32, kInt32, kFloat16, kBfloat16};

/// One call, the same on all ranks.
struct Call {
  bool broadcast = false;
  Type type = kFloat32;
  weft_reduction reduction = WEFT_SUM;
  std::size_t count = 0;
  std::uint32_t root = 0;
  bool in_place = false;
  /// By how many elements the buffers lie beyond a multiple of 256 bytes.
  std::uint32_t send_offset = 0;
  std::uint32_t recv_offset = 0;
  /// Inputs hold NaNs, infinities, subnormals and zeros of both signs.
  bool specials = false;

  [[nodiscard]] std::size_t bytes() const { return count * type.bytes; }
};
std::ostream& operator<<(std::ostream& out, const Call& call);

/// Input of one rank. Floats have mixed signs and exponents, and sums of 16 ranks are finite.
[[nodiscard]] Bytes random_elements(const Call& call, std::uint64_t seed);

/// What is wrong with `got`, in words; empty if nothing. Integers, maxima, copies and sums of two
/// are exact, NaNs and zeros compared as such. Sums of more floats may differ by what another order
/// of the additions makes of the roundings.
[[nodiscard]] std::string judge(const Call& call, std::span<const Bytes> inputs,
                                const Bytes& expected, std::span<const std::byte> got);

}  // namespace weft::gpu_test
