// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What it costs that calls are compared across ranks: what a call notes of itself, what its kernel
// stores beside the payload and what it checks of that which came. The functions are those of an
// 8-byte all-reduce between two ranks on the host device; nothing but the comparison is measured.
#include <cstdint>

#include <benchmark/benchmark.h>

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
  const std::uint64_t sequence = history.add(task);
  return make_operation_tag(task, sequence, history.past());
}

// The loop itself, to be taken off the others.
void nothing(benchmark::State& state) {
  Task task = small_sum();
  while (state.KeepRunning())
    benchmark::DoNotOptimize(task);
}
BENCHMARK(nothing);

void note_of_a_call(benchmark::State& state) {
  CallHistory history;
  Task task = small_sum();
  while (state.KeepRunning()) {
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
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(task);
    item.tag = note_call(history, task);
    header.tag = item.tag;
    header.count = task.count;
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(header);
    alike = alike && header.tag == item.tag && header.count == task.count;
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
  while (state.KeepRunning()) {
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

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
