// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/pci_tree.h"

#include <cstddef>
#include <cstdint>

#include "core/topology/codec.h"

namespace weft {

std::vector<PciNode> prune(const std::vector<PciNode>& all) {
  // How many children of each node lead to a device; children stand behind their parents.
  std::vector<std::uint32_t> branches(all.size(), 0);
  for (std::size_t i = all.size(); i-- > 0;) {
    const PciNode& node = all[i];
    const bool leads = node.kind == PciKind::kNic || node.kind == PciKind::kGpu || branches[i] > 0;
    if (leads && node.kind != PciKind::kRoot) ++branches[node.parent];
  }
  struct Kept {
    std::uint32_t index = 0;    // of the nearest node kept, this one or above
    std::uint32_t bridges = 0;  // left out on the way to it, this one included
  };
  std::vector<Kept> kept(all.size());
  std::vector<PciNode> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool device = all[i].kind == PciKind::kNic || all[i].kind == PciKind::kGpu;
    if (!device && branches[i] == 0) continue;
    const bool root = all[i].kind == PciKind::kRoot;
    if (all[i].kind == PciKind::kBridge && branches[i] == 1) {
      kept[i] = {.index = kept[all[i].parent].index, .bridges = kept[all[i].parent].bridges + 1};
      continue;
    }
    if (result.size() == kMaxPciNodes) break;
    kept[i] = {.index = static_cast<std::uint32_t>(result.size()), .bridges = 0};
    PciNode node = all[i];
    node.bridges = root ? 0 : kept[all[i].parent].bridges;
    node.parent = root ? kept[i].index : kept[all[i].parent].index;
    result.push_back(std::move(node));
  }
  return result;
}

bool is_forest(const std::vector<PciNode>& nodes) {
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const PciNode& node = nodes[i];
    const bool root = node.kind == PciKind::kRoot;
    if (root ? node.parent != i || node.bridges != 0 : node.parent >= i) return false;
    if (node.numa_node && !root) return false;
    if (root) continue;
    const PciKind above = nodes[node.parent].kind;
    if (above != PciKind::kRoot && above != PciKind::kBridge) return false;
  }
  return true;
}

}  // namespace weft
