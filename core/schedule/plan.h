// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How one call will be carried out: a value without pointers, the same on every rank, that can be
// executed, printed, compared, simulated and replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/operation.h"
#include "core/model/pat_geometry.h"
#include "core/model/ring_geometry.h"
#include "core/topology/topology.h"

namespace weft {

/// One channel's share of the call. Its work item's WorkItem::count is `count`, its buffers begin
/// `offset` elements into the caller's.
struct ChannelPlan {
  std::uint32_t index = 0;
  std::uint64_t offset = 0;  ///< First element, of the whole call.
  std::uint64_t count = 0;   ///< Elements.
  /// Elements of one chunk at most: chunk_steps whole steps, or of a tree, a chain or PAT one step
  /// or less; of a rank's range of a two-shot, an all-reduce by PAT, or by multicast.
  std::uint64_t chunk = 0;
  /// Each rank once; ring[i] sends to ring[i + 1], or to all others in a call that goes directly,
  /// or in PAT to those 1, 2, 4 ... places ahead or behind (Plan::pat_row); in a chain, which has
  /// the ranks by their numbers, to both neighbours.
  std::vector<std::uint32_t> ring{};
  /// Of a tree: each rank's parent, the root's being itself; else empty.
  std::vector<std::uint32_t> parents{};
  friend bool operator==(const ChannelPlan&, const ChannelPlan&) = default;
};

/// A way of doing the call that was looked at.
struct Alternative {
  std::string algorithm;
  std::string protocol;
  double predicted_us = 0;  ///< Meaningful where `refused` is empty.
  std::string refused{};    ///< Why it was out of the question; empty where it could be done.
  double model_us = 0;      ///< By the built-in costs, whatever a tuner said; as predicted_us.
  std::string note{};       ///< What the tuner says of it; may be empty.
  friend bool operator==(const Alternative&, const Alternative&) = default;
};

/// Equal inputs of make_plan give equal plans, the alternatives and the reason included.
struct Plan {
  Task task;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  std::uint32_t ranks = 0;
  std::uint32_t steps = 0;        ///< Slots of each connection; halves of each inbox.
  std::uint32_t step_bytes = 0;   ///< Bytes of one; of a two-shot or by multicast: of a range.
  std::uint32_t chunk_steps = 0;  ///< Steps of one chunk, on every channel.
  bool small_slots = false;       ///< PlanLimits::small_step_bytes.
  /// Data goes straight into the outputs of other ranks, where all of them agree on that when the
  /// call runs; else by the slots, as the plan says otherwise.
  bool into_outputs = false;
  /// Then: other processes write there, which have to map them first.
  bool are_outputs_mapped = false;
  /// By a ring of two ranks, of an operation that has a root: some steps lie in slots of the
  /// connection the other way, so at the sender where the others lie at the receiver
  /// (lies_at_other_end).
  bool both_ends = false;
  /// Each element is combined in the order of rank numbers, from rank 0 on, every step rounded to
  /// its type: collectives.deterministic, of a call in which the order tells.
  bool by_rank = false;
  /// Ordered by offset and without gaps; none where there is nothing to do (no elements).
  std::vector<ChannelPlan> channels{};
  /// Of PAT: the length of the rows that its torus has, each of ranks of one host; 1 where it is a
  /// ring. On every channel.
  std::uint32_t pat_row = 1;
  /// Of an all-reduce by PAT: ranks gather all inputs, and each sums up for itself.
  bool gathers_inputs = false;
  /// Where the blocks differ: each rank's, none longer than Task::count. The planner, which does
  /// not know them, leaves them out; else empty.
  std::vector<Extent> blocks{};
  double predicted_us = 0;
  std::string no_outputs{};                 ///< Why not into_outputs; empty where nobody asks.
  std::string reason{};                     ///< Why this algorithm, protocol, number of channels.
  std::vector<Alternative> alternatives{};  ///< All that was considered, the chosen one included.
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Of a plan with blocks: what is the channel's of a rank's block. Its offset is that of the block,
/// since buffers of work items begin where their channel does.
[[nodiscard]] Extent block_on(const Plan& plan, std::size_t channel, std::uint32_t rank);

/// A rank's place on one channel. `position` is WorkItem::ring_position: the distance along the
/// ring from the root for operations that have one, else from ring[0].
struct RingPlace {
  std::uint32_t position = 0;
  std::uint32_t previous = 0;  ///< Rank that sends to this one.
  std::uint32_t next = 0;      ///< Rank that this one sends to.
  friend bool operator==(const RingPlace&, const RingPlace&) = default;
};

/// `channel` < plan.channels.size(), `rank` < plan.ranks.
[[nodiscard]] RingPlace ring_place(const Plan& plan, std::size_t channel, std::uint32_t rank);

/// A rank's neighbours in the tree of one channel.
struct TreePlace {
  bool root = false;
  std::uint32_t parent = 0;               ///< Of the root: itself.
  std::vector<std::uint32_t> children{};  ///< Ascending.
  friend bool operator==(const TreePlace&, const TreePlace&) = default;
};

/// Of a plan by tree; otherwise as ring_place.
[[nodiscard]] TreePlace tree_place(const Plan& plan, std::size_t channel, std::uint32_t rank);

/// Of a plan by tree: steps on each connection of the channel that the operation uses. Data goes up
/// in all but a broadcast, and down in all but a reduce.
[[nodiscard]] std::uint64_t tree_steps(const ChannelPlan& channel);
[[nodiscard]] constexpr bool goes_up(Operation operation) {
  return operation != Operation::kBroadcast;
}
[[nodiscard]] constexpr bool comes_down(Operation operation) {
  return operation != Operation::kReduce;
}

/// Of a plan by chain: steps on each connection of the channel that goes up, from a rank to the one
/// above it, and on the one that comes down to `rank` from above. None comes to the last.
[[nodiscard]] std::uint64_t chain_steps_up(const Plan& plan, std::size_t channel);
[[nodiscard]] std::uint64_t chain_steps_down(const Plan& plan, std::size_t channel,
                                             std::uint32_t rank);

/// Whether an algorithm combines each element in the order of rank numbers.
[[nodiscard]] constexpr bool combines_by_rank(Algorithm algorithm) {
  return algorithm == Algorithm::kDirect || algorithm == Algorithm::kTwoShot ||
         algorithm == Algorithm::kChain;
}

/// A rank's partners in parallel aggregated trees, by level: what is gathered goes ahead, what is
/// reduced goes behind.
struct PatPlace {
  std::vector<std::uint32_t> ahead{};
  std::vector<std::uint32_t> behind{};
  std::uint32_t row = 1;  ///< Plan::pat_row.
  friend bool operator==(const PatPlace&, const PatPlace&) = default;
};

/// Of a plan by PAT; otherwise as ring_place.
[[nodiscard]] PatPlace pat_place(const Plan& plan, std::size_t channel, std::uint32_t rank);

/// Of a plan by PAT: the operation by which its blocks travel.
[[nodiscard]] Operation pat_operation(const Plan& plan);

/// Of a plan by PAT: one of its rounds, and how many there are. All but the last are alike, and it
/// has no other messages. An all-reduce that does not gather inputs has the messages of a round
/// twice.
[[nodiscard]] PatRound pat_round_of(const Plan& plan, const ChannelPlan& channel);
[[nodiscard]] std::uint64_t pat_rounds(const Plan& plan, const ChannelPlan& channel);

/// Steps that `rank` fills towards its next on one channel, and steps that it consumes from its
/// previous: exactly what the kernels do and what the progress engine has to move. Of trees those
/// towards all neighbours. Of calls that go directly, which no progress engine carries: one for
/// each other rank, of a two-shot or by multicast two for each piece.
[[nodiscard]] std::uint64_t steps_sent(const Plan& plan, std::size_t channel, std::uint32_t rank);
[[nodiscard]] std::uint64_t steps_received(const Plan& plan, std::size_t channel,
                                           std::uint32_t rank);
/// Bytes of payload that `rank` sends on one channel; by multicast, what it stores to all at once.
[[nodiscard]] std::uint64_t bytes_sent(const Plan& plan, std::size_t channel, std::uint32_t rank);

/// Whether a plan can be executed on `topology`: each element is on exactly one channel, each ring
/// holds each rank once, chunks fit the connections' slots. The error says what is wrong.
[[nodiscard]] Status validate(const Plan& plan, const Topology& topology);

/// Many lines for people; what `weft explain` prints.
[[nodiscard]] std::string to_text(const Plan& plan);

}  // namespace weft
