// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long a small message takes from a GPU through a TCP connection to another GPU, without any
// library: what a call over sockets by plain payload and one counter cannot go below.
#pragma once

#include "bench/gpu/options.h"

namespace weft::gpu_bench {

/// Over loopback, between GPU 0 and GPU 1, by threads that only poll: 64 bytes of which a GPU sees
/// a number alone, and messages with payload, one way by turns, both ways at once, and so by a
/// kernel for each; by one connection and by several, each of which carries a part. Throws Failure.
void probe_hop(const Options& options);

}  // namespace weft::gpu_bench
