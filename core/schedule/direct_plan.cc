// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plans by which every rank writes to every other.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "core/schedule/ways.h"

namespace weft {
namespace {

/// Every rank writes its input, or a block of it, to every other.
double direct_time_us(std::uint64_t bytes, std::uint32_t ranks, double call_us,
                      const HopCost& cost) {
  return call_us + cost.latency_us + static_cast<double>(bytes * (ranks - 1)) / cost.bytes_per_us;
}

/// Two exchanges for each piece. A rank copies what it has for the others, reduces its own range,
/// copies that to them, and then what comes from them.
double two_shot_time_us(const Plan& plan, const CostTable& costs) {
  const auto others = static_cast<double>(plan.ranks - 1);
  const auto exchanges =
      static_cast<double>(2 * divide_up(plan.task.count, plan.channels[0].chunk * plan.ranks));
  const double moved = 4.0 * static_cast<double>(plan.task.bytes()) * others / plan.ranks;
  const double exchange_us = costs.exchange_us + others * costs.two_shot.latency_us;
  return costs.call_us + exchanges * exchange_us + moved / costs.two_shot.bytes_per_us;
}

/// A cost of wide lines between so many ranks.
HopCost among(std::uint32_t ranks, HopCost cost, const CostTable& costs) {
  cost.latency_us += costs.wide_rank_us * (ranks - 1);
  return cost;
}

/// So many exchanges one after the other, in each of which a rank sends so many bytes to each other
/// one; pieces overlap.
double wide_ranges_time_us(std::uint32_t exchanges, std::uint64_t bytes, std::uint32_t ranks,
                           const CostTable& costs) {
  const HopCost cost = among(ranks, costs.wide_ranges, costs);
  return costs.call_us + exchanges * direct_time_us(bytes, ranks, 0, cost);
}

/// Two meetings for each piece, between which a switch moves what each rank stages and takes out.
/// Nobody has timed it: the rates are those of a two-shot.
double multicast_time_us(const Plan& plan, const CostTable& costs) {
  const Task& task = plan.task;
  const bool blocks = has_blocks(task.operation);
  const std::uint64_t all = task.bytes() * (blocks ? plan.ranks : 1);
  const std::uint64_t pieces =
      divide_up(task.count, plan.channels[0].chunk * (blocks ? 1 : plan.ranks));
  const double meeting_us =
      costs.exchange_us + static_cast<double>(plan.ranks - 1) * costs.two_shot.latency_us;
  const auto copied = static_cast<double>(blocks ? all + task.bytes() : 2 * all);
  const double moved = copied + 2.0 * static_cast<double>(all) / plan.ranks;
  return costs.call_us + static_cast<double>(2 * pieces) * meeting_us +
         moved / costs.two_shot.bytes_per_us;
}

constexpr const char* kNoWideLines =
    "what joins these ranks does not keep stores of 128 bytes together";

std::vector<std::uint32_t> all_ranks(std::uint32_t ranks) {
  std::vector<std::uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Plan make_one_shot_plan(const Task& task, const PlanInput& input, Protocol protocol,
                        std::uint64_t half_bytes) {
  const std::uint32_t ranks = input.topology.rank_count();
  Plan plan{.task = task,
            .algorithm = Algorithm::kDirect,
            .protocol = protocol,
            .ranks = ranks,
            .steps = kDirectHalves,
            .step_bytes = static_cast<std::uint32_t>(half_bytes),
            .chunk_steps = 1};
  plan.channels.push_back({.index = 0,
                           .offset = 0,
                           .count = task.count,
                           .chunk = task.count,
                           .ring = all_ranks(ranks)});
  return plan;
}

/// A plan but for its time, whose ranks have a range of `range` bytes each at a time.
Plan make_ranges_plan(const Task& task, const PlanInput& input, Algorithm algorithm,
                      std::uint64_t range, Protocol protocol = Protocol::kSimple) {
  const std::uint32_t ranks = input.topology.rank_count();
  Plan plan{.task = task,
            .algorithm = algorithm,
            .protocol = protocol,
            .ranks = ranks,
            .steps = kDirectHalves,
            .step_bytes = static_cast<std::uint32_t>(range),
            .chunk_steps = 1};
  plan.channels.push_back({.index = 0,
                           .offset = 0,
                           .count = task.count,
                           .chunk = range / element_size(task.type),
                           .ring = all_ranks(ranks)});
  return plan;
}

}  // namespace

std::uint64_t least_wide_block(std::uint32_t ranks, const CostTable& costs) {
  const HopCost wide = among(ranks, costs.wide_ranges, costs);
  // Of each byte that a block has more.
  const double gain_us = direct_time_us(2, ranks, 0, {.bytes_per_us = costs.direct.bytes_per_us}) -
                         direct_time_us(1, ranks, 0, {.bytes_per_us = wide.bytes_per_us});
  const double late_us = wide.latency_us - costs.direct.latency_us;
  if (late_us <= 0) return 1;
  if (gain_us <= 0) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(std::ceil(late_us / gain_us));
}

Plan make_direct_plan(const Task& task, const PlanInput& input) {
  Plan plan =
      make_one_shot_plan(task, input, Protocol::kLL, direct_half_bytes(input.limits.direct_bytes));
  // Lines are two bytes for each byte of payload, and a CPU copies twice.
  plan.predicted_us =
      direct_time_us(2 * task.bytes(), plan.ranks, input.costs.call_us, input.costs.direct);
  return plan;
}

Plan make_wide_plan(const Task& task, const PlanInput& input) {
  if (has_blocks(task.operation)) {
    Plan plan = make_ranges_plan(task, input, Algorithm::kDirect, input.limits.wide_bytes,
                                 Protocol::kLL128);
    plan.predicted_us = wide_ranges_time_us(1, task.bytes(), plan.ranks, input.costs);
    return plan;
  }
  Plan plan =
      make_one_shot_plan(task, input, Protocol::kLL128, wide_half_bytes(input.limits.wide_bytes));
  // The root's link carries what each exchange of ranges does.
  plan.predicted_us = has_root(task.operation)
                          ? wide_ranges_time_us(1, task.bytes(), plan.ranks, input.costs)
                          : direct_time_us(task.bytes(), plan.ranks, input.costs.call_us,
                                           among(plan.ranks, input.costs.wide, input.costs));
  return plan;
}

Plan make_wide_two_shot_plan(const Task& task, const PlanInput& input) {
  Plan plan =
      make_ranges_plan(task, input, Algorithm::kTwoShot, input.limits.wide_bytes, Protocol::kLL128);
  plan.predicted_us =
      wide_ranges_time_us(2, divide_up(task.bytes(), plan.ranks), plan.ranks, input.costs);
  return plan;
}

Plan make_two_shot_plan(const Task& task, const PlanInput& input) {
  Plan plan = make_ranges_plan(task, input, Algorithm::kTwoShot, input.limits.two_shot_range);
  plan.predicted_us = two_shot_time_us(plan, input.costs);
  return plan;
}

Plan make_multicast_plan(const Task& task, const PlanInput& input) {
  Plan plan = make_ranges_plan(task, input, Algorithm::kMulticast, input.limits.multicast_range);
  plan.predicted_us = multicast_time_us(plan, input.costs);
  return plan;
}

/// Why the direct way is out of the question; empty where it is not.
std::string direct_refusal(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.direct_bytes == 0) {
    return "these ranks do not write into each other's memory, or buffers.direct is 0";
  }
  if (task.bytes() > input.limits.direct_bytes) {
    return fmt::format("more than the {} bytes of buffers.direct", input.limits.direct_bytes);
  }
  if (has_root(task.operation) && !input.limits.direct_roots) {
    return "these ranks' devices know it only where all send and receive alike";
  }
  if (task.operation != Operation::kAllReduce && task.bytes() > input.limits.direct_block_bytes) {
    return fmt::format("a block of more than the {} bytes that inboxes have room for",
                       input.limits.direct_block_bytes);
  }
  return {};
}

std::string wide_refusal(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.wide_bytes == 0) return kNoWideLines;
  if (!has_blocks(task.operation) && task.bytes() > input.limits.wide_bytes) {
    return fmt::format("more than the {} bytes that inboxes have room for",
                       input.limits.wide_bytes);
  }
  return {};
}

std::string wide_ranges_refusal(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.wide_bytes == 0) return kNoWideLines;
  return {};
}

std::string two_shot_refusal(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.two_shot_range != 0) return {};
  if (input.limits.wide_bytes != 0) {
    return "no memory is kept for it: collectives.all_reduce.protocol has ll128, by which it is "
           "faster here, or collectives.all_reduce.algorithm lacks it";
  }
  return "these ranks do not write into each other's memory, or buffers.direct is 0";
}

std::string multicast_refusal(const Task& task, const PlanInput& input) {
  if (input.topology.rank_count() == 1) return "there is no other rank";
  if (task.count == 0) return "there are no elements to move";
  if (input.limits.multicast_range == 0) {
    return input.limits.no_multicast.empty() ? "buffers.multicast is 0" : input.limits.no_multicast;
  }
  if (reduces(task.operation) && !switches_combine(task.type, task.reduction)) {
    return fmt::format("switches do not combine {} by {}", data_type_name(task.type),
                       reduction_name(task.reduction));
  }
  return {};
}

}  // namespace weft
