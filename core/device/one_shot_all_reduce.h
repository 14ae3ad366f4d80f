// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct one-shot all-reduce over LL lines: every rank writes its whole input into an inbox at each
// other rank, and reduces what arrives in its own with its input. One way over the wire, no
// counter, no barrier between ranks; bytes grow with the ranks, so it is for small calls.
//
// All ranks reduce in the order of rank numbers, so all get the same bits.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/slot_check.h"
#include "core/model/direct_peers.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Part `part` of `parts` of one call, by one group. All lanes make the same one. `kRanks` bounds
/// the ranks, so that what arrives stays in registers. A call has direct_lines() of its bytes, of
/// which each part must have one.
template <std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires lane_group<Group> && flagged_memory<Memory>
class OneShotAllReduce {
 public:
  WEFT_HD OneShotAllReduce(Group& group, Memory& memory, const WorkItem& item,
                           const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                           std::uint32_t parts)
      : group_(group),
        memory_(memory),
        item_(item),
        peers_(peers),
        reduction_(reduction),
        part_(part),
        parts_(parts),
        bytes_(item.count * reduction.element_bytes()),
        lines_(direct_lines(bytes_)) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    const std::uint32_t position = peers_.positions[part_];
    flag_ = position + 1;
    half_ = static_cast<std::uint64_t>(position % 2) * peers_.half_bytes;
    if (flag_ + 1 >= peers_.period) wipe_other_half();
    const std::uint64_t first = static_cast<std::uint64_t>(part_) * group_.size() + group_.rank();
    const std::uint64_t stride = static_cast<std::uint64_t>(parts_) * group_.size();
    for (std::uint64_t line = first; line < lines_; line += stride)
      push(line);
    for (std::uint64_t line = first; line < lines_ && outcome_.end == KernelEnd::kDone;
         line += stride) {
      take(line);
    }
    finish(position);
    return outcome_;
  }

 private:
  // Line 0 is the header: the call's tag.
  [[nodiscard]] WEFT_HD std::uint64_t own_payload(std::uint64_t line) const {
    if (line == 0) return item_.tag;
    const std::uint64_t at = (line - 1) * kLinePayload;
    const std::uint64_t payload = reduction_.load_payload(item_.send + at, bytes_ - at);
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) return reduction_.premultiply_payload(payload);
    }
    return payload;
  }

  WEFT_HD void push(std::uint64_t line) {
    const Line full = flagged_line(own_payload(line), flag_);
    const std::uint64_t at = half_ + line * sizeof(Line);
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.outbox[rank] != nullptr) memory_.store_words(peers_.outbox[rank] + at, full);
    }
  }

  WEFT_HD void take(std::uint64_t line) {
    const std::uint64_t own = own_payload(line);
    std::uint64_t arrived[kRanks];
    if (!wait_for(half_ + line * sizeof(Line), arrived)) return;
    if (line == 0) return compare_tags(arrived);
    std::uint64_t reduced = peers_.rank == 0 ? own : arrived[0];
    WEFT_UNROLL
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank >= peers_.ranks) continue;
      reduced = reduction_.combine_payloads(reduced, rank == peers_.rank ? own : arrived[rank]);
    }
    const std::uint64_t at = (line - 1) * kLinePayload;
    reduction_.store_payload(item_.recv + at, reduction_.finish_payload(reduced), bytes_ - at);
  }

  // The lines of all ranks at once, so that their loads are under way together.
  WEFT_HD bool have_come(std::uint64_t at, std::uint64_t (&arrived)[kRanks]) {
    bool all = true;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] == nullptr) continue;
      const Line line = memory_.load_words(peers_.inbox[rank] + at);
      arrived[rank] = payload_of(line);
      all = all && has_flag(line, flag_);
    }
    return all;
  }

  WEFT_HD bool wait_for(std::uint64_t at, std::uint64_t (&arrived)[kRanks]) {
    for (std::uint32_t turn = 0; !have_come(at, arrived); ++turn) {
      outcome_ = memory_.keep_waiting(turn, peers_);
      if (outcome_.end == KernelEnd::kDone) continue;
      // A peer that gave up wrote its lines before; they say more than that it did.
      if (outcome_.end != KernelEnd::kPeerError || !have_come(at, arrived)) return false;
      outcome_ = {};
      return true;
    }
    return true;
  }

  WEFT_HD void compare_tags(const std::uint64_t (&tags)[kRanks]) {
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] == nullptr || tags[rank] == item_.tag) continue;
      outcome_ = {
          .end = KernelEnd::kTagMismatch, .peer = rank, .expected = item_.tag, .found = tags[rank]};
    }
  }

  // Before flags begin again, no line may be left that has one of them: the half of the call before
  // is read to its end, and that of this call is wiped by the next. Nobody writes there: others
  // pass on to the next call with the help of lines that this part pushes after this.
  WEFT_HD void wipe_other_half() {
    const std::uint64_t other = peers_.half_bytes - half_;
    const std::uint64_t stride = static_cast<std::uint64_t>(parts_) * group_.size() * sizeof(Line);
    std::uint64_t at =
        (static_cast<std::uint64_t>(part_) * group_.size() + group_.rank()) * sizeof(Line);
    for (; at < peers_.half_bytes; at += stride) {
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.inbox[rank] != nullptr) memory_.store_words(peers_.inbox[rank] + other + at, {});
      }
    }
    memory_.fence();
    group_.sync();
  }

  WEFT_HD void finish(std::uint32_t position) {
    // Also the barrier behind which no lane reads the position any more.
    const bool failed = group_.any(outcome_.end != KernelEnd::kDone);
    const std::uint32_t next = position + 1 == peers_.period ? 0 : position + 1;
    for (std::uint32_t word = part_ + group_.rank() * parts_; word < kMostDirectParts;
         word += group_.size() * parts_) {
      peers_.positions[word] = next;
    }
    if (!failed || !group_.leader()) return;
    // What made another lane leave is there to be seen still.
    if (outcome_.end == KernelEnd::kDone) outcome_ = memory_.why_leave(peers_);
    const std::uint32_t reason = reason_of(outcome_);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      memory_.give_up(peers_.peer_error[rank], reason);
  }

  Group& group_;
  Memory& memory_;
  const WorkItem& item_;
  const DirectPeers& peers_;
  const Reduction reduction_;
  const std::uint32_t part_;
  const std::uint32_t parts_;
  const std::uint64_t bytes_;
  const std::uint64_t lines_;
  std::uint32_t flag_ = 0;
  std::uint64_t half_ = 0;
  KernelOutcome outcome_;
};

}  // namespace weft::device
