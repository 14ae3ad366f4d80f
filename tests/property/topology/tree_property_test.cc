// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// PCI trees: pruning changes no path, paths are alike from both ends, and trees survive the trip.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/topology/codec.h"
#include "core/topology/paths.h"
#include "core/topology/pci_tree.h"
#include "tests/support/random_topology.h"

namespace weft {
namespace {

bool is_device(const PciNode& node) {
  return node.kind == PciKind::kNic || node.kind == PciKind::kGpu;
}

RC_GTEST_PROP(TreeProperty, PruningChangesNoPath, ()) {
  HostInfo whole;
  whole.pci = test::random_pci();
  HostInfo pruned;
  pruned.pci = prune(whole.pci);
  RC_ASSERT(is_forest(pruned.pci));
  RC_ASSERT(std::ranges::count_if(pruned.pci, is_device) ==
            std::ranges::count_if(whole.pci, is_device));
  for (const PciNode& a : whole.pci) {
    for (const PciNode& b : whole.pci) {
      if (!is_device(a) || !is_device(b)) continue;
      const Path path = path_between(whole, a.address, b.address);
      RC_ASSERT(path == path_between(pruned, a.address, b.address));
      RC_ASSERT(path == path_between(whole, b.address, a.address));
      RC_ASSERT((path == Path::kSelf) == (a.address == b.address));
    }
  }
  for (std::uint32_t i = 0; i < pruned.pci.size(); ++i) {
    const auto below = std::ranges::count_if(pruned.pci, [&](const PciNode& node) {
      return node.parent == i && &node != &pruned.pci[i];
    });
    RC_ASSERT(pruned.pci[i].kind != PciKind::kBridge || below >= 2);
  }
}

RC_GTEST_PROP(TreeProperty, SurvivesTheTrip, ()) {
  RankReport report;
  report.host = test::random_host(0);
  report.host.pci = prune(report.host.pci);
  report.rank.process = "p";
  RC_ASSERT(decode_report(encode_report(report).value()).value() == report);
}

}  // namespace
}  // namespace weft
