// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The reduction that is looked up when it runs does what the one does that the compiler knows, bit
// by bit, for all types and reductions.
#include "core/device/any_reduction.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/any_lane_loops.h"
#include "core/device/any_payload_loops.h"
#include "core/device/cuda/kernels.h"
#include "core/device/reductions.h"
#include "tests/device/every_type.h"
#include "tests/device/lane_model.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

constexpr weft_reduction kReductions[] = {WEFT_SUM, WEFT_PROD, WEFT_MAX,
                                          WEFT_MIN, WEFT_AVG,  kPremulSum};
constexpr std::uint32_t kDivisor = 3;

/// Random bits, which hold NaNs and infinities of narrow floats, and what is special about others.
template <class T>
std::vector<T> values(std::uint64_t count, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> result(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    std::memcpy(&result[i], &bits, sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      using Limits = std::numeric_limits<T>;
      constexpr T kSpecial[] = {0,
                                T{-0.0},
                                1,
                                Limits::max(),
                                -Limits::max(),
                                Limits::denorm_min(),
                                Limits::infinity(),
                                -Limits::infinity(),
                                Limits::quiet_NaN()};
      if (random() % 3 == 0) result[i] = kSpecial[random() % std::size(kSpecial)];
    } else if constexpr (std::is_integral_v<T>) {
      constexpr T kSpecial[] = {0, 1, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
      if (random() % 3 == 0) result[i] = kSpecial[random() % std::size(kSpecial)];
    }
  }
  return result;
}

template <class T>
T combined(weft_reduction reduction, T a, T b, T factor) {
  switch (reduction) {
    case WEFT_PROD:
      return Prod<T>::combine(a, b);
    case WEFT_MAX:
      return Max<T>::combine(a, b);
    case WEFT_MIN:
      return Min<T>::combine(a, b);
    case kPremulSum:
      return Sum<T>::combine(a, Prod<T>::combine(b, factor));
    default:
      return Sum<T>::combine(a, b);
  }
}

// Of NaNs it is left open which one comes out.
template <class T>
bool same(T a, T b) {
  const auto nan = [](T value) {
    if constexpr (narrow_float<T>) {
      return to_float(value) != to_float(value);
    } else {
      return value != value;
    }
  };
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (nan(a) && nan(b));
}

template <class T>
Factor factor_of(const T& element) {
  Factor factor;
  std::memcpy(&factor.bits, &element, sizeof(element));
  return factor;
}

/// All lanes of a team, one after the other: the loops have no barriers.
template <class Run>
void on_all_lanes(std::uint32_t lanes, const Run& run) {
  LaneTeam team(lanes);
  const std::atomic<std::uint32_t> abort{0};
  LaneMemory memory(abort);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    LaneGroup group(team, lane);
    run(group, memory);
  }
}

struct Case {
  std::uint64_t count;
  std::uint64_t shift;  // elements from a line of 16 bytes
  std::uint32_t lanes;
};
constexpr Case kCases[] = {{1, 0, 1}, {7, 0, 4}, {1000, 0, 1}, {1003, 0, 8}, {517, 1, 3}};

