// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long a small message takes from a GPU through a TCP connection to another GPU, without any
// library: what a call over sockets cannot go below.
#pragma once

#include "bench/gpu/options.h"

namespace weft::gpu_bench {

/// 64 bytes over loopback, between GPU 0 and GPU 1, by threads that only poll. Throws Failure.
void probe_hop(const Options& options);

}  // namespace weft::gpu_bench
