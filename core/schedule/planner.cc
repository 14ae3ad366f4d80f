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
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "core/model/pat_geometry.h"
#include "core/model/ring_geometry.h"
#include "core/model/step_lines.h"
#include "core/model/two_shot.h"
#include "core/schedule/call_text.h"
#include "core/schedule/ways.h"

namespace weft {
namespace {

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
  if (task.reduction < WEFT_SUM || task.reduction > kPremulSum) {
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
  if (limits.min_channel_bytes == 0 || limits.min_bytes_of_few == 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "a channel must pay from 1 byte or more, not 0");
  }
  if (limits.direct_bytes > kMostDirectBytes) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("inboxes take calls of up to {} bytes, not {}", kMostDirectBytes,
                            limits.direct_bytes));
  }
  if (limits.wide_bytes > kMostDirectBytes) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("wide lines of inboxes take calls of up to {} bytes, not {}",
                            kMostDirectBytes, limits.wide_bytes));
  }
  if (limits.two_shot_range > kMostTwoShotRange || limits.two_shot_range % kChunkGrainBytes != 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("a range of a two-shot has a multiple of {} bytes, up to {}, not {}",
                            kChunkGrainBytes, kMostTwoShotRange, limits.two_shot_range));
  }
  if (limits.multicast_range > kMostMulticastBytes ||
      limits.multicast_range % kChunkGrainBytes != 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("a range by multicast has a multiple of {} bytes, up to {}, not {}",
                            kChunkGrainBytes, kMostMulticastBytes, limits.multicast_range));
  }
  return {};
}