template <class T>
void check_loops(weft_reduction reduction, const Case& with) {
  const auto [count, shift, lanes] = with;
  const T factor = values<T>(1, 5)[0];
  const AnyReduction any(kTypeOf<T>, reduction, kDivisor, factor_of(factor));
  // Lines of 16 bytes begin at 16 elements of any type.
  std::vector<T> a = values<T>(count + 16, 1);
  std::vector<T> b = values<T>(count + 16, 2);
  std::vector<T> first(count + 16);
  std::vector<T> second(count + 16);
  const auto bytes = [shift = shift](std::vector<T>& of) {
    return reinterpret_cast<std::byte*>(of.data() + shift);
  };
  on_all_lanes(lanes, [&](LaneGroup& group, LaneMemory& memory) {
    if (any.premultiplies()) {
      lane_premultiply_reduce(any, group, memory, bytes(first), bytes(second), bytes(a), bytes(b),
                              count);
    } else {
      lane_reduce(any, group, memory, bytes(first), bytes(second), bytes(a), bytes(b), count);
    }
  });
  std::vector<T> wanted(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    wanted[i] = combined(reduction, a[shift + i], b[shift + i], factor);
    ASSERT_TRUE(same(first[shift + i], wanted[i])) << "element " << i;
    ASSERT_TRUE(same(second[shift + i], wanted[i])) << "element " << i << ", second";
  }
  EXPECT_EQ(any.finishes(), reduction == WEFT_AVG);
  if (any.finishes()) {
    const Average<T> average{.divisor = kDivisor};
    on_all_lanes(lanes, [&](LaneGroup& group, LaneMemory&) {
      lane_finish(any, group, bytes(first), bytes(second), count);
    });
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(same(first[shift + i], average.finish(wanted[i]))) << "element " << i;
      ASSERT_TRUE(same(second[shift + i], average.finish(wanted[i]))) << "element " << i;
    }
  }
  if (any.premultiplies()) {
    on_all_lanes(lanes, [&](LaneGroup& group, LaneMemory& memory) {
      lane_premultiply(any, group, memory, bytes(first), bytes(b), count);
    });
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(same(first[shift + i], Prod<T>::combine(b[shift + i], factor)))
          << "element " << i;
    }
  }
}

TEST(AnyReduction, LoopsDoWhatThoseOfTypedReductionsDo) {
  for_each_type([]<class T>() {
    for (const weft_reduction reduction : kReductions) {
      for (const Case& with : kCases) {
        SCOPED_TRACE(std::string(data_type_name(kTypeOf<T>)) + " by " +
                     std::string(reduction_name(reduction)) + ", " + std::to_string(with.count) +
                     " from " + std::to_string(with.shift));
        check_loops<T>(reduction, with);
      }
    }
  });
}

/// The loops of a lane that takes payloads: whatever lies behind the elements stays.
template <class T>
void check_payload_loops(weft_reduction reduction, std::uint64_t count, std::uint64_t shift) {
  const T factor = values<T>(1, 5)[0];
  const AnyReduction any(kTypeOf<T>, reduction, kDivisor, factor_of(factor));
  std::vector<T> a = values<T>(count + 16, 1);
  std::vector<T> b = values<T>(count + 16, 2);
  std::vector<T> first = values<T>(count + 16, 3);
  std::vector<T> second = first;
  const std::vector<T> before = first;
  const auto bytes = [shift](std::vector<T>& of) {
    return reinterpret_cast<std::byte*>(of.data() + shift);
  };
  const auto expect = [&](const auto& wanted) {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(same(first[shift + i], wanted(shift + i))) << "element " << i;
      ASSERT_TRUE(same(second[shift + i], wanted(shift + i))) << "element " << i << ", second";
    }
    for (std::uint64_t i = shift + count; i < before.size(); ++i) {
      ASSERT_EQ(std::memcmp(&first[i], &before[i], sizeof(T)), 0) << "behind";
      ASSERT_EQ(std::memcmp(&second[i], &before[i], sizeof(T)), 0) << "behind";
    }
  };
  const auto sum = [&](std::uint64_t i) { return combined(reduction, a[i], b[i], factor); };
  if (any.premultiplies()) {
    payload_premultiply_reduce(any, bytes(first), bytes(second), bytes(a), bytes(b), count);
  } else {
    payload_reduce(any, bytes(first), bytes(second), bytes(a), bytes(b), count);
  }
  expect(sum);
  if (any.finishes()) {
    payload_finish(any, bytes(first), bytes(second), count);
    expect([&](std::uint64_t i) { return Average<T>{.divisor = kDivisor}.finish(sum(i)); });
  }
  if (any.premultiplies()) {
    payload_premultiply(any, bytes(first), bytes(b), count);
    payload_premultiply(any, bytes(second), bytes(b), count);
    expect([&](std::uint64_t i) { return Prod<T>::combine(b[i], factor); });
  }
  payload_copy(bytes(first), bytes(second), bytes(a), count * sizeof(T));
  expect([&](std::uint64_t i) { return a[i]; });
}

