// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/windows.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace weft {

Window* Windows::add(void* base, std::uint64_t bytes, std::unique_ptr<SharedBuffer> shared) {
  windows_.push_back(std::make_unique<Window>(Window{.number = ++count_,
                                                     .base = static_cast<std::byte*>(base),
                                                     .bytes = bytes,
                                                     .shared = std::move(shared)}));
  return windows_.back().get();
}

bool Windows::remove(const Window* window) {
  return std::erase_if(windows_, [&](const auto& one) { return one.get() == window; }) != 0;
}

std::optional<WindowPlace> Windows::find(const void* memory, std::uint64_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  for (const auto& window : std::views::reverse(windows_)) {
    const auto base = reinterpret_cast<std::uintptr_t>(window->base);
    if (begin < base || begin - base > window->bytes || bytes > window->bytes - (begin - base)) {
      continue;
    }
    if (window->addresses().empty()) continue;
    return WindowPlace{.window = window.get(), .offset = begin - base};
  }
  return std::nullopt;
}

std::uint64_t copied_output(const Task& task, std::uint32_t ranks) {
  switch (task.operation) {
    case Operation::kAllGather:
    case Operation::kAllToAll:
      return task.bytes() * ranks;
    case Operation::kScatter:
      return task.bytes();
    case Operation::kBroadcast:
      // A root writes over its own link alone; to more than one rank a ring is the shorter way.
      return ranks == 2 ? task.bytes() : 0;
    default:
      return 0;
  }
}

void make_copies(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                 std::span<std::byte* const> addresses, std::uint64_t offset,
                 std::vector<PairTransfer>& copies) {
  const Task& task = call.task;
  const std::uint64_t bytes = task.bytes();
  const auto* const send = static_cast<const std::byte*>(call.send);
  if (has_root(task.operation) && rank != task.root) return;
  const bool has_blocks_to_send =
      task.operation == Operation::kAllToAll || task.operation == Operation::kScatter;
  const bool has_blocks_to_get =
      task.operation == Operation::kAllToAll || task.operation == Operation::kAllGather;
  for (std::uint32_t step = 1; step <= ranks; ++step) {
    const std::uint32_t to = (rank + step) % ranks;
    PairTransfer copy;
    copy.from = has_blocks_to_send ? send + to * bytes : send;
    copy.to = addresses[to] + offset + (has_blocks_to_get ? rank * bytes : 0);
    copy.bytes = bytes;
    copy.view.peer = to;
    if (copy.from != copy.to) copies.push_back(copy);
  }
}

std::uint64_t reduced_input(const Task& task, std::uint32_t ranks) {
  // Each rank multiplies its input by a factor of its own, which others do not know.
  if (task.reduction == kPremulSum) return 0;
  switch (task.operation) {
    case Operation::kAllReduce:
      return task.bytes();
    case Operation::kReduceScatter:
      return task.bytes() * ranks;
    case Operation::kReduce:
      // A root reads over its own link alone; of more than one rank a ring is the shorter way.
      return ranks == 2 ? task.bytes() : 0;
    default:
      return 0;
  }
}

WindowReduction make_window_reduction(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                                      const ReductionPlaces& places) {
  const Task& task = call.task;
  const std::uint64_t element_bytes = element_size(task.type);
  if (element_bytes == 0) return {};  // of no type: check_task() has refused it
  Extent range{.offset = 0, .count = task.count};
  if (task.operation == Operation::kAllReduce) {
    range = window_range(task.count, rank, ranks, element_bytes);
  } else if (task.operation == Operation::kReduceScatter) {
    range.offset = rank * task.count;
  } else if (rank != task.root) {
    range.count = 0;
  }
  WindowReduction made{.ranks = ranks,
                       .rank = rank,
                       .type = task.type,
                       .reduction = task.reduction,
                       .count = range.count};
  const std::uint64_t at = range.offset * element_bytes;
  const bool all = task.operation == Operation::kAllReduce;
  made.output = static_cast<std::byte*>(call.recv) + (all ? at : 0);
  for (std::uint32_t other = 0; other < ranks; ++other) {
    made.sources[other] = other == rank
                              ? static_cast<const std::byte*>(call.send) + at
                              : places.input.window->addresses()[other] + places.input.offset + at;
    if (!all || other == rank) continue;
    made.targets[other] = places.output.window->addresses()[other] + places.output.offset + at;
  }
  return made;
}

}  // namespace weft
