// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Elements of every type as bits, and what a reduction of them must be: made apart from the
// library, over other arithmetic than its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/types.h>

namespace weft::test {

/// Of a double's normal numbers. std::ldexp, for every element, took a third of the tests' time.
[[nodiscard]] double power_of_two(int exponent);

[[nodiscard]] std::size_t width_of(weft_data_type type);
[[nodiscard]] bool is_unsigned(weft_data_type type);
[[nodiscard]] bool is_real(weft_data_type type);

/// A sum of whole numbers up to here is exact: as many digits as the type holds.
[[nodiscard]] std::int64_t most_summed(weft_data_type type);
/// Of a whole number that the type holds; of more than it holds for integers, which wrap.
[[nodiscard]] std::uint64_t bits_of(std::int64_t number, weft_data_type type);

/// An element out of 64 random bits. Integers: any, odd for products, which else soon end at zero.
/// Real types: any digits, magnitudes of 2^-6 to 2^6, of 0.75 to 1.25 for products, so that nothing
/// overflows or becomes subnormal under way; one in 512 is a NaN, an infinity or a zero, of either
/// sign. e4m3 has no infinity and numbers of 2^-6 to 448 alone: magnitudes of 2^-3 to 2^1. Of its
/// products, and of those of e5m2, seven in eight factors are 1.
[[nodiscard]] std::uint64_t any_bits(std::uint64_t random, weft_data_type type,
                                     weft_reduction reduction);

/// What a reduction of some elements may be.
///
/// Integers: one value. min and max of real types: one value, whatever the sign of a zero or the
/// bits of a NaN. Sums, products and averages of real types: any value within an error bound of the
/// exact one. Each step of n - 1 rounds once, in whatever order elements are combined: a value is
/// off by a factor of at most 1 + u, u being half a unit in the last place. A type of 16 or 8
/// bits is rounded twice, to float and then to its own digits: u is the sum of both. So what is
/// computed differs from the exact result by at most ((1 + u)^k - 1) * s, k roundings deep, s being
/// the sum of the magnitudes (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 4.2),
/// of a product the magnitude of the product. k is n - 1, and one more for the division of an
/// average, or for the products that a pre-multiplied sum adds up. What `any_bits` draws keeps
/// every step clear of subnormal numbers, but the quotient of an average, whose rounding is then
/// still far smaller than this bound: s / n is at least 2^-12 for up to 64 ranks, of e4m3, whose
/// smallest number is 2^-9, about 2^-3.
class Reduced {
 public:
  /// Of nothing yet; copies of it are to be added to.
  Reduced(weft_data_type type, weft_reduction reduction, std::uint32_t ranks,
          bool premultiplied = false);
  /// One more rank's element, multiplied.
  void add(std::uint64_t bits, std::int64_t factor = 1);
  /// Of integers, once each rank's was added; so are the others.
  [[nodiscard]] std::uint64_t bits() const;
  [[nodiscard]] bool allows(std::uint64_t bits) const;
  /// "0.5 give or take 1e-07".
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] std::int64_t as_signed() const;
  [[nodiscard]] long double exact() const;
  [[nodiscard]] long double margin() const;

  weft_data_type type_;
  weft_reduction reduction_;
  std::uint32_t ranks_;
  long double error_ = 0;  // the bound, in parts of the magnitude
  bool empty_ = true;
  std::uint64_t whole_ = 0;  // integers, wrapped to 64 bits
  long double real_ = 0;
  long double magnitudes_ = 0;
};

/// The number that the bits of a real type stand for; exact.
[[nodiscard]] long double real_of(std::uint64_t bits, weft_data_type type);

}  // namespace weft::test