TEST(AnyReduction, LoopsOverPayloadsDo) {
  for_each_type([]<class T>() {
    for (const weft_reduction reduction : kReductions) {
      for (const std::uint64_t count : {1U, 2U, 5U, 8U, 21U}) {
        for (const std::uint64_t shift : {0U, 1U, 4U}) {
          SCOPED_TRACE(std::string(data_type_name(kTypeOf<T>)) + " by " +
                       std::string(reduction_name(reduction)) + ", " + std::to_string(count) +
                       " from " + std::to_string(shift));
          check_payload_loops<T>(reduction, count, shift);
        }
      }
    }
  });
}

template <class T>
void check_payloads(weft_reduction reduction) {
  constexpr std::size_t kElements = kLinePayload / sizeof(T);
  using Payload = std::array<T, kElements>;
  const T factor = values<T>(1, 6)[0];
  const AnyReduction any(kTypeOf<T>, reduction, kDivisor, factor_of(factor));
  ASSERT_EQ(any.element_bytes(), sizeof(T));
  const std::vector<T> a = values<T>(200 * kElements, 3);
  const std::vector<T> b = values<T>(200 * kElements, 4);
  for (std::size_t at = 0; at < a.size(); at += kElements) {
    const auto load = [at](const std::vector<T>& from, std::uint64_t elements) {
      return AnyReduction::load_payload(reinterpret_cast<const std::byte*>(from.data() + at),
                                        elements * sizeof(T));
    };
    const std::uint64_t left = load(a, kElements);
    std::uint64_t right = load(b, kElements);
    if (any.premultiplies()) right = any.premultiply_payload(right);
    const std::uint64_t sum = any.combine_payloads(left, right);
    const Line line = any.combine_lines({.low = left, .high = right}, {.low = right, .high = left});
    ASSERT_EQ(line.low, sum);
    const auto result = std::bit_cast<Payload>(any.finish_payload(sum));
    for (std::size_t i = 0; i < kElements; ++i) {
      T wanted = combined(reduction, a[at + i], b[at + i], factor);
      if (reduction == WEFT_AVG) wanted = Average<T>{.divisor = kDivisor}.finish(wanted);
      ASSERT_TRUE(same(result[i], wanted));
    }
    const auto part = std::bit_cast<Payload>(load(a, kElements - kElements / 2));
    for (std::size_t i = 0; i < kElements; ++i) {
      const T wanted = i < kElements - kElements / 2 ? a[at + i] : T{};
      ASSERT_EQ(std::memcmp(&part[i], &wanted, sizeof(T)), 0);
    }
  }
}

TEST(AnyReduction, PayloadsOfLines) {
  for_each_type([]<class T>() {
    for (const weft_reduction reduction : kReductions) {
      SCOPED_TRACE(std::string(data_type_name(kTypeOf<T>)) + " by " +
                   std::string(reduction_name(reduction)));
      check_payloads<T>(reduction);
    }
  });
}

