// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and receives of one rank, all at once: whatever can be moved is moved, a step at a time, so
// that no order in which ranks name their partners can lock them up.
//
// Model of steps and of what is lent: tests/models/step_fifo.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/pair_lines.h"
#include "core/device/pair_wide_lines.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/slot_check.h"
#include "core/model/pair_transfer.h"
#include "core/model/work_item.h"

namespace weft::device {

/// All lanes make the same one, over transfers in memory that all of them read and one writes.
template <class Group, class Memory>
  requires lane_group<Group> && device_memory<Memory, Group>
class PairBatch {
 public:
  WEFT_HD PairBatch(Group& group, Memory& memory, PairTransfer* transfers, std::uint32_t count)
      : group_(group), memory_(memory), transfers_(transfers), count_(count) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    std::uint32_t left = count_;
    for (std::uint32_t turn = 0; left != 0;) {
      bool moved = false;
      for (std::uint32_t i = 0; i < count_; ++i) {
        if (transfers_[i].complete != 0 || !may_begin(transfers_[i])) continue;
        bool advanced = false;
        if constexpr (tells_waits<Memory>) memory_.waits_in(transfers_[i]);
        if (!step(transfers_[i], left == 1, advanced)) return leave();
        if (!advanced) continue;
        moved = true;
        if (!is_over(transfers_[i])) continue;
        --left;
        complete(transfers_[i]);
      }
      turn = moved ? 0 : turn + 1;
      if (!moved && left != 0 && !may_go_on(turn)) return leave();
    }
    return outcome_;
  }

 private:
  WEFT_HD bool may_begin(const PairTransfer& transfer) const {
    return transfer.after == kNoTransfer || transfers_[transfer.after].complete != 0;
  }

  /// What was lent is the caller's again once the receiver has it all.
  WEFT_HD static bool is_over(const PairTransfer& transfer) {
    if (transfer.moved != transfer.bytes) return false;
    return transfer.payload != PairPayload::kLent || transfer.from == nullptr ||
           transfer.taken != 0;
  }

  /// Moves what can be moved of one step; waits for it where it is `alone`. False: the end.
  WEFT_HD bool step(PairTransfer& transfer, bool alone, bool& moved) {
    if (transfer.from != nullptr && transfer.to != nullptr) {
      memory_.copy(group_, transfer.to, nullptr, transfer.from, transfer.bytes);
      return advance(transfer, transfer.bytes, moved);
    }
    if (transfer.payload == PairPayload::kWideLines) {
      return step_of_wide_lines(transfer, alone, moved);
    }
    const bool lent = transfer.payload == PairPayload::kLent;
    if (transfer.payload != PairPayload::kSteps && !lent) {
      return step_of_lines(transfer, alone, moved);
    }
    const ConnectionView& view = transfer.view;
    const bool sends = transfer.from != nullptr;
    const std::uint64_t at = transfer.moved == 0 ? view.cursor->step : transfer.step;
    const std::uint64_t rest = transfer.bytes - transfer.moved;
    if (lent && rest == 0) return wait_until_taken(transfer, alone, moved);
    const std::uint64_t most = lent ? kLentStepBytes : view.step_bytes;
    const auto bytes = static_cast<std::uint32_t>(rest < most ? rest : most);
    const std::uint64_t verdict =
        group_.broadcast(group_.leader() ? look(transfer, at, bytes, alone) : 0);
    if (verdict == kNotYet) return true;
    if ((verdict >> 32) != 0) {
      outcome_.end = static_cast<KernelEnd>(verdict >> 32);
      return false;
    }
    const std::uint64_t slot = slot_index(at, view.steps);
    std::byte* const in_slot = view.buffer + slot * view.step_bytes;
    if (lent) {
      if (!lend_or_read(transfer, in_slot, bytes)) return false;
    } else if (sends) {
      memory_.copy(group_, in_slot, nullptr, transfer.from + transfer.moved, bytes);
    } else {
      memory_.copy(group_, transfer.to + transfer.moved, nullptr,
                   in_slot + static_cast<std::uint32_t>(verdict), bytes);
    }
    publish(view, sends, SlotMeta{.size = bytes, .offset = lent ? kLent : 0, .tag = transfer.tag},
            at);
    if (group_.leader()) transfer.step = at + 1;
    return advance(transfer, bytes, moved);
  }

