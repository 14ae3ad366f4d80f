// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plans by the chain of all ranks by their numbers, for results whose bits depend on nothing else.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/schedule/ways.h"

namespace weft {
namespace {

/// What a way along the whole chain costs.
struct ChainCost {
  double latency_us = 0;
  double bytes_per_us = std::numeric_limits<double>::infinity();
};

ChainCost chain_cost(const Topology& topology, const CostTable& costs) {
  ChainCost cost;
  for (std::uint32_t rank = 0; rank + 1 < topology.rank_count(); ++rank) {
    const HopCost& hop = costs.hops[static_cast<std::size_t>(hop_kind(topology, rank, rank + 1))];
    cost.latency_us += hop.latency_us;
    cost.bytes_per_us = std::min(cost.bytes_per_us, hop.bytes_per_us);
  }
  return cost;
}

std::uint64_t blocks_of(const Plan& plan) {
  return has_blocks(plan.task.operation) ? plan.ranks : 1;
}

/// The first chunk takes all edges up and down again; each after it follows as fast as a rank adds
/// its own to it and hands on what is complete.
double chain_time_us(const Plan& plan, const Topology& topology, const CostTable& costs) {
  if (plan.channels.empty() || plan.ranks < 2) return costs.call_us;
  const ChannelPlan& channel = plan.channels.front();  // none is longer
  const ChainCost cost = chain_cost(topology, costs);
  const double edges = plan.ranks - 1;
  const auto chunks = static_cast<double>(blocks_of(plan) * tree_steps(channel));
  const auto chunk_bytes =
      static_cast<double>(std::min(channel.count, channel.chunk) * element_size(plan.task.type));
  const double on_edge = chunk_bytes / cost.bytes_per_us;
  const double hop = cost.latency_us / edges + on_edge;
  return costs.call_us + costs.tree_us + 2 * (edges * hop + (chunks - 1) * hop) +
         costs.tree_channel_us * static_cast<double>(plan.channels.size() - 1);
}

/// As many as a ring has: each must carry min_channel_bytes for every rank.
std::uint32_t chain_channel_count(const Task& task, const PlanInput& input) {
  if (input.channels != 0) return input.channels;
  const std::uint64_t for_each =
      has_blocks(task.operation) ? task.bytes() : task.bytes() / input.topology.rank_count();
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(for_each / input.limits.min_channel_bytes, 1,
                                most_channels(Algorithm::kChain, input.limits)));
}

/// As many as the way up and down is long, where the size allows, so that all ranks are busy.
std::uint64_t chain_chunk(const Plan& plan) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t bytes = plan.channels.front().count * blocks_of(plan) * element_bytes;
  const std::uint64_t wanted = divide_up(bytes, 2 * std::uint64_t{plan.ranks});
  return std::clamp<std::uint64_t>(divide_up(wanted, kChunkGrainBytes) * kChunkGrainBytes,
                                   std::min<std::uint64_t>(kLeastChunkBytes, plan.step_bytes),
                                   plan.step_bytes) /
         element_bytes;
}

}  // namespace

Plan make_chain_plan(const Task& task, const PlanInput& input) {
  Plan plan{.task = task,
            .algorithm = Algorithm::kChain,
            .protocol = Protocol::kSimple,
            .ranks = input.topology.rank_count(),
            .steps = input.limits.steps,
            .step_bytes = input.limits.tree_step(),
            .chunk_steps = 1};
  plan.channels = cut_into_channels(task, chain_channel_count(task, input));
  if (!plan.channels.empty()) {
    const std::uint64_t chunk = chain_chunk(plan);
    for (ChannelPlan& channel : plan.channels) {
      channel.chunk = chunk;
      channel.ring.resize(plan.ranks);
      std::iota(channel.ring.begin(), channel.ring.end(), 0);
    }
  }
  plan.predicted_us = chain_time_us(plan, input.topology, input.costs);
  return plan;
}

std::string chain_refusal(const Task& task, const PlanInput& input) {
  if (!input.deterministic) return "only collectives.deterministic asks for it";
  return tree_refusal(task, input);
}

}  // namespace weft