bool allowed(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

/// A way in which the operation can be done at all.
struct Way {
  Algorithm algorithm;
  Protocol protocol;
  bool (*knows)(Operation operation);
  std::string (*refusal)(const Task& task, const PlanInput& input);
  Plan (*make)(const Task& task, const PlanInput& input);
};

/// A way that can do the call, and what the tuner says of it.
struct Candidate {
  const Way* way;
  std::size_t alternative;  ///< Its place in the list of alternatives.
  Plan plan;
  Judgement judgement{};
  bool spare = false;  ///< Only for want of another one.
};

std::string reason_text(const Candidate& chosen, const PlanInput& input,
                        std::span<const Candidate> candidates) {
  const Plan& plan = chosen.plan;
  if (plan.channels.empty()) return "there are no elements to move";
  if (plan.ranks == 1) return "one rank alone only copies its input";
  const bool tuned = std::ranges::any_of(candidates, [](const Candidate& candidate) {
    return candidate.judgement.us || candidate.judgement.never;
  });
  const auto compared =
      static_cast<std::size_t>(std::ranges::count(candidates, chosen.spare, &Candidate::spare));
  std::string why = "the only way of those allowed that can do it";
  if (compared > 1) {
    why = fmt::format("the fastest of {} by {}", compared,
                      tuned ? input.tuner->name() : "the cost model");
  } else if (candidates.size() > 1 && !chosen.spare) {
    why = fmt::format("the only one of {} that need not be named", candidates.size());
  }
  if (goes_directly(plan.algorithm)) return why;
  const std::size_t used = plan.channels.size();
  const std::uint32_t most = most_channels(plan.algorithm, input.limits);
  if (chosen.judgement.channels != 0) {
    return why + fmt::format("; {} of {} channels: {} wants {}", used, most, input.tuner->name(),
                             chosen.judgement.channels);
  }
  if (most == 1) {
    return why + (plan.task.options.max_channels == 1 ? "; the call's options allow 1 channel"
                                                      : "; 1 channel is all there is");
  }
  if (plan.algorithm == Algorithm::kTree && used == 1) {
    return why + fmt::format("; 1 of {} channels: a second tree pays from {} bytes", most,
                             kLeastBytesOfTwoTrees);
  }
  const PlanLimits& limits = input.limits;
  std::string pays =
      fmt::format("a channel pays from {} bytes for each rank", limits.min_channel_bytes);
  if (plan.algorithm == Algorithm::kRing && limits.few_channels > 1) {
    pays += fmt::format(", up to {} from {}", limits.few_channels, limits.min_bytes_of_few);
  }
  return why + (used == most ? fmt::format("; all {} channels: {}", used, pays)
                             : fmt::format("; {} of {} channels: {}", used, most, pays));
}

std::string never_refused(const Task& /*task*/, const PlanInput& /*input*/) {
  return {};
}

constexpr bool fits_ring(Operation operation) {
  return is_planned(operation);
}
constexpr bool fits_lines(Operation operation) {
  return is_planned(operation) && !has_uneven_blocks(operation);
}
constexpr bool fits_tree(Operation operation) {
  return is_planned(operation) && !has_blocks(operation);
}
constexpr bool is_all_reduce(Operation operation) {
  return operation == Operation::kAllReduce;
}
constexpr bool fits_wide(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kAllGather ||
         operation == Operation::kReduceScatter || operation == Operation::kBroadcast ||
         operation == Operation::kReduce;
}
constexpr bool fits_chain(Operation operation) {
  return is_planned(operation) && reduces(operation);
}
constexpr bool fits_inbox(Operation operation) {
  return is_planned(operation) && !has_uneven_blocks(operation);
}

std::vector<const Way*> ways_of(Operation operation) {
  static constexpr std::array kWays = {
      Way{Algorithm::kRing, Protocol::kSimple, fits_ring, never_refused, make_ring_plan},
      Way{Algorithm::kDirect, Protocol::kLL, fits_inbox, direct_refusal, make_direct_plan},
      Way{Algorithm::kDirect, Protocol::kLL128, fits_wide, wide_refusal, make_wide_plan},
      Way{Algorithm::kTree, Protocol::kSimple, fits_tree, tree_refusal, make_tree_plan},
      Way{Algorithm::kTwoShot, Protocol::kSimple, is_all_reduce, two_shot_refusal,
          make_two_shot_plan},
      Way{Algorithm::kTwoShot, Protocol::kLL128, is_all_reduce, wide_ranges_refusal,
          make_wide_two_shot_plan},
      Way{Algorithm::kPat, Protocol::kSimple, fits_pat, tree_refusal, make_pat_plan},
      Way{Algorithm::kChain, Protocol::kSimple, fits_chain, chain_refusal, make_chain_plan},
      Way{Algorithm::kRing, Protocol::kLL, fits_lines, lines_refusal, make_ring_ll_plan},
      Way{Algorithm::kRing, Protocol::kLL128, fits_lines, ll128_refusal, make_ring_ll128_plan},
      Way{Algorithm::kTree, Protocol::kLL, fits_tree, tree_lines_refusal, make_tree_ll_plan},
      Way{Algorithm::kTree, Protocol::kLL128, fits_tree, tree_ll128_refusal, make_tree_ll128_plan},
      Way{Algorithm::kMulticast, Protocol::kSimple, fits_multicast, multicast_refusal,
          make_multicast_plan},
  };
  std::vector<const Way*> ways;
  for (const Way& way : kWays) {
    if (way.knows(operation)) ways.push_back(&way);
  }
  return ways;
}

std::string key_of(Operation operation, std::string_view list) {
  return fmt::format("collectives.{}.{}", operation_name(operation), list);
}

bool wants(const WayOptions& options, const Way& way) {
  return options.algorithm.value_or(way.algorithm) == way.algorithm &&
         options.protocol.value_or(way.protocol) == way.protocol;
}

/// Why configuration or call keep the planner from a way; empty where they do not.
std::string forbidden(const Way& way, const Task& task, const PlanInput& input) {
  if (!allowed(input.algorithms, algorithm_name(way.algorithm))) {
    return key_of(task.operation, "algorithm") + " leaves it out";
  }
  if (!allowed(input.protocols, protocol_name(way.protocol))) {
    return key_of(task.operation, "protocol") + " leaves it out";
  }
  return wants(task.options, way) ? "" : "the call's options leave it out";
}

/// Whether only ways will do that combine by rank numbers.
bool goes_by_rank(const Task& task, const PlanInput& input) {
  return input.deterministic && reduces(task.operation) && rounds(task.type) && task.count != 0 &&
         input.topology.rank_count() > 1;
}

/// Why a way is out of the question; empty where it is not.
std::string refusal_of(const Way& way, const Task& task, const PlanInput& input) {
  std::string refused = forbidden(way, task, input);
  if (refused.empty() && goes_by_rank(task, input) && !combines_by_rank(way.algorithm)) {
    refused = "deterministic: it does not add up by rank numbers";
  }
  return refused.empty() ? way.refusal(task, input) : refused;
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
            ways, [&](const Way* way) { return name == algorithm_name(way->algorithm); })) {
      considered.push_back({.algorithm = name, .protocol = "any", .refused = refusal("algorithm")});
    }
  }
  for (const std::string& name : input.protocols) {
    if (std::ranges::none_of(
            ways, [&](const Way* way) { return name == protocol_name(way->protocol); })) {
      considered.push_back({.algorithm = "any", .protocol = name, .refused = refusal("protocol")});
    }
  }
}

