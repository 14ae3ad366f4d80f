// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/thread_place.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

constexpr std::uint32_t kMostCpus = 8192;

}  // namespace

ThreadPlace::ThreadPlace(std::span<const CpuRange> cpus) {
  if (cpus.empty()) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  std::unique_ptr<cpu_set_t, FreeCpuSet> before(CPU_ALLOC(kMostCpus));
  const std::unique_ptr<cpu_set_t, FreeCpuSet> near(CPU_ALLOC(kMostCpus));
  if (!before || !near) return;
  CPU_ZERO_S(bytes, before.get());
  CPU_ZERO_S(bytes, near.get());
  if (sched_getaffinity(0, bytes, before.get()) != 0) return;
  for (const CpuRange& range : cpus) {
    const std::uint32_t end = std::min(range.last, kMostCpus - 1);
    for (std::uint32_t cpu = range.first; cpu <= end; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, before.get())) CPU_SET_S(cpu, bytes, near.get());
  }
  if (CPU_COUNT_S(bytes, near.get()) == 0 || CPU_EQUAL_S(bytes, near.get(), before.get())) return;
  if (sched_setaffinity(0, bytes, near.get()) == 0) before_ = std::move(before);
}

ThreadPlace::~ThreadPlace() {
  if (before_) static_cast<void>(sched_setaffinity(0, CPU_ALLOC_SIZE(kMostCpus), before_.get()));
}

}  // namespace weft
