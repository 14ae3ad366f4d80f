// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the link between two GPUs can do, without any library.
#pragma once

#include "bench/gpu/options.h"

namespace weft::gpu_bench {

/// Writes from GPU 0 to GPU 1 by itself, then by several at once as rings, all-to-alls and
/// broadcasts do: kernels of few and many CTAs, and copy engines. Throws Failure.
void probe_link(const Options& options);

}  // namespace weft::gpu_bench
