// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which item a CTA has. Multiprocessors come in pairs that share what leads out of them, and a
// device puts CTAs on both of a pair while others are empty: those then move half as much, and a
// call waits for them. A cluster of two CTAs gets a pair for itself; its second one ends at once.
#pragma once

#include <cstdint>

namespace weft::device::cuda {

/// CTAs of a cluster; 1 where there are none.
__device__ inline std::uint32_t ctas_of_item() {
  std::uint32_t ctas = 1;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(ctas));
#endif
  return ctas;
}

/// Of a launch of rings: where this is false the CTA has nothing to do.
__device__ inline bool has_item() {
  return blockIdx.x % ctas_of_item() == 0;
}
__device__ inline std::uint32_t item_of_cta() {
  return blockIdx.x / ctas_of_item();
}
__device__ inline std::uint32_t items_of_launch() {
  return gridDim.x / ctas_of_item();
}

}  // namespace weft::device::cuda
