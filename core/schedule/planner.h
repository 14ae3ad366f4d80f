// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a call, a topology and a table of costs to a plan: a pure function that knows no rank of its
// own, so every rank arrives at the same plan without a word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/operation.h"
#include "core/schedule/cost_source.h"
#include "core/schedule/plan.h"
#include "core/topology/topology.h"

namespace weft {

/// What a hop of a ring goes through.
enum class HopKind : std::uint8_t { kSameProcess = 0, kSameHost = 1, kNetwork = 2 };
inline constexpr std::size_t kHopKindCount = 3;

[[nodiscard]] HopKind hop_kind(const Topology& topology, std::uint32_t from, std::uint32_t to);

/// The cost of one hop: latency plus bytes / bandwidth.
struct HopCost {
  double latency_us = 0;
  double bytes_per_us = 1;  ///< Of one channel; 1000 is 1 GB/s. Greater than 0.
  friend bool operator==(const HopCost&, const HopCost&) = default;
};

/// Costs by kind of hop. The defaults are typical of CPU ranks over memory and over TCP; they order
/// alternatives, they promise nothing.
struct CostTable {
  std::array<HopCost, kHopKindCount> hops = {
      HopCost{.latency_us = 1.0, .bytes_per_us = 6000.0},
      HopCost{.latency_us = 1.5, .bytes_per_us = 5000.0},
      HopCost{.latency_us = 25.0, .bytes_per_us = 1200.0},
  };
  double call_us = 2.0;  ///< Spent once per call, whatever its size.
  double tree_us = 4.0;  ///< Spent once more by tree: the busiest ranks have several neighbours.
  /// The same of reduces, and how much longer their bytes take than those of other trees.
  double tree_reduce_us = 4.0;
  double tree_reduce_bytes = 1.0;
  /// Spent for each channel of a tree after the first: another worker has to be woken.
  double tree_channel_us = 10.0;
  /// How long bytes take in a ring from or to a root, within a host and by Simple, beside other
  /// rings: a rank only passes on what comes, and waits for nobody's turn.
  double rooted_bytes = 0.45;
  /// What each hop of such a ring adds to the time of its bytes, where that was measured; 0: what a
  /// hop of other rings does, and each but the first the time of a chunk.
  double rooted_hop_us = 0;
  /// Spent once more by PAT, and how much longer its bytes take than a ring's: blocks are copied
  /// out and in again, and each rank waits for several others.
  double pat_us = 2.0;
  double pat_bytes = 1.6;
  /// Instead of pat_us by an all-reduce: it has a tree's hops, but all ranks take part in each,
  /// with several partners both ways. What it is for is what a tree moves too often, not what is
  /// small.
  double pat_all_reduce_us = 8.0;
  /// Of one rank's writes to one other, where all write to all.
  HopCost direct{.latency_us = 1.0, .bytes_per_us = 9000.0};
  /// The same by wide lines.
  HopCost wide{.latency_us = 1.0, .bytes_per_us = 9000.0};
  /// Of calls by wide lines in which each rank has a range, or one of them is the root: what an
  /// exchange takes, and of what a rank sends, or the root sends or gets.
  HopCost wide_ranges{.latency_us = 1.0, .bytes_per_us = 9000.0};
  /// What each other rank adds to these latencies, since all are waited for.
  double wide_rank_us = 0;
  /// Of a two-shot: what an exchange takes, what each other rank adds to that, and what a rank
  /// copies or reduces.
  double exchange_us = 1.0;
  HopCost two_shot{.latency_us = 0.7, .bytes_per_us = 10000.0};
  /// Of rings and trees by LL and by LL128, beside those of Simple: what a hop costs more, and how
  /// much longer bytes take, since a CPU looks at each line. As seen between two processes of one
  /// host.
  double ll_hop_us = 0.25;
  double ll_bytes = 7.0;
  double ll128_hop_us = 0.0;
  double ll128_bytes = 2.4;
  friend bool operator==(const CostTable&, const CostTable&) = default;
};

/// What connections and devices offer.
struct PlanLimits {
  std::uint32_t steps = 8;                ///< Slots of each connection, at least 2.
  std::uint32_t step_bytes = 512 * 1024;  ///< Bytes of a slot, a multiple of 64.
  std::uint32_t max_channels = 1;         ///< At least 1.
  /// The fewest bytes that pay for one more channel, for each rank; at least 1.
  std::uint64_t min_channel_bytes = std::uint64_t{64} << 10;
  /// Up to so many channels of a ring each pays from these instead; 0: none does.
  std::uint32_t few_channels = 0;
  std::uint64_t min_bytes_of_few = std::uint64_t{64} << 10;  ///< At least 1.
  /// The largest call that ranks can write straight into each other's memory; 0: none.
  std::uint64_t direct_bytes = 0;
  /// The largest block of an operation that has blocks, likewise.
  std::uint64_t direct_block_bytes = 0;
  /// Whether the device has kernels that do so from a root or to one.
  bool direct_roots = false;
  /// Bytes that a rank writes to each other one at once by wide lines: the largest all-reduce,
  /// broadcast or reduce that goes so in one shot, and the largest range of a rank. A multiple of
  /// 64; 0: none.
  std::uint64_t wide_bytes = 0;
  /// Bytes that a rank writes to each other one at once by two-shot, a multiple of 64; 0: none.
  std::uint64_t two_shot_range = 0;
  /// Bytes of a rank's range of a call by multicast, a multiple of 64; 0: there is none,
  std::uint64_t multicast_range = 0;
  std::string no_multicast{};  ///< and why, for people.
  /// Whether the device has kernels that walk trees, those of PAT included, and chains.
  bool trees = false;
  /// Whether these, and rings and trees by lines, are chosen by their costs. Otherwise, where no
  /// tuner has timed them, only for want of another way: costs that nobody has checked shall not
  /// decide.
  bool late_by_cost = true;
  /// Whether small inputs of all-reduces may be gathered by PAT, and summed up by each rank.
  bool gathers_inputs = false;
  /// The same as step_bytes for the edges of trees and of PAT, at most as much; 0: as much. What
  /// trees are faster for is small, and each rank has several edges.
  std::uint32_t tree_step_bytes = 0;
  [[nodiscard]] std::uint32_t tree_step() const {
    return tree_step_bytes == 0 ? step_bytes : tree_step_bytes;
  }
  /// Bytes of the slots that rings and trees by lines have, a multiple of 128; 0: there are none,
  std::uint32_t line_step_bytes = 0;
  std::string no_lines{};  ///< and why, for people.
  /// Why not by LL128 where there are such slots; empty where by it, too.
  std::string no_ll128{};
  /// Slots of the rings and trees of Simple by which calls of up to `small_step_bytes` go that have
  /// a root, and whose ranks need not wait for each other: many of them, so that each may be far
  /// ahead of the next. A multiple of 64; 0: they go as others do.
  std::uint32_t small_step_bytes = 0;
  std::uint32_t small_steps = 0;  ///< At least 2 then.
  /// From how many bytes of output on a ring that only copies may write straight into the outputs
  /// of the ranks, on devices that can; 0: never.
  std::uint64_t outputs_from = 0;
  std::string no_outputs{};         ///< Why it may not all the same, for people.
  bool are_outputs_mapped = false;  ///< The ranks are of several processes.
  /// From how many bytes on Plan::both_ends, on devices that reach the slots of both; 0: never.
  std::uint64_t both_ends_from = 0;
  friend bool operator==(const PlanLimits&, const PlanLimits&) = default;
};

/// All that a plan depends on, besides the task. Must be the same on every rank.
struct PlanInput {
  const Topology& topology;
  CostTable costs{};
  PlanLimits limits{};
  /// What `collectives.<operation>.algorithm` and `.protocol` allow, as names; empty allows all.
  std::vector<std::string> algorithms{};
  std::vector<std::string> protocols{};
  /// Whether results may depend on nothing but the inputs, each rank's by its number:
  /// `collectives.deterministic`.
  bool deterministic = false;
  /// How many channels to use, where there are elements for so many; 0: what the size pays for.
  std::uint32_t channels = 0;
  /// Asked for each possible way; null, or where it has no opinion: `costs` alone count.
  CostSource* tuner = nullptr;
};

/// The fastest way by the model of those that the input and the task's options allow. Pure and
/// deterministic, as far as the tuner is. INVALID_ARGUMENT for a task or limits that make no sense,
/// CONFIG where the allowed names leave nothing, or nothing that is deterministic (the error names
/// the keys), UNSUPPORTED where the task's options do; errors of the tuner.
[[nodiscard]] Result<Plan> make_plan(const Task& task, const PlanInput& given);

/// From how many bytes of a block on an exchange in which all write to all ends sooner by wide
/// lines than by LL, by these costs; UINT64_MAX: never.
[[nodiscard]] std::uint64_t least_wide_block(std::uint32_t ranks, const CostTable& costs);

}  // namespace weft
