// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a kernel tells the host that it ended badly.
#pragma once

#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"

namespace weft::device::cuda {

// The first item that ends badly says why, also where several CTAs or kernels of a communicator do
// at once: who takes the word writes what belongs to its end, and then the end itself. Only this
// GPU writes there, so that its own atomics do, in memory of the host too.
__device__ inline void report(const KernelControl& control, const KernelOutcome& outcome) {
  if (outcome.end == KernelEnd::kDone || control.outcome == nullptr) return;
  constexpr auto kNone = static_cast<std::uint32_t>(KernelEnd::kDone);
  constexpr auto kBeingTold = static_cast<std::uint32_t>(KernelEnd::kBeingTold);
  auto* end = reinterpret_cast<std::uint32_t*>(&control.outcome->end);
  if (atomicCAS(end, kNone, kBeingTold) != kNone) return;
  control.outcome->peer = outcome.peer;
  control.outcome->expected = outcome.expected;
  control.outcome->found = outcome.found;
  __threadfence_system();
  store_relaxed_system(end, static_cast<std::uint32_t>(outcome.end));
}

}  // namespace weft::device::cuda
