// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/numbers.h"

#include <bit>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

namespace weft::test {
namespace {

/// How a real type is laid out: a sign, an exponent, a mantissa.
struct Format {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  [[nodiscard]] std::uint64_t bias() const { return (1U << (exponent_bits - 1)) - 1; }
  [[nodiscard]] std::uint64_t infinity() const {
    return ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
};

Format format_of(weft_data_type type) {
  switch (type) {
    case WEFT_FLOAT16:
      return {.exponent_bits = 5, .mantissa_bits = 10};
    case WEFT_BFLOAT16:
      return {.exponent_bits = 8, .mantissa_bits = 7};
    case WEFT_FLOAT32:
      return {.exponent_bits = 8, .mantissa_bits = 23};
    case WEFT_FLOAT8_E4M3:
      return {.exponent_bits = 4, .mantissa_bits = 3};
    case WEFT_FLOAT8_E5M2:
      return {.exponent_bits = 5, .mantissa_bits = 2};
    default:
      return {.exponent_bits = 11, .mantissa_bits = 52};
  }
}

// The n-bit integer that the low bits are, with its sign.
std::int64_t signed_of(std::uint64_t bits, weft_data_type type) {
  const auto unused = static_cast<unsigned>(64 - (8 * width_of(type)));
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::uint64_t unsigned_of(std::uint64_t bits, weft_data_type type) {
  const auto unused = static_cast<unsigned>(64 - (8 * width_of(type)));
  return bits << unused >> unused;
}

// Half a unit in the last place of a result near 1, of every rounding of one step.
long double rounding_of(weft_data_type type) {
  const long double own = std::ldexp(1.0L, -static_cast<int>(format_of(type).mantissa_bits) - 1);
  return width_of(type) <= 2 ? own + std::ldexp(1.0L, -23) : own;
}

}  // namespace

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52U);
}

std::size_t width_of(weft_data_type type) {
  switch (type) {
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_FLOAT64:
      return 8;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT32:
      return 4;
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
      return 2;
    default:
      return 1;
  }
}

bool is_unsigned(weft_data_type type) {
  return type == WEFT_UINT8 || type == WEFT_UINT32 || type == WEFT_UINT64;
}

bool is_real(weft_data_type type) {
  return type == WEFT_FLOAT16 || type == WEFT_BFLOAT16 || type == WEFT_FLOAT32 ||
         type == WEFT_FLOAT64 || type == WEFT_FLOAT8_E4M3 || type == WEFT_FLOAT8_E5M2;
}

std::int64_t most_summed(weft_data_type type) {
  switch (type) {
    case WEFT_INT8:
    case WEFT_UINT8:
      return 127;
    case WEFT_BFLOAT16:
      return 1 << 8;
    case WEFT_FLOAT16:
      return 1 << 11;
    case WEFT_FLOAT8_E4M3:
      return 1 << 4;
    case WEFT_FLOAT8_E5M2:
      return 1 << 3;
    default:
      return 1 << 16;
  }
}

std::uint64_t bits_of(std::int64_t number, weft_data_type type) {
  if (type == WEFT_FLOAT64) return std::bit_cast<std::uint64_t>(static_cast<double>(number));
  if (!is_real(type)) return static_cast<std::uint64_t>(number);
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (type == WEFT_FLOAT32 || number == 0) return bits;
  if (type == WEFT_BFLOAT16) return bits >> 16;
  // The others have fewer bits of exponent than float's 8, around another bias than 127.
  const Format format = format_of(type);
  const std::uint64_t exponent = ((bits >> 23) & 0xFFU) - 127 + format.bias();
  const std::uint64_t sign = bits >> 31;
  return (sign << (format.exponent_bits + format.mantissa_bits)) |
         (exponent << format.mantissa_bits) | ((bits & 0x7FFFFFU) >> (23U - format.mantissa_bits));
}

std::uint64_t any_bits(std::uint64_t random, weft_data_type type, weft_reduction reduction) {
  if (!is_real(type)) return reduction == WEFT_PROD ? random | 1U : random;
  const Format format = format_of(type);
  const std::uint64_t sign = (random >> 63) << (format.exponent_bits + format.mantissa_bits);
  // 52 bits for the mantissa, below those that choose.
  const std::uint64_t choice = (random >> 52) & 0x7FFU;
  const std::uint64_t mantissa =
      (random & ((std::uint64_t{1} << 52) - 1)) >> (52U - format.mantissa_bits);
  const bool tiny = width_of(type) == 1;
  if (choice < 4) {
    if (type == WEFT_FLOAT8_E4M3 && choice < 2) return sign | 0x7FU;
    switch (choice) {
      case 0:
        return sign | format.infinity() | (std::uint64_t{1} << (format.mantissa_bits - 1));
      case 1:
        return sign | format.infinity();
      default:
        return sign;
    }
  }
  std::uint64_t exponent = type == WEFT_FLOAT8_E4M3 ? format.bias() - 3 + (choice % 5)
                                                    : format.bias() - 6 + (choice % 13);
  std::uint64_t digits = mantissa;
  if (reduction == WEFT_PROD) {
    const std::uint64_t half = std::uint64_t{1} << (format.mantissa_bits - 1);
    exponent = format.bias() - (choice % 2);
    digits = choice % 2 == 1 ? digits | half : digits >> 2;
    if (tiny && choice % 16 >= 2) {
      exponent = format.bias();
      digits = 0;
    }
  }
  return sign | (exponent << format.mantissa_bits) | digits;
}

long double real_of(std::uint64_t bits, weft_data_type type) {
  switch (type) {
    case WEFT_FLOAT64:
      return std::bit_cast<double>(bits);
    case WEFT_FLOAT32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case WEFT_BFLOAT16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    default:
      break;
  }
  const Format format = format_of(type);
  const std::uint64_t leading = std::uint64_t{1} << format.mantissa_bits;
  const std::uint64_t magnitude = bits & ((leading << format.exponent_bits) - 1);
  const std::uint64_t exponent = magnitude >> format.mantissa_bits;
  const std::uint64_t digits = magnitude & (leading - 1);
  // Of the smallest exponent, subnormal numbers included.
  const int lowest = 1 - static_cast<int>(format.bias() + format.mantissa_bits);
  // e4m3 has numbers where others have infinities and NaNs, but for the last one.
  const bool special =
      type == WEFT_FLOAT8_E4M3 ? magnitude == 0x7F : magnitude >= format.infinity();
  long double value = 0;
  if (special) {
    value = magnitude == format.infinity() ? std::numeric_limits<long double>::infinity()
                                           : std::numeric_limits<long double>::quiet_NaN();
  } else if (exponent == 0) {
    value = static_cast<double>(digits) * power_of_two(lowest);
  } else {
    value = static_cast<double>(digits | leading) *
            power_of_two(lowest + static_cast<int>(exponent) - 1);
  }
  const bool negative = ((bits >> (format.exponent_bits + format.mantissa_bits)) & 1U) != 0;
  return negative ? -value : value;
}

Reduced::Reduced(weft_data_type type, weft_reduction reduction, std::uint32_t ranks,
                 bool premultiplied)
    : type_(type), reduction_(reduction), ranks_(ranks) {
  if (!is_real(type) || reduction == WEFT_MAX || reduction == WEFT_MIN) return;
  if (ranks == 1 && !premultiplied) return;
  const bool one_more = reduction == WEFT_AVG || premultiplied;
  const auto roundings = static_cast<long double>(ranks - (one_more ? 0 : 1));
  // This arithmetic rounds as well, at 2^-64: 2^-11 of what a double does.
  error_ = std::expm1(roundings * std::log1p(rounding_of(type))) * (1 + std::ldexp(1.0L, -10));
}

void Reduced::add(std::uint64_t bits, std::int64_t factor) {
  const bool first = std::exchange(empty_, false);
  if (is_real(type_)) {
    const long double value = real_of(bits, type_) * static_cast<long double>(factor);
    magnitudes_ += std::fabs(value);
    if (first) {
      real_ = value;
      return;
    }
    switch (reduction_) {
      case WEFT_PROD:
        real_ *= value;
        return;
      case WEFT_MAX:
        real_ = std::isnan(value) || value > real_ ? value : real_;
        return;
      case WEFT_MIN:
        real_ = std::isnan(value) || value < real_ ? value : real_;
        return;
      default:
        real_ += value;
        return;
    }
  }
  const std::uint64_t element = is_unsigned(type_)
                                    ? unsigned_of(bits, type_)
                                    : static_cast<std::uint64_t>(signed_of(bits, type_));
  const std::uint64_t value = element * static_cast<std::uint64_t>(factor);
  if (first) {
    whole_ = value;
    return;
  }
  const bool larger =
      is_unsigned(type_) ? value > whole_ : static_cast<std::int64_t>(value) > as_signed();
  switch (reduction_) {
    case WEFT_PROD:
      whole_ *= value;
      return;
    case WEFT_MAX:
      whole_ = larger ? value : whole_;
      return;
    case WEFT_MIN:
      whole_ = larger ? whole_ : value;
      return;
    default:
      whole_ += value;
      return;
  }
}

std::int64_t Reduced::as_signed() const {
  return signed_of(whole_, type_);
}

std::uint64_t Reduced::bits() const {
  if (reduction_ != WEFT_AVG) return unsigned_of(whole_, type_);
  if (is_unsigned(type_)) return unsigned_of(whole_, type_) / ranks_;
  return unsigned_of(static_cast<std::uint64_t>(as_signed() / std::int64_t{ranks_}), type_);
}

long double Reduced::exact() const {
  return reduction_ == WEFT_AVG ? real_ / static_cast<long double>(ranks_) : real_;
}

long double Reduced::margin() const {
  if (error_ == 0) return 0;  // magnitudes may be infinite
  if (reduction_ == WEFT_PROD) return error_ * std::fabs(real_);
  return error_ * magnitudes_ / static_cast<long double>(reduction_ == WEFT_AVG ? ranks_ : 1);
}

bool Reduced::allows(std::uint64_t bits) const {
  if (!is_real(type_)) return unsigned_of(bits, type_) == this->bits();
  const long double found = real_of(bits, type_);
  const long double due = exact();
  if (std::isnan(due) || std::isinf(due)) {
    return std::isnan(due) ? std::isnan(found) : found == due;
  }
  return std::fabs(found - due) <= margin();
}

std::string Reduced::describe() const {
  std::ostringstream text;
  if (is_real(type_)) {
    text.precision(20);
    text << exact() << " give or take " << margin();
  } else {
    text << "0x" << std::hex << bits();
  }
  return text.str();
}

}  // namespace weft::test
