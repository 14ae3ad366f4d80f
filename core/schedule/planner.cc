// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/schedule/planner.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/direct_peers.h"
#include "core/model/ring_geometry.h"

namespace weft {
namespace {

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// Elements between two places where a range may be cut.
std::uint64_t grain_of(std::uint64_t element_bytes) {
  if (element_bytes == 0) return 1;  // Of a type that check_task refuses.
  return std::max<std::uint64_t>(1, kChunkGrainBytes / element_bytes);
}

Status check_task(const Task& task, std::uint32_t ranks) {
  const auto refuse = [&](std::string what) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("{}: {}", operation_name(task.operation), std::move(what)));
  };
  if (static_cast<std::size_t>(task.operation) >= kOperationCount) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("there is no operation {}", static_cast<unsigned>(task.operation)));
  }
  const std::uint64_t element_bytes = element_size(task.type);
  if (element_bytes == 0) {
    return refuse(fmt::format("there is no element type {}", task.type));
  }
  if (task.reduction < WEFT_SUM || task.reduction > WEFT_AVG) {
    return refuse(fmt::format("there is no reduction {}", task.reduction));
  }
  if (task.root >= ranks) {
    return refuse(fmt::format("root is {}, the ranks are 0 to {}", task.root, ranks - 1));
  }
  // Keeps every product of the planner and the kernels within 64 bits, padding included.
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 56;
  const std::uint64_t blocks = has_blocks(task.operation) ? ranks : 1;
  if (task.count > kMaxBytes / element_bytes / blocks) {
    return refuse(
        fmt::format("{} elements of {} bytes are more than any memory", task.count, element_bytes));
  }
  return {};
}

Status check_limits(const PlanLimits& limits) {
  if (limits.steps < 2) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("a connection needs 2 steps or more, not {}", limits.steps));
  }
  if (limits.step_bytes == 0 || limits.step_bytes % kChunkGrainBytes != 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("a step must hold a multiple of {} bytes, not {}", kChunkGrainBytes,
                            limits.step_bytes));
  }
  if (limits.max_channels == 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "a plan needs 1 channel or more, not 0");
  }
  if (limits.min_channel_bytes == 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "a channel must pay from 1 byte or more, not 0");
  }
  if (limits.direct_bytes > kMostDirectBytes) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("inboxes take calls of up to {} bytes, not {}", kMostDirectBytes,
                            limits.direct_bytes));
  }
  return {};
}

/// What the edges of a ring cost: data passes `edges` of them one after the other, and no faster
/// than the slowest.
struct RingCost {
  double latency_us = 0;
  double bytes_per_us = std::numeric_limits<double>::infinity();
};

/// `first`: the rank to which nothing comes, where data does not go all the way round.
RingCost ring_cost(const Topology& topology, const CostTable& costs,
                   std::span<const std::uint32_t> ring, std::optional<std::uint32_t> first) {
  RingCost cost;
  if (ring.size() < 2) return cost;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::uint32_t to = ring[(i + 1) % ring.size()];
    if (first && to == *first) continue;
    const HopCost& hop = costs.hops[static_cast<std::size_t>(hop_kind(topology, ring[i], to))];
    cost.latency_us += hop.latency_us;
    cost.bytes_per_us = std::min(cost.bytes_per_us, hop.bytes_per_us);
  }
  return cost;
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
    const RingCost cost = ring_cost(topology, costs, channel.ring, std::nullopt);
    // Each chunk passes n - 1 of the n edges of a round; an all-reduce is two rounds.
    const double rounds = operation == Operation::kAllReduce ? 2 : 1;
    const double share = rounds * (ranks - 1) / ranks;
    const double round_bytes = has_blocks(operation) ? bytes * ranks : bytes;
    return costs.call_us + share * cost.latency_us + share * round_bytes / cost.bytes_per_us;
  }
  const bool to_root = operation == Operation::kReduce;
  const RingCost cost = ring_cost(topology, costs, channel.ring,
                                  to_root ? next_of(channel.ring, plan.task.root) : plan.task.root);
  const double chunk =
      std::min(bytes, static_cast<double>(plan.chunk_steps) * static_cast<double>(plan.step_bytes));
  // All bytes pass each edge; the last rank gets its first chunk n - 2 chunks late.
  const double passed = ranks < 2 ? 0 : bytes + (ranks - 2) * chunk;
  return costs.call_us + cost.latency_us + passed / cost.bytes_per_us;
}