// Of all ranks at once, as the reduction that the compiler knows.
template <class T>
void check_accumulation(weft_reduction reduction, std::uint32_t ranks) {
  const AnyReduction any(kTypeOf<T>, reduction, kDivisor, {});
  const bool accumulates = narrow_float<T> && reduction != WEFT_MAX && reduction != WEFT_MIN;
  EXPECT_EQ(any.accumulates(), accumulates);
  EXPECT_FALSE(AnyReduction(kTypeOf<T>, reduction, kDivisor, {}, true).accumulates());
  if constexpr (narrow_float<T>) {
    if (!accumulates) return;
    constexpr std::size_t kElements = kLinePayload / sizeof(T);
    std::vector<std::vector<T>> inputs;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      inputs.push_back(values<T>(200 * kElements, 11 + rank));
    for (std::size_t at = 0; at < inputs[0].size(); at += kElements) {
      const auto results = std::bit_cast<std::array<T, kElements>>(
          any.accumulate_ranks<kMostDirectRanks>(ranks, [&](std::uint32_t rank) {
            return AnyReduction::load_payload(
                reinterpret_cast<const std::byte*>(inputs[rank].data() + at), kLinePayload);
          }));
      for (std::size_t i = 0; i < kElements; ++i) {
        const auto element = [&](std::uint32_t rank) { return inputs[rank][at + i]; };
        const auto by = [&](const auto& typed) {
          return typed.template accumulate_ranks<kMostDirectRanks>(ranks, element);
        };
        const T wanted = reduction == WEFT_PROD  ? by(Prod<T>{})
                         : reduction == WEFT_AVG ? by(Average<T>{.divisor = kDivisor})
                                                 : by(Sum<T>{});
        ASSERT_TRUE(same(results[i], wanted)) << "element " << at + i;
      }
    }
  }
}

TEST(AnyReduction, AccumulatesAsTypedReductionsDo) {
  for_each_type([]<class T>() {
    for (const weft_reduction reduction : kReductions) {
      for (const std::uint32_t ranks : {1U, 2U, 5U, 8U}) {
        SCOPED_TRACE(std::string(data_type_name(kTypeOf<T>)) + " by " +
                     std::string(reduction_name(reduction)) + " of " + std::to_string(ranks));
        check_accumulation<T>(reduction, ranks);
      }
    }
  });
}

TEST(AnyReduction, PayloadsLieAnywhere) {
  alignas(8) std::byte bytes[32];
  for (std::uint8_t i = 0; i < sizeof(bytes); ++i)
    bytes[i] = std::byte{i};
  for (std::uint32_t shift = 0; shift < 9; ++shift) {
    for (std::uint64_t count = 1; count < 12; ++count) {
      const std::uint64_t payload = AnyReduction::load_payload(bytes + shift, count);
      alignas(8) std::byte to[32] = {};
      AnyReduction::store_payload(to + shift, payload, count);
      for (std::uint32_t i = 0; i < sizeof(to); ++i) {
        const bool inside = i >= shift && i < shift + 8 && i < shift + count;
        ASSERT_EQ(to[i], inside ? bytes[i] : std::byte{0}) << shift << ", " << count;
      }
    }
  }
}

// The factor is read where it lies when the item begins.
TEST(AnyReduction, FactorsInMemory) {
  for_each_type([]<class T>() {
    const std::vector<T> factors = values<T>(3, 7);
    Factor there;
    there.from = reinterpret_cast<const std::byte*>(factors.data() + 1);
    const AnyReduction here(kTypeOf<T>, kPremulSum, 1, factor_of(factors[1]));
    const AnyReduction from(kTypeOf<T>, kPremulSum, 1, there);
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    ASSERT_EQ(from.premultiply_payload(kOnes), here.premultiply_payload(kOnes));
  });
}

TEST(AnyReduction, KernelsOfGpusAreThoseOfAllPlannedCalls) {
  for (std::uint32_t number = 0; number < kOperationCount; ++number) {
    const auto operation = static_cast<Operation>(number);
    for (weft_data_type type = -1; type <= WEFT_FLOAT8_E5M2 + 1; ++type) {
      for (weft_reduction reduction = -1; reduction <= kPremulSum + 1; ++reduction) {
        const bool known_type = type >= 0 && type <= WEFT_FLOAT8_E5M2;
        const bool known_reduction = reduction >= 0 && reduction <= kPremulSum;
        const bool wanted =
            is_planned(operation) && known_type && (known_reduction || !reduces(operation));
        ASSERT_EQ(
            cuda::kernel_exists(Task{.operation = operation, .type = type, .reduction = reduction}),
            wanted)
            << operation_name(operation) << " of " << type << " by " << reduction;
      }
    }
  }
}

}  // namespace
}  // namespace weft::device::testing