  /// After what all lanes did; by others than the lanes, where the device has them.
  WEFT_HD void publish(const ConnectionView& view, bool sends, const SlotMeta& meta,
                       std::uint64_t at) {
    if constexpr (posts_apart<Memory, Group>) {
      StepPosts posts;
      if (sends) {
        posts = {.tail = view.tail,
                 .filled = at + 1,
                 .slot = view.slots + slot_index(at, view.steps),
                 .meta = meta,
                 .head = nullptr,
                 .freed = 0};
      } else {
        posts.head = view.head;
        posts.freed = at + 1;
      }
      memory_.publish(group_, posts);
    } else {
      group_.sync();
      if (!group_.leader()) return;
      if (!sends) return give_back(memory_, view.head, view.head_waiters, at + 1);
      view.slots[slot_index(at, view.steps)] = meta;
      memory_.post(view.tail, view.tail_waiters, at + 1);
    }
  }

  /// A step whose payload stays where it is, until the receiver reads it from there. What a peer
  /// says bounds nothing: the address is one of its own process, and how much is read the
  /// receiver's own call says.
  ///
  /// A sender whose call fails takes its memory back, and may write there. It has stored its error
  /// word before: so what was read counts only if that word is still zero afterwards.
  WEFT_HD bool lend_or_read(const PairTransfer& transfer, std::byte* in_slot, std::uint32_t bytes) {
    if constexpr (reads_peers<Memory>) {
      auto* const word = reinterpret_cast<std::uint64_t*>(in_slot);
      std::uint64_t verdict = 0;
      if (group_.leader() && transfer.from != nullptr) {
        const std::byte* const payload = transfer.from + transfer.moved;
        memory_.store_release(word, reinterpret_cast<std::uint64_t>(payload));
      } else if (group_.leader()) {
        verdict = read_lent(transfer, memory_.load_acquire(word), bytes);
      }
      verdict = group_.broadcast(verdict);
      if (verdict == 0) return true;
      outcome_.end = static_cast<KernelEnd>(verdict >> 32);
      return false;
    } else {
      outcome_.end = KernelEnd::kUnsupported;
      return false;
    }
  }

  /// Leader only: 0, or the end of the kernel in the upper half.
  WEFT_HD std::uint64_t read_lent(const PairTransfer& transfer, std::uint64_t address,
                                  std::uint32_t bytes) {
    const ConnectionView& view = transfer.view;
    const KernelOutcome read =
        memory_.read_peer(view, transfer.to + transfer.moved, address, bytes);
    if (read.end != KernelEnd::kDone) return note(read);
    const std::uint32_t told = view.error == nullptr ? 0 : memory_.load_word(view.error);
    return told == 0 ? 0 : note({.end = KernelEnd::kPeerError, .peer = view.peer, .found = told});
  }

  /// Of a send that was lent: until head has passed its last step.
  WEFT_HD bool wait_until_taken(PairTransfer& transfer, bool alone, bool& moved) {
    const std::uint64_t verdict = group_.broadcast(
        group_.leader() ? look_at_counter(transfer.view, transfer.view.head,
                                          transfer.view.head_waiters, transfer.step, alone)
                        : 0);
    if (verdict == kNotYet) return true;
    if (verdict != 0) {
      outcome_.end = static_cast<KernelEnd>(verdict >> 32);
      return false;
    }
    group_.sync();  // all lanes have read what the leader changes now
    if (group_.leader()) transfer.taken = 1;
    group_.sync();
    moved = true;
    return true;
  }

