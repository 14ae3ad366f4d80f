// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The conversions of 16-bit floats against the definition of their formats: all bits, all values
// halfway between two neighbours and beside them, random floats.
#include "core/device/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "core/device/narrow_float.h"
#include "core/device/reductions.h"

namespace weft::device {
namespace {

template <class T>
constexpr int kFractionBits = std::is_same_v<T, Float16> ? 10 : 7;
template <class T>
constexpr std::uint16_t kInfinity = ((1U << (15 - kFractionBits<T>)) - 1) << kFractionBits<T>;

/// The number that bits without sign stand for; of infinity, where the next number would be.
template <class T>
double magnitude(std::uint32_t bits) {
  constexpr int kBias = (1 << (14 - kFractionBits<T>)) - 1;
  const auto exponent = static_cast<int>(bits >> kFractionBits<T>);
  const std::uint32_t fraction = bits & ((1U << kFractionBits<T>)-1);
  if (exponent == 0) return std::ldexp(fraction, 1 - kBias - kFractionBits<T>);
  return std::ldexp((1U << kFractionBits<T>)+fraction, exponent - kBias - kFractionBits<T>);
}

/// The nearest by a search through all of them; of two as near, the even one. For no NaN.
template <class T>
std::uint16_t nearest(double value) {
  std::uint32_t below = 0;
  std::uint32_t above = kInfinity<T>;
  const double wanted = std::min(std::abs(value), magnitude<T>(above));
  while (above - below > 1) {
    const std::uint32_t middle = (below + above) / 2;
    (magnitude<T>(middle) <= wanted ? below : above) = middle;
  }
  const double down = wanted - magnitude<T>(below);
  const double up = magnitude<T>(above) - wanted;
  const bool take_above = up < down || (up == down && above % 2 == 0);
  return static_cast<std::uint16_t>((take_above ? above : below) |
                                    (std::signbit(value) ? 0x8000U : 0U));
}

template <class T>
class Half : public ::testing::Test {
 protected:
  static void expect_nearest(float value) {
    ASSERT_EQ(from_float<T>(value).bits, nearest<T>(value))
        << std::hexfloat << value << " is not rounded to nearest even";
  }
};
using Types = ::testing::Types<Float16, Bfloat16>;
TYPED_TEST_SUITE(Half, Types, );

TYPED_TEST(Half, WidensExactly) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const std::uint32_t positive = bits & 0x7FFFU;
    const float value = to_float(TypeParam{static_cast<std::uint16_t>(bits)});
    ASSERT_EQ(std::isnan(value), positive > kInfinity<TypeParam>) << bits;
    ASSERT_EQ(std::signbit(value), bits > 0x7FFFU) << bits;
    if (positive == kInfinity<TypeParam>) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else if (positive < kInfinity<TypeParam>) {
      ASSERT_EQ(std::abs(value), magnitude<TypeParam>(positive)) << bits;
    }
  }
}

TYPED_TEST(Half, ComesBackTheSame) {
  constexpr std::uint32_t kQuiet = 1U << (kFractionBits<TypeParam> - 1);
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const bool nan = (bits & 0x7FFFU) > kInfinity<TypeParam>;
    const float value = to_float(TypeParam{static_cast<std::uint16_t>(bits)});
    ASSERT_EQ(from_float<TypeParam>(value).bits, nan ? bits | kQuiet : bits);
  }
}

