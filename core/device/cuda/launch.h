// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the device's host side launches kernels of each kind. Internal to cuda_device.cc.
#pragma once

#include <cuda_runtime.h>

#include "core/base/device_runtime.h"

namespace weft::device::cuda {

struct CudaStream {
  cudaStream_t native = nullptr;
  cudaEvent_t event = nullptr;  // for order_after
  bool owned = false;
  bool may_overlap = false;  // kernels with the end of the one before
  // For copies beside a kernel; made when first needed.
  cudaStream_t side = nullptr;
  cudaEvent_t forked = nullptr;
  cudaEvent_t joined = nullptr;
};

/// A launch of one item of sends and receives.
weft_result launch_pairs(CudaStream& stream, const Launch& launch);

}  // namespace weft::device::cuda
