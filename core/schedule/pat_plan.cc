// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plans by parallel aggregated trees.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/model/pat_geometry.h"
#include "core/schedule/ways.h"

namespace weft {
namespace {

/// The longest rows in which each rank's row is on its own host, whose ranks follow each other in
/// every ring. On one host all rings are as good.
std::uint32_t row_of(const Topology& topology) {
  std::vector<std::uint32_t> on_host(topology.hosts.size(), 0);
  for (const RankInfo& rank : topology.ranks)
    ++on_host.at(rank.host);
  std::erase(on_host, 0U);
  if (on_host.size() < 2) return 1;
  std::uint32_t row = kMaxRanks;
  for (const std::uint32_t ranks : on_host)
    row = std::min(row, 1U << std::countr_zero(ranks));
  return row;
}

/// Of all hops over one distance the slowest, since all ranks wait for each other's messages.
HopCost slowest_hop(const Topology& topology, const CostTable& costs,
                    std::span<const std::uint32_t> ring, const PatTorus& torus,
                    std::uint32_t distance) {
  HopCost slowest{.latency_us = 0, .bytes_per_us = std::numeric_limits<double>::infinity()};
  for (std::uint32_t i = 0; i < torus.ranks; ++i) {
    const HopKind kind = hop_kind(topology, ring[i], ring[torus.ahead(i, distance)]);
    const HopCost& hop = costs.hops[static_cast<std::size_t>(kind)];
    slowest.latency_us = std::max(slowest.latency_us, hop.latency_us);
    slowest.bytes_per_us = std::min(slowest.bytes_per_us, hop.bytes_per_us);
  }
  return slowest;
}

/// Of `count` elements of a channel what is a rank's at most.
std::uint64_t block_elements(Operation operation, std::uint64_t count, std::uint32_t ranks) {
  return has_blocks(operation) ? count : divide_up(count, ranks);
}

/// One message after the other.
double pat_time_us(const Plan& plan, const Topology& topology, const CostTable& costs) {
  if (plan.channels.empty() || plan.ranks < 2) return costs.call_us;
  const ChannelPlan& channel = plan.channels.front();  // none is longer
  const PatRound round = pat_round_of(plan, channel);
  const auto rounds = static_cast<double>(pat_rounds(plan, channel));
  const auto bytes =
      static_cast<double>(block_elements(pat_operation(plan), channel.count, plan.ranks) *
                          element_size(plan.task.type));
  const PatTorus torus{.ranks = plan.ranks, .row = plan.pat_row};
  double all_us = 0;
  for (std::uint32_t level = 0; level < round.levels(); ++level) {
    const HopCost hop = slowest_hop(topology, costs, channel.ring, torus, 1U << level);
    all_us += rounds * round.messages_over(level) * hop.latency_us +
              costs.pat_bytes * bytes * round.blocks_over(level) / hop.bytes_per_us;
  }
  return pat_operation(plan) == Operation::kAllReduce
             ? costs.call_us + costs.pat_all_reduce_us + 2 * all_us
             : costs.call_us + costs.pat_us + all_us;
}

/// Each must carry min_channel_bytes of every block.
std::uint32_t pat_channel_count(const Task& task, const PlanInput& input) {
  if (input.channels != 0) return input.channels;
  const std::uint64_t block =
      has_blocks(task.operation) ? task.bytes() : task.bytes() / input.topology.rank_count();
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      block / input.limits.min_channel_bytes, 1, most_channels(Algorithm::kPat, input.limits)));
}

/// All of a block in one round, or in as few, as long as each other.
std::uint64_t pat_chunk(std::uint64_t count, std::uint64_t element_bytes,
                        std::uint64_t step_bytes) {
  const std::uint64_t rounds =
      std::max<std::uint64_t>(1, divide_up(count * element_bytes, step_bytes));
  const std::uint64_t bytes = divide_up(count, rounds) * element_bytes;
  return divide_up(bytes, kChunkGrainBytes) * kChunkGrainBytes / element_bytes;
}

Plan pat_plan(const Task& task, const PlanInput& input, bool gathers_inputs) {
  Plan plan{.task = task,
            .algorithm = Algorithm::kPat,
            .protocol = Protocol::kSimple,
            .ranks = input.topology.rank_count(),
            .steps = input.limits.steps,
            .step_bytes = input.limits.tree_step(),
            .chunk_steps = 1,
            .pat_row = row_of(input.topology),
            .gathers_inputs = gathers_inputs};
  plan.channels = cut_into_channels(task, gathers_inputs ? 1 : pat_channel_count(task, input));
  if (!plan.channels.empty()) {
    auto orders = rings(input.topology, static_cast<std::uint32_t>(plan.channels.size()));
    for (ChannelPlan& channel : plan.channels) {
      channel.chunk = pat_chunk(block_elements(pat_operation(plan), channel.count, plan.ranks),
                                element_size(task.type), plan.step_bytes);
      channel.ring = std::move(orders[channel.index]);
    }
  }
  plan.predicted_us = pat_time_us(plan, input.topology, input.costs);
  return plan;
}

bool may_gather_inputs(const Task& task, const PlanInput& input) {
  const std::uint64_t ranks = input.topology.rank_count();
  return input.limits.gathers_inputs && input.channels <= 1 &&
         task.operation == Operation::kAllReduce && ranks > 1 &&
         ranks * task.bytes() <= kMostGatheredBytes && task.bytes() <= input.limits.tree_step();
}

}  // namespace

Plan make_pat_plan(const Task& task, const PlanInput& input) {
  Plan plan = pat_plan(task, input, false);
  if (!may_gather_inputs(task, input)) return plan;
  Plan gathers = pat_plan(task, input, true);
  return gathers.predicted_us < plan.predicted_us ? gathers : plan;
}

}  // namespace weft
