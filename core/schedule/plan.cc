// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/schedule/plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "core/model/pat_geometry.h"
#include "core/model/ring_geometry.h"
#include "core/model/tree_links.h"
#include "core/model/two_shot.h"

namespace weft {
namespace {

struct Traffic {
  std::uint64_t steps = 0;
  std::uint64_t bytes = 0;
};

/// What the rank at `position` of the ring sends in one loop of an all-reduce: each chunk twice,
/// but for two that it sends once, since no chunk goes on where it has been everywhere.
Traffic loop_traffic(const RingLoop& loop, std::uint32_t position, std::uint32_t ranks,
                     std::uint64_t count, std::uint64_t element_bytes, std::uint64_t step_bytes) {
  const std::uint64_t elements = std::min(count - loop.base, loop.chunk * ranks);
  Traffic traffic{
      .steps = 2 * (elements / loop.chunk * steps_of(loop.chunk, element_bytes, step_bytes) +
                    steps_of(elements % loop.chunk, element_bytes, step_bytes)),
      .bytes = 2 * elements * element_bytes};
  for (const std::uint32_t hop : {2 * ranks - 2, 2 * ranks - 1}) {
    const Extent extent = loop.extent(ring_chunk(position, hop, ranks), count);
    traffic.steps -= steps_of(extent.count, element_bytes, step_bytes);
    traffic.bytes -= extent.count * element_bytes;
  }
  return traffic;
}

Traffic all_reduce_traffic(const Plan& plan, const ChannelPlan& channel, std::uint32_t position) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t per_loop = channel.chunk * plan.ranks;
  // All loops but the last are alike.
  const std::uint64_t full_loops = channel.count / per_loop;
  Traffic traffic;
  if (full_loops > 0) {
    traffic = loop_traffic({.base = 0, .chunk = channel.chunk}, position, plan.ranks, channel.count,
                           element_bytes, plan.step_bytes);
    traffic.steps *= full_loops;
    traffic.bytes *= full_loops;
  }
  const std::uint64_t base = full_loops * per_loop;
  if (base < channel.count) {
    const Traffic last =
        loop_traffic(ring_loop(base, channel.count, channel.chunk, plan.ranks, element_bytes),
                     position, plan.ranks, channel.count, element_bytes, plan.step_bytes);
    traffic.steps += last.steps;
    traffic.bytes += last.bytes;
  }
  return traffic;
}

std::uint64_t children_of(const ChannelPlan& channel, std::uint32_t rank) {
  const auto below = static_cast<std::uint64_t>(std::ranges::count(channel.parents, rank));
  return channel.parents[rank] == rank ? below - 1 : below;  // the root stands for its own parent
}

/// Times that all of a channel's elements leave a rank.
std::uint64_t tree_passes(const Plan& plan, const ChannelPlan& channel, std::uint32_t rank) {
  const Operation operation = plan.task.operation;
  const bool root = channel.parents[rank] == rank;
  return (goes_up(operation) && !root ? 1 : 0) +
         (comes_down(operation) ? children_of(channel, rank) : 0);
}

/// The same of elements that come to it.
std::uint64_t tree_receipts(const Plan& plan, const ChannelPlan& channel, std::uint32_t rank) {
  const Operation operation = plan.task.operation;
  const bool root = channel.parents[rank] == rank;
  return (goes_up(operation) ? children_of(channel, rank) : 0) +
         (comes_down(operation) && !root ? 1 : 0);
}

/// `count` of a channel's elements once, chunk by chunk.
Traffic pass_traffic(const Plan& plan, const ChannelPlan& channel, std::uint64_t count) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t rest = count % channel.chunk;
  const std::uint64_t full_chunks = count / channel.chunk;
  return {.steps = full_chunks * steps_of(channel.chunk, element_bytes, plan.step_bytes) +
                   steps_of(rest, element_bytes, plan.step_bytes),
          .bytes = count * element_bytes};
}

Traffic pass_traffic(const Plan& plan, const ChannelPlan& channel) {
  return pass_traffic(plan, channel, channel.count);
}

/// All blocks but one: a gathered one does not go on where it began, and a reduced one begins
/// behind the rank where it ends.
Traffic uneven_traffic(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const std::uint32_t not_sent =
      plan.task.operation == Operation::kAllGatherV ? ring_place(plan, channel, rank).next : rank;
  Traffic traffic;
  for (std::uint32_t owner = 0; owner < plan.ranks; ++owner) {
    if (owner == not_sent) continue;
    const Traffic block =
        pass_traffic(plan, plan.channels[channel], block_on(plan, channel, owner).count);
    traffic.steps += block.steps;
    traffic.bytes += block.bytes;
  }
  return traffic;
}

