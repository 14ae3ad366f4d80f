// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Instantiates the kernels for the host's policies.
#include "core/device/host/host_memory.h"
#include "core/device/work_item_kernel.h"

namespace weft::device {

WaitResult HostMemory::wait_slowly(std::uint64_t* counter, std::uint32_t* waiters,
                                   std::uint64_t threshold, std::uint32_t* error) {
  const auto peer_error = [error]() -> std::uint32_t {
    if (error == nullptr) return 0;
    return std::atomic_ref<std::uint32_t>(*error).load(std::memory_order_acquire);
  };
  const auto leave = [&] { return aborted() || peer_error() != 0; };
  const auto progress = [this](bool about_to_sleep) {
    return launch_.progress != nullptr &&
           launch_.progress(launch_.progress_context, about_to_sleep);
  };
  const std::uint64_t seen = waiter_.wait(counter, waiters, threshold, leave, progress);
  if (aborted()) return {.status = WaitStatus::kAborted, .value = 0};
  if (seen >= threshold) return {.status = WaitStatus::kReady, .value = seen};
  return {.status = WaitStatus::kPeerError, .value = peer_error()};
}

KernelOutcome run_on_host(const WorkItem& item, HostMemory& memory) {
  SingleLane group;
  return run_work_item(group, memory, item);
}

}  // namespace weft::device
