// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a hypervisor took from the machine while something was timed: calls that need several
// threads of the CPU at once wait for the last of them.
#pragma once

#include <string_view>

namespace weft::gpu_bench {

/// Of all processors together since the machine started, in ms: for how long they had work, and
/// others had them (proc_stat(5), "steal"). `stat` is what /proc/stat holds, `ticks` those of a
/// second; 0 where it does not tell.
double stolen_ms_of(std::string_view stat, long ticks);

/// The same of this machine, now.
double stolen_ms();

}  // namespace weft::gpu_bench
