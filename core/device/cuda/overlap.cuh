// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Programmatic serialization of the kernels of a stream, of the device's side.
#pragma once

#include <cstdint>

#include "core/device/cuda/kernels.h"

namespace weft::device::cuda {

// Where kernels are not launched so, these do nothing.

/// Until the kernel before this one in the stream has ended, and is seen by all lanes to have.
__device__ inline void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel be set up once all CTAs have come here, or have ended.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// In this order one kernel at most is resident early: a queue of them would fill the device, while
// this one may wait for a kernel that is still to come.
__device__ inline void overlap_launches() {
  await_kernel_before();
  let_next_begin();
}

/// The same of kernels of channels, of which few take as little room.
__device__ inline void let_next_begin_beside_few(std::uint32_t items) {
  if (items <= kCtasThatMayComeEarly) let_next_begin();
}

}  // namespace weft::device::cuda
