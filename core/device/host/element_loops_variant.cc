// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The element loops, compiled several times with different instruction sets; WEFT_LOOPS_VARIANT
// names the table. Everything here is local and includes no inline code of a library: a function
// that the linker merges between variants could bring instructions that the processor lacks.
#include <cstddef>
#include <cstdint>

#include "core/device/host/element_loops_variants.h"

namespace weft::device {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
constexpr std::uint64_t kUnroll = 4;

// may_alias and alignment 1: callers' memory of any type, at any address.
using FloatVector [[gnu::vector_size(kVectorBytes), gnu::aligned(1), gnu::may_alias]] = float;
using IntVector [[gnu::vector_size(kVectorBytes), gnu::aligned(1), gnu::may_alias]] = std::int32_t;
using WordVector [[gnu::vector_size(kVectorBytes), gnu::aligned(1), gnu::may_alias]] =
    std::uint32_t;
using LooseFloat [[gnu::aligned(1), gnu::may_alias]] = float;
using LooseInt [[gnu::aligned(1), gnu::may_alias]] = std::int32_t;
using LooseWord [[gnu::aligned(1), gnu::may_alias]] = std::uint32_t;

// Plain expressions, not functions: a vector passed between functions changes the ABI with the
// instruction set.
#define WEFT_ADD(a, b) ((a) + (b))
#define WEFT_INT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define WEFT_FLOAT_VECTOR_MAX(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define WEFT_FLOAT_MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))

// NOLINTBEGIN(bugprone-macro-parentheses): names of types
// Each vector is loaded from both sources before it is stored, and blocks do not meet, so that a
// destination may be a source.
#define WEFT_LOOP(NAME, VECTOR, SCALAR, VECTOR_OP, SCALAR_OP) \
  template <bool kTwo> \
  void NAME##_to(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b, \
                 std::uint64_t count) { \
    const std::uint64_t bytes = count * sizeof(SCALAR); \
    std::uint64_t at = 0; \
    for (; at + kUnroll * kVectorBytes <= bytes; at += kUnroll * kVectorBytes) { \
      VECTOR value[kUnroll]; \
      for (std::uint64_t i = 0; i < kUnroll; ++i) { \
        const VECTOR x = *reinterpret_cast<const VECTOR*>(a + at + i * kVectorBytes); \
        const VECTOR y = *reinterpret_cast<const VECTOR*>(b + at + i * kVectorBytes); \
        value[i] = VECTOR_OP(x, y); \
      } \
      for (std::uint64_t i = 0; i < kUnroll; ++i) { \
        *reinterpret_cast<VECTOR*>(first + at + i * kVectorBytes) = value[i]; \
        if constexpr (kTwo) *reinterpret_cast<VECTOR*>(second + at + i * kVectorBytes) = value[i]; \
      } \
    } \
    for (; at < bytes; at += sizeof(SCALAR)) { \
      const SCALAR x = *reinterpret_cast<const SCALAR*>(a + at); \
      const SCALAR y = *reinterpret_cast<const SCALAR*>(b + at); \
      const SCALAR value = SCALAR_OP(x, y); \
      *reinterpret_cast<SCALAR*>(first + at) = value; \
      if constexpr (kTwo) *reinterpret_cast<SCALAR*>(second + at) = value; \
    } \
  } \
  void NAME(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b, \
            std::uint64_t count) { \
    if (second != nullptr) { \
      NAME##_to<true>(first, second, a, b, count); \
    } else { \
      NAME##_to<false>(first, nullptr, a, b, count); \
    } \
  }

// NOLINTEND(bugprone-macro-parentheses)

WEFT_LOOP(sum_f32, FloatVector, LooseFloat, WEFT_ADD, WEFT_ADD)
WEFT_LOOP(max_f32, FloatVector, LooseFloat, WEFT_FLOAT_VECTOR_MAX, WEFT_FLOAT_MAX)
WEFT_LOOP(sum_i32, WordVector, LooseWord, WEFT_ADD, WEFT_ADD)  // unsigned: wraps
WEFT_LOOP(max_i32, IntVector, LooseInt, WEFT_INT_MAX, WEFT_INT_MAX)

}  // namespace

extern const ElementLoops WEFT_LOOPS_VARIANT;
const ElementLoops WEFT_LOOPS_VARIANT = {WEFT_LOOPS_NAME, {sum_f32, max_f32, sum_i32, max_i32}};

}  // namespace weft::device
