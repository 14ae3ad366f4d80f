// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Instantiates the kernels for the host's policies.
#include <chrono>
#include <thread>

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

KernelOutcome HostMemory::why_leave(const DirectPeers& peers) const {
  if (aborted()) return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
  for (std::uint32_t rank = 0; rank < peers.ranks; ++rank) {
    if (peers.error[rank] == nullptr) continue;
    const auto word =
        std::atomic_ref<std::uint32_t>(*peers.error[rank]).load(std::memory_order_acquire);
    if (word != 0) {
      return {.end = KernelEnd::kPeerError, .peer = rank, .expected = 0, .found = word};
    }
  }
  return {};
}

// Nobody wakes who waits for several counters, or for a line: long waits are naps.
KernelOutcome HostMemory::pause(std::uint32_t turn) {
  constexpr std::uint32_t kSpins = 64;
  constexpr std::uint32_t kYields = 256;
  constexpr std::chrono::microseconds kNap(50);
  if (turn < kSpins) {
    cpu_relax();
    return {};
  }
  if (aborted()) return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
  if (launch_.progress != nullptr && launch_.progress(launch_.progress_context, false)) return {};
  if (turn < kSpins + kYields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

KernelOutcome HostMemory::keep_waiting(std::uint32_t turn, const DirectPeers& peers) {
  constexpr std::uint32_t kLooksBetweenQuestions = 64;
  if (turn % kLooksBetweenQuestions == kLooksBetweenQuestions - 1) {
    const KernelOutcome why = why_leave(peers);
    if (why.end != KernelEnd::kDone) return why;
  }
  return pause(turn);
}

KernelOutcome run_on_host(const WorkItem& item, HostMemory& memory) {
  SingleLane group;
  HostReduction reduction;
  if (reduces(item.operation)) {
    if (!reducible(item.type, item.reduction)) return unsupported();
    reduction = HostReduction(memory.loops(), item.type, item.reduction, item.ranks);
  }
  if (item.direct != nullptr) {
    return run_direct_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction, 0, 1);
  }
  return run_work_item(group, memory, item, reduction);
}

}  // namespace weft::device