  WEFT_HD bool step_of_lines(PairTransfer& transfer, bool alone, bool& moved) {
    if constexpr (line_memory<Memory>) {
      PairLines<Group, Memory> lines(group_, memory_);
      const ConnectionView& view = transfer.view;
      const std::uint64_t at = view.cursor->step;
      if (!lines.fits(view, transfer.bytes)) {
        outcome_.end = KernelEnd::kUnsupported;
        return false;
      }
      const bool sends = transfer.from != nullptr;
      // The payload is on its way while the slot is looked at.
      const std::uint64_t word = sends ? lines.first_word(transfer) : 0;
      if (sends || !alone) {
        const std::uint64_t verdict =
            group_.broadcast(group_.leader() ? look_at_lines(lines, transfer, at, alone) : 0);
        if (verdict == kNotYet) return true;
        if ((verdict >> 32) != 0) {
          outcome_.end = static_cast<KernelEnd>(verdict >> 32);
          return false;
        }
      }
      if (sends) {
        lines.put(transfer, at, word);
      } else {
        outcome_ = lines.take(transfer, at);
        if (group_.any(outcome_.end != KernelEnd::kDone)) {
          // What made another lane leave is there to be seen still.
          if (group_.leader() && outcome_.end == KernelEnd::kDone) {
            outcome_ = lines.compare_header(transfer, at);
            if (outcome_.end == KernelEnd::kDone) outcome_ = why_left(view);
          }
          outcome_.end =
              static_cast<KernelEnd>(group_.broadcast(static_cast<std::uint64_t>(outcome_.end)));
          return false;
        }
        release_lines(view, at + 1);
      }
      if (group_.leader()) transfer.step = at + 1;
      return advance(transfer, transfer.bytes, moved);
    } else {
      outcome_.end = KernelEnd::kUnsupported;
      return false;
    }
  }

  /// As many steps as can be moved without a wait; where it is `alone`, as many as slots are given
  /// back at a time.
  WEFT_HD bool step_of_wide_lines(PairTransfer& transfer, bool alone, bool& moved) {
    if constexpr (has_pair_wide_lines<Group, Memory>) {
      PairWideLines<Group, Memory> lines(group_, memory_);
      const ConnectionView& view = transfer.view;
      const std::uint32_t room = lines.room(view);
      if (room == 0 || group_.size() % kWideLineLanes != 0 ||
          view.order_bytes < order_needed<Group, Memory>(group_, Protocol::kLL128)) {
        return end(KernelEnd::kUnsupported);
      }
      const bool sends = transfer.from != nullptr;
      const std::uint64_t at = transfer.moved == 0 ? view.cursor->step : transfer.step;
      std::uint64_t verdict = 0;
      if (sends) {
        if (group_.leader()) verdict = look_for_slots(view, at, alone);
      } else if (group_.rank() < group_.gang_size()) {
        verdict = look_for_header(lines, transfer, at, alone);
      }
      verdict = group_.broadcast(verdict);
      if (verdict == kNotYet) return true;
      if ((verdict >> 32) != 0) return end(static_cast<KernelEnd>(verdict >> 32));
      const std::uint64_t rest = transfer.bytes - transfer.moved;
      const std::uint64_t left = (rest + room - 1) / room;
      const auto most = static_cast<std::uint32_t>(verdict);
      const std::uint32_t steps = left < most ? static_cast<std::uint32_t>(left) : most;
      if (sends) {
        lines.put(transfer, at, steps);
      } else {
        const bool taken = lines.take(transfer, at, steps);
        if (group_.any(!taken)) {
          if (group_.leader()) {
            outcome_ = lines.outcome();
            if (outcome_.end == KernelEnd::kDone) outcome_ = why_left(view);
          }
          return end(
              static_cast<KernelEnd>(group_.broadcast(static_cast<std::uint64_t>(outcome_.end))));
        }
        if ((at + steps) % half_of(view) == 0) publish(view, false, {}, at + steps - 1);
      }
      if (group_.leader()) transfer.step = at + steps;
      const std::uint64_t bytes = std::uint64_t{steps} * room;
      return advance(transfer, rest < bytes ? rest : bytes, moved);
    } else {
      return end(KernelEnd::kUnsupported);
    }
  }

