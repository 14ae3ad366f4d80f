// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct one-shots over LL lines of calls in which ranks have blocks, or one of them is the root:
// every rank writes what is another's straight into its inbox there. One way over the wire, no
// counter, no barrier between ranks.
//
// Each part of a call begins with a header line to every other rank, whether or not payload follows
// it: that is what inboxes rest on (core/model/direct_peers.h), and what shows calls that differ.
// Reductions are in the order of rank numbers.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/inbox_lines.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/model/direct_peers.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Whether these one-shots do it.
[[nodiscard]] constexpr bool one_shot_moves_blocks(Operation operation) {
  switch (operation) {
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kAllToAll:
    case Operation::kGather:
    case Operation::kScatter:
      return true;
    default:
      return false;
  }
}

/// Lines of a block in an inbox half, the header of each part included.
[[nodiscard]] constexpr std::uint64_t block_lines(std::uint64_t bytes) {
  return kMostDirectParts + (bytes + kLinePayload - 1) / kLinePayload;
}

/// WorkItem::count is that of a block; the root, where there is one, is the origin of
/// WorkItem::ring_position. Otherwise as OneShotAllReduce.
template <std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires lane_group<Group> && flagged_memory<Memory>
class OneShotBlocks : InboxLines<kRanks, Group, Memory> {
  using Base = InboxLines<kRanks, Group, Memory>;
  using typename Base::Ranks;