/// To each other rank: its range, and then this rank's, of each piece.
Traffic two_shot_traffic(const Plan& plan, const ChannelPlan& channel, std::uint32_t rank) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t others = plan.ranks - 1;
  const std::uint64_t per_piece = channel.chunk * plan.ranks;
  const std::uint64_t full_pieces = channel.count / per_piece;
  Traffic traffic{.steps = full_pieces * 2 * others,
                  .bytes = full_pieces * 2 * others * channel.chunk * element_bytes};
  const std::uint64_t base = full_pieces * per_piece;
  if (base == channel.count) return traffic;
  const RingLoop last =
      two_shot_piece(base, channel.count, channel.chunk, plan.ranks, element_bytes);
  const std::uint64_t own = last.extent(rank, channel.count).count;
  traffic.steps += 2 * others;
  traffic.bytes += (channel.count - base - own + others * own) * element_bytes;
  return traffic;
}

/// Two headers to each other rank for each piece, and this rank's ranges once.
Traffic multicast_traffic(const Plan& plan, const ChannelPlan& channel, std::uint32_t rank) {
  const Task& task = plan.task;
  const std::uint64_t element_bytes = element_size(task.type);
  const std::uint64_t per_piece = channel.chunk * (has_blocks(task.operation) ? 1 : plan.ranks);
  const std::uint64_t pieces = (channel.count + per_piece - 1) / per_piece;
  Traffic traffic{.steps = pieces * 2 * (plan.ranks - 1), .bytes = 0};
  if (task.operation == Operation::kReduceScatter) return traffic;
  if (task.operation == Operation::kAllGather) {
    traffic.bytes = channel.count * element_bytes;
    return traffic;
  }
  const std::uint64_t base = channel.count / per_piece * per_piece;
  traffic.bytes = base / plan.ranks * element_bytes;
  if (base == channel.count) return traffic;
  const RingLoop last =
      two_shot_piece(base, channel.count, channel.chunk, plan.ranks, element_bytes);
  traffic.bytes += last.extent(rank, channel.count).count * element_bytes;
  return traffic;
}

Traffic& operator+=(Traffic& sum, const Traffic& more) {
  sum.steps += more.steps;
  sum.bytes += more.bytes;
  return sum;
}

/// The block of a rank, once.
Traffic block_traffic(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const ChannelPlan& share = plan.channels[channel];
  return pass_traffic(plan, share,
                      plan.blocks.empty() ? share.count : block_on(plan, channel, rank).count);
}

/// All that a chain reduces, once up any of its edges.
Traffic chain_traffic_up(const Plan& plan, std::size_t channel) {
  if (!has_blocks(plan.task.operation)) return pass_traffic(plan, plan.channels[channel]);
  Traffic traffic;
  for (std::uint32_t owner = 0; owner < plan.ranks; ++owner)
    traffic += block_traffic(plan, channel, owner);
  return traffic;
}

/// What comes down to `rank`: its own, and what is for those below.
Traffic chain_traffic_down(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  if (rank + 1 >= plan.ranks) return {};
  if (has_root(plan.task.operation) && rank < plan.task.root) return {};
  if (!has_blocks(plan.task.operation)) return pass_traffic(plan, plan.channels[channel]);
  Traffic traffic;
  for (std::uint32_t owner = 0; owner <= rank; ++owner)
    traffic += block_traffic(plan, channel, owner);
  return traffic;
}

Traffic chain_traffic(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  Traffic traffic;
  if (rank + 1 < plan.ranks) traffic += chain_traffic_up(plan, channel);
  if (rank != 0) traffic += chain_traffic_down(plan, channel, rank - 1);
  return traffic;
}

std::uint32_t index_in(const std::vector<std::uint32_t>& ring, std::uint32_t rank) {
  return static_cast<std::uint32_t>(std::ranges::find(ring, rank) - ring.begin());
}

/// What the rank at `place` sends of a piece whose ranges differ: each but its own once behind, and
/// ahead, at each distance, all that it has by then.
std::uint64_t pat_piece_elements(const PatTorus& torus, std::uint32_t place, const RingLoop& piece,
                                 std::uint64_t count) {
  const PatRound round{.ranks = torus.ranks};
  const auto range = [&](std::uint32_t away) {
    return piece.extent(torus.behind(place, away), count).count;
  };
  std::uint64_t elements = count - piece.base - range(0);
  for (std::uint32_t level = 0; level < round.levels(); ++level) {
    for (std::uint32_t block = 0; block < round.blocks_over(level); ++block)
      elements += range(block << (level + 1));
  }
  return elements;
}

