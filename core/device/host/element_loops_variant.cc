// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The element loops, compiled several times with different instruction sets; WEFT_LOOPS_VARIANT
// names the table. Everything here is local or always inlined: a function that the linker merges
// between variants could bring instructions that the processor lacks.
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/device/host/element_loops_variants.h"
#include "core/device/narrow_float.h"

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

// What is written next is fetched ahead to be written: a slot's lines were read last by another
// processor, which must give them up first. So far ahead, and so much of it, in one go.
constexpr std::uint64_t kPrefetchAhead = 1024;
constexpr std::uint64_t kCacheLine = 64;

// By blocks of whole vectors, at least a line each. Nothing beyond the end is fetched: those lines
// may be another's.
#define WEFT_PREFETCH_BLOCK(BASE, AT, BLOCK, BYTES) \
  if ((AT) + kPrefetchAhead + (BLOCK) <= (BYTES)) { \
    for (std::uint64_t line = 0; line < (BLOCK); line += kCacheLine) \
      __builtin_prefetch((BASE) + (AT) + kPrefetchAhead + line, 1); \
  }

// may_alias and alignment 1: callers' memory of any type, at any address.
#define WEFT_VECTOR(NAME, TYPE) \
  using NAME [[gnu::vector_size(kVectorBytes), gnu::aligned(1), gnu::may_alias]] = TYPE; \
  using Loose##NAME [[gnu::aligned(1), gnu::may_alias]] = TYPE;

// NOLINTBEGIN(bugprone-macro-parentheses): names of types
WEFT_VECTOR(Floats, float)
WEFT_VECTOR(Doubles, double)
WEFT_VECTOR(Int8s, std::int8_t)
WEFT_VECTOR(Int32s, std::int32_t)
WEFT_VECTOR(Int64s, std::int64_t)
WEFT_VECTOR(Uint8s, std::uint8_t)
WEFT_VECTOR(Uint32s, std::uint32_t)
WEFT_VECTOR(Uint64s, std::uint64_t)
// NOLINTEND(bugprone-macro-parentheses)
using HalvesVector [[gnu::vector_size(kVectorBytes / 2), gnu::aligned(1), gnu::may_alias]] =
    std::uint16_t;
using LooseHalf [[gnu::aligned(1), gnu::may_alias]] = std::uint16_t;

// Plain expressions, not functions: a vector passed between functions changes the ABI with the
// instruction set.
#define WEFT_ADD(a, b) ((a) + (b))
#define WEFT_MULTIPLY(a, b) ((a) * (b))
#define WEFT_INT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define WEFT_INT_MIN(a, b) ((a) < (b) ? (a) : (b))
// A NaN on either side gives a NaN.
#define WEFT_FLOAT_VECTOR_MAX(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define WEFT_FLOAT_VECTOR_MIN(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define WEFT_FLOAT_MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define WEFT_FLOAT_MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

using FloatLanes [[gnu::vector_size(kVectorBytes)]] = float;
using WordLanes [[gnu::vector_size(kVectorBytes)]] = std::uint32_t;

#define WEFT_COMBINE_FLOATS(NAME, EXPRESSION) \
  struct NAME { \
    template <class Real> \
    WEFT_HD_INLINE static Real combine(Real a, Real b) { \
      return EXPRESSION(a, b); \
    } \
  };

WEFT_COMBINE_FLOATS(AddFloats, WEFT_ADD)
WEFT_COMBINE_FLOATS(MultiplyFloats, WEFT_MULTIPLY)
WEFT_COMBINE_FLOATS(MaxFloats, WEFT_FLOAT_VECTOR_MAX)
WEFT_COMBINE_FLOATS(MinFloats, WEFT_FLOAT_VECTOR_MIN)

template <class Narrow, class Combine>
WEFT_HD_INLINE decltype(Narrow::bits) combine_one(decltype(Narrow::bits) a,
                                                  decltype(Narrow::bits) b) {
  const float result = Combine::combine(Narrow::template widen<float>(std::uint32_t{a}),
                                        Narrow::template widen<float>(std::uint32_t{b}));
  return static_cast<decltype(Narrow::bits)>(Narrow::template narrow<std::uint32_t>(result));
}

