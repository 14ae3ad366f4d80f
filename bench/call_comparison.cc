// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What it costs that calls are compared across ranks: what a call notes of itself, what its kernel
// stores beside the payload and what it checks of that which came. The functions are those of an
// 8-byte all-reduce between two ranks on the host device; nothing but the comparison is measured.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <benchmark/benchmark.h>

#include "core/base/wait.h"
#include "core/comm/call_history.h"
#include "core/device/slot_check.h"
#include "core/model/connection_view.h"
#include "core/model/operation.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft {
namespace {

Task small_sum() {
  return {.operation = Operation::kAllReduce,
          .type = WEFT_FLOAT32,
          .reduction = WEFT_SUM,
          .root = 0,
          .count = 2};
}

OperationTag note_call(CallHistory& history, const Task& task) {
  return make_operation_tag(task, history.add(task));
}

// The loop itself, to be taken off the others.
void nothing(benchmark::State& state) {
  Task task = small_sum();
  for (auto _ : state)
    benchmark::DoNotOptimize(task);
}
BENCHMARK(nothing);

void note_of_a_call(benchmark::State& state) {
  CallHistory history;
  Task task = small_sum();
  for (auto _ : state) {
    benchmark::DoNotOptimize(task);
    benchmark::DoNotOptimize(note_call(history, task));
  }
}
BENCHMARK(note_of_a_call);

// Of the direct one-shot, which carries calls of 8 B where memory joins the ranks: the tag stands
// in the header that is posted anyway (core/device/host/host_one_shot.h).
void one_shot(benchmark::State& state) {
  CallHistory history;
  Task task = small_sum();
  WorkItem item;
  DirectHeader header{};
  bool alike = true;
  for (auto _ : state) {
    benchmark::DoNotOptimize(task);
    item.tag = note_call(history, task);
    header.tag = item.tag;
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(header);
    alike = alike && header.tag == item.tag;
  }
  if (!alike) state.SkipWithError("tags differ");
}
BENCHMARK(one_shot);

// Of a ring, two steps a rank: the tag stands beside the slot's size.
void ring_of_two(benchmark::State& state) {
  CallHistory history;
  Task task = small_sum();
  WorkItem item;
  SlotMeta slots[2] = {};
  ConnectionView from;
  from.step_bytes = 64 << 10;
  bool alike = true;
  for (auto _ : state) {
    benchmark::DoNotOptimize(task);
    item.tag = note_call(history, task);
    for (SlotMeta& slot : slots) {
      slot = {.size = 4, .offset = 0, .tag = item.tag};
      benchmark::ClobberMemory();
      benchmark::DoNotOptimize(slot);
      alike = alike && device::check_slot(slot, from, item.tag, 4).end == KernelEnd::kDone;
    }
  }
  if (!alike) state.SkipWithError("tags differ");
}
BENCHMARK(ring_of_two);

// Two threads that hand each other headers with 8 bytes behind them, as the one-shot does, without
// and with the whole comparison: what it adds to a round where both have a processor.
template <bool kCompares>
void round_of_two_threads(benchmark::State& state) {
  struct alignas(64) Box {
    DirectHeader header{};
    std::uint64_t payload = 0;
  };
  struct Side {
    CallHistory history;
    Box boxes[2];
  };
  static Side sides[2];
  static constexpr std::uint64_t kLast = UINT64_MAX;
  for (Side& side : sides)
    std::memset(static_cast<void*>(side.boxes), 0, sizeof(side.boxes));
  // Answers whether to go on.
  const auto exchange = [](std::uint32_t self, std::uint64_t call, Task& task) {
    Side& mine = sides[self];
    benchmark::DoNotOptimize(task);
    OperationTag tag = 0;
    if constexpr (kCompares) tag = note_call(mine.history, task);
    Box& to = sides[1 - self].boxes[call % 2];
    to.payload = call;
    if constexpr (kCompares) to.header.tag = tag;
    post(&to.header.call, &to.header.waiters, call);
    Box& from = mine.boxes[call % 2];
    std::uint64_t seen = 0;
    while ((seen = load_counter(&from.header.call)) < call)
      cpu_relax();
    benchmark::DoNotOptimize(from.payload);
    if constexpr (kCompares) {
      if (from.header.tag != tag && seen != kLast) std::abort();
    }
    return seen != kLast;
  };
  std::thread other([&] {
    Task task = small_sum();
    for (std::uint64_t call = 1; exchange(1, call, task); ++call) {
    }
  });
  Task task = small_sum();
  std::uint64_t call = 0;
  for (auto _ : state)
    exchange(0, ++call, task);
  for (Box& box : sides[1].boxes)
    post(&box.header.call, &box.header.waiters, kLast);
  other.join();
}
BENCHMARK(round_of_two_threads<false>)->UseRealTime();
BENCHMARK(round_of_two_threads<true>)->UseRealTime();

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
