// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The one-shots over mapped inboxes of calls with blocks: one kernel for all types and reductions,
// of two sizes.
#include <array>

#include "core/device/cuda/inbox_kernels.cuh"
#include "core/device/one_shot_blocks.h"

namespace weft::device::cuda {
namespace {

template <std::uint32_t kRanks>
const void* kernel() {
  using Call = OneShotBlocks<kRanks, AnyReduction, CtaGroup, SliceMemory>;
  return reinterpret_cast<const void*>(&inbox_kernel<Call, SliceMemory, AnyReduction>);
}

}  // namespace

const void* blocks_kernel_for(const WorkItem& item) {
  const DirectPeers& peers = *item.direct;
  if (!fits_inboxes(item, peers, kMostDirectRanks) || !one_shot_moves_blocks(item.operation) ||
      block_lines(item.count * element_size(item.type)) * sizeof(Line) > peers.half_bytes) {
    return nullptr;
  }
  return peers.ranks <= 2 ? kernel<2>() : kernel<kMostDirectRanks>();
}

std::span<const void* const> blocks_kernels() {
  static const std::array kAll = {kernel<2>(), kernel<kMostDirectRanks>()};
  return kAll;
}

}  // namespace weft::device::cuda
