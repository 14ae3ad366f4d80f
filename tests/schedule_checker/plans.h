// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plans of the planner, small enough to be executed many times: few elements, small steps, and yet
// several channels, loops, chunks, steps and rests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/planner.h"
#include "tests/schedule_checker/checker.h"
#include "tests/support/sample_topology.h"

namespace weft::checker {

inline constexpr Operation kCollectives[] = {Operation::kAllReduce, Operation::kBroadcast,
                                             Operation::kAllGather, Operation::kReduceScatter,
                                             Operation::kReduce};

/// Elements of one block of 64 bytes, the least that a chunk is cut into.
inline constexpr std::uint64_t kGrain = 8;

inline constexpr std::uint32_t kMostRanksOfAll = 64;

inline constexpr Turns kAllTurns[] = {Turns::kInOrder, Turns::kShuffled, Turns::kLateReceivers,
                                      Turns::kEarlyReceivers};

struct Shape {
  std::uint32_t steps = 2;
  std::uint32_t step_grains = 1;
  std::uint32_t channels = 1;
  std::uint64_t count = 1;
  /// Of rings and trees; of one-shots and two-shots LL128 means wide lines, and others LL or
  /// Simple.
  Protocol protocol = Protocol::kSimple;
  bool into_outputs = false;    ///< Of rings that only copy: where ranks agree on it.
  bool gathers_inputs = false;  ///< Of all-reduces by PAT, where they are small.
  bool both_ends = false;       ///< Of rings of two ranks with a root.
};

/// 8-byte elements, so that each holds a symbol.
inline Task task_of(Operation operation, std::uint64_t count, std::uint32_t root = 0,
                    weft_reduction reduction = WEFT_SUM) {
  return {.operation = operation,
          .type = WEFT_UINT64,
          .reduction = reduces(operation) ? reduction : WEFT_SUM,
          .root = has_root(operation) ? root : 0,
          .count = count};
}

inline Plan plan_of(const Task& task, const Topology& topology, Algorithm algorithm,
                    const Shape& shape) {
  PlanInput input{.topology = topology,
                  .limits = {.steps = shape.steps,
                             .step_bytes = shape.step_grains * 64,
                             .max_channels = shape.channels,
                             .min_channel_bytes = 1,
                             .trees = true},
                  .channels = algorithm == Algorithm::kTree || algorithm == Algorithm::kPat ||
                                      algorithm == Algorithm::kChain
                                  ? shape.channels
                                  : 0};
  if (shape.into_outputs) input.limits.outputs_from = 1;
  input.limits.gathers_inputs = shape.gathers_inputs;
  if (shape.both_ends) input.limits.both_ends_from = 1;
  input.algorithms = {std::string(algorithm_name(algorithm))};
  if (algorithm == Algorithm::kRing || algorithm == Algorithm::kTree) {
    input.protocols = {std::string(protocol_name(shape.protocol))};
    // Slots for as many grains of payload; those of LL128 have room for more.
    input.limits.line_step_bytes =
        128 * (shape.step_grains + (shape.protocol == Protocol::kLL ? 1 : 0));
  }
  if (algorithm == Algorithm::kDirect) {
    // Between GPUs each part of a call has a header of its own.
    const std::uint64_t headers =
        task.operation == Operation::kAllReduce ? 0 : kMostDirectParts * sizeof(std::uint64_t);
    input.limits.direct_bytes = task.bytes() + headers;
    input.limits.direct_block_bytes = task.bytes();
    input.limits.direct_roots = true;
    if (shape.protocol == Protocol::kLL128) {
      input.protocols = {std::string(protocol_name(shape.protocol))};
      input.limits.wide_bytes = has_blocks(task.operation) ? shape.step_grains * 64 : task.bytes();
    }
  }
  if (algorithm == Algorithm::kTwoShot && shape.protocol == Protocol::kLL128) {
    input.protocols = {std::string(protocol_name(shape.protocol))};
    input.limits.wide_bytes = shape.step_grains * 64;
  }
  if (algorithm == Algorithm::kMulticast) input.limits.multicast_range = shape.step_grains * 64;
  if (algorithm == Algorithm::kTwoShot) input.limits.two_shot_range = shape.step_grains * 64;
  input.deterministic = algorithm == Algorithm::kChain;
  return make_plan(task, input).value();
}

/// Ranks dealt out to hosts one by one, so that no ring goes by their numbers.
inline Topology scattered(std::uint32_t ranks, std::uint32_t hosts) {
  std::vector<test::Placement> places;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    places.push_back({.host = rank % hosts, .process = rank});
  return test::sample_topology(places);
}

/// For the bound of trees.
inline Spread spread_of(const Topology& topology) {
  std::vector<std::uint32_t> ranks(topology.hosts.size(), 0);
  for (const RankInfo& rank : topology.ranks)
    ++ranks.at(rank.host);
  return {.hosts = static_cast<std::uint32_t>(ranks.size()),
          .most_on_one = std::ranges::max(ranks)};
}

inline Verdict execute_one(Stacks& stacks, const Plan& plan, const Execution& execution) {
  const Plan* const one = &plan;
  return execute(stacks, {&one, 1}, execution);
}

/// What a failed test prints: which case it was.
inline std::string describe(const Plan& plan, const Execution& execution) {
  return fmt::format(
      "{} by {} with {}, {} ranks, {} elements, {} channels, {} slots of {} bytes, chunks of "
      "{} steps, root {}, {}, {} calls, turns {}, seed {}",
      operation_name(plan.task.operation), algorithm_name(plan.algorithm),
      protocol_name(plan.protocol), plan.ranks, plan.task.count, plan.channels.size(), plan.steps,
      plan.step_bytes, plan.chunk_steps, plan.task.root,
      execution.in_place ? "in place" : "out of place", execution.calls,
      static_cast<std::uint32_t>(execution.turns), execution.seed);
}

}  // namespace weft::checker
