// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What kernels over several connections have in common: a slot of any of them is waited for,
// filled, checked and given back, each by its number within the call.
//
// Model: tests/models/step_fifo.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/slot_check.h"
#include "core/model/connection_view.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Base of one rank's walk over its connections. All lanes make the same one and the same calls.
/// What answers false ends the kernel: outcome() says why, in full on the leader, with `end` alone
/// on other lanes.
template <class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class EdgeWalk {
 protected:
  WEFT_HD EdgeWalk(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction,
                   std::uint32_t element_bytes)
      : group_(group),
        memory_(memory),
        item_(item),
        reduction_(reduction),
        element_bytes_(element_bytes) {}

  // A rank's input is read by one of these, once: there it is multiplied, if the reduction asks for
  // that.

  WEFT_HD void take_input(std::byte* to, const std::byte* input, std::uint64_t count) {
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        memory_.premultiply_copy(reduction_, group_, to, input, count);
        return;
      }
    }
    memory_.copy(group_, to, nullptr, input, count * element_bytes_);
  }

  WEFT_HD void add_input(std::byte* to, const std::byte* arrived, const std::byte* input,
                         std::uint64_t count) {
    add_input(to, nullptr, arrived, input, count);
  }
  /// To both; `second` may be null.
  WEFT_HD void add_input(std::byte* first, std::byte* second, const std::byte* arrived,
                         const std::byte* input, std::uint64_t count) {
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        memory_.premultiply_reduce(reduction_, group_, first, second, arrived, input, count, false);
        return;
      }
    }
    memory_.reduce(reduction_, group_, first, second, arrived, input, count);
  }

  // `number`: of the slots of a connection that the call uses, from 0 on.

  WEFT_HD static std::byte* slot(const ConnectionView& view, std::uint64_t number) {
    return view.buffer +
           std::uint64_t{slot_index(view.cursor->step + number, view.steps)} * view.step_bytes;
  }

  /// Waits until the slot may be filled. Of the leader alone is what the cursor has seen.
  WEFT_HD bool await_free(const ConnectionView& to, std::uint64_t number) {
    const std::uint64_t step = to.cursor->step + number;
    std::uint64_t verdict = 0;
    if (group_.leader() && to.cursor->seen_head + to.steps <= step) {
      const WaitResult result =
          memory_.wait_at_least(to.head, to.head_waiters, step + 1 - to.steps, to.error);
      if (result.status == WaitStatus::kReady) {
        to.cursor->seen_head = result.value;
      } else {
        verdict = note(end_of_wait(result, to.peer));
      }
    }
    return go_on(group_.broadcast(verdict));
  }

  /// Waits for `bytes` bytes of this call and answers where in the slot they begin.
  WEFT_HD bool await_filled(const ConnectionView& from, std::uint64_t number, std::uint32_t bytes,
                            std::uint32_t& offset) {
    const std::uint64_t step = from.cursor->step + number;
    std::uint64_t verdict = 0;
    if (group_.leader()) {
      const WaitResult result =
          memory_.wait_at_least(from.tail, from.tail_waiters, step + 1, from.error);
      if (result.status != WaitStatus::kReady) {
        verdict = note(end_of_wait(result, from.peer));
      } else {
        // Copied once: what is checked is what is used, even if the peer goes on writing.
        const SlotMeta meta = from.slots[slot_index(step, from.steps)];
        const KernelOutcome wrong = check_slot(meta, from, item_.tag, bytes);
        verdict = wrong.end == KernelEnd::kDone ? meta.offset : note(wrong);
      }
    }
    verdict = group_.broadcast(verdict);
    offset = static_cast<std::uint32_t>(verdict);
    return go_on(verdict);
  }

  WEFT_HD void pass_on(const ConnectionView& to, std::uint64_t number, std::uint32_t bytes) {
    if (!group_.leader()) return;
    const std::uint64_t step = to.cursor->step + number;
    to.slots[slot_index(step, to.steps)] = SlotMeta{.size = bytes, .offset = 0, .tag = item_.tag};
    memory_.post(to.tail, to.tail_waiters, step + 1);
  }

  /// All slots up to this one.
  WEFT_HD void give_back(const ConnectionView& from, std::uint64_t number) {
    if (!group_.leader()) return;
    memory_.post(from.head, from.head_waiters, from.cursor->step + number + 1);
  }

  [[nodiscard]] WEFT_HD const KernelOutcome& outcome() const { return outcome_; }

  /// Why this lane must end; of the leader the verdict for all.
  WEFT_HD std::uint64_t note(const KernelOutcome& outcome) {
    outcome_ = outcome;
    return static_cast<std::uint64_t>(outcome.end) << 32;
  }

  /// Whether the leader's verdict is to go on.
  WEFT_HD bool go_on(std::uint64_t verdict) {
    if ((verdict >> 32) == 0) return true;
    outcome_.end = static_cast<KernelEnd>(verdict >> 32);
    return false;
  }

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes): of one kernel, in two files
  Group& group_;
  Memory& memory_;
  const WorkItem& item_;
  const Reduction reduction_;
  const std::uint32_t element_bytes_;
  // NOLINTEND(misc-non-private-member-variables-in-classes)

 private:
  KernelOutcome outcome_;
};

}  // namespace weft::device
