// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What kernels of packed items do that have a warp which posts.
#pragma once

#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/posting.cuh"
#include "core/device/cuda/report.cuh"

namespace weft::device::cuda {

/// By all threads of a CTA; `run(group, memory)` by those that do not post. Registers are short
/// here: a tag of the argument takes none.
template <class Run>
__device__ void run_posting(const PackedRingArgument& argument, PostBoard& board, const Run& run) {
  __shared__ std::uint64_t slots[2];
  if (threadIdx.x >= kThreads) return serve_posts(board, kThreads);
  CtaGroup group(slots, kThreads);
  const KernelControl& control = argument.control;
  Posting<CudaMemory> memory(control.abort, control.waiting, argument.first.tag, board);
  const KernelOutcome outcome = run(group, memory);
  let_next_begin();  // no lane waits for another rank any more
  memory.dismiss(group);
  if (group.leader()) report(control, outcome);
}

}  // namespace weft::device::cuda
