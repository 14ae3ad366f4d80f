// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The policies that run the kernels' templates on symbolic elements: a group of one lane, memory
// that checks each access, and a reduction that notes who contributed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/device/policies.h"
#include "core/device/single_lane.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/buffers.h"
#include "tests/schedule_checker/connections.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/inboxes.h"
#include "tests/schedule_checker/report.h"
#include "tests/schedule_checker/staged_memory.h"

namespace weft::checker {

/// What the kernels of one execution share.
struct World {
  Report& report;
  Fibers& fibers;
  Expressions& expressions;
  Buffers& buffers;
  Connections* connections = nullptr;
  Inboxes* inboxes = nullptr;
  StagedMemory* staged = nullptr;
  std::uint32_t ranks = 0;
  /// The call that each rank is in, where others read its buffers.
  std::vector<std::optional<std::uint32_t>> under_way{};
};

/// A kernel's memory. Whatever it finds wrong it reports, and ends the execution.
class SymbolicMemory {
 public:
  /// Few, for steps of several parts, and since stacks are small.
  static constexpr std::uint32_t kLineBytesAtOnce = 240;

  SymbolicMemory(World& world, const Actor& actor) : world_(world), actor_(actor) {}

  // device_memory
  [[nodiscard]] std::uint64_t load_acquire(std::uint64_t* counter);
  void store_release(std::uint64_t* counter, std::uint64_t value);
  [[nodiscard]] device::WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters,
                                                 std::uint64_t threshold, std::uint32_t* error);
  void post(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t value);
  // Whoever fails has reported why, and that ends all.
  static void give_up(std::uint32_t* /*word*/, std::uint32_t /*reason*/) {}
  [[nodiscard]] static std::uint32_t load_word(const std::uint32_t* word) { return *word; }
  void store_word(std::uint32_t* word, std::uint32_t value) {
    *word = value;
    world_.fibers.changed();
  }
  [[nodiscard]] KernelOutcome pause(std::uint32_t turn);
  [[nodiscard]] device::Line load_line(const std::byte* from);
  void store_line(std::byte* to, device::Line line);
  void copy(device::SingleLane& group, std::byte* first, std::byte* second, const std::byte* source,
            std::uint64_t bytes);
  template <class R>
  void reduce(const R& reduction, device::SingleLane& /*group*/, std::byte* first,
              std::byte* second, const std::byte* a, const std::byte* b, std::uint64_t count) {
    reduce_each(first, second, a, b, count,
                [&](Value x, Value y) { return reduction.combine(x, y); });
  }
  template <class R>
  void finish(const R& reduction, device::SingleLane& group, std::byte* first, std::byte* second,
              std::uint64_t count);

  // may_premultiply
  template <class R>
  void premultiply_copy(const R& reduction, device::SingleLane& group, std::byte* to,
                        const std::byte* input, std::uint64_t count);
  template <class R>
  void premultiply_reduce(const R& reduction, device::SingleLane& group, std::byte* first,
                          std::byte* second, const std::byte* other, const std::byte* input,
                          std::uint64_t count, bool input_first);

  // reads_peers
  [[nodiscard]] KernelOutcome read_peer(const ConnectionView& view, std::byte* to,
                                        std::uint64_t address, std::uint64_t bytes);

  // multicast_memory
  template <class R>
  [[nodiscard]] device::Line reduce_load(const R& reduction, const MulticastView& view,
                                         std::uint64_t at);
  void store_all(const MulticastView& view, std::uint64_t at, device::Line line);
  static void join_addresses() {}

  // flagged_memory
  [[nodiscard]] device::Line load_words(const std::byte* from);
  void store_words(std::byte* to, device::Line line);
  static void fence() {}
  [[nodiscard]] bool look_again(std::uint32_t turn) {
    world_.fibers.perhaps_yield();
    return turn == 0;
  }
  [[nodiscard]] KernelOutcome keep_waiting(std::uint32_t turn, const DirectPeers& peers);
  [[nodiscard]] KernelOutcome why_leave(const DirectPeers& peers) const;

  /// `a` with `b`, or nothing where they cannot be combined.
  [[nodiscard]] Value combine(Value a, Value b);
  [[nodiscard]] Value finished(Value value);
  [[nodiscard]] Value premultiplied(Value value);
  /// One element of the caller's buffers.
  [[nodiscard]] Value load_element(const std::byte* from);
  void store_element(std::byte* to, Value value);

 private:
  template <class Combine>
  void reduce_each(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b,
                   std::uint64_t count, Combine combine);
  /// Whether all of it may be read, or written, by this kernel now.
  [[nodiscard]] bool may_read(const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool may_write(const std::byte* at, std::uint64_t bytes);
  /// So many bytes of elements were written there, which is another hop.
  void sent(const std::byte* at, std::uint64_t bytes);
  /// What an element gains by being written there.
  [[nodiscard]] std::uint32_t hops_to(const std::byte* at) const;
  [[nodiscard]] bool is_something(Value value);
  void wrong(Rule rule, std::string_view what);
  void stop_if_wrong();

  World& world_;
  const Actor actor_;
};

/// Stands for any reduction of 8-byte elements, of one kernel.
class SymbolicReduction {
 public:
  SymbolicReduction(SymbolicMemory& memory, bool averages, bool premultiplies)
      : memory_(&memory), averages_(averages), premultiplies_(premultiplies) {}

