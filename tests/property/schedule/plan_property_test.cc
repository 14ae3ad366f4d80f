// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// For any ranks, places, sizes, types, roots and limits: plans are valid, alike on every rank, and
// lead every rank to the right result when they are carried out.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/model/direct_peers.h"
#include "core/schedule/planner.h"
#include "tests/property/schedule/ring_executor.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

constexpr std::uint32_t kMostRanks = 32;

/// Evenly from all of [first, end), from the first case on.
template <typename T>
T any_in(T first, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(first, end));
}

Topology any_topology() {
  const auto ranks = any_in<std::uint32_t>(1, kMostRanks + 1);
  const auto hosts = any_in<std::uint32_t>(1, 5);
  const auto processes = any_in<std::uint32_t>(1, 9);
  std::vector<test::Placement> places;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    places.push_back(
        {.host = any_in<std::uint32_t>(0, hosts), .process = any_in<std::uint32_t>(0, processes)});
  }
  return test::sample_topology(places);
}

PlanLimits any_limits() {
  return {.steps = any_in<std::uint32_t>(2, 17),
          .step_bytes = *rc::gen::element(64U, 64U, 4096U) * any_in<std::uint32_t>(1, 9),
          .max_channels = any_in<std::uint32_t>(1, 9),
          .min_channel_bytes = any_in<std::uint64_t>(1, 1000)};
}

Task any_task(const Topology& topology, std::uint64_t most_bytes) {
  Task task;
  task.operation =
      *rc::gen::element(Operation::kAllReduce, Operation::kBroadcast, Operation::kAllGather,
                        Operation::kReduceScatter, Operation::kReduce);
  task.type = any_in<weft_data_type>(WEFT_INT8, WEFT_FLOAT8_E5M2 + 1);
  if (has_root(task.operation)) task.root = any_in<std::uint32_t>(0, topology.rank_count());
  if (has_blocks(task.operation)) most_bytes /= topology.rank_count();
  // Small counts, where chunks are empty or short, are as likely as large ones.
  const std::uint64_t most = most_bytes / element_size(task.type);
  task.count = any_in<std::uint64_t>(0, most + 1) >> *rc::gen::element(0, 0, 0, 2, 4, 8, 12);
  return task;
}

RC_GTEST_PROP(PlanProperty, LeadsEveryRankToTheResult, ()) {
  const Topology topology = any_topology();
  const PlanLimits limits = any_limits();
  // Enough for a few loops of the largest chunks on a few channels.
  const std::uint64_t most = std::min(std::uint64_t{limits.step_bytes} * limits.steps *
                                          topology.rank_count() * any_in<std::uint64_t>(1, 6),
                                      std::uint64_t{1} << 19);
  const Task task = any_task(topology, most);
  const Plan plan = make_plan(task, {.topology = topology, .limits = limits}).value();
  const Status valid = validate(plan, topology);
  if (!valid) RC_FAIL(valid.error().to_string());
  for (std::size_t channel = 0; channel < plan.channels.size(); ++channel) {
    const test::ExecutionResult result = test::execute(plan, channel, plan.steps);
    if (!result.failure.empty()) RC_FAIL(result.failure + "\n" + to_text(plan));
    for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
      RC_ASSERT(steps_sent(plan, channel, rank) == result.sent[rank]);
      RC_ASSERT(steps_received(plan, channel, rank) == result.received[rank]);
    }
  }
}

// What can be checked of plans that are too large to be carried out step by step.
RC_GTEST_PROP(PlanProperty, IsValidForAnySize, ()) {
  const Topology topology = any_topology();
  PlanLimits limits = any_limits();
  limits.max_channels = any_in<std::uint32_t>(1, 65);
  const Task task = any_task(topology, std::uint64_t{1} << 56);
  const Plan plan = make_plan(task, {.topology = topology, .limits = limits}).value();
  const Status valid = validate(plan, topology);
  if (!valid) RC_FAIL(valid.error().to_string());
  RC_ASSERT(plan.channels.size() <= limits.max_channels);
  RC_ASSERT(plan.predicted_us >= 0);
  std::uint64_t bytes = 0;
  for (std::size_t channel = 0; channel < plan.channels.size(); ++channel) {
    for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
      const RingPlace place = ring_place(plan, channel, rank);
      RC_ASSERT(ring_place(plan, channel, place.next).previous == rank);
      RC_ASSERT(steps_sent(plan, channel, rank) == steps_received(plan, channel, place.next));
      bytes += bytes_sent(plan, channel, rank);
    }
  }
  const std::uint64_t passes = plan.ranks - 1;
  const std::uint64_t factor = task.operation == Operation::kAllReduce ? 2
                               : has_blocks(task.operation)            ? plan.ranks
                                                                       : 1;
  RC_ASSERT(bytes == task.bytes() * passes * factor);
}

