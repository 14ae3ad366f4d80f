// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The policies that run the kernels' templates on symbolic elements: a group of one lane, memory
// that checks each access, and a reduction that notes who contributed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

class SymbolicMemory;
class SymbolicReduction;

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
  struct Combined {
    Expression left = kNothing;
    Expression right = kNothing;
    Expression both = kNothing;
  };
  /// What was combined last, soundly: all elements of a step are combined alike.
  Combined latest{};
  /// Of kernels of several lanes: the memory of each fiber, and the execution under way, for what
  /// such kernels ask a type for that knows of neither.
  std::vector<SymbolicMemory*> lanes{};
  static inline World* running = nullptr;
};

/// A kernel's memory. Whatever it finds wrong it reports, and ends the execution.
///
/// Nothing of it is defined here: wrong kernels of the tests, which are not optimised, would
/// otherwise have it compiled so for all.
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
  void store_word(std::uint32_t* word, std::uint32_t value);
  bool replace_word(std::uint32_t* word, std::uint32_t expected, std::uint32_t desired);
  void yield();
  [[nodiscard]] KernelOutcome pause(std::uint32_t turn);
  [[nodiscard]] device::Line load_line(const std::byte* from);
  void store_line(std::byte* to, device::Line line);
  void copy(device::SingleLane& group, std::byte* first, std::byte* second, const std::byte* source,
            std::uint64_t bytes);
  void reduce(const SymbolicReduction& reduction, device::SingleLane& group, std::byte* first,
              std::byte* second, const std::byte* a, const std::byte* b, std::uint64_t count);
  void finish(const SymbolicReduction& reduction, device::SingleLane& group, std::byte* first,
              std::byte* second, std::uint64_t count);

  // may_premultiply
  void premultiply_copy(const SymbolicReduction& reduction, device::SingleLane& group,
                        std::byte* to, const std::byte* input, std::uint64_t count);
  void premultiply_reduce(const SymbolicReduction& reduction, device::SingleLane& group,
                          std::byte* first, std::byte* second, const std::byte* other,
                          const std::byte* input, std::uint64_t count, bool input_first);

  // reads_peers
  [[nodiscard]] KernelOutcome read_peer(const ConnectionView& view, std::byte* to,
                                        std::uint64_t address, std::uint64_t bytes);

  // multicast_memory
  [[nodiscard]] device::Line reduce_load(const SymbolicReduction& reduction,
                                         const MulticastView& view, std::uint64_t at);
  void store_all(const MulticastView& view, std::uint64_t at, device::Line line);
  static void join_addresses() {}

  // flagged_memory
  [[nodiscard]] device::Line load_words(const std::byte* from);
  void store_words(std::byte* to, device::Line line);
  static void fence() {}
  [[nodiscard]] bool look_again(std::uint32_t turn);
  [[nodiscard]] KernelOutcome keep_waiting(std::uint32_t turn, const DirectPeers& peers);
  [[nodiscard]] KernelOutcome why_leave(const DirectPeers& peers) const;

  /// `a` with `b`, or nothing where they cannot be combined.
  [[nodiscard]] Value combine(Value a, Value b);
  [[nodiscard]] Value finished(Value value);
  [[nodiscard]] Value premultiplied(Value value);
  /// One element of the caller's buffers.
  [[nodiscard]] Value load_element(const std::byte* from);
  void store_element(std::byte* to, Value value);

 protected:
  /// 8 bytes of a line: an element, or something else.
  void store_word_of_line(std::byte* to, std::uint64_t word);
  /// This lane's part of a line that has come.
  void take_line(const std::byte* from);

  /// What an address lies in.
  struct Place {
    enum class In : std::uint8_t { kNothing, kSlot, kInbox, kStaged, kBuffer, kStack };
    In in = In::kNothing;
    Connections::Slot slot{};
  };
  [[nodiscard]] Place find(const std::byte* at, std::uint64_t bytes) const;
  /// Whether all of it may be read, or written, by this kernel now.
  [[nodiscard]] bool may_read(const Place& place, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool may_read(const std::byte* at, std::uint64_t bytes) {
    return may_read(find(at, bytes), at, bytes);
  }
  [[nodiscard]] bool may_write(const Place& place, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool is_something(Value value) {
    return value >= kFirstSomething || report_nothing(value);
  }
  void wrong(Rule rule, std::string_view what);
  void stop_if_wrong();

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes)
  World& world_;
  const Actor actor_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)

 private:
  template <class Combine>
  void reduce_each(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b,
                   std::uint64_t count, Combine combine);
  /// So many bytes of elements were written there, which is another hop.
  void sent(const Place& place, std::uint64_t bytes);
  /// What an element gains by being written there.
  [[nodiscard]] std::uint32_t hops_to(const Place& place, const std::byte* at) const;
  /// Something changed there that its other end looks at.
  void changed(const Place& place, const std::byte* at);
  bool report_nothing(Value value);  // false
  [[nodiscard]] Value combine_others(Value a, Value b);
};

/// Stands for any reduction of 8-byte elements, of one kernel.
class SymbolicReduction {
 public:
  SymbolicReduction(SymbolicMemory& memory, bool averages, bool premultiplies)
      : memory_(&memory), averages_(averages), premultiplies_(premultiplies) {}

  static constexpr std::uint32_t element_bytes() { return sizeof(Value); }
  [[nodiscard]] bool finishes() const { return averages_; }
  [[nodiscard]] bool premultiplies() const { return premultiplies_; }
  [[nodiscard]] Value combine(Value a, Value b) const;
  [[nodiscard]] Value finish(Value value) const;
  [[nodiscard]] std::uint64_t combine_payloads(std::uint64_t a, std::uint64_t b) const;
  [[nodiscard]] std::uint64_t finish_payload(std::uint64_t payload) const;
  [[nodiscard]] std::uint64_t load_payload(const std::byte* from, std::uint64_t bytes) const;
  void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t bytes) const;

 private:
  SymbolicMemory* memory_;
  bool averages_;
  bool premultiplies_;
};

static_assert(device::device_memory<SymbolicMemory, device::SingleLane>);
static_assert(device::flagged_memory<SymbolicMemory>);

}  // namespace weft::checker