/// How many channels the size pays for: each must carry min_channel_bytes for every rank.
std::uint32_t channel_count(const Task& task, std::uint32_t ranks, const PlanLimits& limits) {
  // An all-reduce spreads a channel over the ranks; all others move all of it over each hop.
  const std::uint64_t per_rank =
      task.operation == Operation::kAllReduce ? task.bytes() / ranks : task.bytes();
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(per_rank / limits.min_channel_bytes, 1, limits.max_channels));
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

Plan make_ring_plan(const Task& task, const PlanInput& input) {
  const std::uint32_t ranks = input.topology.rank_count();
  Plan plan{.task = task,
            .algorithm = Algorithm::kRing,
            .protocol = Protocol::kSimple,
            .ranks = ranks,
            .steps = input.limits.steps,
            .step_bytes = input.limits.step_bytes,
            .chunk_steps = 1};
  if (task.count > 0) {
    const std::uint64_t element_bytes = element_size(task.type);
    const std::uint64_t grain = grain_of(element_bytes);
    const std::uint64_t grains = divide_up(task.count, grain);
    const auto channels = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(channel_count(task, ranks, input.limits), grains));
    std::vector<std::vector<std::uint32_t>> orders = rings(input.topology, channels);
    std::uint64_t offset = 0;
    for (std::uint32_t index = 0; index < channels; ++index) {
      const std::uint64_t share = grains / channels + (index < grains % channels ? 1 : 0);
      const std::uint64_t count = std::min(share * grain, task.count - offset);
      if (index == 0) plan.chunk_steps = chunk_steps_for(task, count, ranks, input.limits);
      plan.channels.push_back(
          {.index = index,
           .offset = offset,
           .count = count,
           .chunk = static_cast<std::uint64_t>(plan.chunk_steps) * plan.step_bytes / element_bytes,
           .ring = std::move(orders[index])});
      offset += count;
    }
  }
  plan.predicted_us = ring_time_us(plan, input.topology, input.costs);
  return plan;
}

bool allowed(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

/// Every rank writes its input, or a block of it, to every other; lines are two bytes for each byte
/// of payload, and a CPU copies twice.
double direct_time_us(const Task& task, std::uint32_t ranks, const CostTable& costs) {
  const auto written = static_cast<double>(2 * task.bytes() * (ranks - 1));
  return costs.call_us + costs.direct.latency_us + written / costs.direct.bytes_per_us;
}

Plan make_direct_plan(const Task& task, const PlanInput& input) {
  const std::uint32_t ranks = input.topology.rank_count();
  Plan plan{.task = task,
            .algorithm = Algorithm::kDirect,
            .protocol = Protocol::kLL,
            .ranks = ranks,
            .steps = kDirectHalves,
            .step_bytes = static_cast<std::uint32_t>(direct_half_bytes(input.limits.direct_bytes)),
            .chunk_steps = 1};
  ChannelPlan channel{.index = 0, .offset = 0, .count = task.count, .chunk = task.count};
  channel.ring.resize(ranks);
  std::iota(channel.ring.begin(), channel.ring.end(), 0);
  plan.channels.push_back(std::move(channel));
  plan.predicted_us = direct_time_us(task, ranks, input.costs);
  return plan;
}

/// Why the direct way is out of the question; empty where it is not.
std::string direct_refusal(const Task& task, const PlanInput& input) {
  if (has_blocks(task.operation) && !input.limits.direct_blocks) {
    return "ranks on GPUs do nothing but all-reduces directly";
  }
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.direct_bytes == 0) {
    return "these ranks do not write into each other's memory, or buffers.direct is 0";
  }
  if (task.bytes() > input.limits.direct_bytes) {
    return fmt::format("more than the {} bytes of buffers.direct", input.limits.direct_bytes);
  }
  return {};
}

