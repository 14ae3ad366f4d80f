// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Instantiates the kernels for the host's policies.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/device/host/host_memory.h"
#include "core/device/host/host_one_shot.h"
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
  waiter_.expect_own_processor(launch_.own_processors);
  waiter_.expect_progress(launch_.waits_for_messages);
  const std::uint64_t seen = waiter_.wait(counter, waiters, threshold, leave, progress);
  if (aborted()) return {.status = WaitStatus::kAborted, .value = 0};
  if (seen >= threshold) return {.status = WaitStatus::kReady, .value = seen};
  return {.status = WaitStatus::kPeerError, .value = peer_error()};
}

// Nobody wakes who waits for several counters: long waits are naps. Where very many ranks have a
// processor between them, looks of those that wait take it from those that they wait for, and in an
// all-to-all each looks at what comes from each: so they become rarer by the square of the ranks.
KernelOutcome HostMemory::pause(std::uint32_t turn) {
  constexpr std::uint32_t kFewRanks = 32;  // of a processor
  constexpr std::uint32_t kMostTimes = 8;
  constexpr std::uint32_t kSpins = 64;
  constexpr std::uint32_t kYields = 256;
  constexpr std::chrono::microseconds kNap(50);
  const std::uint32_t times = std::clamp(launch_.ranks_per_processor / kFewRanks, 1U, kMostTimes);
  const std::uint32_t rarer = times * times;
  const std::uint32_t spins = times == 1 ? kSpins : 0;
  if (turn < spins) {
    cpu_relax();
    return {};
  }
  if (aborted()) return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
  if (launch_.progress != nullptr && launch_.progress(launch_.progress_context, false)) return {};
  if (turn < spins + kYields / rarer) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kNap * rarer);
  }
  return {};
}

// Takes as long as a copy does, and nobody looks for an abort meanwhile.
KernelOutcome HostMemory::read_peer(const ConnectionView& view, std::byte* to,
                                    std::uint64_t address, std::uint64_t bytes) {
  if (launch_.read_peer == nullptr) return {.end = KernelEnd::kUnsupported, .peer = view.peer};
  if (!aborted() && launch_.read_peer(launch_.progress_context, view.peer, to, address, bytes)) {
    std::atomic_thread_fence(std::memory_order_acquire);
    return {};
  }
  return {.end = KernelEnd::kAborted, .peer = view.peer, .expected = 0, .found = 0};
}

namespace {

// Apart, since it takes room on the stack.
[[gnu::noinline]] KernelOutcome run_gathering_pat(SingleLane& group, HostMemory& memory,
                                                  const WorkItem& item,
                                                  const HostReduction& reduction) {
  alignas(64) std::byte gathered[kMostGatheredBytes];
  return run_pat_item(group, memory, item, reduction, gathered);
}
KernelOutcome run_pat(SingleLane& group, HostMemory& memory, const WorkItem& item,
                      const HostReduction& reduction) {
  return item.gathers_inputs ? run_gathering_pat(group, memory, item, reduction)
                             : run_pat_item(group, memory, item, reduction, nullptr);
}

KernelOutcome run_with(const WorkItem& item, HostMemory& memory, const HostReduction& reduction) {
  SingleLane group;
  if (item.algorithm == Algorithm::kRing) return run_work_item(group, memory, item, reduction);
  if (item.algorithm == Algorithm::kTwoShot && item.direct != nullptr) {
    return run_two_shot_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction, 0, 1);
  }
  if (item.algorithm == Algorithm::kMulticast && item.direct != nullptr) {
    const MulticastView* const view = item.direct->multicast;
    if (view == nullptr || view->each == nullptr) return unsupported();
    return run_multicast_item(group, memory, item, *item.direct, *view, reduction, 0, 1);
  }
  if (item.direct != nullptr) {
    if (!host_one_shot_knows(item.operation) || item.count == 0 || item.direct->ranks < 2 ||
        !fits_inboxes(item, *item.direct, kMostDirectRanks)) {
      return unsupported();
    }
    return HostOneShot(group, memory, item, reduction).run();
  }
  if (item.algorithm == Algorithm::kTree) return run_tree_item(group, memory, item, reduction);
  if (item.algorithm == Algorithm::kPat) return run_pat(group, memory, item, reduction);
  if (item.algorithm == Algorithm::kChain) return run_chain_item(group, memory, item, reduction);
  return run_work_item(group, memory, item, reduction);
}

// Apart, since it takes a tile on the stack.
[[gnu::noinline]] KernelOutcome run_premultiplied(const WorkItem& item, HostMemory& memory) {
  const Premultiplier premultiplier(memory.loops(), item.type, item.factor);
  return run_with(item, memory,
                  HostReduction(memory.loops(), item.type, item.reduction, item.ranks,
                                &premultiplier, item.rounds_each));
}

}  // namespace

KernelOutcome run_on_host(const WorkItem& item, HostMemory& memory) {
  if (!reduces(item.operation)) return run_with(item, memory, HostReduction());
  if (!reducible(item.type, item.reduction)) return unsupported();
  if (item.reduction == kPremulSum) return run_premultiplied(item, memory);
  return run_with(item, memory,
                  HostReduction(memory.loops(), item.type, item.reduction, item.ranks, nullptr,
                                item.rounds_each));
}

}  // namespace weft::device
