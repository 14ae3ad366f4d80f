// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How much of the processors' time the control groups of this process leave it. A container with a
// limit may run on every processor of its host, but whoever keeps more of them busy than that is
// stopped for the rest of each period, all threads at once.
#pragma once

#include <cstdint>
#include <string>

#include "core/topology/discover.h"

namespace weft {

struct CpuLimit {
  /// So many processors' time, rounded up; 0: no limit.
  std::uint32_t processors = 0;
  /// The control group that has it, as this process sees it: "/job/container". Empty: no limit.
  std::string group;
  friend bool operator==(const CpuLimit&, const CpuLimit&) = default;
};

/// The least limit of the control groups that this process is in, `cpu.max` of version 2
/// (Documentation/admin-guide/cgroup-v2.rst of Linux) and `cpu.cfs_quota_us` of version 1
/// (Documentation/scheduler/sched-bwc.rst). What cannot be read is no limit.
[[nodiscard]] CpuLimit cpu_limit_of_process(const DiscoverySources& sources = {});

}  // namespace weft
