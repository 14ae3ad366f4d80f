// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plans by ring.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/model/step_lines.h"
#include "core/schedule/ways.h"

namespace weft {
namespace {

/// What the edges of a ring cost: data passes `edges` of them one after the other, and no faster
/// than the slowest.
struct RingCost {
  double latency_us = 0;
  double bytes_per_us = std::numeric_limits<double>::infinity();
};

/// What lines change of it.
RingCost with_lines(RingCost cost, Protocol protocol, std::size_t hops, const CostTable& costs) {
  if (!has_lines(protocol) || hops == 0) return cost;
  const bool ll = protocol == Protocol::kLL;
  cost.latency_us += (ll ? costs.ll_hop_us : costs.ll128_hop_us) * static_cast<double>(hops);
  cost.bytes_per_us /= ll ? costs.ll_bytes : costs.ll128_bytes;
  return cost;
}

/// `first`: the rank to which nothing comes, where data does not go all the way round. `near`: how
/// long bytes take within a host, beside what a hop there takes.
RingCost ring_cost(const Topology& topology, const CostTable& costs,
                   std::span<const std::uint32_t> ring, std::optional<std::uint32_t> first,
                   double near) {
  RingCost cost;
  if (ring.size() < 2) return cost;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::uint32_t to = ring[(i + 1) % ring.size()];
    if (first && to == *first) continue;
    const HopKind kind = hop_kind(topology, ring[i], to);
    const HopCost& hop = costs.hops[static_cast<std::size_t>(kind)];
    const double bytes = kind == HopKind::kNetwork ? 1 : near;
    cost.latency_us += hop.latency_us;
    cost.bytes_per_us = std::min(cost.bytes_per_us, hop.bytes_per_us / bytes);
  }
  return cost;
}

/// Whether data may go into outputs: where it is only copied, and what a rank gets begins at whole
/// lines of 16 bytes.
void consider_outputs(const PlanInput& input, Plan& plan) {
  const Task& task = plan.task;
  const PlanLimits& limits = input.limits;
  const bool gathers = task.operation == Operation::kAllGather;
  if (!gathers && task.operation != Operation::kBroadcast) return;
  if (limits.outputs_from == 0 || plan.ranks == 1 || plan.channels.empty()) return;
  const std::uint64_t bytes = task.bytes() * (gathers ? plan.ranks : 1);
  constexpr std::uint64_t kLine = 16;
  if (!limits.no_outputs.empty()) {
    plan.no_outputs = limits.no_outputs;
  } else if (bytes < limits.outputs_from) {
    plan.no_outputs = fmt::format(
        "{} bytes of output are fewer than the {} of "
        "buffers.outputs_from",
        bytes, limits.outputs_from);
  } else if (gathers && task.bytes() % kLine != 0) {
    plan.no_outputs = fmt::format("blocks have no multiple of {} bytes", kLine);
  } else {
    plan.into_outputs = true;
    plan.are_outputs_mapped = limits.are_outputs_mapped;
  }
}

/// Where data goes one way alone.
bool goes_by_both_ends(const Plan& plan, const PlanLimits& limits) {
  const Task& task = plan.task;
  return plan.ranks == 2 && has_root(task.operation) && limits.both_ends_from != 0 &&
         task.bytes() >= limits.both_ends_from && !plan.into_outputs && !plan.channels.empty();
}

std::uint32_t next_of(const std::vector<std::uint32_t>& ring, std::uint32_t rank) {
  const auto place = std::ranges::find(ring, rank) - ring.begin();
  return ring[static_cast<std::size_t>(place + 1) % ring.size()];
}

/// time = hops * latency + bytes / bandwidth, of the longest way that data goes.
double ring_time_us(const Plan& plan, const Topology& topology, const CostTable& costs) {
  if (plan.channels.empty()) return costs.call_us;
  const auto ranks = static_cast<double>(plan.ranks);
  const ChannelPlan& channel = plan.channels.front();  // none is longer
  const auto bytes = static_cast<double>(channel.count * element_size(plan.task.type));
  const Operation operation = plan.task.operation;
  if (!has_root(operation)) {
    const RingCost cost = with_lines(ring_cost(topology, costs, channel.ring, std::nullopt, 1),
                                     plan.protocol, channel.ring.size(), costs);
    // Each chunk passes n - 1 of the n edges of a round; an all-reduce is two rounds.
    const double rounds = operation == Operation::kAllReduce ? 2 : 1;
    const double share = rounds * (ranks - 1) / ranks;
    const double round_bytes = has_blocks(operation) ? bytes * ranks : bytes;
    return costs.call_us + share * cost.latency_us + share * round_bytes / cost.bytes_per_us;
  }
  const bool to_root = operation == Operation::kReduce;
  const std::uint32_t first = to_root ? next_of(channel.ring, plan.task.root) : plan.task.root;
  if (costs.rooted_hop_us > 0 && !has_lines(plan.protocol)) {
    const RingCost cost = ring_cost(topology, costs, channel.ring, first, costs.rooted_bytes);
    return costs.call_us + (ranks - 1) * costs.rooted_hop_us + bytes / cost.bytes_per_us;
  }
  // Of lines each is looked at, whichever way they go.
  const double near = has_lines(plan.protocol) ? 1 : costs.rooted_bytes;
  const RingCost cost = with_lines(ring_cost(topology, costs, channel.ring, first, near),
                                   plan.protocol, channel.ring.size() - 1, costs);
  const double chunk =
      std::min(bytes, static_cast<double>(plan.chunk_steps) * static_cast<double>(plan.step_bytes));
  // All bytes pass each edge; the last rank gets its first chunk n - 2 chunks late.
  const double passed = ranks < 2 ? 0 : bytes + (ranks - 2) * chunk;
  return costs.call_us + cost.latency_us + passed / cost.bytes_per_us;
}

/// How many channels the size pays for: each must carry min_channel_bytes for every rank, a few of
/// them less.
std::uint32_t channel_count(const Task& task, const PlanInput& input) {
  if (input.channels != 0) return input.channels;
  const PlanLimits& limits = input.limits;
  const std::uint32_t ranks = input.topology.rank_count();
  // An all-reduce spreads a channel over the ranks; all others move all of it over each hop.
  const std::uint64_t per_rank =
      task.operation == Operation::kAllReduce ? task.bytes() / ranks : task.bytes();
  const std::uint64_t few =
      std::min<std::uint64_t>(per_rank / limits.min_bytes_of_few, limits.few_channels);
  const std::uint64_t pay = std::max(few, per_rank / limits.min_channel_bytes);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(pay, 1, limits.max_channels));
}

