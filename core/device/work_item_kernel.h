// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a work item to the template that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device/chain.h"
#include "core/device/multicast_call.h"
#include "core/device/one_shot_all_reduce.h"
#include "core/device/one_shot_ll128.h"
#include "core/device/pair_batch.h"
#include "core/device/pat.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/primitives_ll.h"
#include "core/device/primitives_simple.h"
#include "core/device/reductions.h"
#include "core/device/ring_all_gather.h"
#include "core/device/ring_all_reduce.h"
#include "core/device/ring_broadcast.h"
#include "core/device/ring_reduce.h"
#include "core/device/ring_reduce_scatter.h"
#include "core/device/rooted_ll128.h"
#include "core/device/tree.h"
#include "core/device/tree_lines.h"
#include "core/device/two_shot_all_reduce.h"
#include "core/device/two_shot_ll128.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"

namespace weft::device {

WEFT_HD inline KernelOutcome unsupported() {
  return KernelOutcome{.end = KernelEnd::kUnsupported, .peer = 0, .expected = 0, .found = 0};
}

/// Whether a view can carry steps of this element, whose bytes are a power of two; both ends of a
/// channel use one step size.
WEFT_HD inline bool usable(const ConnectionView& view, std::uint32_t element_bytes) {
  return view.buffer != nullptr && view.cursor != nullptr && view.head != nullptr &&
         view.tail != nullptr && view.slots != nullptr && view.steps != 0 && view.step_bytes != 0 &&
         (view.step_bytes & (element_bytes - 1)) == 0;
}

/// Whether a view can carry steps of this element by lines, for lanes that need `order` bytes kept
/// together: order_needed().
WEFT_HD inline bool usable_for_lines(const ConnectionView& view, Protocol protocol,
                                     std::uint32_t element_bytes, std::uint32_t order) {
  const std::uint32_t payload = step_payload(protocol, view.step_bytes);
  return usable(view, 1) && view.order_bytes >= order && payload != 0 &&
         payload % element_bytes == 0 && view.step_bytes % step_line(protocol).bytes == 0;
}

/// The same by whichever protocol.
WEFT_HD inline bool carries_steps(const ConnectionView& view, Protocol protocol,
                                  std::uint32_t element_bytes, std::uint32_t order) {
  return has_lines(protocol) ? usable_for_lines(view, protocol, element_bytes, order)
                             : usable(view, element_bytes);
}

/// Whether an item can run with the connections that it uses; `order` as above.
template <class Item>
WEFT_HD bool can_run(const Item& item, std::uint32_t element_bytes, bool receives, bool sends,
                     std::uint32_t order) {
  const auto carries = [&](const ConnectionView& view) {
    return carries_steps(view, item.protocol, element_bytes, order);
  };
  return element_bytes != 0 && item.ranks != 0 && item.ring_position < item.ranks &&
         item.chunk != 0 && (!receives || carries(item.from_previous)) &&
         (!sends || carries(item.to_next)) &&
         (!receives || !sends || item.from_previous.step_bytes == item.to_next.step_bytes);
}

/// The same for these lanes.
template <class G, class M, class Item>
WEFT_HD bool can_run(const G& group, const M& /*memory*/, const Item& item,
                     std::uint32_t element_bytes, bool receives, bool sends) {
  return can_run(item, element_bytes, receives, sends, order_needed<G, M>(group, item.protocol));
}

/// A rank alone, whose result is its input: an average of one, too. Lines are for ranks that have
/// others.
template <class G, class M>
WEFT_HD KernelOutcome copy_alone(G& group, M& memory, const WorkItem& item,
                                 std::uint32_t element_bytes) {
  if constexpr (runs_protocol<M>(Protocol::kSimple)) {
    if (item.send != item.recv) {
      memory.copy(group, item.recv, nullptr, item.send, item.count * element_bytes);
    }
    return {};
  } else {
    return unsupported();
  }
}

/// The same of a reduction: the rank's own input, multiplied if that is asked for.
template <class G, class M, class R>
WEFT_HD KernelOutcome reduce_alone(G& group, M& memory, const WorkItem& item, const R& reduction) {
  if constexpr (may_premultiply<R> && runs_protocol<M>(Protocol::kSimple)) {
    if (reduction.premultiplies()) {
      memory.premultiply_copy(reduction, group, item.recv, item.send, item.count);
      return {};
    }
  }
  return copy_alone(group, memory, item, reduction.element_bytes());
}

/// Runs `body(primitives)` over the primitives of the item's protocol; those of lines take a
/// WorkItem.
template <class R, class G, class M, class Item, class Body>
WEFT_HD KernelOutcome with_primitives(G& group, M& memory, const Item& item, const R& reduction,
                                      std::uint32_t element_bytes, bool receives, bool sends,
                                      const Body& body) {
  const auto run = [&](auto&& primitives) {
    body(primitives);
    return primitives.finish();
  };
  constexpr bool kIsWhole = std::is_same_v<Item, WorkItem>;
  if constexpr (kIsWhole && runs_protocol<M>(Protocol::kLL)) {
    if (item.protocol == Protocol::kLL) {
      return run(LinePrimitives<Protocol::kLL, G, M, R>(group, memory, item, reduction,
                                                        element_bytes, receives, sends));
    }
  }
  if constexpr (kIsWhole && runs_protocol<M>(Protocol::kLL128)) {
    if (item.protocol == Protocol::kLL128) {
      return run(LinePrimitives<Protocol::kLL128, G, M, R>(group, memory, item, reduction,
                                                           element_bytes, receives, sends));
    }
  }
  if constexpr (runs_protocol<M>(Protocol::kSimple)) {
    if (item.protocol == Protocol::kSimple) {
      return run(SimplePrimitives<G, M, R, Item>(group, memory, item, reduction, element_bytes,
                                                 receives, sends));
    }
  }
  return unsupported();
}

template <class G, class M, class R>
WEFT_HD KernelOutcome all_reduce_item(G& group, M& memory, const WorkItem& item,
                                      const R& reduction) {
  const std::uint32_t bytes = reduction.element_bytes();
  if (item.count == 0) return {};
  if (item.ranks == 1) return reduce_alone(group, memory, item, reduction);
  if (!can_run(group, memory, item, bytes, true, true) || !ring_all_reduce_fits(item, bytes))
    return unsupported();
  return with_primitives(group, memory, item, reduction, bytes, true, true,
                         [&](auto& primitives) { ring_all_reduce(primitives, item, bytes); });
}

template <class G, class M, class R>
WEFT_HD KernelOutcome reduce_scatter_item(G& group, M& memory, const WorkItem& item,
                                          const R& reduction) {
  const std::uint32_t bytes = reduction.element_bytes();
  if (item.count == 0) return {};
  if (item.ranks == 1) {
    WorkItem alone = item;
    if (item.blocks != nullptr) alone.send += item.blocks[0].offset * bytes;
    return reduce_alone(group, memory, alone, reduction);
  }
  if (!can_run(group, memory, item, bytes, true, true) || item.ring == nullptr ||
      !ring_chunk_fits(item, bytes)) {
    return unsupported();
  }
  return with_primitives(group, memory, item, reduction, bytes, true, true,
                         [&](auto& primitives) { ring_reduce_scatter(primitives, item); });
}

/// Of several ranks; `Item` may be a ReduceItem.
template <class G, class M, class R, class Item>
WEFT_HD KernelOutcome reduce_among_ranks(G& group, M& memory, const Item& item,
                                         const R& reduction) {
  const std::uint32_t bytes = reduction.element_bytes();
  if (item.count == 0) return {};
  const bool receives = item.ring_position != 1;
  const bool sends = item.ring_position != 0;
  if (!can_run(group, memory, item, bytes, receives, sends)) return unsupported();
  return with_primitives(group, memory, item, reduction, bytes, receives, sends,
                         [&](auto& primitives) { ring_reduce(primitives, item); });
}

template <class G, class M, class R>
WEFT_HD KernelOutcome reduce_item(G& group, M& memory, const WorkItem& item, const R& reduction) {
  if (item.ranks != 1) return reduce_among_ranks(group, memory, item, reduction);
  return item.count == 0 ? KernelOutcome{} : reduce_alone(group, memory, item, reduction);
}

template <class G, class M>
WEFT_HD KernelOutcome all_gather_item(G& group, M& memory, const WorkItem& item) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  if (item.count == 0) return {};
  if (item.ranks == 1) {
    WorkItem alone = item;
    if (item.blocks != nullptr) alone.recv += item.blocks[0].offset * bytes;
    return copy_alone(group, memory, alone, bytes);
  }
  if (!can_run(group, memory, item, bytes, true, true) || item.ring == nullptr ||
      !ring_chunk_fits(item, bytes)) {
    return unsupported();
  }
  return with_primitives(group, memory, item, NoReduction{}, bytes, true, true,
                         [&](auto& primitives) { ring_all_gather(primitives, item, bytes); });
}