Traffic pat_traffic(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const ChannelPlan& share = plan.channels[channel];
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t messages = pat_rounds(plan, share) * pat_round_of(plan, share).messages();
  const std::uint64_t others = plan.ranks - 1;
  if (has_blocks(pat_operation(plan))) {
    return {.steps = messages, .bytes = others * share.count * element_bytes};
  }
  const std::uint64_t per_piece = share.chunk * plan.ranks;
  const std::uint64_t base = share.count / per_piece * per_piece;
  Traffic traffic{.steps = 2 * messages, .bytes = base / plan.ranks * 2 * others * element_bytes};
  if (base == share.count) return traffic;
  const PatTorus torus{.ranks = plan.ranks, .row = plan.pat_row};
  traffic.bytes += element_bytes * pat_piece_elements(torus, index_in(share.ring, rank),
                                                      two_shot_piece(base, share.count, share.chunk,
                                                                     plan.ranks, element_bytes),
                                                      share.count);
  return traffic;
}

/// Ranks that `rank` writes payload to; of blocks, one to each. All others get a header.
std::uint64_t direct_receivers(const Plan& plan, std::uint32_t rank) {
  const std::uint64_t others = plan.ranks - 1;
  if (!has_root(plan.task.operation)) return others;
  const bool root = rank == plan.task.root;
  if (plan.task.operation == Operation::kReduce) return root ? 0 : 1;
  return root ? others : 0;
}

Traffic traffic_of(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  if (plan.ranks < 2) return {};
  const ChannelPlan& share = plan.channels[channel];
  if (plan.algorithm == Algorithm::kDirect) {
    return {.steps = plan.ranks - 1, .bytes = direct_receivers(plan, rank) * plan.task.bytes()};
  }
  if (plan.algorithm == Algorithm::kTwoShot) return two_shot_traffic(plan, share, rank);
  if (plan.algorithm == Algorithm::kMulticast) return multicast_traffic(plan, share, rank);
  if (plan.algorithm == Algorithm::kTree) {
    const std::uint64_t passes = tree_passes(plan, share, rank);
    return {.steps = passes * tree_steps(share),
            .bytes = passes * share.count * element_size(plan.task.type)};
  }
  if (plan.algorithm == Algorithm::kPat) return pat_traffic(plan, channel, rank);
  if (plan.algorithm == Algorithm::kChain) return chain_traffic(plan, channel, rank);
  const std::uint32_t position = ring_place(plan, channel, rank).position;
  switch (plan.task.operation) {
    case Operation::kAllReduce:
      return all_reduce_traffic(plan, share, position);
    case Operation::kAllGather:
    case Operation::kReduceScatter: {
      const Traffic block = pass_traffic(plan, share);
      return {.steps = block.steps * (plan.ranks - 1), .bytes = block.bytes * (plan.ranks - 1)};
    }
    case Operation::kAllGatherV:
    case Operation::kReduceScatterV:
      return uneven_traffic(plan, channel, rank);
    case Operation::kBroadcast:
      return position + 1 == plan.ranks ? Traffic{} : pass_traffic(plan, share);
    case Operation::kReduce:
      return position == 0 ? Traffic{} : pass_traffic(plan, share);
    case Operation::kSend:
      return pass_traffic(plan, share);
    case Operation::kRecv:
    case Operation::kAllToAll:
    case Operation::kGather:
    case Operation::kScatter:
    case Operation::kAllToAllV:
      return {};
  }
  return {};
}

Status invalid(std::string what) {
  return fail(WEFT_ERROR_INTERNAL, "the plan cannot be executed: " + std::move(what));
}

Status validate_ring(const ChannelPlan& channel, std::uint32_t ranks) {
  std::vector<bool> seen(ranks, false);
  for (const std::uint32_t rank : channel.ring) {
    if (rank >= ranks) {
      return invalid(fmt::format("the ring of channel {} holds rank {}, of {} ranks", channel.index,
                                 rank, ranks));
    }
    if (seen[rank]) {
      return invalid(
          fmt::format("the ring of channel {} holds rank {} twice", channel.index, rank));
    }
    seen[rank] = true;
  }
  if (channel.ring.size() != ranks) {
    return invalid(fmt::format("the ring of channel {} holds {} of {} ranks", channel.index,
                               channel.ring.size(), ranks));
  }
  return {};
}

