// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Defects of a two-shot: each is found by its rule, whatever the turns.
#include <cstdint>

#include <gtest/gtest.h>

#include "tests/schedule_checker/planted_direct.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kTwoShotRanks = kPlantedRanks;

class PlantedTwoShot : public PlantedDirect {
 protected:
  [[nodiscard]] Plan plan(std::uint64_t count, std::uint32_t grains = 2) const {
    return PlantedDirect::plan(Algorithm::kTwoShot, count, grains);
  }
};

struct WaitsForNobody : WrongMemory {
  using WrongMemory::WrongMemory;
  [[nodiscard]] device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* /*waiters*/,
                                                 std::uint64_t threshold,
                                                 std::uint32_t* /*error*/) const {
    return pass(counter, threshold);
  }
};

// The wrong rank has no range of its own, so nothing that it reads shows it.
TEST_F(PlantedTwoShot, AHalfFilledThatMayStillBeRead) {
  const Plan made = plan(kGrain);
  const Execution execution{.calls = 2, .kernel = run_over<WaitsForNobody>};
  expect_sound(made, execution);
  expect(Rule::kOverwritten, made, execution);
}

TEST_F(PlantedTwoShot, AHeaderWithoutPayload) {
  const Plan made = plan(2 * kGrain * kTwoShotRanks);
  const Execution execution{.kernel = run_over<WritesNothing>};
  expect_sound(made, execution);
  expect(Rule::kReadTooEarly, made, execution);
}

// The second part of all ranks takes halves for shorter ones than the first does.
TEST_F(PlantedTwoShot, PartsThatShareAPlace) {
  const Plan made = plan(4 * kGrain * kTwoShotRanks, 4);
  const Execution execution{.kernel = changed([](WorkItem& item, std::uint32_t part) {
                              if (part == 1) item.chunk /= 2;
                            }),
                            .direct_parts = 2};
  expect_sound(made, execution);
  expect(Rule::kOverwritten, made, execution);
}

TEST_F(PlantedTwoShot, ATwoShotThatCallsItselfAOneShot) {
  const Plan made = plan(3 * kGrain * kTwoShotRanks);
  const Bound bound = bound_of(Algorithm::kDirect, made.task, kTwoShotRanks).value();
  expect(Rule::kBound, made, {.declared = bound});
}

TEST_F(PlantedTwoShot, AOneShotThatCallsItselfATwoShot) {
  const Plan made = plan_of(task_of(Operation::kAllReduce, 3), topology_, Algorithm::kDirect, {});
  expect(Rule::kBound, made, {.declared = bound_of(Algorithm::kTwoShot, made.task, kTwoShotRanks)});
}

TEST_F(PlantedTwoShot, AnOutputWithAHole) {
  expect(Rule::kNotWritten, plan(3 * kGrain * kTwoShotRanks),
         {.kernel = changed([](WorkItem& item, std::uint32_t) { item.count -= 1; })});
}

// Smaller pieces than the plan has, which give the ranges to other ranks.
TEST_F(PlantedTwoShot, OtherBytesThanAnnounced) {
  expect(Rule::kTraffic, plan(60),
         {.kernel = changed([](WorkItem& item, std::uint32_t) { item.chunk /= 2; })});
}

}  // namespace
}  // namespace weft::checker
