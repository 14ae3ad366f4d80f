// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What an algorithm promises to need at most: who calls itself by its name is held to it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/model/operation.h"
#include "core/model/ring_geometry.h"
#include "core/model/tree_links.h"
#include "core/schedule/plan.h"

namespace weft::checker {

/// In which order a reduction combines contributions.
enum class Promise : std::uint8_t {
  kNone,       ///< Any, the same on all ranks.
  kAlongRing,  ///< One rank after the other along the channel's ring, from anywhere.
  kByRank,     ///< From rank 0 to the last.
};

struct Bound {
  std::uint64_t hops = 0;   ///< Connections one after the other that any element passes.
  std::uint64_t bytes = 0;  ///< Sent by all ranks together, of one call.
  Promise order = Promise::kNone;
  std::uint64_t steps = UINT64_MAX;  ///< That one rank fills in one call.
};

/// Rounds in which the number of ranks that have something can double until all have it.
[[nodiscard]] constexpr std::uint64_t doublings(std::uint32_t ranks) {
  return static_cast<std::uint64_t>(std::bit_width(ranks - 1));
}

/// Bytes that all ranks together must send whatever the algorithm, since each sum or copy needs
/// them.
[[nodiscard]] constexpr std::uint64_t least_bytes(const Task& task, std::uint32_t ranks) {
  const std::uint64_t others = ranks - 1;
  switch (task.operation) {
    case Operation::kAllReduce:
      return 2 * others * task.bytes();
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return others * ranks * task.bytes();
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kGather:
    case Operation::kScatter:
      return others * task.bytes();
    case Operation::kSend:
      return task.bytes();
    case Operation::kRecv:
    case Operation::kAllToAllV:
    case Operation::kAllGatherV:  // theirs depends on their blocks
    case Operation::kReduceScatterV:
      return 0;
  }
  return 0;
}

/// Ranks as far as trees care: of each host one is joined with those of others.
struct Spread {
  std::uint32_t hosts = 1;
  std::uint32_t most_on_one = 1;
};

/// Of a chain: all goes up to the last rank, and down from there to the lowest that it is for. A
/// block comes down half of the chain, on average.
[[nodiscard]] constexpr Bound chain_bound(const Task& task, std::uint32_t ranks) {
  const std::uint64_t others = ranks - 1;
  Bound bound{.hops = 2 * others, .bytes = least_bytes(task, ranks), .order = Promise::kByRank};
  if (task.operation == Operation::kReduce) {
    bound.hops = others + (others - task.root);
    bound.bytes = bound.hops * task.bytes();
  }
  if (task.operation == Operation::kReduceScatter) bound.bytes += bound.bytes / 2;
  return bound;
}

/// The table: one row an algorithm, whichever its protocol: headers and flags are no bytes of
/// elements, and what a slot takes less makes more steps, not more hops. nullopt: the algorithm has
/// none, which is a violation by itself. `spread` is that of the ranks; left out, they are on one
/// host.
[[nodiscard]] constexpr std::optional<Bound> bound_of(Algorithm algorithm, const Task& task,
                                                      std::uint32_t ranks,
                                                      std::optional<Spread> spread = {}) {
  const std::uint64_t others = ranks - 1;
  switch (algorithm) {
    case Algorithm::kRing:
      return Bound{.hops = task.operation == Operation::kAllReduce ? 2 * others : others,
                   .bytes = least_bytes(task, ranks),
                   .order = Promise::kAlongRing};
    case Algorithm::kDirect:
      return Bound{.hops = 1,
                   .bytes = has_root(task.operation) ? least_bytes(task, ranks)
                                                     : others * ranks * task.bytes(),
                   .order = Promise::kByRank};
    case Algorithm::kTwoShot:
      return Bound{.hops = 2, .bytes = least_bytes(task, ranks), .order = Promise::kByRank};
    case Algorithm::kMulticast: {
      // What ranks store goes to all at once; a switch loads what it combines.
      const bool stores = task.operation != Operation::kReduceScatter;
      const std::uint64_t blocks = has_blocks(task.operation) ? ranks : 1;
      return Bound{.hops = task.operation == Operation::kAllReduce ? 2U : 1U,
                   .bytes = stores ? blocks * task.bytes() : 0,
                   .order = Promise::kNone};
    }
    case Algorithm::kTree: {
      // Across hosts first and then in each; only one edge joins two hosts.
      const Spread where = spread.value_or(Spread{.hosts = 1, .most_on_one = ranks});
      const std::uint64_t ways = task.operation == Operation::kAllReduce ? 2 : 1;
      return Bound{.hops = ways * (doublings(where.hosts) + doublings(where.most_on_one)),
                   .bytes = least_bytes(task, ranks),
                   .order = Promise::kNone};
    }
    case Algorithm::kPat: {
      const std::uint64_t halves = task.operation == Operation::kAllReduce ? 2 : 1;
      return Bound{.hops = halves * doublings(ranks),
                   .bytes = least_bytes(task, ranks),
                   .order = Promise::kNone};
    }
    case Algorithm::kChain:
      return chain_bound(task, ranks);
    case Algorithm::kPair:
    case Algorithm::kCopy:
      return Bound{.hops = 1, .bytes = least_bytes(task, ranks), .order = Promise::kNone};
  }
  return std::nullopt;
}

/// PAT: one step for each doubling where half of all blocks fit into one, and where they do not as
/// many as can be joined, some more for what is left over at each distance; blocks that are longer
/// than a step are cut.
[[nodiscard]] constexpr std::uint64_t most_pat_steps(std::uint64_t block_bytes,
                                                     std::uint64_t step_bytes,
                                                     std::uint32_t ranks) {
  if (block_bytes * (ranks / 2) <= step_bytes) return doublings(ranks);
  const std::uint64_t rounds = (block_bytes + step_bytes - 1) / step_bytes;
  // Two blocks of which one fits twice are joined; powers of two are, so it may be half as many.
  const std::uint64_t joined = rounds > 1 ? 1 : std::bit_floor(step_bytes / block_bytes);
  return rounds * (doublings(ranks) + (ranks - 1) / joined);
}

/// The same of a channel: of an all-reduce a block is a rank's range, in whole grains, and there
/// are two halves; what fits into one step as a whole has one for each doubling of each.
[[nodiscard]] inline std::uint64_t most_pat_steps(const Plan& plan, std::size_t channel) {
  const std::uint64_t bytes = plan.channels[channel].count * element_size(plan.task.type);
  if (has_blocks(pat_operation(plan))) return most_pat_steps(bytes, plan.step_bytes, plan.ranks);
  if (bytes <= plan.step_bytes) return 2 * doublings(plan.ranks);
  const std::uint64_t grains = (bytes + kChunkGrainBytes - 1) / kChunkGrainBytes;
  const std::uint64_t range = (grains + plan.ranks - 1) / plan.ranks * kChunkGrainBytes;
  return 2 * most_pat_steps(range, plan.step_bytes, plan.ranks);
}

/// A ring: each element of an all-reduce goes round twice, of a block once, and other data passes a
/// rank once. Steps are full but for the last of a chunk, and chunks hold whole steps but for those
/// of the last loop, or the last.
[[nodiscard]] inline std::uint64_t most_ring_steps(const Plan& plan, std::size_t channel) {
  const auto steps = [&](std::uint64_t count) {
    return steps_of(count, element_size(plan.task.type), plan.step_bytes);
  };
  const std::uint64_t count = plan.channels[channel].count;
  if (plan.ranks == 1) return 0;
  if (plan.task.operation == Operation::kAllReduce) return 2 * (steps(count) + plan.ranks);
  if (!has_blocks(plan.task.operation)) return steps(count);
  if (plan.blocks.empty()) return (plan.ranks - 1) * steps(count);
  std::uint64_t all = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks; ++rank)
    all += steps(block_on(plan, channel, rank).count);
  return all;
}

