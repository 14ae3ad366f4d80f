// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A child of the supervisor: all ranks as threads, one rank, or the probe of the link.
#pragma once

#include "bench/gpu/options.h"

namespace weft::gpu_bench {

/// The exit status: 1 if it has said what went wrong.
int run_child(const Options& options);

}  // namespace weft::gpu_bench
