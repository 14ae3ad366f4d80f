// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What calls over inboxes of LL lines have in common, whatever they move: their place in the
// sequence, waiting for lines, and how they end.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/slot_check.h"
#include "core/model/direct_peers.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Part `part` of `parts` of one call, by one group. All lanes make the same one. `kRanks` bounds
/// the ranks, so that what arrives stays in registers.
template <std::uint32_t kRanks, class Group, class Memory>
  requires lane_group<Group> && flagged_memory<Memory>
class InboxLines {
 protected:
  /// One bit for each rank.
  using Ranks = std::uint32_t;

  WEFT_HD InboxLines(Group& group, Memory& memory, const WorkItem& item, const DirectPeers& peers,
                     std::uint32_t part, std::uint32_t parts)
      : group_(group), memory_(memory), item_(item), peers_(peers), part_(part), parts_(parts) {}

  /// Finds the call's half. Before anything is pushed.
  WEFT_HD void begin() {
    const std::uint32_t position = peers_.positions[part_];
    flag_ = position + 1;
    half_ = position % 2 * peers_.half_bytes;
    if (flag_ + 1 >= peers_.period) wipe_other_half();
  }

  /// Each lane has its share of a part's lines. Their numbers are those of an inbox, whose bytes
  /// are a number of 32 bits.
  [[nodiscard]] WEFT_HD std::uint32_t first_line() const {
    return part_ * group_.size() + group_.rank();
  }
  [[nodiscard]] WEFT_HD std::uint32_t line_stride() const { return parts_ * group_.size(); }
  [[nodiscard]] WEFT_HD std::uint32_t at_line(std::uint32_t line) const {
    return half_ + line * static_cast<std::uint32_t>(sizeof(Line));
  }

  /// The other ranks.
  [[nodiscard]] WEFT_HD Ranks others() const {
    return ((Ranks{1} << peers_.ranks) - 1) & ~(Ranks{1} << peers_.rank);
  }

  /// Waits for the lines at `at` of the ranks `from`, of all at once, so that their loads are under
  /// way together.
  WEFT_HD bool wait_for(std::uint32_t at, Ranks from, std::uint64_t (&arrived)[kRanks]) {
    for (std::uint32_t turn = 0; !have_come(at, from, arrived); ++turn) {
      outcome_ = memory_.keep_waiting(turn, peers_);
      if (outcome_.end == KernelEnd::kDone) continue;
      // A peer that gave up wrote its lines before; they say more than that it did.
      if (outcome_.end != KernelEnd::kPeerError || !have_come(at, from, arrived)) return false;
      outcome_ = {};
      return true;
    }
    return true;
  }

  WEFT_HD void compare_tags(const std::uint64_t (&tags)[kRanks]) {
    std::uint64_t difference = 0;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] != nullptr) difference |= tags[rank] ^ item_.tag;
    }
    if (difference == 0) return;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] == nullptr || tags[rank] == item_.tag) continue;
      outcome_ = {
          .end = KernelEnd::kTagMismatch, .peer = rank, .expected = item_.tag, .found = tags[rank]};
    }
  }

  WEFT_HD void give_up() {
    const std::uint32_t reason = reason_of(outcome_);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      memory_.give_up(peers_.peer_error[rank], reason);
  }

  /// What came in a line, with this rank's own, in the order of rank numbers.
  template <class Reduction>
  [[nodiscard]] WEFT_HD std::uint64_t reduced(const Reduction& reduction, std::uint64_t own,
                                              const std::uint64_t (&arrived)[kRanks]) const {
    if constexpr (may_accumulate<Reduction>) {
      if (reduction.accumulates()) {
        return reduction.template accumulate_ranks<kRanks>(peers_.ranks, [&](std::uint32_t rank) {
          return rank == peers_.rank ? own : arrived[rank];
        });
      }
    }
    std::uint64_t reduced = peers_.rank == 0 ? own : arrived[0];
    WEFT_UNROLL
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank >= peers_.ranks) continue;
      reduced = reduction.combine_payloads(reduced, rank == peers_.rank ? own : arrived[rank]);
    }
    return reduction.finish_payload(reduced);
  }

  /// The leader's outcome is the complete one then.
  WEFT_HD void finish() {
    // Also the barrier behind which no lane reads the position any more.
    const bool failed = group_.any(outcome_.end != KernelEnd::kDone);
    const std::uint32_t next = flag_ == peers_.period ? 0 : flag_;
    for (std::uint32_t word = part_ + group_.rank() * parts_; word < kMostDirectParts;
         word += group_.size() * parts_) {
      peers_.positions[word] = next;
    }
    if (!failed || !group_.leader()) return;
    // What made another lane leave is there to be seen still.
    if (outcome_.end == KernelEnd::kDone) outcome_ = memory_.why_leave(peers_);
    if (outcome_.end == KernelEnd::kTagMismatch && part_ != 0) find_tag();
    give_up();
  }

  Group& group_;
  Memory& memory_;
  const WorkItem& item_;
  const DirectPeers& peers_;
  const std::uint32_t part_;
  const std::uint32_t parts_;
  std::uint32_t flag_ = 0;
  KernelOutcome outcome_;

 private:
  WEFT_HD bool have_come(std::uint32_t at, Ranks from, std::uint64_t (&arrived)[kRanks]) {
    Line lines[kRanks];
    // Two loops: a look at the first line would wait for it before the next is asked for.
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((from >> rank & 1U) != 0) lines[rank] = memory_.load_words(peers_.inbox[rank] + at);
    }
    std::uint32_t difference = 0;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((from >> rank & 1U) == 0) continue;
      arrived[rank] = payload_of(lines[rank]);
      difference |= flag_difference(lines[rank], flag_);
    }
    return difference == 0;
  }

  // Where a part after the first one has its header, a call of another kind has payload. The first
  // line is a header in all of them, which the peer's first part stores in any case, if perhaps
  // later. Here, since what compares tags is in the way of every call.
  WEFT_HD void find_tag() {
    constexpr std::uint32_t kMostTurns = 1U << 16U;
    const std::byte* const header = peers_.inbox[outcome_.peer] + at_line(0);
    for (std::uint32_t turn = 0; turn < kMostTurns; ++turn) {
      const Line line = memory_.load_words(header);
      if (flag_difference(line, flag_) == 0) {
        if (payload_of(line) != item_.tag) outcome_.found = payload_of(line);
        return;
      }
      if (memory_.keep_waiting(turn, peers_).end == KernelEnd::kAborted) return;
    }
  }

  // Before flags begin again, no line may be left that has one of them: the half of the call before
  // is read to its end, and that of this call is wiped by the next. Nobody writes there: others
  // pass on to the next call with the help of lines that this part pushes after this.
  WEFT_HD void wipe_other_half() {
    const std::uint32_t other = peers_.half_bytes - half_;
    const std::uint64_t stride = std::uint64_t{line_stride()} * sizeof(Line);
    for (std::uint64_t at = first_line() * sizeof(Line); at < peers_.half_bytes; at += stride) {
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.inbox[rank] != nullptr) memory_.store_words(peers_.inbox[rank] + other + at, {});
      }
    }
    memory_.fence();
    group_.sync();
  }

  std::uint32_t half_ = 0;
};

}  // namespace weft::device
