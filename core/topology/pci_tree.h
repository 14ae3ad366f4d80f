// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// PCI trees in the form in which they travel.
#pragma once

#include <vector>

#include "core/topology/topology.h"

namespace weft {

/// Leaves out what leads to neither NIC nor GPU, then bridges that part no paths, and counts the
/// latter. `all` holds parents before children, and no `bridges` yet; so does the result, which
/// ends at kMaxPciNodes nodes.
[[nodiscard]] std::vector<PciNode> prune(const std::vector<PciNode>& all);

/// Whether parents stand before their children, roots and only they are their own parents, and
/// devices have no children: what walks up the tree relies on.
[[nodiscard]] bool is_forest(const std::vector<PciNode>& nodes);

}  // namespace weft
