// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The host's policies: memory ordered by std::atomic_ref, for a group of one lane.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "core/base/device_runtime.h"
#include "core/base/wait.h"
#include "core/device/host/element_loops.h"
#include "core/device/host/host_reduction.h"
#include "core/device/policies.h"
#include "core/device/single_lane.h"
#include "core/model/direct_peers.h"
#include "core/model/multicast.h"

namespace weft::device {

/// Made anew for each item; the Waiter belongs to the thread or stream that runs it.
class HostMemory {
 public:
  static constexpr bool kLendsPayloads = true;
  static constexpr std::uint32_t kLineBytesAtOnce = 1920;

  /// `failed` is raised when another item of the same launch ended badly. All outlive this.
  HostMemory(const ElementLoops& loops, Waiter& waiter, const Launch& launch,
             const std::atomic<std::uint32_t>& failed)
      : loops_(loops), waiter_(waiter), launch_(launch), failed_(failed) {}

  [[nodiscard]] static std::uint64_t load_acquire(std::uint64_t* counter) {
    return load_counter(counter);
  }
  static void store_release(std::uint64_t* counter, std::uint64_t value) {
    std::atomic_ref<std::uint64_t>(*counter).store(value, std::memory_order_release);
  }
  static void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value) {
    weft::post(counter, waiters, value);
  }

  static void fetch_to_read(const void* line) { __builtin_prefetch(line, 0); }
  static void fetch_to_write(void* line) { __builtin_prefetch(line, 1); }

  // The host tells the peers of a failure itself, and wakes them.
  static void give_up(std::uint32_t* /*word*/, std::uint32_t /*reason*/) {}

  [[nodiscard]] WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                         std::uint64_t threshold, std::uint32_t* error) {
    const std::uint64_t seen = load_counter(counter);
    if (seen >= threshold && !aborted()) [[likely]] {
      return {.status = WaitStatus::kReady, .value = seen};
    }
    return wait_slowly(counter, waiters, threshold, error);
  }

  [[nodiscard]] static std::uint32_t load_word(std::uint32_t* word) {
    return std::atomic_ref(*word).load(std::memory_order_acquire);
  }
  static void store_word(std::uint32_t* word, std::uint32_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
  static bool replace_word(std::uint32_t* word, std::uint32_t expected, std::uint32_t desired) {
    return std::atomic_ref(*word).compare_exchange_strong(expected, desired,
                                                          std::memory_order_acq_rel);
  }
  static void yield() { std::this_thread::yield(); }
  [[nodiscard]] KernelOutcome pause(std::uint32_t turn);

  [[nodiscard]] static Line load_line(const std::byte* from) {
    Line line;
    std::memcpy(&line, from, sizeof(line));
    return line;
  }
  static void store_line(std::byte* to, Line line) { std::memcpy(to, &line, sizeof(line)); }

  // A word arrives whole; words of a line are in no order.
  [[nodiscard]] static Line load_words(const std::byte* from) {
    auto* const words = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
    return {.low = std::atomic_ref(words[0]).load(std::memory_order_relaxed),
            .high = std::atomic_ref(words[1]).load(std::memory_order_relaxed)};
  }
  static void store_words(std::byte* to, Line line) {
    auto* const words = reinterpret_cast<std::uint64_t*>(to);
    std::atomic_ref(words[0]).store(line.low, std::memory_order_relaxed);
    std::atomic_ref(words[1]).store(line.high, std::memory_order_relaxed);
  }
  [[nodiscard]] bool look_again(std::uint32_t turn) const {
    if (turn >= waiter_.spins()) return false;
    cpu_relax();
    return true;
  }

  void copy(SingleLane&, std::byte* first, std::byte* second, const std::byte* source,
            std::uint64_t bytes) const {
    loops_.copy(first, second, source, bytes);
  }
  static void reduce(const HostReduction& reduction, SingleLane&, std::byte* first,
                     std::byte* second, const std::byte* a, const std::byte* b,
                     std::uint64_t count) {
    reduction.reduce(first, second, a, b, count);
  }
  static void finish(const HostReduction& reduction, SingleLane&, std::byte* first,
                     std::byte* second, std::uint64_t count) {
    reduction.finish(first, second, count);
  }
  static void premultiply_copy(const HostReduction& reduction, SingleLane&, std::byte* to,
                               const std::byte* input, std::uint64_t count) {
    reduction.premultiply_copy(to, input, count);
  }
  static void premultiply_reduce(const HostReduction& reduction, SingleLane&, std::byte* first,
                                 std::byte* second, const std::byte* other, const std::byte* input,
                                 std::uint64_t count, bool input_first) {
    reduction.premultiply_reduce(first, second, other, input, count, input_first);
  }
  static void accumulate(const HostReduction& reduction, SingleLane&, std::byte* first,
                         std::byte* second, const std::byte* const* from, std::uint32_t ranks,
                         std::uint32_t own, std::uint64_t count) {
    reduction.accumulate(first, second, from, ranks, own, count);
  }
  [[nodiscard]] KernelOutcome read_peer(const ConnectionView& view, std::byte* to,
                                        std::uint64_t address, std::uint64_t bytes);

  // What a switch would do, by loads and stores; what it gives is rounded before it is divided.
  // Nobody gains by it, so the host device has no such memory. It is for devices that stand in for
  // GPUs.
  [[nodiscard]] static Line reduce_load(const HostReduction& reduction, const MulticastView& view,
                                        std::uint64_t at) {
    const std::uint64_t count = sizeof(Line) / reduction.element_bytes();
    alignas(Line) std::byte sum[sizeof(Line)];
    if (reduction.accumulates()) {
      const std::byte* from[kMostDirectRanks];
      for (std::uint32_t rank = 0; rank < view.ranks; ++rank)
        from[rank] = view.each[rank] + at;
      reduction.accumulate_alone(sum, from, view.ranks, count);
    } else {
      std::memcpy(sum, view.each[0] + at, sizeof(sum));
      for (std::uint32_t rank = 1; rank < view.ranks; ++rank)
        reduction.reduce(sum, nullptr, sum, view.each[rank] + at, count);
    }
    if (reduction.finishes()) reduction.finish(sum, nullptr, count);
    return load_line(sum);
  }
  static void store_all(const MulticastView& view, std::uint64_t at, Line line) {
    for (std::uint32_t rank = 0; rank < view.ranks; ++rank)
      store_line(view.each[rank] + at, line);
  }
  static void join_addresses() {}
  [[nodiscard]] const ElementLoops& loops() const { return loops_; }

 private:
  [[nodiscard]] bool aborted() const {
    return (launch_.abort != nullptr && launch_.abort->load(std::memory_order_acquire) != 0) ||
           failed_.load(std::memory_order_acquire) != 0;
  }
  WaitResult wait_slowly(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t threshold,
                         std::uint32_t* error);

  const ElementLoops& loops_;
  Waiter& waiter_;
  const Launch& launch_;
  const std::atomic<std::uint32_t>& failed_;
};

/// Runs one item on the calling thread; blocks until it ends.
[[nodiscard]] KernelOutcome run_on_host(const WorkItem& item, HostMemory& memory);

}  // namespace weft::device