/// The refusal of a call whose options name a way.
Error cannot_go(const Task& task, const PlanInput& input) {
  std::string known;
  std::string refused;
  for (const Way* way : ways_of(task.operation)) {
    const std::string name =
        fmt::format("{} with {}", algorithm_name(way->algorithm), protocol_name(way->protocol));
    known += (known.empty() ? "" : ", ") + name;
    if (!wants(task.options, *way)) continue;
    refused +=
        fmt::format("{} {}: {}", refused.empty() ? "" : ";", name, refusal_of(*way, task, input));
  }
  if (refused.empty()) {
    refused = fmt::format(" it can only go as {}", known);
  }
  return {WEFT_ERROR_UNSUPPORTED,
          fmt::format("the call's options want {}{}, which leaves no way:{}",
                      operation_name(task.operation), way_text(task.options), refused),
          "name another way with weft_comm_set_call_options, or none"};
}

Error nothing_left(const Task& task, const PlanInput& input,
                   std::span<const Alternative> considered) {
  if (task.options.names_way()) return cannot_go(task, input);
  std::string text;
  const auto add = [&](std::string_view key, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += fmt::format("{}{} allows only [{}]", text.empty() ? "" : " and ",
                        key_of(task.operation, key), fmt::join(names, ", "));
  };
  add("algorithm", input.algorithms);
  add("protocol", input.protocols);
  if (goes_by_rank(task, input)) {
    text +=
        fmt::format("{}collectives.deterministic asks for an order", text.empty() ? "" : " and ");
  }
  text += ", which leaves no way:";
  for (const Alternative& way : considered)
    text += fmt::format(" {} with {}: {};", way.algorithm, way.protocol, way.refused);
  text.pop_back();
  if (goes_by_rank(task, input)) {
    return {WEFT_ERROR_CONFIG, text,
            input.limits.trees ? "add \"chain\" and \"simple\" to the lists, or leave the keys out"
                               : "between these ranks' devices direct and two-shot alone keep the "
                                 "order; or switch collectives.deterministic off"};
  }
  return {WEFT_ERROR_CONFIG, text,
          "add \"ring\" and \"simple\" to the lists, or leave the keys out"};
}