template <class G, class M>
WEFT_HD KernelOutcome broadcast_item(G& group, M& memory, const WorkItem& item) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  if (item.count == 0) return {};
  if (item.ranks == 1) return copy_alone(group, memory, item, bytes);
  const bool receives = item.ring_position != 0;
  const bool sends = item.ring_position + 1 < item.ranks;
  if (!can_run(group, memory, item, bytes, receives, sends)) return unsupported();
  return with_primitives(group, memory, item, NoReduction{}, bytes, receives, sends,
                         [&](auto& primitives) { ring_broadcast(primitives, item); });
}

/// Whether the links are those of a tree that can carry the item's chunks.
WEFT_HD inline bool can_walk_tree(const WorkItem& item, std::uint32_t element_bytes,
                                  std::uint32_t order) {
  if (item.tree == nullptr || item.chunk == 0 || item.tree->children > kMostTreeChildren) {
    return false;
  }
  const auto carries = [&](const ConnectionView& view) {
    return carries_steps(view, item.protocol, element_bytes, order) &&
           item.chunk <= step_payload(item.protocol, view.step_bytes) / element_bytes;
  };
  const TreeLinks& links = *item.tree;
  for (std::uint32_t i = 0; i < links.children; ++i) {
    if (!carries(links.from_child[i]) || !carries(links.to_child[i])) return false;
  }
  return links.root || (carries(links.to_parent) && carries(links.from_parent));
}