  static constexpr std::uint32_t element_bytes() { return sizeof(Value); }
  [[nodiscard]] bool finishes() const { return averages_; }
  [[nodiscard]] bool premultiplies() const { return premultiplies_; }
  [[nodiscard]] Value combine(Value a, Value b) const { return memory_->combine(a, b); }
  [[nodiscard]] Value finish(Value value) const { return memory_->finished(value); }
  [[nodiscard]] std::uint64_t combine_payloads(std::uint64_t a, std::uint64_t b) const {
    return combine(a, b);
  }
  [[nodiscard]] std::uint64_t finish_payload(std::uint64_t payload) const {
    return averages_ ? finish(payload) : payload;
  }
  [[nodiscard]] std::uint64_t load_payload(const std::byte* from, std::uint64_t /*bytes*/) const {
    return memory_->load_element(from);
  }
  void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t /*bytes*/) const {
    memory_->store_element(to, payload);
  }

 private:
  SymbolicMemory* memory_;
  bool averages_;
  bool premultiplies_;
};

// Words that no rank has staged lie behind the elements. The order is that of a switch, and no
// promise.
template <class R>
device::Line SymbolicMemory::reduce_load(const R& reduction, const MulticastView& view,
                                         std::uint64_t at) {
  const auto word = [&](std::uint64_t place) -> Value {
    if (world_.fibers.stopped() || !world_.staged->may_touch_all(actor_, place)) return {};
    const auto staged = world_.staged->staged(actor_, place);
    if (staged == StagedMemory::Staged::kByNone) return {};
    if (staged == StagedMemory::Staged::kBySome) {
      wrong(Rule::kReadTooEarly, "combines what not all ranks have staged");
      return {};
    }
    Value sum = world_.staged->value(view.ranks - 1, place);
    for (std::uint32_t rank = view.ranks - 1; rank-- > 0;)
      sum = reduction.combine(sum, world_.staged->value(rank, place));
    return (reduction.finishes() ? reduction.finish(sum) : sum) + 1;  // a hop
  };
  const device::Line line{.low = word(at), .high = word(at + sizeof(Value))};
  stop_if_wrong();
  world_.fibers.perhaps_yield();
  return line;
}

template <class Combine>
void SymbolicMemory::reduce_each(std::byte* first, std::byte* second, const std::byte* a,
                                 const std::byte* b, std::uint64_t count, Combine combine) {
  const std::uint64_t bytes = count * sizeof(Value);
  if (count == 0 || !may_read(a, bytes) || !may_read(b, bytes) || !may_write(first, bytes) ||
      (second != nullptr && !may_write(second, bytes))) {
    return;
  }
  const std::uint32_t first_hops = hops_to(first);
  const std::uint32_t second_hops = second == nullptr ? 0 : hops_to(second);
  if (second_hops != 0) sent(second, bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Value value =
        combine(reinterpret_cast<const Value*>(a)[i], reinterpret_cast<const Value*>(b)[i]);
    reinterpret_cast<Value*>(first)[i] = value + first_hops;
    if (second != nullptr) reinterpret_cast<Value*>(second)[i] = value + second_hops;
  }
}

template <class R>
void SymbolicMemory::premultiply_copy(const R& /*reduction*/, device::SingleLane& /*group*/,
                                      std::byte* to, const std::byte* input, std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(Value);
  if (count == 0 || !may_read(input, bytes) || !may_write(to, bytes)) return;
  const std::uint32_t hops = hops_to(to);
  if (hops != 0) sent(to, bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Value value = premultiplied(reinterpret_cast<const Value*>(input)[i]);
    reinterpret_cast<Value*>(to)[i] = value + hops;
  }
}

template <class R>
void SymbolicMemory::premultiply_reduce(const R& reduction, device::SingleLane& /*group*/,
                                        std::byte* first, std::byte* second, const std::byte* other,
                                        const std::byte* input, std::uint64_t count,
                                        bool input_first) {
  reduce_each(first, second, other, input, count, [&](Value x, Value y) {
    const Value own = premultiplied(y);
    return input_first ? reduction.combine(own, x) : reduction.combine(x, own);
  });
}

template <class R>
void SymbolicMemory::finish(const R& reduction, device::SingleLane& /*group*/, std::byte* first,
                            std::byte* second, std::uint64_t count) {
  const std::uint64_t bytes = count * sizeof(Value);
  if (count == 0 || !may_read(first, bytes) || !may_write(first, bytes) ||
      (second != nullptr && !may_write(second, bytes))) {
    return;
  }
  const std::uint32_t second_hops = second == nullptr ? 0 : hops_to(second);
  if (second_hops != 0) sent(second, bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    Value& value = reinterpret_cast<Value*>(first)[i];
    value = reduction.finish(value);
    if (second != nullptr) reinterpret_cast<Value*>(second)[i] = value + second_hops;
  }
}

static_assert(device::device_memory<SymbolicMemory, device::SingleLane>);
static_assert(device::flagged_memory<SymbolicMemory>);

}  // namespace weft::checker
