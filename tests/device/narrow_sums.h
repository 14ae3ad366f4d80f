// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions of floats of 16 and of 8 bits by who has the inputs of several ranks: on numbers of
// which rounding once makes another result than rounding each step, and what either makes, by a
// plain loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/narrow_float.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {

enum class Rounding : std::uint8_t {
  kOnce,
  kEachStep,
  kSwitch,  ///< The sum, and what is left of it by a division.
};

template <class T>
inline constexpr int kFractionBits = 10;
template <>
inline constexpr int kFractionBits<Bfloat16> = 7;
template <>
inline constexpr int kFractionBits<Float8E4M3> = 3;
template <>
inline constexpr int kFractionBits<Float8E5M2> = 2;

template <class T>
T rounded(float value) {
  return from_float<T>(value);
}

/// What rank `rank` brings: whole numbers around a power of two beyond which 1 is lost, by turns
/// with others, whose last digits count in products, too.
template <class T>
T narrow_input(std::uint32_t rank, std::uint64_t index, weft_reduction reduction) {
  if (reduction != WEFT_PROD && index % 4 == 0) {
    return rounded<T>(rank == 0 ? static_cast<float>(2 << kFractionBits<T>) : 1);
  }
  std::uint64_t bits = (index * 0x9E3779B97F4A7C15U + rank + 1) * 0xBF58476D1CE4E5B9U;
  bits ^= bits >> 31;
  constexpr std::uint32_t kFractions = 1U << kFractionBits<T>;
  const float fraction = 1 + static_cast<float>(bits % kFractions) / kFractions;
  const float value = (bits >> 20) % 2 == 0 ? fraction : fraction / 2;
  return rounded<T>((bits >> 21) % 2 == 0 ? value : -value);
}

/// A rank's factor, of sums of multiplied inputs.
template <class T>
T narrow_factor(std::uint32_t rank) {
  return rounded<T>(1 + static_cast<float>(rank % 3) / 4);
}

template <class T>
T narrow_result(std::uint32_t ranks, std::uint64_t index, weft_reduction reduction,
                Rounding rounding) {
  const auto term = [&](std::uint32_t rank) {
    const float value = to_float(narrow_input<T>(rank, index, reduction));
    if (reduction != kPremulSum) return value;
    return to_float(rounded<T>(value * to_float(narrow_factor<T>(rank))));
  };
  float result = term(0);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    result = reduction == WEFT_PROD ? result * term(rank) : result + term(rank);
    if (rounding == Rounding::kEachStep) result = to_float(rounded<T>(result));
  }
  if (rounding == Rounding::kSwitch) result = to_float(rounded<T>(result));
  if (reduction == WEFT_AVG) result /= static_cast<float>(ranks);
  return rounded<T>(result);
}

struct NarrowCall {
  std::uint32_t ranks = 3;
  Operation operation = Operation::kAllReduce;
  weft_reduction reduction = WEFT_SUM;
  Rounding rounding = Rounding::kOnce;
  std::uint64_t count = 301;  ///< Of a block, where there are some.
  std::uint64_t shift = 0;    ///< Elements.
  bool in_place = false;      ///< Of calls without blocks.
};

/// One call: `item_of(rank, task, send, recv)` makes an item of it, `run(items)` answers outcomes,
/// or lists of them, by rank.
template <class T, class ItemOf, class Run>
void check_narrow(const NarrowCall& call, const ItemOf& item_of, const Run& run) {
  const auto [ranks, operation, reduction, rounding, count, shift, in_place] = call;
  const bool scatters = operation == Operation::kReduceScatter;
  SCOPED_TRACE(std::string(operation_name(operation)) + " of " +
               std::string(data_type_name(kTypeOf<T>)) + " by " +
               std::string(reduction_name(reduction)) + " of " + std::to_string(ranks));
  const Task task{
      .operation = operation, .type = kTypeOf<T>, .reduction = reduction, .count = count};
  const std::uint64_t sent = scatters ? count * ranks : count;
  const T guard = rounded<T>(7);
  std::vector<std::vector<T>> input(ranks, std::vector<T>(sent + shift, guard));
  std::vector<std::vector<T>> output(ranks, std::vector<T>(count + shift + 9, guard));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    T* const from = (in_place ? output : input)[rank].data() + shift;
    for (std::uint64_t i = 0; i < sent; ++i)
      from[i] = narrow_input<T>(rank, i, reduction);
    items.push_back(item_of(rank, task, from, output[rank].data() + shift));
    items.back().rounds_each = rounding == Rounding::kEachStep;
    const T factor = narrow_factor<T>(rank);
    std::memcpy(&items.back().factor.bits, &factor, sizeof(factor));
  }
  const auto expect_done = [](const auto& self, const auto& outcome) -> void {
    if constexpr (requires { outcome.end; }) {
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
    } else {
      for (const auto& part : outcome)
        self(self, part);
    }
  };
  expect_done(expect_done, run(items));
  // By element of all blocks.
  std::vector<T> due;
  bool tells = false;
  const bool each = rounding == Rounding::kEachStep;
  for (std::uint64_t i = 0; i < sent; ++i) {
    due.push_back(narrow_result<T>(ranks, i, reduction, rounding));
    const Rounding other = each ? Rounding::kOnce : Rounding::kEachStep;
    tells = tells || !(due.back() == narrow_result<T>(ranks, i, reduction, other));
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (operation == Operation::kReduce && rank != task.root) continue;
    const std::uint64_t block = scatters ? rank * count : 0;
    std::vector<T> wanted(output[rank].size(), guard);
    std::copy_n(due.data() + block, count, wanted.data() + shift);
    if (same_bits(output[rank].data(), wanted.data(), wanted.size())) continue;
    for (std::uint64_t i = 0; i < output[rank].size(); ++i) {
      ASSERT_EQ(output[rank][i], wanted[i])
          << "rank " << rank << ", element " << i << ": " << to_float(output[rank][i])
          << " instead of " << to_float(wanted[i]);
    }
  }
  if (ranks > 2 && count > 20) {
    EXPECT_TRUE(tells) << "either way of rounding would do";
  }
}

/// Calls check.operator()<T>(reduction) for each narrow float and each reduction that accumulates.
template <class Check>
void for_each_narrow(const Check& check) {
  constexpr weft_reduction kReductions[] = {WEFT_SUM, WEFT_PROD, WEFT_AVG, kPremulSum};
  for (const weft_reduction reduction : kReductions) {
    check.template operator()<Float16>(reduction);
    check.template operator()<Bfloat16>(reduction);
    check.template operator()<Float8E4M3>(reduction);
    check.template operator()<Float8E5M2>(reduction);
  }
}

}  // namespace weft::device::testing
