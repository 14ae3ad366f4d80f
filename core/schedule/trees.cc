// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/schedule/trees.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace weft {
namespace {

using Ranks = std::vector<std::uint32_t>;

/// Of places 1 to `last` of a binary tree whose in-order walk is 1, 2, 3, ...; above its top is
/// place 0. Odd places are leaves.
std::uint32_t place_above(std::uint32_t place, std::uint32_t last) {
  const std::uint32_t height = place & (~place + 1);  // its lowest bit
  const std::uint32_t below = place - height;
  const std::uint32_t above = below | (2 * height);
  return above <= last ? above : below;
}

/// The place of node `index` (from 1 on) in the second tree, where odd and even change sides.
std::uint32_t second_place(std::uint32_t index, std::uint32_t last) {
  return last % 2 == 0 ? last + 1 - index : index % last + 1;
}

std::uint32_t index_at(std::uint32_t second, std::uint32_t last) {
  return last % 2 == 0 ? last + 1 - second : (second + last - 2) % last + 1;
}

/// Hangs nodes[1] and all after it below nodes[0].
void hang_below_first(const Ranks& nodes, std::uint32_t which, Ranks& parents) {
  const auto last = static_cast<std::uint32_t>(nodes.size() - 1);
  for (std::uint32_t index = 1; index <= last; ++index) {
    const std::uint32_t place = which == 0 ? index : second_place(index, last);
    const std::uint32_t above = place_above(place, last);
    const std::uint32_t parent = above == 0 || which == 0 ? above : index_at(above, last);
    parents[nodes[index]] = nodes[parent];
  }
}

void begin_with(Ranks& ranks, std::uint32_t first) {
  std::ranges::rotate(ranks, std::ranges::find(ranks, first));
}

}  // namespace

std::vector<std::uint32_t> tree_parents(const Topology& topology,
                                        std::span<const std::uint32_t> order, std::uint32_t root,
                                        std::uint32_t which) {
  std::vector<Ranks> hosts;
  for (const std::uint32_t rank : order) {
    const auto host = std::ranges::find_if(
        hosts, [&](const Ranks& ranks) { return topology.same_host(ranks.front(), rank); });
    if (host == hosts.end()) {
      hosts.push_back({rank});
    } else {
      host->push_back(rank);
    }
  }
  Ranks leaders;
  for (Ranks& ranks : hosts) {
    const bool has_root = std::ranges::find(ranks, root) != ranks.end();
    begin_with(ranks, has_root ? root : which == 0 ? ranks.front() : ranks.back());
    leaders.push_back(ranks.front());
  }
  begin_with(leaders, root);
  Ranks parents(order.size());
  parents[root] = root;
  hang_below_first(leaders, which, parents);
  for (const Ranks& ranks : hosts)
    hang_below_first(ranks, which, parents);
  return parents;
}

std::uint32_t tree_depth(const Topology& topology) {
  std::vector<std::uint32_t> ranks_on(topology.hosts.size(), 0);
  for (std::uint32_t rank = 0; rank < topology.rank_count(); ++rank)
    ++ranks_on.at(topology.ranks[rank].host);
  const auto depth = [](std::size_t nodes) {
    return static_cast<std::uint32_t>(std::bit_width(nodes - 1));
  };
  const std::uint32_t most = std::ranges::max(ranks_on);
  return depth(ranks_on.size()) + depth(most);
}

}  // namespace weft
