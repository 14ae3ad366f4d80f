// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <sstream>

#include "tests/integration/api/numbers.h"

namespace weft::gpu_test {
namespace {

/// How a float type lies in memory.
struct Format {
  unsigned exponent_bits = 0;
  unsigned fraction_bits = 0;
  int least_exponent = 0, most_exponent = 0;  ///< Of random inputs.

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// Of e4m3, which has none, the least NaN.
  [[nodiscard]] std::uint64_t infinity() const {
    if (exponent_bits == 4) return 0x7F;
    return ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  }
  [[nodiscard]] std::uint64_t nan() const {
    if (exponent_bits == 4) return 0x7F;
    return infinity() + (std::uint64_t{1} << (fraction_bits - 1));
  }
  [[nodiscard]] std::uint64_t sign() const {
    return std::uint64_t{1} << (exponent_bits + fraction_bits);
  }
  /// Of one step, rounded to nearest: those of 16 and of 8 bits are rounded to float32 before.
  [[nodiscard]] long double unit_roundoff() const {
    const long double own = std::ldexp(1.0L, -static_cast<int>(fraction_bits) - 1);
    return fraction_bits < 23 ? own + std::ldexp(1.0L, -24) : own;
  }
  /// The smallest number.
  [[nodiscard]] long double grain() const {
    return std::ldexp(1.0L, 1 - bias() - static_cast<int>(fraction_bits));
  }
};

Format format_of(const Type& type) {
  switch (type.weft) {
    case WEFT_FLOAT16:
      return {5, 10, -14, 10};
    case WEFT_BFLOAT16:
      return {8, 7, -20, 20};
    case WEFT_FLOAT8_E4M3:
      return {4, 3, -5, 3};
    case WEFT_FLOAT8_E5M2:
      return {5, 2, -12, 10};
    case WEFT_FLOAT64:
      return {11, 52, -40, 40};
    default:
      return {8, 23, -20, 20};
  }
}

bool is_real(const Type& type) {
  return test::is_real(type.weft);
}

std::uint64_t random_float(const Format& format, std::uint64_t random, bool specials) {
  const std::uint64_t sign = (random & 1) != 0 ? format.sign() : 0;
  const auto choice = static_cast<std::uint32_t>(random >> 1) & 63U;
  if (specials && choice < 5) {
    const std::array<std::uint64_t, 5> kinds{0, 1, format.infinity(), format.infinity(),
                                             format.nan()};
    return kinds[choice] | sign;
  }
  if (choice == 63) return 0;
  const auto span = static_cast<std::uint32_t>(format.most_exponent - format.least_exponent + 1);
  const auto exponent = static_cast<std::uint64_t>(format.bias() + format.least_exponent) +
                        (random >> 8 & 0xFFFFU) % span;
  const std::uint64_t fraction = draw(random, 0) >> (64 - format.fraction_bits);
  return sign | exponent << format.fraction_bits | fraction;
}

/// Every result of 4 such has as many digits as the type holds, at most.
std::uint64_t whole_number(const Call& call, std::uint64_t random) {
  const bool has_sign = !test::is_unsigned(call.type.weft);
  std::int64_t number = 0;
  if (call.reduction == WEFT_PROD) {
    number = random % 5 == 0 ? 2 : has_sign && random % 5 < 3 ? -1 : 1;
  } else {
    const std::int64_t most = std::max<std::int64_t>(
        1, test::most_summed(call.type.weft) / (call.premul == Premul::kNo ? 4 : 8));
    number = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(2 * most + 1));
    number = has_sign ? number - most : number / 2;
    if (call.reduction == WEFT_AVG && is_real(call.type)) number *= 4;
  }
  return test::bits_of(number, call.type.weft);
}

std::uint64_t random_element(const Call& call, const Format& format, std::uint64_t random) {
  if (call.whole) return whole_number(call, random);
  if (call.reduction == WEFT_PROD) {
    // Bits 52 to 62 below 4 choose a special value.
    const std::uint64_t choice = random & (std::uint64_t{0x7FC} << 52U);
    if (!call.specials && choice == 0) random |= std::uint64_t{4} << 52U;
    return test::any_bits(random, call.type.weft, WEFT_PROD);
  }
  return is_real(call.type) ? random_float(format, random, call.specials) : random;
}

std::uint64_t element(const Type& type, const std::byte* from, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from + index * type.bytes, type.bytes);
  return bits;
}

long double value_of(const Type& type, std::uint64_t bits) {
  return test::real_of(bits, type.weft);
}