/// A way in which the operation can be done at all.
struct Way {
  Algorithm algorithm;
  Protocol protocol;
  std::string (*refusal)(const Task& task, const PlanInput& input);
  Plan (*make)(const Task& task, const PlanInput& input);
};

/// A way that can do the call, and what the tuner says of it.
struct Candidate {
  const Way* way;
  std::size_t alternative;  ///< Its place in the list of alternatives.
  Plan plan;
  Judgement judgement{};
};

std::string reason_text(const Candidate& chosen, const PlanInput& input,
                        std::span<const Candidate> candidates) {
  const Plan& plan = chosen.plan;
  if (plan.channels.empty()) return "there are no elements to move";
  if (plan.ranks == 1) return "one rank alone only copies its input";
  const bool tuned = std::ranges::any_of(candidates, [](const Candidate& candidate) {
    return candidate.judgement.us || candidate.judgement.never;
  });
  std::string why = candidates.size() == 1
                        ? "the only way of those allowed that can do it"
                        : fmt::format("the fastest of {} by {}", candidates.size(),
                                      tuned ? input.tuner->name() : "the cost model");
  if (plan.algorithm == Algorithm::kDirect) return why;
  const std::size_t used = plan.channels.size();
  if (chosen.judgement.channels != 0) {
    return why + fmt::format("; {} of {} channels: {} wants {}", used, input.limits.max_channels,
                             input.tuner->name(), chosen.judgement.channels);
  }
  const std::uint32_t most = input.limits.max_channels;
  if (most == 1) return why + "; 1 channel is all there is";
  const std::string pays =
      fmt::format("a channel pays from {} bytes for each rank", input.limits.min_channel_bytes);
  return why + (used == most ? fmt::format("; all {} channels: {}", used, pays)
                             : fmt::format("; {} of {} channels: {}", used, most, pays));
}

std::string never_refused(const Task& /*task*/, const PlanInput& /*input*/) {
  return {};
}

std::span<const Way> ways_of(Operation operation) {
  static constexpr std::array kWays = {
      Way{Algorithm::kRing, Protocol::kSimple, never_refused, make_ring_plan},
      Way{Algorithm::kDirect, Protocol::kLL, direct_refusal, make_direct_plan},
  };
  if (joins_pair(operation)) return {};
  return std::span(kWays).first(has_root(operation) ? 1 : 2);
}

std::string key_of(Operation operation, std::string_view list) {
  return fmt::format("collectives.{}.{}", operation_name(operation), list);
}

/// Why the configuration keeps the planner from a way; empty where it does not.
std::string forbidden(const Way& way, Operation operation, const PlanInput& input) {
  if (!allowed(input.algorithms, algorithm_name(way.algorithm))) {
    return key_of(operation, "algorithm") + " leaves it out";
  }
  if (!allowed(input.protocols, protocol_name(way.protocol))) {
    return key_of(operation, "protocol") + " leaves it out";
  }
  return {};
}

/// Names of the configuration that mean nothing here, for the list of alternatives.
void add_unknown(std::vector<Alternative>& considered, Operation operation,
                 const PlanInput& input) {
  const auto ways = ways_of(operation);
  const auto refusal = [&](std::string_view what) {
    return fmt::format("{} has no such {}", operation_name(operation), what);
  };
  for (const std::string& name : input.algorithms) {
    if (std::ranges::none_of(
            ways, [&](const Way& way) { return name == algorithm_name(way.algorithm); })) {
      considered.push_back({.algorithm = name, .protocol = "any", .refused = refusal("algorithm")});
    }
  }
  for (const std::string& name : input.protocols) {
    if (std::ranges::none_of(ways,
                             [&](const Way& way) { return name == protocol_name(way.protocol); })) {
      considered.push_back({.algorithm = "any", .protocol = name, .refused = refusal("protocol")});
    }
  }
}

