// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The conversions of 8-bit floats against the definition of their formats: all codes, all values
// halfway between two neighbours and beside them, random floats.
#include "core/device/float8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "core/device/narrow_float.h"
#include "core/device/reductions.h"

namespace weft::device {
// Names of its own: half_test.cc, which asks the same of other types, may be in the same unit.
namespace float8 {
namespace {

/// What the formats' definition says, apart from the code.
struct Format {
  int fraction_bits;
  int bias;
  std::uint32_t largest;   ///< Code of the largest number.
  std::uint32_t infinity;  ///< 0: it has none.
};
template <class T>
constexpr Format kFormat = {.fraction_bits = 3, .bias = 7, .largest = 0x7E, .infinity = 0};
template <>
constexpr Format kFormat<Float8E5M2> = {
    .fraction_bits = 2, .bias = 15, .largest = 0x7B, .infinity = 0x7C};

/// The number of a code without sign, up to the largest.
template <class T>
double magnitude(std::uint32_t code) {
  constexpr Format kIs = kFormat<T>;
  const auto exponent = static_cast<int>(code >> kIs.fraction_bits);
  const std::uint32_t fraction = code & ((1U << kIs.fraction_bits) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - kIs.bias - kIs.fraction_bits);
  return std::ldexp((1U << kIs.fraction_bits) + fraction, exponent - kIs.bias - kIs.fraction_bits);
}

/// The nearest by looking at all of them; of two as near, the even one. For no NaN; an infinity
/// only where there is one.
template <class T>
std::uint8_t nearest(double value) {
  constexpr Format kIs = kFormat<T>;
  const std::uint32_t sign = std::signbit(value) ? 0x80U : 0U;
  if (std::isinf(value)) return static_cast<std::uint8_t>(kIs.infinity | sign);
  const double wanted = std::min(std::abs(value), magnitude<T>(kIs.largest));
  std::uint32_t best = 0;
  double distance = wanted;
  for (std::uint32_t code = 1; code <= kIs.largest; ++code) {
    const double away = std::abs(magnitude<T>(code) - wanted);
    if (away > distance || (away == distance && code % 2 != 0)) continue;
    best = code;
    distance = away;
  }
  return static_cast<std::uint8_t>(best | sign);
}

template <class T>
class Float8 : public ::testing::Test {
 protected:
  static void expect_nearest(float value) {
    ASSERT_EQ(from_float<T>(value).bits, nearest<T>(value))
        << std::hexfloat << value << " is not rounded to nearest even";
  }
};
using Types = ::testing::Types<Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(Float8, Types, );

TYPED_TEST(Float8, WidensExactly) {
  constexpr Format kIs = kFormat<TypeParam>;
  for (std::uint32_t bits = 0; bits <= 0xFF; ++bits) {
    const std::uint32_t code = bits & 0x7FU;
    const float value = to_float(TypeParam{static_cast<std::uint8_t>(bits)});
    ASSERT_EQ(std::signbit(value), bits > 0x7F) << bits;
    if (code <= kIs.largest) {
      ASSERT_EQ(std::abs(value), magnitude<TypeParam>(code)) << bits;
    } else if (code == kIs.infinity) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_TRUE(std::isnan(value)) << bits;
    }
  }
}

TYPED_TEST(Float8, ComesBackTheSame) {
  for (std::uint32_t bits = 0; bits <= 0xFF; ++bits) {
    const float value = to_float(TypeParam{static_cast<std::uint8_t>(bits)});
    const bool nan = std::isnan(value);
    // Of e5m2 a NaN that signals becomes a quiet one.
    ASSERT_EQ(from_float<TypeParam>(value).bits, nan ? bits | 0x02U : bits);
  }
}

TYPED_TEST(Float8, RoundsAtEveryBoundary) {
  for (std::uint32_t code = 0; code < kFormat<TypeParam>.largest; ++code) {
    const double value = magnitude<TypeParam>(code);
    const double middle = (value + magnitude<TypeParam>(code + 1)) / 2;
    for (const auto point : {static_cast<float>(value), static_cast<float>(middle)}) {
      for (const float near : {point, std::nextafter(point, 0.0F), std::nextafter(point, 1e38F)}) {
        this->expect_nearest(near);
        this->expect_nearest(-near);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(Float8, RoundsAnyFloat) {
  std::mt19937 random(20261122);
  for (int i = 0; i < 50'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(from_float<TypeParam>(value))));
    } else if (std::isfinite(value)) {
      this->expect_nearest(value);
    }
    // Most floats are too large or too small: these are not.
    this->expect_nearest(std::ldexp(static_cast<float>(random()) * 0x1p-32F, i % 36 - 18));
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(Float8, WhatIsFiniteStaysFinite) {
  constexpr std::uint32_t kLargest = kFormat<TypeParam>.largest;
  const auto bits = [](float value) { return from_float<TypeParam>(value).bits; };
  const auto largest = static_cast<float>(magnitude<TypeParam>(kLargest));
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const float beyond : {largest, std::nextafter(largest, kMost), largest * 1.0625F,
                             largest * 1.125F, largest * 2, largest * largest, kMost}) {
    EXPECT_EQ(bits(beyond), kLargest) << beyond;
    EXPECT_EQ(bits(-beyond), kLargest | 0x80U) << beyond;
  }
  const TypeParam most{static_cast<std::uint8_t>(kLargest)};
  EXPECT_EQ(Sum<TypeParam>::combine(most, most), most);
  EXPECT_EQ(Prod<TypeParam>::combine(most, most), most);
}

TEST(Float8E4M3, AtItsEnds) {
  const auto bits = [](float value) { return from_float<Float8E4M3>(value).bits; };
  EXPECT_EQ(bits(1.0F), 0x38);
  EXPECT_EQ(bits(448.0F), 0x7E);
  EXPECT_EQ(bits(std::nextafter(432.0F, 0.0F)), 0x7D);
  EXPECT_EQ(bits(0x1p-6F), 0x08);
  EXPECT_EQ(bits(0x1p-9F), 0x01);
  EXPECT_EQ(bits(0x1p-10F), 0x00) << "halfway to 0, which is even";
  EXPECT_EQ(bits(-0x1p-10F), 0x80);
  EXPECT_EQ(bits(std::nextafter(0x1p-10F, 1.0F)), 0x01);
  EXPECT_EQ(bits(std::numeric_limits<float>::infinity()), 0x7F) << "it has none";
  EXPECT_EQ(bits(-std::numeric_limits<float>::infinity()), 0xFF);
  EXPECT_EQ(bits(std::bit_cast<float>(0x7F800001U)), 0x7F);
  EXPECT_EQ(bits(std::bit_cast<float>(0xFFFFFFFFU)), 0xFF);
  static_assert(to_float(from_float<Float8E4M3>(-0x1.Cp8F)) == -448.0F);
}

TEST(Float8E5M2, AtItsEnds) {
  const auto bits = [](float value) { return from_float<Float8E5M2>(value).bits; };
  EXPECT_EQ(bits(1.0F), 0x3C);
  EXPECT_EQ(bits(57344.0F), 0x7B);
  EXPECT_EQ(bits(0x1p-14F), 0x04);
  EXPECT_EQ(bits(0x1p-16F), 0x01);
  EXPECT_EQ(bits(0x1p-17F), 0x00) << "halfway to 0, which is even";
  EXPECT_EQ(bits(std::nextafter(0x1p-17F, 1.0F)), 0x01);
  EXPECT_EQ(bits(std::numeric_limits<float>::infinity()), 0x7C);
  EXPECT_EQ(bits(-std::numeric_limits<float>::infinity()), 0xFC);
  EXPECT_EQ(bits(std::bit_cast<float>(0x7F800001U)), 0x7E);
  EXPECT_EQ(bits(std::bit_cast<float>(0xFFFFFFFFU)), 0xFF);
  static_assert(to_float(from_float<Float8E5M2>(-0x1.Cp15F)) == -57344.0F);
}

/// Every pair of codes: what float says of them, rounded once; float is exact here.
TYPED_TEST(Float8, CombinesEveryPair) {
  const auto same = [](TypeParam found, double due) {
    return std::isnan(due) ? std::isnan(to_float(found)) : found.bits == nearest<TypeParam>(due);
  };
  for (std::uint32_t pair = 0; pair <= 0xFFFF; ++pair) {
    const TypeParam a{static_cast<std::uint8_t>(pair)};
    const TypeParam b{static_cast<std::uint8_t>(pair >> 8)};
    const double x = to_float(a);
    const double y = to_float(b);
    const bool nan = std::isnan(x) || std::isnan(y);
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    ASSERT_TRUE(same(Sum<TypeParam>::combine(a, b), x + y)) << x << " + " << y;
    ASSERT_TRUE(same(Prod<TypeParam>::combine(a, b), x * y)) << x << " * " << y;
    // Of zeros of both signs the right one.
    const double most = nan ? kNan : x > y ? x : y;
    const double least = nan ? kNan : x < y ? x : y;
    ASSERT_TRUE(same(Max<TypeParam>::combine(a, b), most)) << x << " max " << y;
    ASSERT_TRUE(same(Min<TypeParam>::combine(a, b), least)) << x << " min " << y;
  }
}

}  // namespace
}  // namespace float8
}  // namespace weft::device