/// By how much a right result may differ from the exact one, if each step is rounded to the type; a
/// way that rounds once differs by less.
long double bound(const Call& call, const Reduced& reduced, std::size_t index) {
  const Format format = format_of(call.type);
  const auto ranks = static_cast<long double>(reduced.inputs.size());
  long double sum = 0, product = 1;
  for (std::size_t rank = 0; rank < reduced.inputs.size(); ++rank) {
    long double value =
        std::abs(value_of(call.type, element(call.type, reduced.inputs[rank].data(), index)));
    if (!reduced.factors.empty()) {
      value *= std::abs(value_of(call.type, element(call.type, reduced.factors[rank].data(), 0)));
    }
    sum += value;
    product *= value;
  }
  const bool one_more = call.reduction == WEFT_AVG || call.premul != Premul::kNo;
  const long double roundings = ranks - (one_more ? 0 : 1);
  const long double relative = std::expm1(roundings * std::log1p(format.unit_roundoff()));
  if (call.reduction == WEFT_PROD) return relative * product;
  if (call.reduction == WEFT_AVG) sum /= ranks;
  // Only what is multiplied or divided can lose digits below the smallest number.
  return relative * sum + (one_more ? roundings * format.grain() : 0);
}

/// Whether an element of floats is as good as the expected one. The bits differ.
bool is_close(const Call& call, const Reduced& reduced, std::size_t index, std::uint64_t expected,
              std::uint64_t got) {
  const long double want = value_of(call.type, expected);
  const long double have = value_of(call.type, got);
  if (std::isnan(want) || std::isnan(have)) return std::isnan(want) && std::isnan(have);
  if (call.by_rank) return false;
  if (want == have) return true;
  // Of two ranks an average is, too, whether or not their sum is rounded before it is halved: below
  // the least number with all digits both are multiples of the smallest one, and need no rounding.
  const bool is_exact = call.whole || call.reduction == WEFT_MAX || call.reduction == WEFT_MIN ||
                        reduced.inputs.size() <= 2;
  if (is_exact) return false;
  if (std::isinf(want) || std::isinf(have)) return false;
  // Either order is off by at most the bound; this arithmetic is, too, by far less.
  return std::abs(want - have) <= 2.001L * bound(call, reduced, index);
}

void describe(std::ostream& out, const Type& type, std::uint64_t bits) {
  if (is_real(type)) {
    out << value_of(type, bits) << " (0x" << std::hex << bits << std::dec << ')';
  } else if (test::is_unsigned(type.weft)) {
    out << bits;
  } else {
    const auto unused = static_cast<unsigned>(64 - 8 * type.bytes);
    out << (static_cast<std::int64_t>(bits << unused) >> unused);
  }
}

}  // namespace

Bytes random_input(const Call& call, std::size_t bytes, std::uint64_t seed) {
  Bytes input(bytes);
  if (!reduces(call.operation)) {
    for (std::size_t at = 0; at < bytes; at += 8) {
      const std::uint64_t bits = draw(seed, at);
      std::memcpy(input.data() + at, &bits, std::min<std::size_t>(8, bytes - at));
    }
    return input;
  }
  const Format format = format_of(call.type);
  const std::size_t width = call.type.bytes;
  for (std::size_t i = 0; i < bytes / width; ++i) {
    const std::uint64_t bits = random_element(call, format, draw(seed, i));
    std::memcpy(input.data() + i * width, &bits, width);
  }
  return input;
}

Bytes random_factor(const Call& call, std::uint64_t seed) {
  const Type& type = call.type;
  const std::uint64_t random = draw(seed, 0);
  std::uint64_t bits = test::is_unsigned(type.weft) ? 2 + random % 5 : 2 - random % 5;
  if (call.whole) {
    const std::int64_t negative = test::is_unsigned(type.weft) ? 1 : -1;
    bits = test::bits_of(std::array<std::int64_t, 3>{1, 2, negative}[random % 3], type.weft);
  } else if (is_real(type)) {
    Format format = format_of(type);
    format.least_exponent = -1;
    format.most_exponent = 1;
    bits = random_float(format, random & ~std::uint64_t{2}, false);  // which is no zero
  }
  Bytes factor(type.bytes);
  std::memcpy(factor.data(), &bits, type.bytes);
  return factor;
}

std::string judge(const Call& call, const Reduced& reduced, std::size_t first,
                  std::span<const std::byte> got) {
  const std::size_t width = call.type.bytes;
  const std::byte* expected = reduced.result.data() + first * width;
  if (got.empty() || std::memcmp(expected, got.data(), got.size()) == 0) return {};
  const std::size_t count = got.size() / width;
  std::size_t wrong = 0, first_wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t want = element(call.type, expected, i);
    const std::uint64_t have = element(call.type, got.data(), i);
    if (want == have) continue;
    if (is_real(call.type) && is_close(call, reduced, first + i, want, have)) continue;
    if (wrong++ == 0) first_wrong = i;
  }
  if (wrong == 0) return {};
  std::ostringstream text;
  text.precision(17);
  text << wrong << " of " << count << " elements are wrong, first " << first_wrong << ": expected ";
  describe(text, call.type, element(call.type, expected, first_wrong));
  text << ", got ";
  describe(text, call.type, element(call.type, got.data(), first_wrong));
  text << ", from";
  for (std::size_t rank = 0; rank < reduced.inputs.size(); ++rank) {
    text << ' ';
    describe(text, call.type, element(call.type, reduced.inputs[rank].data(), first + first_wrong));
    if (reduced.factors.empty()) continue;
    text << " times ";
    describe(text, call.type, element(call.type, reduced.factors[rank].data(), 0));
  }
  return text.str();
}

}  // namespace weft::gpu_test
