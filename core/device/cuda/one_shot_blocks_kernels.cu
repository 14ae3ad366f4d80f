// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The one-shots over mapped inboxes of calls with blocks. Those that only move do so by bytes, so
// one kernel for each bound of ranks does for all; those that reduce have kernels as all-reduces
// have. All of them rest on whole payloads; for others there are kernels of their own, since the
// code that takes payloads apart is several times as long as all else.
#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include "core/device/cuda/inbox_kernels.cuh"
#include "core/device/one_shot_blocks.h"

namespace weft::device::cuda {
namespace {

// AnyReduction is for what else there is.
template <std::uint32_t kRanks, class Reduction, class Memory>
using Reducing =
    OneShotBlocks<kRanks,
                  BlockCalls{.reduce = true, .whole = !std::is_same_v<Reduction, AnyReduction>},
                  Reduction, CtaGroup, Memory>;

template <std::uint32_t kRanks, bool kWhole>
const void* moving_kernel() {
  using Call = OneShotBlocks<kRanks, BlockCalls{.whole = kWhole}, MovedBytes, CtaGroup, CudaMemory>;
  return reinterpret_cast<const void*>(&inbox_kernel<Call, CudaMemory, MovedBytes>);
}

template <bool kWhole>
const std::array<const void*, kSizesOfRanks>& moving_kernels() {
  static const std::array<const void*, kSizesOfRanks> kAll = {
      moving_kernel<2, kWhole>(), moving_kernel<4, kWhole>(),
      moving_kernel<kMostDirectRanks, kWhole>()};
  return kAll;
}

}  // namespace

const void* blocks_kernel_for(const WorkItem& item) {
  const DirectPeers& peers = *item.direct;
  if (!fits_inboxes(item, peers, kMostDirectRanks) || !one_shot_moves_blocks(item.operation) ||
      block_lines(item.count * element_size(item.type)) * sizeof(Line) > peers.half_bytes) {
    return nullptr;
  }
  const bool whole = has_whole_payloads(item);
  if (reduces(item.operation)) {
    return whole ? InboxKernels<Reducing>::of(item) : InboxKernels<Reducing>::of_any(item);
  }
  const auto& kernels = whole ? moving_kernels<true>() : moving_kernels<false>();
  return kernels[size_of_ranks(peers.ranks)];
}

std::span<const void* const> blocks_kernels() {
  static const std::vector<const void*> kAll = [] {
    const std::span<const void* const> reducing = InboxKernels<Reducing>::all();
    std::vector<const void*> kernels(reducing.begin(), reducing.end());
    for (const auto& moving : {moving_kernels<true>(), moving_kernels<false>()})
      kernels.insert(kernels.end(), moving.begin(), moving.end());
    return kernels;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
