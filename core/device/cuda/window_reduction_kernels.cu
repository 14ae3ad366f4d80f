// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a reduction in windows leaves to multiprocessors: the sum of what copy engines have brought.
// One kernel for all types and reductions. It waits for nobody.
#include "core/device/cuda/any_reduction.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/reduce_sources.h"

namespace weft::device::cuda {
namespace {

__global__ void __launch_bounds__(kThreads, 1)
    reduce_sources_kernel(const __grid_constant__ SourcesToReduce sources) {
  CtaGroup group(nullptr);
  SliceMemory memory(nullptr, nullptr, 0);
  reduce_sources(group, memory, sources, blockIdx.x, gridDim.x);
}

}  // namespace

const void* reduce_sources_kernel_address() {
  return reinterpret_cast<const void*>(&reduce_sources_kernel);
}

}  // namespace weft::device::cuda
