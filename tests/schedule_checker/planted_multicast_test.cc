// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Defects of calls by multicast: each is found by its rule, whatever the turns.
#include <cstdint>

#include <gtest/gtest.h>

#include "tests/schedule_checker/planted_direct.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kMulticastRanks = kPlantedRanks;

class PlantedMulticast : public PlantedDirect {
 protected:
  [[nodiscard]] Plan plan(std::uint64_t count, std::uint32_t grains = 2) const {
    return PlantedDirect::plan(Algorithm::kMulticast, count, grains);
  }
  void expect(Rule rule, const Plan& plan, Execution execution) {
    PlantedDirect::expect(rule, plan, execution);
    execution.declared.reset();
    expect_sound(plan, execution);
  }
};

/// Every second exchange, from the first or the second on.
template <std::uint64_t kRest>
struct PassesExchanges : WrongMemory {
  using WrongMemory::WrongMemory;
  device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
    if (threshold % 2 == kRest) return pass(counter, threshold);
    return WrongMemory::wait_at_least(counter, waiters, threshold, error);
  }
};

TEST_F(PlantedMulticast, CombinesBeforeAllHaveStaged) {
  expect(Rule::kReadTooEarly, plan(2 * kGrain * kMulticastRanks),
         {.kernel = run_over<PassesExchanges<1>>});
}

TEST_F(PlantedMulticast, TakesOutBeforeAllHaveCombined) {
  expect(Rule::kReadTooEarly, plan(2 * kGrain * kMulticastRanks),
         {.kernel = run_over<PassesExchanges<0>>});
}

TEST_F(PlantedMulticast, ARankThatStagesNothing) {
  expect(Rule::kReadTooEarly, plan(2 * kGrain * kMulticastRanks),
         {.kernel = run_over<WritesNothing>});
}

struct StoresElsewhere : WrongMemory {
  using WrongMemory::WrongMemory;
  void store_all(const MulticastView& view, std::uint64_t at, device::Line line) {
    WrongMemory::store_all(view, at - 2 * kChunkGrainBytes, line);
  }
};

// Of its neighbour, which may come sooner or later.
TEST_F(PlantedMulticast, ARankThatStoresIntoAnothersRange) {
  expect(Rule::kOverwritten, plan(2 * kGrain * kMulticastRanks),
         {.kernel = run_over<StoresElsewhere>});
}

// The second part of all ranks has places as for shorter ranges.
TEST_F(PlantedMulticast, PartsThatShareAPlace) {
  expect(Rule::kOverwritten, plan(4 * kGrain * kMulticastRanks, 4),
         {.kernel = changed([](WorkItem& item, std::uint32_t part) {
            if (part == 1) item.chunk /= 2;
          }),
          .direct_parts = 2});
}

TEST_F(PlantedMulticast, AnOutputWithAHole) {
  expect(Rule::kNotWritten, plan(3 * kGrain * kMulticastRanks),
         {.kernel = changed([](WorkItem& item, std::uint32_t) { item.count -= 1; })});
}

// Smaller pieces than the plan has, which give the ranges to other ranks.
TEST_F(PlantedMulticast, OtherBytesThanAnnounced) {
  expect(Rule::kTraffic, plan(60),
         {.kernel = changed([](WorkItem& item, std::uint32_t) { item.chunk /= 2; })});
}

TEST_F(PlantedMulticast, ACallThatPromisesOneHop) {
  const Plan made = plan(3 * kGrain * kMulticastRanks);
  const Task gather = task_of(Operation::kAllGather, made.task.count);
  expect(Rule::kBound, made,
         {.declared = bound_of(Algorithm::kMulticast, gather, kMulticastRanks)});
}

}  // namespace
}  // namespace weft::checker