  /// By the leader's gang; its answer counts: as of look(), or how many steps to take.
  template <class Lines>
  WEFT_HD std::uint64_t look_for_header(Lines& lines, const PairTransfer& transfer,
                                        std::uint64_t at, bool alone) {
    const ConnectionView& view = transfer.view;
    const bool begun = lines.look_at_header(transfer, at, alone);
    if (!group_.leader()) return 0;
    if (lines.outcome().end != KernelEnd::kDone) return note(lines.outcome());
    if (!begun) return told_or_not_yet(view);
    return alone ? half_of(view) - at % half_of(view) : 1;
  }

  /// Leader only: as look_for_slot(), or how many are free. The peer's count may say of more than
  /// there are.
  WEFT_HD std::uint64_t look_for_slots(const ConnectionView& view, std::uint64_t at, bool alone) {
    const std::uint64_t verdict = look_for_slot(view, at, alone);
    if (verdict != 0) return verdict;
    const std::uint64_t free = view.cursor->seen_head + view.steps - at;
    return free < view.steps ? free : view.steps;
  }

  [[nodiscard]] WEFT_HD static std::uint32_t half_of(const ConnectionView& view) {
    return view.steps < 2 ? 1 : view.steps / 2;
  }

  WEFT_HD bool end(KernelEnd how) {
    outcome_.end = how;
    return false;
  }

  /// Slots are given back by halves of the connection: each time costs as much as a short message.
  /// Once all was taken, a sender has half of them free at least.
  WEFT_HD void release_lines(const ConnectionView& view, std::uint64_t taken) {
    if (!group_.leader() || taken % half_of(view) != 0) return;
    give_back(memory_, view.head, view.head_waiters, taken);
  }

  /// Leader only, as look(): of a send whether its slot is free, of a receive whether it has begun
  /// to come.
  template <class Lines>
  WEFT_HD std::uint64_t look_at_lines(Lines& lines, const PairTransfer& transfer, std::uint64_t at,
                                      bool alone) {
    const ConnectionView& view = transfer.view;
    if (transfer.from != nullptr) return look_for_slot(view, at, alone);
    return lines.has_come(view, at) ? 0 : told_or_not_yet(view);
  }

  /// Leader only, as look(): whether a slot of lines is free.
  WEFT_HD std::uint64_t look_for_slot(const ConnectionView& view, std::uint64_t at, bool alone) {
    if (view.cursor->seen_head + view.steps > at) return 0;
    if (alone) {
      const WaitResult result =
          memory_.wait_at_least(view.head, view.head_waiters, at + 1 - view.steps, view.error);
      if (result.status != WaitStatus::kReady) return note(end_of_wait(result, view.peer));
      view.cursor->seen_head = result.value;
      return 0;
    }
    view.cursor->seen_head = memory_.load_acquire(view.head);
    return view.cursor->seen_head + view.steps > at ? 0 : told_or_not_yet(view);
  }

  /// Leader only: the end of the kernel if the peer has given up.
  WEFT_HD std::uint64_t told_or_not_yet(const ConnectionView& view) {
    const std::uint32_t told = view.error == nullptr ? 0 : memory_.load_word(view.error);
    return told == 0 ? kNotYet
                     : note({.end = KernelEnd::kPeerError, .peer = view.peer, .found = told});
  }

  /// Leader only: why another lane had to leave.
  WEFT_HD KernelOutcome why_left(const ConnectionView& view) {
    const std::uint32_t told = view.error == nullptr ? 0 : memory_.load_word(view.error);
    if (told == 0) return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
    return {.end = KernelEnd::kPeerError, .peer = view.peer, .expected = 0, .found = told};
  }