/// Runs one item of a tree to its end; otherwise as run_work_item.
template <class G, class M, class R>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_tree_item(G& group, M& memory, const WorkItem& item, const R& reduction) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  if (!is_planned(item.operation) || has_blocks(item.operation) || bytes == 0) return unsupported();
  if (item.count == 0) return {};
  if (!can_walk_tree(item, bytes, order_needed<G, M>(group, item.protocol))) return unsupported();
  // The root does not wait for itself.
  const std::uint64_t lag = item.tree->root ? 0 : tree_lag(item.tree->to_parent.steps);
  if constexpr (runs_protocol<M>(Protocol::kLL)) {
    if (item.protocol == Protocol::kLL) {
      return LineTreeWalk<Protocol::kLL, G, M, R>(group, memory, item, reduction, bytes, lag).run();
    }
  }
  if constexpr (runs_protocol<M>(Protocol::kLL128)) {
    if (item.protocol == Protocol::kLL128) {
      return LineTreeWalk<Protocol::kLL128, G, M, R>(group, memory, item, reduction, bytes, lag)
          .run();
    }
  }
  if constexpr (runs_protocol<M>(Protocol::kSimple)) {
    if (item.protocol == Protocol::kSimple) {
      return TreeWalk<G, M, R>(group, memory, item, reduction, bytes, lag).run();
    }
  }
  return unsupported();
}

