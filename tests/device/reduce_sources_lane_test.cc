// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The sum of a reduction in windows, by many lanes: sources begin at lines and between them, so
// that a step's lanes take other elements than those of the step before.
#include <atomic>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/any_lane_loops.h"
#include "core/device/reduce_sources.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/narrow_sums.h"

namespace weft::device::testing {
namespace {

constexpr std::uint32_t kSourceRanks = 4;
constexpr std::uint64_t kCount = 1003;

/// Lanes of a group, the rank whose input is the output, too.
class ReduceSourcesLanes
    : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {};

TEST_P(ReduceSourcesLanes, SumUpInAnyPlace) {
  constexpr std::uint32_t kParts = 2;
  const auto [lanes, own] = GetParam();
  // Every other source begins one element behind a line.
  std::vector<std::vector<std::int32_t>> memory(kSourceRanks,
                                                std::vector<std::int32_t>(kCount + 8));
  const auto input = [](std::uint32_t rank, std::uint64_t i) {
    return static_cast<std::int32_t>(rank * 100 + i % 50);
  };
  SourcesToReduce sources{
      .count = kCount, .ranks = kSourceRanks, .type = WEFT_INT32, .reduction = WEFT_AVG};
  std::vector<std::int32_t*> places;
  for (std::uint32_t rank = 0; rank < kSourceRanks; ++rank) {
    std::int32_t* place = memory[rank].data();
    while (reinterpret_cast<std::uintptr_t>(place) % sizeof(Line) != 0)
      ++place;
    place += rank % 2;
    for (std::uint64_t i = 0; i < kCount; ++i)
      place[i] = input(rank, i);
    places.push_back(place);
    sources.from[rank] = reinterpret_cast<const std::byte*>(place);
  }
  sources.to = reinterpret_cast<std::byte*>(places[own]);
  sources.between = reinterpret_cast<std::byte*>(places[own == 0 ? 1 : 0]);
  const std::atomic<std::uint32_t> abort{0};
  LaneTeams teams;
  for (std::uint32_t part = 0; part < kParts; ++part) {
    teams.add("part " + std::to_string(part), lanes, [&, part](LaneGroup& group) {
      LaneMemory lane_memory(abort);
      reduce_sources(group, lane_memory, sources, part, kParts);
    });
  }
  teams.run();
  for (std::uint64_t i = 0; i < kCount; ++i) {
    std::int32_t sum = 0;
    for (std::uint32_t rank = 0; rank < kSourceRanks; ++rank)
      sum += input(rank, i);
    ASSERT_EQ(places[own][i], sum / static_cast<std::int32_t>(kSourceRanks)) << i;
  }
}

/// Narrow floats, whose sources lie as above; `own` is the output, too.
template <class T>
void check_narrow_sources(std::uint32_t lanes, std::uint32_t own, weft_reduction reduction,
                          Rounding rounding, std::uint32_t ranks, bool alike) {
  std::vector<std::vector<T>> memory(ranks, std::vector<T>(kCount + 48));
  SourcesToReduce sources{.count = kCount,
                          .ranks = ranks,
                          .type = kTypeOf<T>,
                          .reduction = reduction,
                          .rounds_each = rounding == Rounding::kEachStep};
  std::vector<T*> places;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    T* place = memory[rank].data();
    while (reinterpret_cast<std::uintptr_t>(place) % sizeof(Line) != 0)
      ++place;
    place += alike ? 3 : rank % 2;
    for (std::uint64_t i = 0; i < kCount; ++i)
      place[i] = narrow_input<T>(rank, i, reduction);
    places.push_back(place);
    sources.from[rank] = reinterpret_cast<const std::byte*>(place);
  }
  sources.to = reinterpret_cast<std::byte*>(places[own]);
  sources.between = reinterpret_cast<std::byte*>(places[own == 0 ? 1 : 0]);
  const std::atomic<std::uint32_t> abort{0};
  LaneTeams teams;
  teams.add("part 0", lanes, [&](LaneGroup& group) {
    LaneMemory lane_memory(abort);
    reduce_sources(group, lane_memory, sources, 0, 1);
  });
  teams.run();
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(places[own][i], narrow_result<T>(ranks, i, reduction, rounding))
        << data_type_name(kTypeOf<T>) << " by " << reduction_name(reduction) << " of " << ranks
        << ", element " << i;
  }
}

TEST_P(ReduceSourcesLanes, NarrowFloatsAreRoundedOnceOrInEachStep) {
  const auto [lanes, own] = GetParam();
  for (const Rounding rounding : {Rounding::kOnce, Rounding::kEachStep}) {
    for_each_narrow([&, lanes = lanes, own = own]<class T>(weft_reduction reduction) {
      if (reduction == kPremulSum) return;  // not in windows
      check_narrow_sources<T>(lanes, own, reduction, rounding, kSourceRanks, own % 2 != 0);
      if (own == 0) check_narrow_sources<T>(lanes, 1, reduction, rounding, 2, true);
      if (own == 0) check_narrow_sources<T>(lanes, 5, reduction, rounding, kMostDirectRanks, true);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, ReduceSourcesLanes,
                         ::testing::Combine(::testing::Values(8U, 32U),
                                            ::testing::Range(0U, kSourceRanks)));

}  // namespace
}  // namespace weft::device::testing
