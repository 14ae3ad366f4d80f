// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the planner chooses from: for each algorithm a plan of the call, with its time by the costs,
// and why it is out of the question. Internal to planner.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model/ring_geometry.h"
#include "core/schedule/planner.h"

namespace weft {

[[nodiscard]] constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// A call cut into `wanted` channels of whole grains, or fewer, all nearly as long, the first ones
/// no shorter than others. They have no chunks and no ranks yet. None without elements.
[[nodiscard]] std::vector<ChannelPlan> cut_into_channels(const Task& task, std::uint32_t wanted);

/// Whether an algorithm goes by edges that are made when a call first needs them, several a rank.
[[nodiscard]] constexpr bool has_edges(Algorithm algorithm) {
  return algorithm == Algorithm::kTree || algorithm == Algorithm::kPat ||
         algorithm == Algorithm::kChain;
}

/// Channels that an algorithm can use at most.
[[nodiscard]] std::uint32_t most_channels(Algorithm algorithm, const PlanLimits& limits);

// Of a task and limits that make sense.

[[nodiscard]] Plan make_ring_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_ring_ll_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_ring_ll128_plan(const Task& task, const PlanInput& input);

/// Below this many bytes all goes by one tree: a second only doubles the messages.
inline constexpr std::uint64_t kLeastBytesOfTwoTrees = std::uint64_t{256} << 10;
[[nodiscard]] Plan make_tree_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_tree_ll_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_tree_ll128_plan(const Task& task, const PlanInput& input);

[[nodiscard]] Plan make_chain_plan(const Task& task, const PlanInput& input);

[[nodiscard]] Plan make_pat_plan(const Task& task, const PlanInput& input);

[[nodiscard]] Plan make_direct_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_wide_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_wide_two_shot_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_two_shot_plan(const Task& task, const PlanInput& input);
[[nodiscard]] Plan make_multicast_plan(const Task& task, const PlanInput& input);

/// Whether a call goes over PlanLimits::small_steps slots, where it goes by Simple.
[[nodiscard]] bool has_small_slots(const Task& task, const PlanInput& input);

// Why not; empty where it can be done.
/// Of rings by lines: by LL, and by LL128.
[[nodiscard]] std::string lines_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string ll128_refusal(const Task& task, const PlanInput& input);
/// Of PAT as well.
[[nodiscard]] std::string tree_refusal(const Task& task, const PlanInput& input);
/// Of trees by lines, likewise.
[[nodiscard]] std::string tree_lines_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string tree_ll128_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string chain_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string direct_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string wide_refusal(const Task& task, const PlanInput& input);
/// Of a two-shot by wide lines.
[[nodiscard]] std::string wide_ranges_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string two_shot_refusal(const Task& task, const PlanInput& input);
[[nodiscard]] std::string multicast_refusal(const Task& task, const PlanInput& input);

}  // namespace weft