/// Whether the links are those of a chain that can carry the item's chunks.
WEFT_HD inline bool can_walk_chain(const WorkItem& item, std::uint32_t element_bytes) {
  if (item.chain == nullptr || item.chunk == 0 || item.ranks < 2 || item.ranks > kMaxRanks ||
      item.chain->rank >= item.ranks || item.chain->root >= item.ranks) {
    return false;
  }
  const auto carries = [&](const ConnectionView& view) {
    return usable(view, element_bytes) && item.chunk <= view.step_bytes / element_bytes;
  };
  const ChainLinks& links = *item.chain;
  const bool last = links.rank + 1 == item.ranks;
  return (last || (carries(links.to_above) && carries(links.from_above))) &&
         (links.rank == 0 || (carries(links.to_below) && carries(links.from_below)));
}

/// Runs one item of a chain to its end; otherwise as run_work_item.
template <class G, class M, class R>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_chain_item(G& group, M& memory, const WorkItem& item,
                                     const R& reduction) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  if (!reduces(item.operation) || bytes == 0) return unsupported();
  if (item.count == 0) return {};
  if (item.protocol != Protocol::kSimple || !can_walk_chain(item, bytes)) return unsupported();
  // The last rank does not wait for itself.
  const bool last = item.chain->rank + 1 == item.ranks;
  const std::uint64_t lag = last ? 0 : chain_lag(item.chain->to_above.steps);
  return ChainWalk<G, M, R>(group, memory, item, reduction, bytes, lag).run();
}

/// Whether the links are those of parallel aggregated trees that can carry the item's chunks.
WEFT_HD inline bool can_walk_pat(const WorkItem& item, std::uint32_t element_bytes) {
  if (item.pat == nullptr || item.chunk == 0 || item.ranks < 2 || item.ranks > kMaxRanks ||
      item.ring_position >= item.ranks || (item.ring == nullptr && has_blocks(item.operation))) {
    return false;
  }
  const PatLinks& links = *item.pat;
  if (links.levels != PatRound{.ranks = item.ranks}.levels() ||
      !PatTorus{.ranks = item.ranks, .row = links.row}.valid()) {
    return false;
  }
  const Operation moved = pat_operation(item.operation, item.gathers_inputs);
  const bool scatters = pat_scatters(moved);
  const bool gathers = pat_gathers(moved);
  const std::uint32_t step_bytes = (scatters ? links.scatter : links.gather).to[0].step_bytes;
  const auto carries = [&](const ConnectionView& view) {
    return usable(view, element_bytes) && view.steps > 1 && view.step_bytes == step_bytes &&
           item.chunk <= step_bytes / element_bytes;
  };
  const auto is_whole = [&](const PatHalf& half, std::uint32_t level) {
    return carries(half.to[level]) && carries(half.from[level]);
  };
  for (std::uint32_t level = 0; level < links.levels; ++level) {
    if (scatters && !is_whole(links.scatter, level)) return false;
    if (gathers && !is_whole(links.gather, level)) return false;
  }
  return true;
}

/// Whether what all ranks bring has room where it is gathered.
WEFT_HD inline bool can_gather_inputs(const WorkItem& item, std::uint32_t element_bytes) {
  return item.operation == Operation::kAllReduce && item.chunk >= item.count &&
         item.count <= kMostGatheredBytes / element_bytes / item.ranks;
}