/// Each word holds two elements: a lower and an upper one, so that nothing crosses lanes.
template <class Half, class Combine>
WEFT_HD_INLINE WordLanes combine_pairs(WordLanes a, WordLanes b) {
  const FloatLanes lower = Combine::combine(Half::template widen<FloatLanes>(a & 0xFFFFU),
                                            Half::template widen<FloatLanes>(b & 0xFFFFU));
  const FloatLanes upper = Combine::combine(Half::template widen<FloatLanes>(a >> 16),
                                            Half::template widen<FloatLanes>(b >> 16));
  return Half::template narrow<WordLanes>(lower) | (Half::template narrow<WordLanes>(upper) << 16);
}

/// The same of four elements of 8 bits.
template <class Float8, class Combine>
WEFT_HD_INLINE WordLanes combine_quads(WordLanes a, WordLanes b) {
  WordLanes result = {};
  for (int shift = 0; shift < 32; shift += 8) {
    const FloatLanes value =
        Combine::combine(Float8::template widen<FloatLanes>((a >> shift) & 0xFFU),
                         Float8::template widen<FloatLanes>((b >> shift) & 0xFFU));
    result |= Float8::template narrow<WordLanes>(value) << shift;
  }
  return result;
}

#if defined(__F16C__)
using HalfLanes [[gnu::vector_size(kVectorBytes / 2)]] = std::uint16_t;

// The forms with a mask: g++ 12 warns of the undefined source of the others (GCC bug 105593).
#if defined(__AVX512F__)
#define WEFT_WIDEN_F16(halves) _mm512_maskz_cvtph_ps(0xFFFF, __builtin_bit_cast(__m256i, halves))
#define WEFT_NARROW_F16(floats) _mm512_maskz_cvtps_ph(0xFFFF, floats, _MM_FROUND_TO_NEAREST_INT)
#else
#define WEFT_WIDEN_F16(halves) _mm256_cvtph_ps(__builtin_bit_cast(__m128i, halves))
#define WEFT_NARROW_F16(floats) _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT)
#endif

/// The processor's conversions give the bits that Float16's give.
template <class Combine>
WEFT_HD_INLINE HalfLanes combine_float16(HalfLanes a, HalfLanes b) {
  FloatLanes x = WEFT_WIDEN_F16(a);
  FloatLanes y = WEFT_WIDEN_F16(b);
  asm("" : "+x"(x), "+x"(y));  // or clang compares the halves themselves, one after the other
  return __builtin_bit_cast(HalfLanes, WEFT_NARROW_F16(Combine::combine(x, y)));
}
#endif

// NOLINTBEGIN(bugprone-macro-parentheses): names of types
// Each vector is loaded from both sources before it is stored, and blocks do not meet, so that a
// destination may be a source.
#define WEFT_LOOP(NAME, VECTOR, SCALAR, VECTOR_OP, SCALAR_OP) \
  void NAME(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b, \
            std::uint64_t count) { \
    const std::uint64_t bytes = count * sizeof(SCALAR); \
    std::uint64_t at = 0; \
    for (; at + kUnroll * sizeof(VECTOR) <= bytes; at += kUnroll * sizeof(VECTOR)) { \
      VECTOR value[kUnroll]; \
      for (std::uint64_t i = 0; i < kUnroll; ++i) { \
        const VECTOR x = *reinterpret_cast<const VECTOR*>(a + at + i * sizeof(VECTOR)); \
        const VECTOR y = *reinterpret_cast<const VECTOR*>(b + at + i * sizeof(VECTOR)); \
        value[i] = VECTOR_OP(x, y); \
      } \
      WEFT_PREFETCH_BLOCK(first, at, sizeof(value), bytes) \
      for (std::uint64_t i = 0; i < kUnroll; ++i) \
        *reinterpret_cast<VECTOR*>(first + at + i * sizeof(VECTOR)) = value[i]; \
      if (second == nullptr) continue; \
      WEFT_PREFETCH_BLOCK(second, at, sizeof(value), bytes) \
      for (std::uint64_t i = 0; i < kUnroll; ++i) \
        *reinterpret_cast<VECTOR*>(second + at + i * sizeof(VECTOR)) = value[i]; \
    } \
    for (; at < bytes; at += sizeof(SCALAR)) { \
      const SCALAR x = *reinterpret_cast<const SCALAR*>(a + at); \
      const SCALAR y = *reinterpret_cast<const SCALAR*>(b + at); \
      const auto value = static_cast<SCALAR>(SCALAR_OP(x, y)); \
      *reinterpret_cast<SCALAR*>(first + at) = value; \
      if (second != nullptr) *reinterpret_cast<SCALAR*>(second + at) = value; \
    } \
  }