Error nothing_left(const Task& task, const PlanInput& input,
                   std::span<const Alternative> considered) {
  std::string text;
  const auto add = [&](std::string_view key, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += fmt::format("{}{} allows only [{}]", text.empty() ? "" : " and ",
                        key_of(task.operation, key), fmt::join(names, ", "));
  };
  add("algorithm", input.algorithms);
  add("protocol", input.protocols);
  text += ", which leaves no way:";
  for (const Alternative& way : considered)
    text += fmt::format(" {} with {}: {};", way.algorithm, way.protocol, way.refused);
  text.pop_back();
  return {WEFT_ERROR_CONFIG, text,
          "add \"ring\" and \"simple\" to the lists, or leave the keys out"};
}

std::uint32_t most_channels(const Candidate& candidate, const PlanInput& input) {
  return candidate.way->algorithm == Algorithm::kRing ? input.limits.max_channels : 1;
}

/// Lets the tuner's judgement into the candidates: times, numbers of channels.
Status ask_tuner(const Task& task, const PlanInput& input, std::vector<Candidate>& candidates) {
  // Where nothing moves between ranks there is nothing to say.
  if (input.tuner == nullptr || task.count == 0 || input.topology.rank_count() == 1) return {};
  std::vector<Offer> offers;
  offers.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    offers.push_back({.algorithm = candidate.way->algorithm,
                      .protocol = candidate.way->protocol,
                      .predicted_us = candidate.plan.predicted_us,
                      .max_channels = most_channels(candidate, input)});
  }
  WEFT_TRY_ASSIGN(auto judgements, input.tuner->judge(task, offers));
  if (judgements.size() != offers.size()) {
    return fail(WEFT_ERROR_INTERNAL, fmt::format("{} judged {} of {} ways", input.tuner->name(),
                                                 judgements.size(), offers.size()));
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.judgement = std::move(judgements[i]);
    if (candidate.judgement.channels > offers[i].max_channels) {
      return fail(WEFT_ERROR_INTERNAL,
                  fmt::format("{} wants {} channels of {}", input.tuner->name(),
                              candidate.judgement.channels, offers[i].max_channels));
    }
    if (candidate.judgement.channels != 0) {
      PlanInput wanted = input;
      wanted.limits.max_channels = candidate.judgement.channels;
      wanted.limits.min_channel_bytes = 1;
      candidate.plan = candidate.way->make(task, wanted);
    }
    if (candidate.judgement.us) candidate.plan.predicted_us = *candidate.judgement.us;
  }
  return {};
}

}  // namespace

HopKind hop_kind(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  if (topology.same_process(from, to)) return HopKind::kSameProcess;
  if (topology.same_host(from, to)) return HopKind::kSameHost;
  return HopKind::kNetwork;
}

Result<Plan> make_plan(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "a plan needs a topology with ranks, this has none");
  }
  WEFT_TRY(check_task(task, input.topology.rank_count()));
  WEFT_TRY(check_limits(input.limits));
  std::vector<Alternative> considered;
  std::vector<Candidate> candidates;
  for (const Way& way : ways_of(task.operation)) {
    Alternative alternative{.algorithm = std::string(algorithm_name(way.algorithm)),
                            .protocol = std::string(protocol_name(way.protocol)),
                            .refused = forbidden(way, task.operation, input)};
    if (alternative.refused.empty()) alternative.refused = way.refusal(task, input);
    if (alternative.refused.empty()) {
      Plan plan = way.make(task, input);
      alternative.predicted_us = alternative.model_us = plan.predicted_us;
      candidates.push_back(
          {.way = &way, .alternative = considered.size(), .plan = std::move(plan)});
    }
    considered.push_back(std::move(alternative));
  }
  add_unknown(considered, task.operation, input);
  if (candidates.empty()) return fail(nothing_left(task, input, considered));
  WEFT_TRY(ask_tuner(task, input, candidates));
  for (const Candidate& candidate : candidates) {
    considered[candidate.alternative].predicted_us = candidate.plan.predicted_us;
    considered[candidate.alternative].note = candidate.judgement.note;
  }
  Candidate& best = *std::ranges::min_element(candidates, {}, [](const Candidate& candidate) {
    return std::pair(candidate.judgement.never, candidate.plan.predicted_us);
  });
  best.plan.reason = reason_text(best, input, candidates);
  best.plan.alternatives = std::move(considered);
  return std::move(best.plan);
}

}  // namespace weft