  WEFT_HD bool advance(PairTransfer& transfer, std::uint64_t bytes, bool& moved) {
    group_.sync();  // all lanes have read what the leader changes now
    if (group_.leader()) transfer.moved += bytes;
    group_.sync();
    moved = true;
    return true;
  }

  WEFT_HD void complete(PairTransfer& transfer) {
    group_.sync();
    if (group_.leader()) {
      if (transfer.view.cursor != nullptr) transfer.view.cursor->step = transfer.step;
      memory_.store_word(&transfer.complete, 1);
    }
    group_.sync();
  }

  /// Leader only: whether the step can be moved. Answers kNotYet, the end of the kernel in the
  /// upper half, or the payload's offset in the lower one.
  WEFT_HD std::uint64_t look(const PairTransfer& transfer, std::uint64_t at, std::uint32_t bytes,
                             bool alone) {
    const ConnectionView& view = transfer.view;
    const bool sends = transfer.from != nullptr;
    const std::uint64_t threshold = !sends ? at + 1 : at < view.steps ? 0 : at + 1 - view.steps;
    const std::uint64_t verdict =
        look_at_counter(view, sends ? view.head : view.tail,
                        sends ? view.head_waiters : view.tail_waiters, threshold, alone);
    if (sends || verdict != 0) return verdict;
    // Copied once: what is checked is what is used, even if the peer goes on writing.
    const SlotMeta meta = view.slots[slot_index(at, view.steps)];
    if (transfer.payload == PairPayload::kLent) {
      const KernelOutcome wrong = check_lent_slot(meta, view, transfer.tag, bytes);
      return wrong.end == KernelEnd::kDone ? 0 : note(wrong);
    }
    const KernelOutcome wrong = check_slot(meta, view, transfer.tag, bytes);
    if (wrong.end != KernelEnd::kDone) return note(wrong);
    return meta.offset;
  }

  /// Leader only: 0 where the counter has reached the threshold, or else as look().
  WEFT_HD std::uint64_t look_at_counter(const ConnectionView& view, std::uint64_t* counter,
                                        std::uint32_t* waiters, std::uint64_t threshold,
                                        bool alone) {
    if (alone) {
      const WaitResult result = memory_.wait_at_least(counter, waiters, threshold, view.error);
      return result.status == WaitStatus::kReady ? 0 : note(end_of_wait(result, view.peer));
    }
    return memory_.load_acquire(counter) >= threshold ? 0 : told_or_not_yet(view);
  }

  WEFT_HD bool may_go_on(std::uint32_t turn) {
    const std::uint64_t end =
        group_.broadcast(group_.leader() ? static_cast<std::uint64_t>(memory_.pause(turn).end) : 0);
    if (static_cast<KernelEnd>(end) == KernelEnd::kDone) return true;
    outcome_.end = static_cast<KernelEnd>(end);
    return false;
  }

  WEFT_HD std::uint64_t note(const KernelOutcome& outcome) {
    outcome_ = outcome;
    return static_cast<std::uint64_t>(outcome.end) << 32;
  }

  /// Lets the partners' kernels end too, where they can be told from here.
  WEFT_HD KernelOutcome leave() {
    if (!group_.leader()) return outcome_;
    const std::uint32_t reason = reason_of(outcome_);
    for (std::uint32_t i = 0; i < count_; ++i)
      memory_.give_up(transfers_[i].view.peer_error, reason);
    return outcome_;
  }

  // No end of a kernel and no offset.
  static constexpr std::uint64_t kNotYet = UINT64_MAX;

  Group& group_;
  Memory& memory_;
  PairTransfer* const transfers_;
  const std::uint32_t count_;
  KernelOutcome outcome_;
};

}  // namespace weft::device
