// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/expressions.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace weft::checker {
namespace {

// A run: 13 bits of length, 12 of where it begins. A kept tree: this bit and its number.
constexpr Expression kKeptBit = 1U << 26;
constexpr Expression kFinish = UINT32_MAX;
constexpr Expression kRaw = UINT32_MAX - 1;
constexpr unsigned kLengthBits = 13;

bool is_kept(Expression expression) {
  return (expression & kKeptBit) != 0;
}
Expression make_run(std::uint32_t first, std::uint32_t length) {
  return first << kLengthBits | length;
}
std::uint32_t first_of(Expression run) {
  return run >> kLengthBits;
}
std::uint32_t length_of(Expression run) {
  return run & ((1U << kLengthBits) - 1);
}

}  // namespace

Expressions::Expressions(const std::vector<std::uint32_t>& ring)
    : ring_(ring), place_(ring.size()) {
  if (ring.size() > kMostRanks) throw std::length_error("more ranks than expressions tell apart");
  for (std::uint32_t place = 0; place < ring_.size(); ++place)
    place_.at(ring_[place]) = place;
}

Expression Expressions::leaf(std::uint32_t rank) const {
  return make_run(place_[rank], 1);
}

Expression Expressions::raw(std::uint32_t rank) {
  return kept(leaf(rank), kRaw, 1);
}

bool Expressions::is_raw(Expression expression) const {
  return is_kept(expression) && nodes_[expression & ~kKeptBit].right == kRaw;
}

Expression Expressions::premultiplied(Expression raw) const {
  return nodes_[raw & ~kKeptBit].left;
}

Expression Expressions::combine(Expression a, Expression b) {
  const auto ranks = static_cast<std::uint32_t>(ring_.size());
  Expression result = kNothing;
  if (!is_kept(a) && !is_kept(b) && length_of(b) == 1 && length_of(a) < ranks &&
      first_of(b) == (first_of(a) + length_of(a)) % ranks) {
    result = make_run(first_of(a), length_of(a) + 1);
  } else {
    const std::uint64_t both = std::uint64_t{contributions(a)} + contributions(b);
    result = kept(a, b, static_cast<std::uint32_t>(std::min<std::uint64_t>(both, UINT32_MAX)));
  }
  return result;
}

Expression Expressions::finished(Expression sum) {
  return kept(sum, kFinish, contributions(sum));
}

Expression Expressions::kept(Expression left, Expression right, std::uint32_t contributions) {
  const auto next = static_cast<Expression>(nodes_.size()) | kKeptBit;
  const auto [found, fresh] = numbers_.try_emplace(std::uint64_t{left} << 32 | right, next);
  if (!fresh) return found->second;
  if (nodes_.size() == kKeptBit) throw std::length_error("more expressions than have numbers");
  nodes_.push_back({.left = left, .right = right, .contributions = contributions});
  return next;
}

std::uint32_t Expressions::contributions(Expression expression) const {
  return is_kept(expression) ? nodes_[expression & ~kKeptBit].contributions : length_of(expression);
}

bool Expressions::is_finished(Expression expression) const {
  return is_kept(expression) && nodes_[expression & ~kKeptBit].right == kFinish;
}

Expressions::Shape Expressions::shape_of(Expression expression, std::uint32_t most) const {
  Shape shape;
  shape.finished = is_finished(expression);
  std::vector<Expression> left = {shape.finished ? nodes_[expression & ~kKeptBit].left
                                                 : expression};
  while (!left.empty() && shape.ranks.size() < most) {
    const Expression next = left.back();
    left.pop_back();
    if (!is_kept(next)) {
      for (std::uint32_t i = 0; i < length_of(next); ++i)
        shape.ranks.push_back(ring_[(first_of(next) + i) % ring_.size()]);
      continue;
    }
    const Node& node = nodes_[next & ~kKeptBit];
    if (node.right == kFinish) {
      shape.finished_within = true;
    } else if (node.right == kRaw) {
      shape.raw = true;
    } else {
      shape.left_to_right &= contributions(node.right) == 1;
      left.push_back(node.right);
    }
    left.push_back(node.left);
  }
  return shape;
}

}  // namespace weft::checker
