// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a plan to what kernels are given: pure, so that whoever checks plans runs the very items
// that communicators run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/model/landing.h"
#include "core/model/packed_items.h"
#include "core/model/work_item.h"
#include "core/schedule/plan.h"

namespace weft {

/// A rank's share of one channel, complete but for its connections and for the buffers and the tag
/// of a call. `channel` < plan.channels.size(), `rank` < plan.ranks. Points into the plan.
[[nodiscard]] WorkItem work_item(const Plan& plan, std::size_t channel, std::uint32_t rank);

/// A rank's links in a tree, whose connections to and from other ranks these two tell.
template <class ToRank, class FromRank>
[[nodiscard]] TreeLinks tree_links(const TreePlace& place, const ToRank& to, const FromRank& from) {
  TreeLinks links;
  links.root = place.root;
  if (!place.root) {
    links.to_parent = to(place.parent);
    links.from_parent = from(place.parent);
  }
  for (const std::uint32_t child : place.children) {
    links.from_child[links.children] = from(child);
    links.to_child[links.children] = to(child);
    ++links.children;
  }
  return links;
}

/// A rank's links in a chain of `ranks`, likewise. `root` is that of the task.
template <class ToRank, class FromRank>
[[nodiscard]] ChainLinks chain_links(std::uint32_t rank, std::uint32_t ranks, std::uint32_t root,
                                     const ToRank& to, const FromRank& from) {
  ChainLinks links;
  links.rank = rank;
  links.root = root;
  if (rank + 1 < ranks) {
    links.to_above = to(rank + 1);
    links.from_above = from(rank + 1);
  }
  if (rank != 0) {
    links.to_below = to(rank - 1);
    links.from_below = from(rank - 1);
  }
  return links;
}

/// A rank's links in parallel aggregated trees, likewise.
template <class ToRank, class FromRank>
[[nodiscard]] PatLinks pat_links(Operation operation, const PatPlace& place, const ToRank& to,
                                 const FromRank& from) {
  PatLinks links;
  links.row = place.row;
  for (; links.levels < place.ahead.size(); ++links.levels) {
    const std::uint32_t ahead = place.ahead[links.levels];
    const std::uint32_t behind = place.behind[links.levels];
    if (pat_scatters(operation)) {
      links.scatter.to[links.levels] = to(behind);
      links.scatter.from[links.levels] = from(ahead);
    }
    if (pat_gathers(operation)) {
      links.gather.to[links.levels] = to(ahead);
      links.gather.from[links.levels] = from(behind);
    }
  }
  return links;
}

/// The same item for one call. `send` and `recv` are the caller's buffers of the whole call; a rank
/// that only receives, or only sends, may have none for the other.
inline void set_call(const Plan& plan, std::size_t channel, const void* send, void* recv,
                     OperationTag tag, WorkItem& item) {
  const std::size_t offset = plan.channels[channel].offset * element_size(plan.task.type);
  item.send = send == nullptr ? nullptr : static_cast<const std::byte*>(send) + offset;
  item.recv = recv == nullptr ? nullptr : static_cast<std::byte*>(recv) + offset;
  item.tag = tag;
}

/// The same items for kernels that are given them packed, of which there are as many as channels.
/// `links`: as of PackedItems, of rings.
void pack_items(const Plan& plan, std::span<const WorkItem> items, const RingLinks* links,
                PackedItems& to);

/// Where what comes to a connected item of a ring from a net may land, but for the buffer: nowhere
/// unless it is an all-reduce.
[[nodiscard]] LandingWalk landing_of(const WorkItem& item);

/// Of a plan with blocks: what WorkItem::blocks of a channel points to.
[[nodiscard]] std::vector<Extent> channel_blocks(const Plan& plan, std::size_t channel);

}  // namespace weft