// Sums and products of signed integers are those of unsigned ones: they wrap.
#define WEFT_INT_LOOPS(SUFFIX, VECTOR, UNSIGNED) \
  WEFT_LOOP(sum_##SUFFIX, UNSIGNED, Loose##UNSIGNED, WEFT_ADD, WEFT_ADD) \
  WEFT_LOOP(prod_##SUFFIX, UNSIGNED, Loose##UNSIGNED, WEFT_MULTIPLY, WEFT_MULTIPLY) \
  WEFT_LOOP(max_##SUFFIX, VECTOR, Loose##VECTOR, WEFT_INT_MAX, WEFT_INT_MAX) \
  WEFT_LOOP(min_##SUFFIX, VECTOR, Loose##VECTOR, WEFT_INT_MIN, WEFT_INT_MIN)

#define WEFT_FLOAT_LOOPS(SUFFIX, VECTOR) \
  WEFT_LOOP(sum_##SUFFIX, VECTOR, Loose##VECTOR, WEFT_ADD, WEFT_ADD) \
  WEFT_LOOP(prod_##SUFFIX, VECTOR, Loose##VECTOR, WEFT_MULTIPLY, WEFT_MULTIPLY) \
  WEFT_LOOP(max_##SUFFIX, VECTOR, Loose##VECTOR, WEFT_FLOAT_VECTOR_MAX, WEFT_FLOAT_MAX) \
  WEFT_LOOP(min_##SUFFIX, VECTOR, Loose##VECTOR, WEFT_FLOAT_VECTOR_MIN, WEFT_FLOAT_MIN)

#define WEFT_HALF_LOOP(NAME, VECTOR, HALF, COMBINE, VECTOR_OP) \
  WEFT_LOOP(NAME, VECTOR, LooseHalf, VECTOR_OP, (combine_one<HALF, COMBINE>))

#define WEFT_FLOAT8_LOOP(NAME, FLOAT8, COMBINE) \
  WEFT_LOOP(NAME, Uint32s, LooseUint8s, (combine_quads<FLOAT8, COMBINE>), \
            (combine_one<FLOAT8, COMBINE>))

#define WEFT_FLOAT8_LOOPS(SUFFIX, FLOAT8) \
  WEFT_FLOAT8_LOOP(sum_##SUFFIX, FLOAT8, AddFloats) \
  WEFT_FLOAT8_LOOP(prod_##SUFFIX, FLOAT8, MultiplyFloats) \
  WEFT_FLOAT8_LOOP(max_##SUFFIX, FLOAT8, MaxFloats) \
  WEFT_FLOAT8_LOOP(min_##SUFFIX, FLOAT8, MinFloats)
// NOLINTEND(bugprone-macro-parentheses)

WEFT_INT_LOOPS(i8, Int8s, Uint8s)
WEFT_INT_LOOPS(u8, Uint8s, Uint8s)
WEFT_INT_LOOPS(i32, Int32s, Uint32s)
WEFT_INT_LOOPS(u32, Uint32s, Uint32s)
WEFT_INT_LOOPS(i64, Int64s, Uint64s)
WEFT_INT_LOOPS(u64, Uint64s, Uint64s)
WEFT_FLOAT_LOOPS(f32, Floats)
WEFT_FLOAT_LOOPS(f64, Doubles)
#if defined(__F16C__)
WEFT_HALF_LOOP(sum_f16, HalvesVector, Float16, AddFloats, combine_float16<AddFloats>)
WEFT_HALF_LOOP(prod_f16, HalvesVector, Float16, MultiplyFloats, combine_float16<MultiplyFloats>)
WEFT_HALF_LOOP(max_f16, HalvesVector, Float16, MaxFloats, combine_float16<MaxFloats>)
WEFT_HALF_LOOP(min_f16, HalvesVector, Float16, MinFloats, combine_float16<MinFloats>)
#else
WEFT_HALF_LOOP(sum_f16, Uint32s, Float16, AddFloats, (combine_pairs<Float16, AddFloats>))
WEFT_HALF_LOOP(prod_f16, Uint32s, Float16, MultiplyFloats, (combine_pairs<Float16, MultiplyFloats>))
WEFT_HALF_LOOP(max_f16, Uint32s, Float16, MaxFloats, (combine_pairs<Float16, MaxFloats>))
WEFT_HALF_LOOP(min_f16, Uint32s, Float16, MinFloats, (combine_pairs<Float16, MinFloats>))
#endif
WEFT_HALF_LOOP(sum_bf16, Uint32s, Bfloat16, AddFloats, (combine_pairs<Bfloat16, AddFloats>))
WEFT_HALF_LOOP(prod_bf16, Uint32s, Bfloat16, MultiplyFloats,
               (combine_pairs<Bfloat16, MultiplyFloats>))
WEFT_HALF_LOOP(max_bf16, Uint32s, Bfloat16, MaxFloats, (combine_pairs<Bfloat16, MaxFloats>))
WEFT_HALF_LOOP(min_bf16, Uint32s, Bfloat16, MinFloats, (combine_pairs<Bfloat16, MinFloats>))
WEFT_FLOAT8_LOOPS(e4m3, Float8E4M3)
WEFT_FLOAT8_LOOPS(e5m2, Float8E5M2)

/// A vector of narrow floats as vectors of floats: from each word one for each.
template <class Narrow>
struct InWords {
  using Vector = Uint32s;
  static constexpr int kFloats = sizeof(std::uint32_t) / sizeof(Narrow);
  static constexpr int kBits = 8 * sizeof(Narrow);

  WEFT_HD_INLINE static void widen(const std::byte* from, FloatLanes* floats) {
    const WordLanes words = *reinterpret_cast<const Vector*>(from);
    for (int i = 0; i < kFloats; ++i) {
      floats[i] =
          Narrow::template widen<FloatLanes>((words >> (i * kBits)) & (UINT32_MAX >> (32 - kBits)));
    }
  }
  WEFT_HD_INLINE static WordLanes narrow(const FloatLanes* floats) {
    WordLanes words = {};
    for (int i = 0; i < kFloats; ++i)
      words |= Narrow::template narrow<WordLanes>(floats[i]) << (i * kBits);
    return words;
  }
};

#if defined(__F16C__)
/// The same by the processor's conversions.
template <>
struct InWords<Float16> {
  using Vector = HalvesVector;
  static constexpr int kFloats = 1;

  WEFT_HD_INLINE static void widen(const std::byte* from, FloatLanes* floats) {
    const HalfLanes halves = *reinterpret_cast<const Vector*>(from);
    floats[0] = WEFT_WIDEN_F16(halves);
  }
  WEFT_HD_INLINE static HalfLanes narrow(const FloatLanes* floats) {
    return __builtin_bit_cast(HalfLanes, WEFT_NARROW_F16(floats[0]));
  }
};
#endif

template <class Narrow, class Combine>
WEFT_HD_INLINE decltype(Narrow::bits) accumulate_one(const std::byte* const* from,
                                                     std::uint32_t ranks, std::uint64_t at,
                                                     float divisor) {
  using Bits [[gnu::aligned(1), gnu::may_alias]] = decltype(Narrow::bits);
  const auto element = [from, at](std::uint32_t rank) {
    const Bits bits = *reinterpret_cast<const Bits*>(from[rank] + at);
    return Narrow::template widen<float>(std::uint32_t{bits});
  };
  float value = element(0);
  for (std::uint32_t rank = 1; rank < ranks; ++rank)
    value = Combine::combine(value, element(rank));
  if (divisor != 1) value /= divisor;
  return static_cast<decltype(Narrow::bits)>(Narrow::template narrow<std::uint32_t>(value));
}

template <class Narrow, class Combine>
void accumulate(std::byte* first, std::byte* second, const std::byte* const* from,
                std::uint32_t ranks, std::uint64_t count, float divisor) {
  using Lanes = InWords<Narrow>;
  using Vector = typename Lanes::Vector;
  using Bits [[gnu::aligned(1), gnu::may_alias]] = decltype(Narrow::bits);
  const std::uint64_t bytes = count * sizeof(Narrow);
  std::uint64_t at = 0;
  for (; at + sizeof(Vector) <= bytes; at += sizeof(Vector)) {
    FloatLanes value[Lanes::kFloats];
    Lanes::widen(from[0] + at, value);
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      FloatLanes next[Lanes::kFloats];
      Lanes::widen(from[rank] + at, next);
      for (int i = 0; i < Lanes::kFloats; ++i)
        value[i] = Combine::combine(value[i], next[i]);
    }
    if (divisor != 1) {
      for (FloatLanes& floats : value)
        floats /= divisor;
    }
    const auto narrow = Lanes::narrow(value);
    if (at % kCacheLine == 0) {
      WEFT_PREFETCH_BLOCK(first, at, kCacheLine, bytes)
      if (second != nullptr) WEFT_PREFETCH_BLOCK(second, at, kCacheLine, bytes)
    }
    *reinterpret_cast<Vector*>(first + at) = narrow;
    if (second != nullptr) *reinterpret_cast<Vector*>(second + at) = narrow;
  }
  for (; at < bytes; at += sizeof(Narrow)) {
    const auto value = accumulate_one<Narrow, Combine>(from, ranks, at, divisor);
    *reinterpret_cast<Bits*>(first + at) = value;
    if (second != nullptr) *reinterpret_cast<Bits*>(second + at) = value;
  }
}

using Bytes [[gnu::vector_size(kVectorBytes), gnu::aligned(1), gnu::may_alias]] = std::uint8_t;

void copy(std::byte* first, std::byte* second, const std::byte* source, std::uint64_t bytes) {
  // What is there already is not written again: others may read it meanwhile.
  if (second == source) second = nullptr;
  if (first == source) {
    first = second;
    second = nullptr;
  }
  if (first == nullptr) return;
  constexpr std::uint64_t kBlock = kUnroll * sizeof(Bytes);
  std::uint64_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock) {
    Bytes value[kUnroll];
    for (std::uint64_t i = 0; i < kUnroll; ++i)
      value[i] = *reinterpret_cast<const Bytes*>(source + at + i * sizeof(Bytes));
    WEFT_PREFETCH_BLOCK(first, at, kBlock, bytes)
    for (std::uint64_t i = 0; i < kUnroll; ++i)
      *reinterpret_cast<Bytes*>(first + at + i * sizeof(Bytes)) = value[i];
    if (second == nullptr) continue;
    WEFT_PREFETCH_BLOCK(second, at, kBlock, bytes)
    for (std::uint64_t i = 0; i < kUnroll; ++i)
      *reinterpret_cast<Bytes*>(second + at + i * sizeof(Bytes)) = value[i];
  }
  std::memcpy(first + at, source + at, bytes - at);
  if (second != nullptr) std::memcpy(second + at, source + at, bytes - at);
}

}  // namespace

#define WEFT_ACCUMULATE_OF(NARROW) accumulate<NARROW, AddFloats>, accumulate<NARROW, MultiplyFloats>
#define WEFT_LOOPS_OF(SUFFIX) sum_##SUFFIX, prod_##SUFFIX, max_##SUFFIX, min_##SUFFIX

extern const ElementLoops WEFT_LOOPS_VARIANT;
const ElementLoops WEFT_LOOPS_VARIANT = {
    WEFT_LOOPS_NAME,
    copy,
    {WEFT_LOOPS_OF(i8), WEFT_LOOPS_OF(u8), WEFT_LOOPS_OF(i32), WEFT_LOOPS_OF(u32),
     WEFT_LOOPS_OF(i64), WEFT_LOOPS_OF(u64), WEFT_LOOPS_OF(f16), WEFT_LOOPS_OF(f32),
     WEFT_LOOPS_OF(f64), WEFT_LOOPS_OF(bf16), WEFT_LOOPS_OF(e4m3), WEFT_LOOPS_OF(e5m2)},
    {WEFT_ACCUMULATE_OF(Float16), WEFT_ACCUMULATE_OF(Bfloat16), WEFT_ACCUMULATE_OF(Float8E4M3),
     WEFT_ACCUMULATE_OF(Float8E5M2)}};

}  // namespace weft::device