/// Runs one item of parallel aggregated trees to its end; otherwise as run_work_item. Where it
/// gathers inputs, `gathered` is kMostGatheredBytes of the group's, aligned for any element, whose
/// contents count for nothing.
template <class G, class M, class R>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_pat_item(G& group, M& memory, const WorkItem& item, const R& reduction,
                                   std::byte* gathered) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  if (!fits_pat(item.operation) || bytes == 0) return unsupported();
  if (item.count == 0) return {};
  if (item.protocol != Protocol::kSimple || !can_walk_pat(item, bytes)) return unsupported();
  if (item.gathers_inputs && !can_gather_inputs(item, bytes)) return unsupported();
  return PatWalk<G, M, R>(group, memory, item, reduction, bytes, gathered).run();
}

/// Runs one item of a ring to its end; `reduction` is item.reduction over item.type. All lanes call
/// it; the leader's answer is the complete one. kUnsupported also answers an item whose views
/// cannot carry it.
template <class G, class M, class R>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_ring_item(G& group, M& memory, const WorkItem& item, const R& reduction) {
  switch (item.operation) {
    case Operation::kAllReduce:
      return all_reduce_item(group, memory, item, reduction);
    case Operation::kReduceScatter:
    case Operation::kReduceScatterV:
      return reduce_scatter_item(group, memory, item, reduction);
    case Operation::kReduce:
      return reduce_item(group, memory, item, reduction);
    case Operation::kBroadcast:
      return broadcast_item(group, memory, item);
    case Operation::kAllGather:
    case Operation::kAllGatherV:
      return all_gather_item(group, memory, item);
    default:
      return unsupported();
  }
}

/// The same of a ring or of pairs.
template <class G, class M, class R>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_work_item(G& group, M& memory, const WorkItem& item, const R& reduction) {
  const bool knows = item.algorithm == Algorithm::kRing ||
                     (item.algorithm == Algorithm::kPair && !has_lines(item.protocol));
  if (!knows || static_cast<std::size_t>(item.operation) >= kOperationCount) return unsupported();
  if (is_planned(item.operation)) return run_ring_item(group, memory, item, reduction);
  return PairBatch<G, M>(group, memory, item.transfers, item.transfer_count).run();
}

/// Whether a direct call fits between these peers, of which a kernel knows at most `most_ranks`.
WEFT_HD inline bool fits_inboxes(const WorkItem& item, const DirectPeers& peers,
                                 std::uint32_t most_ranks) {
  return item.algorithm == Algorithm::kDirect && item.protocol == Protocol::kLL &&
         peers.ranks <= most_ranks && peers.rank < peers.ranks && peers.positions != nullptr &&
         direct_half_bytes(item.count * element_size(item.type)) <= peers.half_bytes;
}

/// The same for calls by lines, which know the all-reduce alone.
WEFT_HD inline bool fits_directly(const WorkItem& item, const DirectPeers& peers,
                                  std::uint32_t most_ranks) {
  return item.operation == Operation::kAllReduce && fits_inboxes(item, peers, most_ranks);
}

/// Runs one part of a direct call to its end; otherwise as run_work_item.
template <std::uint32_t kRanks, class G, class M, class R>
  requires lane_group<G> && flagged_memory<M>
WEFT_HD KernelOutcome run_direct_item(G& group, M& memory, const WorkItem& item,
                                      const DirectPeers& peers, const R& reduction,
                                      std::uint32_t part, std::uint32_t parts) {
  if (!fits_directly(item, peers, kRanks)) return unsupported();
  return OneShotAllReduce<kRanks, R, G, M>(group, memory, item, peers, reduction, part, parts)
      .run();
}

/// The same by wide lines, of calls of which each rank has a range, as fits_wide_ranges() wants it.
template <bool kPlain, std::uint32_t kRanks, class G, class M, class R>
  requires gang_group<G> && wide_line_memory<M, G>