/// Every rank has a way to the root, and no more children than a kernel knows.
Status validate_tree(const Plan& plan, const ChannelPlan& channel) {
  const std::vector<std::uint32_t>& parents = channel.parents;
  if (parents.size() != plan.ranks) {
    return invalid(fmt::format("the tree of channel {} holds {} of {} ranks", channel.index,
                               parents.size(), plan.ranks));
  }
  if (std::ranges::any_of(parents, [&](std::uint32_t parent) { return parent >= plan.ranks; })) {
    return invalid(
        fmt::format("the tree of channel {} names a rank that there is not", channel.index));
  }
  std::uint32_t roots = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
    if (parents[rank] == rank) ++roots;
    if (children_of(channel, rank) > kMostTreeChildren) {
      return invalid(fmt::format("rank {} has {} children in the tree of channel {}", rank,
                                 children_of(channel, rank), channel.index));
    }
    std::uint32_t above = rank;
    std::uint32_t edges = 0;
    while (parents[above] != above && edges <= plan.ranks) {
      above = parents[above];
      ++edges;
    }
    if (edges > plan.ranks) {
      return invalid(
          fmt::format("rank {} has no way to the root of channel {}", rank, channel.index));
    }
  }
  if (roots != 1 || (has_root(plan.task.operation) && parents[plan.task.root] != plan.task.root)) {
    return invalid(fmt::format("the tree of channel {} has another root", channel.index));
  }
  return {};
}

Status validate_pat(const Plan& plan, const ChannelPlan& channel) {
  if (!fits_pat(plan.task.operation) || plan.protocol != Protocol::kSimple) {
    return invalid("it does not go by PAT, and plainly");
  }
  if (plan.ranks < 2 || plan.ranks > kMaxRanks) {
    return invalid(fmt::format("{} ranks have no partners", plan.ranks));
  }
  if (!PatTorus{.ranks = plan.ranks, .row = plan.pat_row}.valid()) {
    return invalid(fmt::format("{} ranks do not stand in rows of {}", plan.ranks, plan.pat_row));
  }
  if (plan.gathers_inputs) {
    const std::uint64_t bytes = plan.ranks * channel.count * element_size(plan.task.type);
    if (plan.task.operation != Operation::kAllReduce || bytes > kMostGatheredBytes ||
        channel.chunk < channel.count) {
      return invalid(fmt::format("inputs of {} bytes together are not gathered", bytes));
    }
  }
  return validate_ring(channel, plan.ranks);
}

Status validate_chain(const Plan& plan, const ChannelPlan& channel) {
  if (!reduces(plan.task.operation) || plan.protocol != Protocol::kSimple) {
    return invalid("only reductions go along a chain");
  }
  if (plan.ranks < 2 || plan.ranks > kMaxRanks) {
    return invalid(fmt::format("{} ranks make no chain", plan.ranks));
  }
  if (!std::ranges::is_sorted(channel.ring)) {
    return invalid(
        fmt::format("the chain of channel {} does not go by rank numbers", channel.index));
  }
  return validate_ring(channel, plan.ranks);
}

/// Algorithms whose chunks are a step or less.
bool goes_by_steps(Algorithm algorithm) {
  return algorithm == Algorithm::kTree || algorithm == Algorithm::kPat ||
         algorithm == Algorithm::kChain;
}

Status validate_edges(const Plan& plan, const ChannelPlan& channel) {
  if (plan.algorithm == Algorithm::kTree) return validate_tree(plan, channel);
  if (plan.algorithm == Algorithm::kPat) return validate_pat(plan, channel);
  return validate_chain(plan, channel);
}

/// What both algorithms that write into inboxes need.
Status validate_inboxes(const Plan& plan) {
  if (plan.ranks < 2 || plan.ranks > kMostDirectRanks) {
    return invalid(fmt::format("{} ranks cannot write to each other directly", plan.ranks));
  }
  if (plan.channels.size() != 1 || plan.channels[0].offset != 0 ||
      plan.channels[0].count != plan.task.count || plan.task.count == 0) {
    return invalid("a direct call has one channel, which holds all elements");
  }
  return validate_ring(plan.channels[0], plan.ranks);
}