 public:
  WEFT_HD OneShotBlocks(Group& group, Memory& memory, const WorkItem& item,
                        const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                        std::uint32_t parts)
      : Base(group, memory, item, peers, part, parts),
        reduction_(reduction),
        bytes_(item.count * reduction.element_bytes()),
        lines_((bytes_ + kLinePayload - 1) / kLinePayload),
        root_((peers.rank + peers.ranks - item.ring_position) % peers.ranks) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    if (this->group_.leader()) push(this->part_, this->others(), item_.tag);
    const Ranks to = receivers();
    for (std::uint64_t line = first_payload(); to != 0 && line < lines_;
         line += this->line_stride())
      push_payload(line, to);
    const Ranks from = senders();
    if (has_header_lane()) {
      const std::uint64_t line = first_payload();
      if (this->group_.leader() || line < lines_) take(line, from, this->group_.leader());
    } else {
      if (this->group_.leader()) take(0, 0, true);
      for (std::uint64_t line = first_payload(); line < lines_ && outcome_.end == KernelEnd::kDone;
           line += this->line_stride()) {
        take(line, from, false);
      }
    }
    this->finish();
    return outcome_;
  }

 private:
  using Base::item_;
  using Base::memory_;
  using Base::outcome_;
  using Base::peers_;

  [[nodiscard]] WEFT_HD bool is_root() const { return peers_.rank == root_; }

  /// Ranks that get payload from this one, or send it some.
  [[nodiscard]] WEFT_HD Ranks receivers() const {
    switch (item_.operation) {
      case Operation::kBroadcast:
      case Operation::kScatter:
        return is_root() ? this->others() : 0;
      case Operation::kReduce:
      case Operation::kGather:
        return is_root() ? 0 : Ranks{1} << root_;
      default:
        return this->others();
    }
  }
  [[nodiscard]] WEFT_HD Ranks senders() const {
    switch (item_.operation) {
      case Operation::kBroadcast:
      case Operation::kScatter:
        return is_root() ? 0 : Ranks{1} << root_;
      case Operation::kReduce:
      case Operation::kGather:
        return is_root() ? this->others() : 0;
      default:
        return this->others();
    }
  }

  /// What is `rank`'s of this one's input.
  [[nodiscard]] WEFT_HD const std::byte* share_of(std::uint32_t rank) const {
    const bool apart = item_.operation == Operation::kAllToAll ||
                       item_.operation == Operation::kScatter ||
                       item_.operation == Operation::kReduceScatter;
    return apart ? item_.send + rank * bytes_ : item_.send;
  }
  /// Where what comes from `rank` is to lie, of calls that only move.
  [[nodiscard]] WEFT_HD std::byte* place_of(std::uint32_t rank) const {
    const bool apart = item_.operation == Operation::kAllToAll ||
                       item_.operation == Operation::kGather ||
                       item_.operation == Operation::kAllGather;
    return apart ? item_.recv + rank * bytes_ : item_.recv;
  }

  [[nodiscard]] WEFT_HD std::uint64_t load(const std::byte* from, std::uint64_t at) const {
    return reduction_.load_payload(from + at, bytes_ - at);
  }

  /// This rank's own contribution to a reduction.
  [[nodiscard]] WEFT_HD std::uint64_t contribution(std::uint32_t rank, std::uint64_t at) const {
    const std::uint64_t payload = load(share_of(rank), at);
    if constexpr (may_premultiply_payloads<Reduction>) {
      if (reduction_.premultiplies()) return reduction_.premultiply_payload(payload);
    }
    return payload;
  }

  WEFT_HD void push(std::uint64_t line, Ranks to, std::uint64_t payload) {
    const Line full = flagged_line(payload, this->flag_);
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((to >> rank & 1U) != 0) {
        memory_.store_words(peers_.outbox[rank] + this->at_line(line), full);
      }
    }
  }

  WEFT_HD void push_payload(std::uint64_t line, Ranks to) {
    const std::uint64_t at = line * kLinePayload;
    const std::uint64_t place = this->parts_ + line;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((to >> rank & 1U) == 0) continue;
      const std::uint64_t payload =
          reduces(item_.operation) ? contribution(rank, at) : load(share_of(rank), at);
      push(place, Ranks{1} << rank, payload);
    }
  }

  /// Whether the leader has the header alone to look after: where the other lanes suffice for the
  /// payload, nobody waits for two lines, one after the other.
  [[nodiscard]] WEFT_HD bool has_header_lane() const {
    return lines_ <= std::uint64_t{this->parts_} * (this->group_.size() - 1);
  }
  [[nodiscard]] WEFT_HD std::uint64_t first_payload() const {
    if (!has_header_lane()) return this->first_line();
    // Behind the leaders of this part and those before.
    return this->group_.leader() ? lines_ : this->first_line() - this->part_ - 1;
  }

  // The lanes of a gang wait together, whatever for. Who finds another call tells the others at
  // once: their other lanes, and this rank's, may wait for payload that nobody sends.
  WEFT_HD void take(std::uint64_t line, Ranks from, bool header) {
    const Ranks awaited = header ? this->others() : from;
    const std::uint64_t place = header ? this->part_ : this->parts_ + line;
    std::uint64_t arrived[kRanks];
    if (awaited != 0 && !this->wait_for(this->at_line(place), awaited, arrived)) return;
    if (!header) return settle(line * kLinePayload, from, arrived);
    this->compare_tags(arrived);
    if (outcome_.end != KernelEnd::kDone) this->give_up();
  }

  WEFT_HD void settle(std::uint64_t at, Ranks from, const std::uint64_t (&arrived)[kRanks]) {
    if (reduces(item_.operation)) {
      if (item_.operation == Operation::kReduceScatter || is_root()) reduce(at, arrived);
      return;
    }
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((from >> rank & 1U) != 0) {
        reduction_.store_payload(place_of(rank) + at, arrived[rank], bytes_ - at);
      }
    }
    move_own(at);
  }

  // A rank's own block, where it is to have it. Only a root has one of gathers and scatters.
  WEFT_HD void move_own(std::uint64_t at) {
    if (has_root(item_.operation) && !is_root()) return;
    const std::byte* const own = share_of(peers_.rank);
    std::byte* const to = place_of(peers_.rank);
    if (own == to) return;
    reduction_.store_payload(to + at, load(own, at), bytes_ - at);
  }

  WEFT_HD void reduce(std::uint64_t at, const std::uint64_t (&arrived)[kRanks]) {
    const std::uint64_t own = contribution(peers_.rank, at);
    std::uint64_t reduced = peers_.rank == 0 ? own : arrived[0];
    WEFT_UNROLL
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank >= peers_.ranks) continue;
      reduced = reduction_.combine_payloads(reduced, rank == peers_.rank ? own : arrived[rank]);
    }
    reduction_.store_payload(item_.recv + at, reduction_.finish_payload(reduced), bytes_ - at);
  }

  const Reduction reduction_;
  const std::uint64_t bytes_;
  const std::uint64_t lines_;
  const std::uint32_t root_;
};

}  // namespace weft::device
