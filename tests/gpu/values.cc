// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <sstream>

namespace weft::gpu_test {
namespace {

/// How a float type lies in memory.
struct Format {
  unsigned exponent_bits = 0;
  unsigned fraction_bits = 0;
  int least_exponent = 0, most_exponent = 0;  ///< Of random inputs.

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] std::uint32_t infinity() const {
    return ((1U << exponent_bits) - 1) << fraction_bits;
  }
  [[nodiscard]] std::uint32_t sign() const { return 1U << (exponent_bits + fraction_bits); }
  /// Of one addition, rounded to nearest.
  [[nodiscard]] double unit_roundoff() const {
    return std::ldexp(1.0, -static_cast<int>(fraction_bits) - 1);
  }
};

Format format_of(const Type& type) {
  switch (type.weft) {
    case WEFT_FLOAT16:
      return {5, 10, -14, 10};
    case WEFT_BFLOAT16:
      return {8, 7, -20, 20};
    default:
      return {8, 23, -20, 20};
  }
}

// splitmix64
std::uint64_t mix(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
  return state ^ (state >> 31);
}

std::uint32_t random_float(const Format& format, std::uint64_t random, bool specials) {
  const std::uint32_t sign = (random & 1) != 0 ? format.sign() : 0;
  const auto choice = static_cast<std::uint32_t>(random >> 1) & 63U;
  if (specials && choice < 5) {
    const std::array<std::uint32_t, 5> kinds{
        0, 1, format.infinity(), format.infinity(),
        format.infinity() + (1U << (format.fraction_bits - 1))};
    return kinds[choice] | sign;
  }
  if (choice == 63) return 0;
  const auto span = static_cast<std::uint32_t>(format.most_exponent - format.least_exponent + 1);
  const auto exponent = static_cast<std::uint32_t>(format.bias() + format.least_exponent) +
                        static_cast<std::uint32_t>(random >> 8 & 0xFFFFU) % span;
  const auto fraction = static_cast<std::uint32_t>(random >> 32) >> (32 - format.fraction_bits);
  return sign | exponent << format.fraction_bits | fraction;
}

double value_of(const Format& format, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (format.sign() - 1);
  const double sign = (bits & format.sign()) != 0 ? -1 : 1;
  if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint32_t fraction = magnitude & ((1U << format.fraction_bits) - 1);
  const double significand = exponent == 0 ? fraction : fraction + (1U << format.fraction_bits);
  return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - format.bias() -
                                            static_cast<int>(format.fraction_bits));
}

std::uint32_t element(const Type& type, const std::byte* from, std::size_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from + index * type.bytes, type.bytes);
  return bits;
}

/// Whether an element of floats is as good as the expected one. The bits differ.
bool is_close(const Call& call, std::span<const Bytes> inputs, std::size_t index,
              std::uint32_t expected, std::uint32_t got) {
  const Format format = format_of(call.type);
  const double want = value_of(format, expected);
  const double have = value_of(format, got);
  if (std::isnan(want) || std::isnan(have)) return std::isnan(want) && std::isnan(have);
  if (want == have) return true;
  if (call.broadcast || call.reduction != WEFT_SUM || inputs.size() <= 2) return false;
  if (std::isinf(want) || std::isinf(have)) return false;
  double sum = 0;
  for (const Bytes& input : inputs)
    sum += std::abs(value_of(format, element(call.type, input.data(), index)));
  // Either order is off by at most this from the exact sum; a tenth for errors of errors.
  const double off = static_cast<double>(inputs.size() - 1) * format.unit_roundoff() * sum * 1.1;
  return std::abs(want - have) <= 2 * off;
}

void describe(std::ostream& out, const Type& type, std::uint32_t bits) {
  if (type.weft == WEFT_INT32) {
    out << static_cast<std::int32_t>(bits);
  } else {
    out << value_of(format_of(type), bits) << " (0x" << std::hex << bits << std::dec << ')';
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Type& type) {
  return out << type.name;
}

std::ostream& operator<<(std::ostream& out, const Call& call) {
  if (call.broadcast) {
    out << "broadcast of rank " << call.root;
  } else {
    out << "all-reduce " << (call.reduction == WEFT_MAX ? "max" : "sum");
  }
  out << " of " << call.count << ' ' << call.type.name;
  if (call.in_place) {
    out << " in place at +" << call.recv_offset;
  } else {
    out << " from +" << call.send_offset << " to +" << call.recv_offset;
  }
  return out << (call.specials ? " with special values" : "");
}

Bytes random_elements(const Call& call, std::uint64_t seed) {
  Bytes bytes(call.bytes());
  const Format format = format_of(call.type);
  const std::uint64_t start = mix(seed);
  for (std::size_t i = 0; i < call.count; ++i) {
    const std::uint64_t random = mix(start + i * 0x9e3779b97f4a7c15U);
    const std::uint32_t bits = call.type.weft == WEFT_INT32
                                   ? static_cast<std::uint32_t>(random)
                                   : random_float(format, random, call.specials);
    std::memcpy(bytes.data() + i * call.type.bytes, &bits, call.type.bytes);
  }
  return bytes;
}

std::string judge(const Call& call, std::span<const Bytes> inputs, const Bytes& expected,
                  std::span<const std::byte> got) {
  if (expected.empty() || std::memcmp(expected.data(), got.data(), expected.size()) == 0) return {};
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < call.count; ++i) {
    const std::uint32_t want = element(call.type, expected.data(), i);
    const std::uint32_t have = element(call.type, got.data(), i);
    if (want == have) continue;
    if (call.type.weft != WEFT_INT32 && is_close(call, inputs, i, want, have)) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  std::ostringstream text;
  text.precision(9);
  text << wrong << " of " << call.count << " elements are wrong, first " << first << ": expected ";
  describe(text, call.type, element(call.type, expected.data(), first));
  text << ", got ";
  describe(text, call.type, element(call.type, got.data(), first));
  text << ", from";
  for (const Bytes& input : inputs) {
    text << ' ';
    describe(text, call.type, element(call.type, input.data(), first));
  }
  return text.str();
}

}  // namespace weft::gpu_test