WEFT_HD KernelOutcome run_wide_ranges(G& group, M& memory, const WorkItem& item,
                                      const DirectPeers& peers, const R& reduction,
                                      std::uint32_t part, std::uint32_t parts) {
  if (item.operation == Operation::kAllGather) {
    return AllGatherLL128<kPlain, kRanks, R, G, M>(group, memory, item, peers, reduction, part,
                                                   parts)
        .run();
  }
  if (item.operation == Operation::kAllToAll) {
    return AllToAllLL128<kPlain, kRanks, R, G, M>(group, memory, item, peers, reduction, part,
                                                  parts)
        .run();
  }
  if (item.operation == Operation::kReduceScatter) {
    return TwoShotLL128<kPlain, Operation::kReduceScatter, kRanks, R, G, M>(
               group, memory, item, peers, reduction, part, parts)
        .run();
  }
  return TwoShotLL128<kPlain, Operation::kAllReduce, kRanks, R, G, M>(group, memory, item, peers,
                                                                      reduction, part, parts)
      .run();
}

/// The same of calls that have a root, as fits_wide_lines() wants them.
template <bool kPlain, std::uint32_t kRanks, class G, class M, class R>
  requires gang_group<G> && wide_line_memory<M, G>
WEFT_HD KernelOutcome run_rooted_wide(G& group, M& memory, const WorkItem& item,
                                      const DirectPeers& peers, const R& reduction,
                                      std::uint32_t part, std::uint32_t parts) {
  if (item.operation == Operation::kBroadcast) {
    return RootedLL128<kPlain, Operation::kBroadcast, kRanks, R, G, M>(group, memory, item, peers,
                                                                       reduction, part, parts)
        .run();
  }
  return RootedLL128<kPlain, Operation::kReduce, kRanks, R, G, M>(group, memory, item, peers,
                                                                  reduction, part, parts)
      .run();
}

/// The same by wide lines, whichever calls.
template <std::uint32_t kRanks, class G, class M, class R>
  requires gang_group<G> && wide_line_memory<M, G>
WEFT_HD KernelOutcome run_wide_item(G& group, M& memory, const WorkItem& item,
                                    const DirectPeers& peers, const R& reduction,
                                    std::uint32_t part, std::uint32_t parts) {
  if (fits_wide_ranges(item, peers, kRanks)) {
    return has_plain_ranges(item)
               ? run_wide_ranges<true, kRanks>(group, memory, item, peers, reduction, part, parts)
               : run_wide_ranges<false, kRanks>(group, memory, item, peers, reduction, part, parts);
  }
  if (!fits_wide_lines(item, peers, kRanks)) return unsupported();
  if (has_root(item.operation)) {
    return has_plain_ranges(item)
               ? run_rooted_wide<true, kRanks>(group, memory, item, peers, reduction, part, parts)
               : run_rooted_wide<false, kRanks>(group, memory, item, peers, reduction, part, parts);
  }
  return OneShotLL128<kRanks, R, G, M>(group, memory, item, peers, reduction, part, parts).run();
}

/// Runs one part of a two-shot to its end; otherwise as run_work_item.
template <std::uint32_t kRanks, class G, class M, class R>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_two_shot_item(G& group, M& memory, const WorkItem& item,
                                        const DirectPeers& peers, const R& reduction,
                                        std::uint32_t part, std::uint32_t parts) {
  if (!fits_two_shot(item, peers, kRanks, parts)) return unsupported();
  return TwoShotAllReduce<kRanks, G, M, R>(group, memory, item, peers, reduction, part, parts)
      .run();
}

/// The same of a call by multicast.
template <class G, class M, class R>
  requires lane_group<G> && device_memory<M, G> && multicast_memory<M, R>
WEFT_HD KernelOutcome run_multicast_item(G& group, M& memory, const WorkItem& item,
                                         const DirectPeers& peers, const MulticastView& view,
                                         const R& reduction, std::uint32_t part,
                                         std::uint32_t parts) {
  if (!fits_multicast_call(item, peers, view, parts)) return unsupported();
  return MulticastCall<G, M, R>(group, memory, item, peers, view, reduction, part, parts).run();
}

}  // namespace weft::device