/// Chunks of `count` elements where they are a step or less, so that there are many under way: no
/// smaller than pays.
[[nodiscard]] inline std::uint64_t most_chunks(const Plan& plan, std::uint64_t count) {
  return steps_of(count, element_size(plan.task.type),
                  std::min<std::uint64_t>(kLeastChunkBytes, plan.step_bytes));
}

/// A tree: all elements once to the parent, and once to each child.
[[nodiscard]] inline std::uint64_t most_tree_steps(const Plan& plan, std::size_t channel) {
  const std::uint64_t up = goes_up(plan.task.operation) ? 1 : 0;
  const std::uint64_t down = comes_down(plan.task.operation) ? kMostTreeChildren : 0;
  return (up + down) * most_chunks(plan, plan.channels[channel].count);
}

/// A chain: all blocks once up, and once down.
[[nodiscard]] inline std::uint64_t most_chain_steps(const Plan& plan, std::size_t channel) {
  const std::uint64_t count = plan.channels[channel].count;
  if (!has_blocks(plan.task.operation)) return 2 * most_chunks(plan, count);
  if (plan.blocks.empty()) return (2 * plan.ranks - 1) * most_chunks(plan, count);
  std::uint64_t all = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks; ++rank)
    all += 2 * most_chunks(plan, block_on(plan, channel, rank).count);
  return all;
}

/// What a call needs at most that is cut as `plan` says, by `algorithm`: the plan's, or one that it
/// calls itself. The row of the table with the steps that each of its channels takes.
[[nodiscard]] inline std::optional<Bound> bound_of(const Plan& plan, Algorithm algorithm,
                                                   std::optional<Spread> spread = {}) {
  std::optional<Bound> bound = bound_of(algorithm, plan.task, plan.ranks, spread);
  if (!bound || goes_directly(algorithm)) return bound;
  // Inputs travel as blocks do, to all others.
  if (algorithm == Algorithm::kPat && plan.gathers_inputs) {
    bound = Bound{.hops = doublings(plan.ranks),
                  .bytes = std::uint64_t{plan.ranks - 1} * plan.ranks * plan.task.bytes(),
                  .order = Promise::kAlongRing};
  }
  bound->steps = 0;
  for (std::size_t channel = 0; channel < plan.channels.size(); ++channel) {
    switch (algorithm) {
      case Algorithm::kTree:
        bound->steps += most_tree_steps(plan, channel);
        break;
      case Algorithm::kChain:
        bound->steps += most_chain_steps(plan, channel);
        break;
      case Algorithm::kPat:
        bound->steps += most_pat_steps(plan, channel);
        break;
      default:
        bound->steps += most_ring_steps(plan, channel);
        break;
    }
  }
  return bound;
}

}  // namespace weft::checker
