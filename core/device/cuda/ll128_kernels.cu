// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings and trees by LL128, of all operations, types and reductions: the templates of core/device,
// one CTA an item, a line eight threads of a warp.
#include "core/device/cuda/line_kernels.cuh"

namespace weft::device::cuda {

/// Memory of kernels by LL128 alone, whose threads share lines.
class WideLineMemory : public PostingLineMemory {
 public:
  using PostingLineMemory::PostingLineMemory;
  static constexpr std::uint32_t kLineBytesAtOnce = 0;
  [[nodiscard]] static constexpr bool runs(Protocol protocol) {
    return protocol == Protocol::kLL128;
  }
};
static_assert(must_share_lines<Protocol::kLL128, CtaGroup, WideLineMemory>);

RingKernel ll128_kernel_for(const WorkItem& item) {
  return LineKernels<WideLineMemory>::for_item(item);
}

std::span<const void* const> ll128_kernels() {
  return LineKernels<WideLineMemory>::all();
}

}  // namespace weft::device::cuda