Status validate_halves_of_ranges(const Plan& plan) {
  WEFT_TRY(validate_inboxes(plan));
  if (plan.steps != kDirectHalves || plan.step_bytes == 0 ||
      plan.step_bytes % kChunkGrainBytes != 0 ||
      plan.channels[0].chunk * element_size(plan.task.type) != plan.step_bytes) {
    return invalid(fmt::format("ranges of {} elements in halves for {} bytes",
                               plan.channels[0].chunk, plan.step_bytes));
  }
  return {};
}

Status validate_ranges(const Plan& plan) {
  const bool by_multicast = plan.algorithm == Algorithm::kMulticast;
  const bool fits = by_multicast ? fits_multicast(plan.task.operation)
                                 : plan.task.operation == Operation::kAllReduce;
  const bool knows =
      plan.protocol == Protocol::kSimple || (!by_multicast && plan.protocol == Protocol::kLL128);
  if (!fits || !knows) {
    return invalid(by_multicast ? "it does not go by multicast, and plainly"
                                : "an all-reduce alone goes by two-shot, not by LL");
  }
  return validate_halves_of_ranges(plan);
}

Status validate_direct(const Plan& plan) {
  const bool wide = plan.protocol == Protocol::kLL128;
  if (!is_planned(plan.task.operation) || plan.protocol == Protocol::kSimple) {
    return invalid("only collectives go directly, and by lines");
  }
  if (wide && has_blocks(plan.task.operation)) {
    if (plan.task.operation != Operation::kAllGather &&
        plan.task.operation != Operation::kReduceScatter) {
      return invalid("it does not go by wide lines");
    }
    return validate_halves_of_ranges(plan);
  }
  WEFT_TRY(validate_inboxes(plan));
  const std::uint64_t half =
      wide ? wide_half_bytes(plan.task.bytes()) : direct_half_bytes(plan.task.bytes());
  if (plan.steps != kDirectHalves || half > plan.step_bytes) {
    return invalid(fmt::format("{} bytes do not fit into half an inbox of {}", plan.task.bytes(),
                               plan.step_bytes));
  }
  return {};
}

}  // namespace

Extent block_on(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const ChannelPlan& share = plan.channels[channel];
  const Extent& block = plan.blocks[rank];
  return {.offset = block.offset, .count = block_share(block.count, share.offset, share.count)};
}

RingPlace ring_place(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const std::vector<std::uint32_t>& ring = plan.channels[channel].ring;
  const auto size = static_cast<std::uint32_t>(ring.size());
  const std::uint32_t index = index_in(ring, rank);
  const std::uint32_t origin = has_root(plan.task.operation) ? index_in(ring, plan.task.root) : 0;
  return {.position = (index + size - origin) % size,
          .previous = ring[(index + size - 1) % size],
          .next = ring[(index + 1) % size]};
}

TreePlace tree_place(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const std::vector<std::uint32_t>& parents = plan.channels[channel].parents;
  TreePlace place{.root = parents[rank] == rank, .parent = parents[rank]};
  for (std::uint32_t other = 0; other < plan.ranks; ++other) {
    if (parents[other] == rank && other != rank) place.children.push_back(other);
  }
  return place;
}

PatPlace pat_place(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const std::vector<std::uint32_t>& ring = plan.channels[channel].ring;
  const PatTorus torus{.ranks = static_cast<std::uint32_t>(ring.size()), .row = plan.pat_row};
  const std::uint32_t index = index_in(ring, rank);
  PatPlace place{.row = plan.pat_row};
  for (std::uint32_t distance = 1; distance < torus.ranks; distance *= 2) {
    place.ahead.push_back(ring[torus.ahead(index, distance)]);
    place.behind.push_back(ring[torus.behind(index, distance)]);
  }
  return place;
}

Operation pat_operation(const Plan& plan) {
  return pat_operation(plan.task.operation, plan.gathers_inputs);
}

PatRound pat_round_of(const Plan& plan, const ChannelPlan& channel) {
  return pat_round(pat_operation(plan), plan.ranks, plan.step_bytes, channel.count, channel.chunk,
                   element_size(plan.task.type));
}

std::uint64_t pat_rounds(const Plan& plan, const ChannelPlan& channel) {
  if (has_blocks(pat_operation(plan))) return tree_steps(channel);
  const std::uint64_t per_piece = channel.chunk * plan.ranks;
  return channel.count / per_piece + (channel.count % per_piece != 0 ? 1 : 0);
}

std::uint64_t tree_steps(const ChannelPlan& channel) {
  return channel.count / channel.chunk + (channel.count % channel.chunk != 0 ? 1 : 0);
}

std::uint64_t chain_steps_up(const Plan& plan, std::size_t channel) {
  return chain_traffic_up(plan, channel).steps;
}