RC_GTEST_PROP(PlanProperty, IsTheSameForTheSameInput, ()) {
  const Topology topology = any_topology();
  const Topology copy = topology;
  const PlanLimits limits = any_limits();
  const Task task = any_task(topology, std::uint64_t{1} << 30);
  const Plan one = make_plan(task, {.topology = topology, .limits = limits}).value();
  const Plan other = make_plan(task, {.topology = copy, .limits = limits}).value();
  RC_ASSERT(one == other);
  RC_ASSERT(to_text(one) == to_text(other));
}

/// Says anything that its interface allows.
class AnySource final : public CostSource {
 public:
  Result<std::vector<Judgement>> judge(const Task& /*task*/,
                                       std::span<const Offer> offers) override {
    std::vector<Judgement> judgements;
    for (const Offer& offer : offers) {
      Judgement judgement{.us = {},
                          .never = *rc::gen::arbitrary<bool>(),
                          .channels = any_in<std::uint32_t>(0, offer.max_channels + 1)};
      if (*rc::gen::arbitrary<bool>()) judgement.us = any_in<std::uint32_t>(1, 1'000'000);
      judgements.push_back(std::move(judgement));
    }
    return judgements;
  }
  [[nodiscard]] std::string name() const override { return "anyone"; }
};

RC_GTEST_PROP(PlanProperty, StaysValidWhateverATunerSays, ()) {
  const Topology topology = any_topology();
  PlanLimits limits = any_limits();
  // More ranks have no inboxes, and joining sets the limit to 0.
  if (topology.rank_count() <= kMostDirectRanks) {
    limits.direct_bytes = *rc::gen::element<std::uint64_t>(0, 1024, 65536);
  }
  const std::uint64_t most = std::uint64_t{limits.step_bytes} * limits.steps *
                             topology.rank_count() * any_in<std::uint64_t>(1, 6);
  const Task task = any_task(topology, most);
  AnySource tuner;
  const Plan plan =
      make_plan(task, {.topology = topology, .limits = limits, .tuner = &tuner}).value();
  const Status valid = validate(plan, topology);
  if (!valid) RC_FAIL(valid.error().to_string());
  RC_ASSERT(plan.channels.size() <= limits.max_channels);
  RC_ASSERT(!to_text(plan).empty());
  if (plan.algorithm != Algorithm::kRing) return;
  for (std::size_t channel = 0; channel < plan.channels.size(); ++channel) {
    const test::ExecutionResult result = test::execute(plan, channel, plan.steps);
    if (!result.failure.empty()) RC_FAIL(result.failure + "\n" + to_text(plan));
  }
}

// The executor must be able to see what the planner avoids.
TEST(RingExecutor, SeesADeadlockWhereAChunkFillsAllSlots) {
  const Topology topology = test::one_host(3);
  const PlanLimits limits{.steps = 8, .step_bytes = 64};
  Plan plan =
      make_plan({.count = std::uint64_t{3} * 4 * 16}, {.topology = topology, .limits = limits})
          .value();
  ASSERT_EQ(plan.chunk_steps, 4U);
  EXPECT_EQ(test::execute(plan, 0, 5).failure, "");
  EXPECT_EQ(test::execute(plan, 0, 4).failure.substr(0, 8), "deadlock");
  plan.steps = 4;
  EXPECT_FALSE(validate(plan, topology));
}

TEST(RingExecutor, SeesALostElement) {
  const Topology topology = test::one_host(2);
  Plan plan = make_plan({.count = 100}, {.topology = topology}).value();
  plan.ranks = 3;  // The kernels would cut for three while two take part.
  plan.channels[0].ring = {0, 1, 0};
  EXPECT_NE(test::execute(plan, 0, 8).failure, "");
}

RC_GTEST_PROP(RingProperty, KeepsHostsAndProcessesTogether, ()) {
  const Topology topology = any_topology();
  const std::vector<std::uint32_t> ring = rings(topology, 1).front();
  RC_ASSERT(ring.size() == topology.rank_count());
  std::uint32_t host_edges = 0;
  std::uint32_t process_edges = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::uint32_t next = ring[(i + 1) % ring.size()];
    host_edges += topology.same_host(ring[i], next) ? 0 : 1;
    process_edges += topology.same_process(ring[i], next) ? 0 : 1;
  }
  std::vector<std::string> processes;
  for (const RankInfo& rank : topology.ranks) {
    if (std::ranges::find(processes, rank.process) == processes.end()) {
      processes.push_back(rank.process);
    }
  }
  RC_ASSERT(host_edges == (topology.hosts.size() > 1 ? topology.hosts.size() : 0));
  RC_ASSERT(process_edges == (processes.size() > 1 ? processes.size() : 0));
}

}  // namespace
}  // namespace weft
