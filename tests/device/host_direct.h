// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks on CPUs that write into each other's memory, a thread each: calls in a row, and all-reduces
// compared with what each element must be.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/host_memory.h"
#include "tests/device/direct_world.h"
#include "tests/device/narrow_sums.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {

/// By the number of ranks.
class HostDirect : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  using Outcomes = std::vector<KernelOutcome>;  // by rank

  /// Runs `calls[c][r]` on a thread for each rank r, which goes from call to call on its own until
  /// one ends badly. A rank that is left out at the end of a list does not come.
  std::vector<Outcomes> run_calls(const std::vector<std::vector<WorkItem>>& calls) {
    const std::size_t ranks = calls.front().size();
    std::vector<Outcomes> outcomes(calls.size(), Outcomes(ranks));
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        Launch launch;
        launch.abort = &abort_;
        const std::atomic<std::uint32_t> failed{0};
        Waiter waiter;
        if (rank > 0) std::this_thread::sleep_for(late_);
        for (std::size_t call = 0; call < calls.size(); ++call) {
          HostMemory memory(best_element_loops(), waiter, launch, failed);
          outcomes[call][rank] = run_on_host(calls[call][rank], memory);
          if (outcomes[call][rank].end != KernelEnd::kDone) return;
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    return outcomes;
  }
  Outcomes run(const std::vector<WorkItem>& items) { return run_calls({items}).front(); }

  /// Input and output of each rank lie `shift` bytes behind a multiple of 64; what lies around the
  /// output is checked to be left alone. Of kPremulSum each rank's factor is its number plus 1.
  template <class T>
  void all_reduce(DirectWorld& world, std::uint64_t count, std::size_t shift, bool in_place,
                  weft_reduction reduction = WEFT_SUM) {
    const std::uint32_t ranks = GetParam();
    const std::uint64_t sequence = sequence_++;
    const bool multiplies = reduction == kPremulSum;
    constexpr std::byte kGuard{77};
    const std::size_t bytes = count * sizeof(T);
    std::vector<std::vector<std::byte>> input(ranks, std::vector<std::byte>(bytes + 192, kGuard));
    std::vector<std::vector<std::byte>> output = input;
    const Task task{.type = kTypeOf<T>, .reduction = reduction, .count = count};
    std::vector<WorkItem> items;
    const auto place = [&](std::vector<std::byte>& buffer) {
      const std::size_t beyond = reinterpret_cast<std::uintptr_t>(buffer.data()) % 64;
      return buffer.data() + (64 - beyond) % 64 + shift;
    };
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::byte* const to = place(output[rank]);
      std::byte* const from = in_place ? to : place(input[rank]);
      for (std::uint64_t i = 0; i < count; ++i) {
        const T value = multiplies ? as_element<T>(1) : sample<T>(rank, i + sequence, reduction);
        std::memcpy(from + i * sizeof(T), &value, sizeof(value));
      }
      items.push_back(item_of(world, rank, task, sequence, from, to));
      const T factor = as_element<T>(static_cast<std::int32_t>(rank + 1));
      std::memcpy(&items.back().factor.bits, &factor, sizeof(factor));
    }
    for (const KernelOutcome& outcome : run(items))
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
    const T sum_of_factors = as_element<T>(static_cast<std::int32_t>(ranks * (ranks + 1) / 2));
    std::vector<T> due;
    for (std::uint64_t i = 0; i < count; ++i) {
      due.push_back(multiplies ? sum_of_factors
                               : expected_sample<T>(ranks, i + sequence, reduction));
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::byte* const begin = place(output[rank]);
      std::vector<std::byte> wanted(output[rank].size(), kGuard);
      std::memcpy(wanted.data() + (begin - output[rank].data()), due.data(), bytes);
      if (same_bits(output[rank].data(), wanted.data(), wanted.size())) continue;
      for (std::uint64_t i = 0; i < count; ++i) {
        T found;
        std::memcpy(&found, begin + i * sizeof(T), sizeof(T));
        ASSERT_EQ(found, due[i]) << "rank " << rank << ", element " << i << " of " << count
                                 << ", shift " << shift << (in_place ? ", in place" : "");
      }
      for (const std::byte* at = output[rank].data(); at < begin; ++at)
        ASSERT_EQ(*at, kGuard);
      for (const std::byte* at = begin + bytes; at < output[rank].data() + output[rank].size();
           ++at)
        ASSERT_EQ(*at, kGuard);
    }
  }

  /// One call of narrow floats, of as many elements as make a loop's vectors and more: by the
  /// share of a rank that `item` makes.
  template <class T, class Item>
  void narrow(const NarrowCall& call, const Item& item) {
    const std::uint64_t sequence = sequence_++;
    check_narrow<T>(
        call,
        [&](std::uint32_t rank, const Task& task, const void* send, void* recv) {
          return item(rank, task, sequence, send, recv);
        },
        [this](const std::vector<WorkItem>& items) { return run(items); });
  }

  /// So many all-reduces of `count` elements in place, in a row: a rank may be a call ahead of
  /// another, which must still find what it was sent. `item(call, rank, task, own)` makes the share
  /// of a rank.
  template <class Item>
  void sum_in_a_row(std::uint32_t calls, std::uint64_t count, const Item& item) {
    const std::uint32_t ranks = GetParam();
    std::vector<std::vector<std::int32_t>> output(ranks, std::vector<std::int32_t>(calls * count));
    std::vector<std::vector<WorkItem>> items(calls);
    for (std::uint32_t call = 0; call < calls; ++call) {
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        std::int32_t* const own = output[rank].data() + call * count;
        std::fill(own, own + count, static_cast<std::int32_t>(call + rank));
        items[call].push_back(item(call, rank, {.type = WEFT_INT32, .count = count}, own));
      }
    }
    for (const Outcomes& call : run_calls(items)) {
      for (const KernelOutcome& outcome : call)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint64_t i = 0; i < calls * count; ++i) {
        ASSERT_EQ(output[rank][i],
                  static_cast<std::int32_t>(ranks * (i / count) + ranks * (ranks - 1) / 2))
            << "rank " << rank << ", call " << i / count;
      }
    }
  }

  /// A rank's share of an all-reduce.
  virtual WorkItem item_of(const DirectWorld& world, std::uint32_t rank, const Task& task,
                           std::uint64_t sequence, const void* send, void* recv) = 0;

  std::atomic<std::uint32_t> abort_{0};
  std::chrono::milliseconds late_{0};  // all ranks but the first come so late
  std::uint64_t sequence_ = 0;
};

}  // namespace weft::device::testing
