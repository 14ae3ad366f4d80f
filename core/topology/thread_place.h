// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Where memory lies that a thread touches first, or has made: near the CPU that it runs on.
#pragma once

#include <memory>
#include <sched.h>
#include <span>

#include "core/topology/topology.h"

namespace weft {

/// While it lives, the calling thread runs on those of its CPUs that are among `cpus`; threads that
/// it starts meanwhile stay there. Where it may run on none of them, `cpus` is empty, or the system
/// refuses, it stays where it is: memory is slower then, and nothing else.
class ThreadPlace {
 public:
  explicit ThreadPlace(std::span<const CpuRange> cpus);
  ThreadPlace(const ThreadPlace&) = delete;
  ThreadPlace& operator=(const ThreadPlace&) = delete;
  ~ThreadPlace();

 private:
  struct FreeCpuSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  std::unique_ptr<cpu_set_t, FreeCpuSet> before_;  // null: it was not moved
};

}  // namespace weft