/// Lets the tuner's judgement into the candidates: times, numbers of channels.
Status ask_tuner(const Task& task, const PlanInput& input, std::vector<Candidate>& candidates) {
  // Where nothing moves between ranks there is nothing to say.
  if (input.tuner == nullptr || task.count == 0 || input.topology.rank_count() == 1) return {};
  std::vector<Offer> offers;
  std::vector<Candidate*> offered;
  for (Candidate& candidate : candidates) {
    // Tuners know no chains, which are not for speed: the built-in costs stand.
    if (candidate.way->algorithm == Algorithm::kChain) continue;
    offered.push_back(&candidate);
    offers.push_back({.algorithm = candidate.way->algorithm,
                      .protocol = candidate.way->protocol,
                      .predicted_us = candidate.plan.predicted_us,
                      .max_channels = most_channels(candidate.way->algorithm, input.limits)});
  }
  if (offers.empty()) return {};
  WEFT_TRY_ASSIGN(auto judgements, input.tuner->judge(task, offers));
  if (judgements.size() != offers.size()) {
    return fail(WEFT_ERROR_INTERNAL, fmt::format("{} judged {} of {} ways", input.tuner->name(),
                                                 judgements.size(), offers.size()));
  }
  for (std::size_t i = 0; i < offered.size(); ++i) {
    Candidate& candidate = *offered[i];
    candidate.judgement = std::move(judgements[i]);
    if (candidate.judgement.channels > offers[i].max_channels) {
      return fail(WEFT_ERROR_INTERNAL,
                  fmt::format("{} wants {} channels of {}", input.tuner->name(),
                              candidate.judgement.channels, offers[i].max_channels));
    }
    if (candidate.judgement.channels != 0) {
      PlanInput wanted = input;
      wanted.channels = candidate.judgement.channels;
      candidate.plan = candidate.way->make(task, wanted);
    }
    if (candidate.judgement.us) candidate.plan.predicted_us = *candidate.judgement.us;
  }
  return {};
}

/// Marks those whose costs nobody has checked where others are left.
void mark_spare(const PlanInput& input, std::vector<Candidate>& candidates,
                std::span<Alternative> considered) {
  const auto is_unchecked = [&](const Candidate& candidate) {
    const Way& way = *candidate.way;
    if (candidate.judgement.us || candidate.plan.gathers_inputs) return false;
    const bool late =
        has_edges(way.algorithm) || (way.algorithm == Algorithm::kRing && has_lines(way.protocol));
    // Those of multicast nobody has checked anywhere, nor those of all-reduces by both halves of
    // PAT.
    return way.algorithm == Algorithm::kMulticast ||
           (way.algorithm == Algorithm::kPat &&
            candidate.plan.task.operation == Operation::kAllReduce) ||
           (late && !input.limits.late_by_cost);
  };
  if (std::ranges::all_of(candidates, is_unchecked)) return;
  for (Candidate& candidate : candidates) {
    candidate.spare = is_unchecked(candidate);
    if (!candidate.spare) continue;
    considered[candidate.alternative].note =
        "nobody has checked its costs between these devices: taken only for want of another way";
  }
}

}  // namespace

HopKind hop_kind(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  if (topology.same_process(from, to)) return HopKind::kSameProcess;
  if (topology.same_host(from, to)) return HopKind::kSameHost;
  return HopKind::kNetwork;
}

Result<Plan> make_plan(const Task& task, const PlanInput& given) {
  if (given.topology.rank_count() == 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "a plan needs a topology with ranks, this has none");
  }
  WEFT_TRY(check_task(task, given.topology.rank_count()));
  WEFT_TRY(check_limits(given.limits));
  PlanInput input = given;
  if (task.options.max_channels != 0) {
    input.limits.max_channels = std::min(input.limits.max_channels, task.options.max_channels);
  }
  std::vector<Alternative> considered;
  std::vector<Candidate> candidates;
  for (const Way* way : ways_of(task.operation)) {
    Alternative alternative{.algorithm = std::string(algorithm_name(way->algorithm)),
                            .protocol = std::string(protocol_name(way->protocol)),
                            .refused = refusal_of(*way, task, input)};
    if (alternative.refused.empty()) {
      Plan plan = way->make(task, input);
      alternative.predicted_us = alternative.model_us = plan.predicted_us;
      candidates.push_back({.way = way, .alternative = considered.size(), .plan = std::move(plan)});
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
  mark_spare(input, candidates, considered);
  Candidate& best = *std::ranges::min_element(candidates, {}, [](const Candidate& candidate) {
    return std::tuple(candidate.judgement.never, candidate.spare, candidate.plan.predicted_us);
  });
  best.plan.by_rank = goes_by_rank(task, input);
  best.plan.reason = reason_text(best, input, candidates);
  best.plan.alternatives = std::move(considered);
  return std::move(best.plan);
}

}  // namespace weft