/// Steps of one chunk, for the longest channel. As many loops as the largest chunk needs, evenly
/// filled: five steps are walked as 3 + 2 rather than 4 + 1.
std::uint32_t chunk_steps_for(const Task& task, std::uint64_t channel_elements, std::uint32_t ranks,
                              const PlanLimits& limits) {
  // Half of the slots for a chunk: the other half takes the next one while it is consumed. To and
  // from a root data is a pipeline: the smaller its chunks, the earlier the last rank begins.
  const std::uint64_t most =
      has_root(task.operation) ? 1 : std::max<std::uint32_t>(1, limits.steps / 2);
  const std::uint64_t share = task.operation == Operation::kAllReduce
                                  ? divide_up(channel_elements, ranks)
                                  : channel_elements;
  const std::uint64_t steps =
      std::max<std::uint64_t>(1, steps_of(share, element_size(task.type), limits.step_bytes));
  const std::uint64_t loops = divide_up(steps, most);
  return static_cast<std::uint32_t>(divide_up(steps, loops));
}

Plan ring_plan(const Task& task, const PlanInput& input, Protocol protocol,
               const PlanLimits& limits) {
  const std::uint32_t ranks = input.topology.rank_count();
  Plan plan{.task = task,
            .algorithm = Algorithm::kRing,
            .protocol = protocol,
            .ranks = ranks,
            .steps = limits.steps,
            .step_bytes = limits.step_bytes,
            .chunk_steps = 1};
  plan.channels = cut_into_channels(task, channel_count(task, input));
  if (!plan.channels.empty()) {
    plan.chunk_steps = chunk_steps_for(task, plan.channels[0].count, ranks, limits);
    auto orders = rings(input.topology, static_cast<std::uint32_t>(plan.channels.size()));
    for (ChannelPlan& channel : plan.channels) {
      channel.chunk =
          static_cast<std::uint64_t>(plan.chunk_steps) * plan.step_bytes / element_size(task.type);
      channel.ring = std::move(orders[channel.index]);
    }
  }
  plan.predicted_us = ring_time_us(plan, input.topology, input.costs);
  return plan;
}

Plan line_plan(const Task& task, const PlanInput& input, Protocol protocol) {
  PlanLimits limits = input.limits;
  // A grain at least: slots that take none are no slots of lines.
  limits.step_bytes = std::max(step_payload(protocol, limits.line_step_bytes),
                               static_cast<std::uint32_t>(kChunkGrainBytes));
  return ring_plan(task, input, protocol, limits);
}

}  // namespace

Plan make_ring_plan(const Task& task, const PlanInput& input) {
  if (!has_small_slots(task, input)) {
    Plan plan = ring_plan(task, input, Protocol::kSimple, input.limits);
    consider_outputs(input, plan);
    plan.both_ends = goes_by_both_ends(plan, input.limits);
    return plan;
  }
  PlanLimits limits = input.limits;
  limits.steps = limits.small_steps;
  limits.step_bytes = limits.small_step_bytes;
  Plan plan = ring_plan(task, input, Protocol::kSimple, limits);
  plan.small_slots = true;
  return plan;
}

Plan make_ring_ll_plan(const Task& task, const PlanInput& input) {
  return line_plan(task, input, Protocol::kLL);
}

Plan make_ring_ll128_plan(const Task& task, const PlanInput& input) {
  return line_plan(task, input, Protocol::kLL128);
}

// Data passes each rank of such a call once, so a rank may be ahead of the next by as many calls as
// there are slots: the more there are, the less often ranks that share a processor change.
bool has_small_slots(const Task& task, const PlanInput& input) {
  return has_root(task.operation) && task.count != 0 && input.topology.rank_count() > 1 &&
         task.bytes() <= input.limits.small_step_bytes;
}

std::string lines_refusal(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.line_step_bytes != 0) return {};
  return input.limits.no_lines.empty() ? "these ranks' connections do not keep lines together"
                                       : input.limits.no_lines;
}

std::string ll128_refusal(const Task& task, const PlanInput& input) {
  std::string refused = lines_refusal(task, input);
  return refused.empty() ? input.limits.no_ll128 : refused;
}

}  // namespace weft
