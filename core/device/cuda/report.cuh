// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a kernel tells the host that it ended badly.
#pragma once

#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"

namespace weft::device::cuda {

// The first item that ends badly says why; `end` goes last, since the host looks at it. Several
// CTAs may fail at once: their reports may mix, but each is a true one of this launch.
__device__ inline void report(const KernelControl& control, const KernelOutcome& outcome) {
  if (outcome.end == KernelEnd::kDone || control.outcome == nullptr) return;
  auto* end = reinterpret_cast<std::uint32_t*>(&control.outcome->end);
  if (load_relaxed_system(end) != 0) return;
  control.outcome->peer = outcome.peer;
  control.outcome->expected = outcome.expected;
  control.outcome->found = outcome.found;
  __threadfence_system();
  store_relaxed_system(end, static_cast<std::uint32_t>(outcome.end));
}

}  // namespace weft::device::cuda