TYPED_TEST(Half, RoundsAtEveryBoundary) {
  for (std::uint32_t bits = 0; bits < kInfinity<TypeParam>; ++bits) {
    const double value = magnitude<TypeParam>(bits);
    const double middle = (value + magnitude<TypeParam>(bits + 1)) / 2;
    for (const auto point : {static_cast<float>(value), static_cast<float>(middle)}) {
      for (const float near : {point, std::nextafter(point, 0.0F), std::nextafter(point, 1e38F)}) {
        this->expect_nearest(near);
        this->expect_nearest(-near);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(Half, RoundsAnyFloat) {
  std::mt19937 random(20261121);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(from_float<TypeParam>(value))));
    } else {
      this->expect_nearest(value);
    }
    // Most floats are too large or too small for a float16: these are not.
    this->expect_nearest(std::ldexp(static_cast<float>(random()) * 0x1p-32F, i % 46 - 28));
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(Half, KeepsEveryNanQuiet) {
  constexpr std::uint32_t kQuiet = kInfinity<TypeParam> | (1U << (kFractionBits<TypeParam> - 1));
  for (const std::uint32_t bits : {0x7F800001U, 0x7F801000U, 0x7F808000U, 0x7FBFFFFFU, 0x7FC00000U,
                                   0x7FFFFFFFU, 0xFF800001U, 0xFFFF8000U, 0xFFFFFFFFU}) {
    const std::uint32_t half = from_float<TypeParam>(std::bit_cast<float>(bits)).bits;
    EXPECT_EQ(half & kQuiet, kQuiet) << std::hex << bits << " became " << half;
  }
}

TEST(Float16, AtItsEnds) {
  const auto bits = [](float value) { return from_float<Float16>(value).bits; };
  EXPECT_EQ(bits(1.0F), 0x3C00);
  EXPECT_EQ(bits(65504.0F), 0x7BFF);
  EXPECT_EQ(bits(std::nextafter(65520.0F, 0.0F)), 0x7BFF);
  EXPECT_EQ(bits(65520.0F), 0x7C00) << "halfway to 2^16, which is even";
  EXPECT_EQ(bits(-1e30F), 0xFC00);
  EXPECT_EQ(bits(0x1p-14F), 0x0400);
  EXPECT_EQ(bits(0x1p-24F), 0x0001);
  EXPECT_EQ(bits(0x1p-25F), 0x0000) << "halfway to 0, which is even";
  EXPECT_EQ(bits(std::nextafter(0x1p-25F, 1.0F)), 0x0001);
  EXPECT_EQ(bits(0x3p-25F), 0x0002);
  EXPECT_EQ(bits(-1e-40F), 0x8000);
  static_assert(to_float(from_float<Float16>(0x1.FFCp-3F)) == 0x1.FFCp-3F);
}

TEST(Bfloat16, AtItsEnds) {
  const auto bits = [](float value) { return from_float<Bfloat16>(value).bits; };
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(bits(1.0F), 0x3F80);
  EXPECT_EQ(bits(kMost), 0x7F80);
  EXPECT_EQ(bits(0x1.FEp127F), 0x7F7F);
  EXPECT_EQ(bits(0x1.FEFFFEp127F), 0x7F7F);
  EXPECT_EQ(bits(0x1.FFp127F), 0x7F80);
  EXPECT_EQ(bits(0x1p-133F), 0x0001);
  EXPECT_EQ(bits(-0x1p-134F), 0x8000);
  static_assert(to_float(from_float<Bfloat16>(-1.5F)) == -1.5F);
}

// Rounding to float in between is not to be seen.
TEST(Float16, ASumIsTheExactSumRoundedOnce) {
  std::mt19937 random(20261122);
  for (int i = 0; i < 300'000; ++i) {
    const Float16 a{static_cast<std::uint16_t>(random())};
    const Float16 b{static_cast<std::uint16_t>(random())};
    const double x = to_float(a);
    const double y = to_float(b);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    ASSERT_EQ(Sum<Float16>::combine(a, b).bits, nearest<Float16>(x + y)) << x << " + " << y;
  }
}

TEST(Reductions, OfHalvesTakeNanAndTheLarger) {
  const auto max = [](float a, float b) {
    return to_float(Max<Bfloat16>::combine(from_float<Bfloat16>(a), from_float<Bfloat16>(b)));
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(max(-2, -3), -2.0F);
  EXPECT_EQ(max(-3, 2), 2.0F);
  EXPECT_TRUE(std::isnan(max(kNan, 1)));
  EXPECT_TRUE(std::isnan(max(1, kNan)));
}

}  // namespace
}  // namespace weft::device
