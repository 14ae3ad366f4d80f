// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Symbolic elements: what a kernel takes for 8 bytes of a number says which ranks' inputs it was
// made of, in which order, and how far it has come.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::checker {

/// How an element came to be, apart from which element it is: a tree over ranks. Equal trees have
/// equal numbers. Two forms: a run, which adds up ranks that follow each other on the reference
/// ring, one by one, and takes no memory; any other tree is kept.
using Expression = std::uint32_t;
inline constexpr Expression kNothing = 0;

/// The most ranks that expressions tell apart.
inline constexpr std::uint32_t kMostRanks = 4096;

/// 64 bits, from the highest: 1 (so that no tag of a call looks like one), 27 of the expression, 22
/// of the element's number, 14 of the connections that it passed.
using Value = std::uint64_t;
inline constexpr unsigned kHopBits = 14;
inline constexpr unsigned kElementBits = 22;
inline constexpr Value kValueMark = Value{1} << 63;
inline constexpr std::uint32_t kMostElements = 1U << kElementBits;
inline constexpr unsigned kExpressionShift = kElementBits + kHopBits;
/// From this one on values are of elements, and not of nothing.
inline constexpr Value kFirstSomething = kValueMark | Value{1} << kExpressionShift;

/// What stands where nothing was written, by why.
enum class Nothing : std::uint32_t { kUnwritten = 1, kNeverFilled = 2, kGivenBack = 3 };

[[nodiscard]] constexpr Value make_value(Expression expression, std::uint32_t element,
                                         std::uint32_t hops = 0) {
  return kValueMark | Value{expression} << kExpressionShift | Value{element} << kHopBits | hops;
}
[[nodiscard]] constexpr Value make_nothing(Nothing why) {
  return make_value(kNothing, static_cast<std::uint32_t>(why));
}
[[nodiscard]] constexpr bool is_value(std::uint64_t bits) {
  return (bits & kValueMark) != 0;
}
[[nodiscard]] constexpr Expression expression_of(Value value) {
  return static_cast<Expression>((value & ~kValueMark) >> kExpressionShift);
}
[[nodiscard]] constexpr std::uint32_t element_of(Value value) {
  return static_cast<std::uint32_t>(value >> kHopBits) & (kMostElements - 1);
}
[[nodiscard]] constexpr std::uint32_t hops_of(Value value) {
  return static_cast<std::uint32_t>(value) & ((1U << kHopBits) - 1);
}

/// The trees of one execution.
class Expressions {
 public:
  /// `ring` holds each rank once: the order in which runs go.
  explicit Expressions(const std::vector<std::uint32_t>& ring);

  [[nodiscard]] Expression leaf(std::uint32_t rank) const;
  /// A rank's input that is to be multiplied before anything else: then it is the leaf.
  [[nodiscard]] Expression raw(std::uint32_t rank);
  [[nodiscard]] bool is_raw(Expression expression) const;
  /// is_raw() must hold.
  [[nodiscard]] Expression premultiplied(Expression raw) const;
  /// `a` with `b`, in this order.
  [[nodiscard]] Expression combine(Expression a, Expression b);
  /// An average's sum once it was divided.
  [[nodiscard]] Expression finished(Expression sum);

  /// Ranks in it, each as often as it contributed; stops counting at 2^32 - 1.
  [[nodiscard]] std::uint32_t contributions(Expression expression) const;
  [[nodiscard]] bool is_finished(Expression expression) const;

  struct Shape {
    std::vector<std::uint32_t> ranks;  ///< From left to right, `most` of them.
    bool left_to_right = true;         ///< ((a b) c) d
    bool finished = false;             ///< The whole, and no part of it.
    bool finished_within = false;
    bool raw = false;  ///< A part of it was not multiplied.
  };
  [[nodiscard]] Shape shape_of(Expression expression, std::uint32_t most) const;

 private:
  struct Node {
    Expression left;
    Expression right;  // kFinish: `left` was finished; kRaw: it is not multiplied yet
    std::uint32_t contributions;
  };
  [[nodiscard]] Expression kept(Expression left, Expression right, std::uint32_t contributions);

  std::vector<std::uint32_t> ring_;
  std::vector<std::uint32_t> place_;  // by rank
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Expression> numbers_;
};

}  // namespace weft::checker