std::uint64_t chain_steps_down(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  return chain_traffic_down(plan, channel, rank).steps;
}

std::uint64_t steps_sent(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  return traffic_of(plan, channel, rank).steps;
}

std::uint64_t steps_received(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  if (plan.algorithm == Algorithm::kTree) {
    const ChannelPlan& share = plan.channels[channel];
    return plan.ranks < 2 ? 0 : tree_receipts(plan, share, rank) * tree_steps(share);
  }
  // All ranks send and get the same.
  if (plan.algorithm == Algorithm::kPat) return steps_sent(plan, channel, rank);
  if (plan.algorithm == Algorithm::kChain) {
    if (plan.ranks < 2) return 0;
    return (rank == 0 ? 0 : chain_steps_up(plan, channel)) + chain_steps_down(plan, channel, rank);
  }
  return traffic_of(plan, channel, ring_place(plan, channel, rank).previous).steps;
}

std::uint64_t bytes_sent(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  return traffic_of(plan, channel, rank).bytes;
}

Status validate(const Plan& plan, const Topology& topology) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  if (element_bytes == 0) return invalid(fmt::format("no element type {}", plan.task.type));
  if (plan.ranks == 0 || plan.ranks != topology.rank_count()) {
    return invalid(
        fmt::format("it is for {} ranks, there are {}", plan.ranks, topology.rank_count()));
  }
  if (plan.task.root >= plan.ranks) return invalid(fmt::format("no rank {}", plan.task.root));
  if (has_uneven_blocks(plan.task.operation)) {
    const auto fits = [&](const Extent& block) { return block.count <= plan.task.count; };
    if (plan.blocks.size() != plan.ranks || !std::ranges::all_of(plan.blocks, fits)) {
      return invalid(fmt::format("{} blocks for {} ranks, or one of more than {} elements",
                                 plan.blocks.size(), plan.ranks, plan.task.count));
    }
  }
  if (plan.by_rank && !combines_by_rank(plan.algorithm)) {
    return invalid(fmt::format("a {} does not go by rank numbers", algorithm_name(plan.algorithm)));
  }
  if (plan.algorithm == Algorithm::kDirect) return validate_direct(plan);
  if (plan.algorithm == Algorithm::kTwoShot || plan.algorithm == Algorithm::kMulticast) {
    return validate_ranges(plan);
  }
  if (plan.step_bytes == 0 || plan.step_bytes % kChunkGrainBytes != 0) {
    return invalid(fmt::format("steps of {} bytes", plan.step_bytes));
  }
  // A rank that passes data on needs a free slot while the one it reads from is still taken: a
  // chunk that filled all slots would have every rank of the ring wait for the next.
  if (plan.steps < 2 || plan.chunk_steps == 0 || plan.chunk_steps >= plan.steps) {
    return invalid(
        fmt::format("chunks of {} steps over connections of {}", plan.chunk_steps, plan.steps));
  }
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < plan.channels.size(); ++i) {
    const ChannelPlan& channel = plan.channels[i];
    if (channel.index != i) {
      return invalid(fmt::format("channel {} stands at place {}", channel.index, i));
    }
    if (channel.offset != covered || channel.count == 0 ||
        channel.count > plan.task.count - covered) {
      return invalid(fmt::format("channel {} covers {} elements from {}, expected from {} of {}", i,
                                 channel.count, channel.offset, covered, plan.task.count));
    }
    covered += channel.count;
    if (channel.offset * element_bytes % kChunkGrainBytes != 0) {
      return invalid(fmt::format("channel {} begins within a line of 64 bytes", i));
    }
    if (goes_by_steps(plan.algorithm)) {
      if (channel.chunk == 0 || channel.chunk * element_bytes > plan.step_bytes) {
        return invalid(fmt::format("chunks of channel {} hold {} elements, which is not a step", i,
                                   channel.chunk));
      }
      WEFT_TRY(validate_edges(plan, channel));
    } else if (channel.chunk * element_bytes !=
               static_cast<std::uint64_t>(plan.chunk_steps) * plan.step_bytes) {
      return invalid(fmt::format("chunks of channel {} hold {} elements, which is not {} steps", i,
                                 channel.chunk, plan.chunk_steps));
    }
    WEFT_TRY(validate_ring(channel, plan.ranks));
  }
  if (covered != plan.task.count) {
    return invalid(fmt::format("{} of {} elements are on a channel", covered, plan.task.count));
  }
  return {};
}

}  // namespace weft
