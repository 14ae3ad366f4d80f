// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plans by trees.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/model/step_lines.h"
#include "core/model/tree_links.h"
#include "core/schedule/trees.h"
#include "core/schedule/ways.h"

namespace weft {
namespace {

/// What a tree costs: the longest way to the root, the slowest edge, and how often the busiest rank
/// sends what it has.
struct TreeCost {
  std::uint32_t edges = 0;
  double latency_us = 0;
  double bytes_per_us = std::numeric_limits<double>::infinity();
  std::uint32_t children = 0;
};

/// What lines change of it.
TreeCost tree_with_lines(TreeCost cost, Protocol protocol, const CostTable& costs) {
  if (!has_lines(protocol)) return cost;
  const bool ll = protocol == Protocol::kLL;
  cost.latency_us += (ll ? costs.ll_hop_us : costs.ll128_hop_us) * cost.edges;
  cost.bytes_per_us /= ll ? costs.ll_bytes : costs.ll128_bytes;
  return cost;
}

TreeCost tree_cost(const Topology& topology, const CostTable& costs,
                   std::span<const std::uint32_t> parents) {
  TreeCost cost;
  std::vector<std::uint32_t> children(parents.size(), 0);
  for (std::uint32_t rank = 0; rank < parents.size(); ++rank) {
    std::uint32_t edges = 0;
    double latency_us = 0;
    for (std::uint32_t at = rank; parents[at] != at; at = parents[at]) {
      const HopCost& hop =
          costs.hops[static_cast<std::size_t>(hop_kind(topology, at, parents[at]))];
      ++edges;
      latency_us += hop.latency_us;
      cost.bytes_per_us = std::min(cost.bytes_per_us, hop.bytes_per_us);
    }
    cost.edges = std::max(cost.edges, edges);
    cost.latency_us = std::max(cost.latency_us, latency_us);
    if (parents[rank] != rank) ++children[parents[rank]];
  }
  cost.children = std::ranges::max(children);
  return cost;
}

/// Each way: the first chunk takes all edges; those after it follow as fast as the busiest rank
/// passes them on to each child.
double tree_time_us(const Plan& plan, const Topology& topology, const CostTable& costs) {
  if (plan.channels.empty() || plan.ranks < 2) return costs.call_us;
  const auto element_bytes = static_cast<double>(element_size(plan.task.type));
  const bool reduces = plan.task.operation == Operation::kReduce;
  double slowest_us = 0;
  for (const ChannelPlan& channel : plan.channels) {
    const TreeCost cost =
        tree_with_lines(tree_cost(topology, costs, channel.parents), plan.protocol, costs);
    const auto steps = static_cast<double>(tree_steps(channel));
    const double chunk =
        static_cast<double>(std::min(channel.count, channel.chunk)) * element_bytes;
    const double on_edge = chunk / cost.bytes_per_us * (reduces ? costs.tree_reduce_bytes : 1);
    const double hop = cost.latency_us / cost.edges + on_edge;
    slowest_us = std::max(
        slowest_us, cost.latency_us + cost.edges * on_edge + (steps - 1) * cost.children * hop);
  }
  const double ways = plan.task.operation == Operation::kAllReduce ? 2 : 1;
  return costs.call_us + (reduces ? costs.tree_reduce_us : costs.tree_us) + ways * slowest_us +
         costs.tree_channel_us * static_cast<double>(plan.channels.size() - 1);
}

std::uint32_t tree_channel_count(const Task& task, const PlanInput& input) {
  if (input.channels != 0) return input.channels;
  const std::uint32_t most = most_channels(Algorithm::kTree, input.limits);
  if (task.bytes() < kLeastBytesOfTwoTrees || most < kTrees) return 1;
  return kTrees * static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                      task.bytes() / kTrees / input.limits.min_channel_bytes, 1, most / kTrees));
}

/// A chunk small enough for the pipeline to fill, where the size allows: as many as the way up and
/// down is long.
std::uint64_t tree_chunk(const Plan& plan, const Topology& topology) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t channel_bytes = plan.channels[0].count * element_bytes;
  const std::uint64_t wanted =
      divide_up(channel_bytes, std::uint64_t{2} * std::max(1U, tree_depth(topology)));
  const std::uint64_t bytes = std::clamp<std::uint64_t>(
      divide_up(wanted, kChunkGrainBytes) * kChunkGrainBytes,
      std::min<std::uint64_t>(kLeastChunkBytes, plan.step_bytes), plan.step_bytes);
  return bytes / element_bytes;
}

Plan tree_plan(const Task& task, const PlanInput& input, Protocol protocol,
               std::uint32_t step_bytes) {
  Plan plan{.task = task,
            .algorithm = Algorithm::kTree,
            .protocol = protocol,
            .ranks = input.topology.rank_count(),
            .steps = input.limits.steps,
            .step_bytes = step_bytes,
            .chunk_steps = 1};
  plan.channels = cut_into_channels(task, tree_channel_count(task, input));
  if (!plan.channels.empty()) {
    const auto pairs = static_cast<std::uint32_t>(divide_up(plan.channels.size(), kTrees));
    const auto orders = rings(input.topology, pairs);
    const std::uint64_t chunk = tree_chunk(plan, input.topology);
    for (ChannelPlan& channel : plan.channels) {
      channel.chunk = chunk;
      channel.ring = orders[channel.index / kTrees];
      const std::uint32_t root = has_root(task.operation) ? task.root : channel.ring.front();
      channel.parents = tree_parents(input.topology, channel.ring, root, channel.index % kTrees);
    }
  }
  plan.predicted_us = tree_time_us(plan, input.topology, input.costs);
  return plan;
}

}  // namespace

Plan make_tree_plan(const Task& task, const PlanInput& input) {
  if (!has_small_slots(task, input)) {
    return tree_plan(task, input, Protocol::kSimple, input.limits.tree_step());
  }
  Plan plan = tree_plan(task, input, Protocol::kSimple, input.limits.small_step_bytes);
  plan.steps = input.limits.small_steps;
  plan.small_slots = true;
  return plan;
}

Plan make_tree_ll_plan(const Task& task, const PlanInput& input) {
  return tree_plan(task, input, Protocol::kLL,
                   step_payload(Protocol::kLL, input.limits.line_step_bytes));
}

Plan make_tree_ll128_plan(const Task& task, const PlanInput& input) {
  return tree_plan(task, input, Protocol::kLL128,
                   step_payload(Protocol::kLL128, input.limits.line_step_bytes));
}

/// Why trees are out of the question; empty where they are not.
std::string tree_refusal(const Task& task, const PlanInput& input) {
  if (!input.limits.trees) return "these ranks' devices have no kernels for it";
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  return {};
}

std::string tree_lines_refusal(const Task& task, const PlanInput& input) {
  std::string refused = tree_refusal(task, input);
  return refused.empty() ? lines_refusal(task, input) : refused;
}

std::string tree_ll128_refusal(const Task& task, const PlanInput& input) {
  std::string refused = tree_refusal(task, input);
  return refused.empty() ? ll128_refusal(task, input) : refused;
}

}  // namespace weft
