// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Two trees over the ranks in which hardly any rank passes data on in both, so that both together
// use what each rank can send: P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full
// bandwidth broadcast, reduction and scan", Parallel Computing 35 (2009).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/topology/topology.h"

namespace weft {

inline constexpr std::uint32_t kTrees = 2;

/// Each rank's parent, the root's being itself. `order` holds each rank once, those of a host side
/// by side; `which` < kTrees. Across hosts a tree joins one rank of each, its leader: the root,
/// else the first of the host in `order`, or in the second tree the last, which are those that the
/// ring of this order enters and leaves by. Below a leader a tree of its host. No rank has more
/// than kMostTreeChildren; no way to the root is longer than tree_depth().
[[nodiscard]] std::vector<std::uint32_t> tree_parents(const Topology& topology,
                                                      std::span<const std::uint32_t> order,
                                                      std::uint32_t root, std::uint32_t which);

/// Edges from the root to the farthest rank, at most.
[[nodiscard]] std::uint32_t tree_depth(const Topology& topology);

}  // namespace weft
