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

static_assert(block_lines(0) * sizeof(Line) <= kLeastDirectHalfBytes);

/// Whether it is one of these, without a question for each of them.
template <Operation... kOnes>
[[nodiscard]] WEFT_HD constexpr bool is_one_of(Operation operation) {
  constexpr std::uint32_t kAll = ((1U << static_cast<std::uint32_t>(kOnes)) | ...);
  return (kAll >> static_cast<std::uint32_t>(operation) & 1U) != 0;
}

/// Whether a rank has another share of its input for each rank, and whether it has another place in
/// its output for what comes from each.
[[nodiscard]] WEFT_HD constexpr bool has_shares(Operation operation) {
  return is_one_of<Operation::kAllToAll, Operation::kScatter, Operation::kReduceScatter>(operation);
}
[[nodiscard]] WEFT_HD constexpr bool has_places(Operation operation) {
  return is_one_of<Operation::kAllToAll, Operation::kGather, Operation::kAllGather>(operation);
}

/// The same call with bytes for elements: calls that only move need not know the type.
[[nodiscard]] constexpr WorkItem moved_as_bytes(WorkItem item) {
  item.count *= element_size(item.type);
  item.type = WEFT_UINT8;
  return item;
}

/// Whether all payloads of a call are whole, on this rank: blocks begin and end between them.
[[nodiscard]] inline bool has_whole_payloads(const WorkItem& item) {
  return (reinterpret_cast<std::uintptr_t>(item.send) |
          reinterpret_cast<std::uintptr_t>(item.recv) | (item.count * element_size(item.type))) %
             kLinePayload ==
         0;
}

/// What is known of the calls of a kernel.
struct BlockCalls {
  bool reduce = false;  ///< All of them do; else none does, and `Reduction` has payloads alone.
  bool whole = false;   ///< has_whole_payloads(); else it may hold, or not.
};

/// WorkItem::count is that of a block; the root, where there is one, is the origin of
/// WorkItem::ring_position. Otherwise as OneShotAllReduce.
///
/// Operations differ in numbers alone: who gets payload from whom, and how far shares and places
/// lie apart. The time of a small call is that of the loads that wait for each other: so all that a
/// line carries is loaded before the first store, and what is this rank's own before others' lines
/// are waited for.
template <std::uint32_t kRanks, BlockCalls kCalls, class Reduction, class Group, class Memory>
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
        bytes_(static_cast<std::uint32_t>(item.count) * reduction.element_bytes()),
        lines_((bytes_ + kLinePayload - 1) / kLinePayload),
        to_share_(has_shares(item.operation) ? bytes_ : 0),
        to_place_(has_places(item.operation) ? bytes_ : 0),
        has_header_lane_(lines_ <= parts * (group.size() - 1)),
        has_own_(!is_rooted() || item.ring_position == 0),
        to_(ranks_with_payload(
            is_one_of<Operation::kBroadcast, Operation::kScatter>(item.operation))),
        from_(
            ranks_with_payload(is_one_of<Operation::kReduce, Operation::kGather>(item.operation))) {
  }

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    const std::uint32_t own = first();
    // Under way while the call's place in the sequence is looked up.
    const Outgoing outgoing = load(own);
    this->begin();
    if (own <= lines_) push(own, outgoing);
    for (std::uint32_t line = next(own); line <= lines_; line = next(line))
      push(line, load(line));
    for (std::uint32_t line = own; line <= lines_ && outcome_.end == KernelEnd::kDone;
         line = next(line)) {
      take(line);
    }
    this->finish();
    return outcome_;
  }

 private:
  using Base::item_;
  using Base::memory_;
  using Base::outcome_;
  using Base::peers_;

  /// What a line carries to each rank, and what this rank keeps.
  struct Outgoing {
    std::uint64_t to[kRanks];
    std::uint64_t own;
  };

  [[nodiscard]] WEFT_HD bool is_rooted() const {
    return is_one_of<Operation::kBroadcast, Operation::kReduce, Operation::kGather,
                     Operation::kScatter>(item_.operation);
  }
  /// Ranks that get payload from this one, or send it some. `at_root`: of calls with a root, those
  /// that the root has to do with.
  [[nodiscard]] WEFT_HD Ranks ranks_with_payload(bool at_root) const {
    const bool is_root = item_.ring_position == 0;
    const std::uint32_t around = peers_.rank < item_.ring_position ? peers_.ranks : 0;
    const Ranks root = Ranks{1} << (peers_.rank + around - item_.ring_position);
    if (!is_rooted()) return this->others();
    return is_root == at_root ? (is_root ? this->others() : root) : 0;
  }

  // A lane's lines: 0 is the header of the part, the leader's; payload begins with 1. Where the
  // other lanes suffice for the payload, the leader has the header alone to look after, and nobody
  // waits for two lines, one after the other.
  [[nodiscard]] WEFT_HD std::uint32_t first() const {
    // Behind the leaders of this part and those before, where there are such.
    const std::uint32_t payload =
        has_header_lane_ ? this->first_line() - this->part_ : this->first_line() + 1;
    return this->group_.leader() ? 0 : payload;
  }
  [[nodiscard]] WEFT_HD std::uint32_t next(std::uint32_t line) const {
    if (line != 0) return line + this->line_stride();
    return has_header_lane_ ? lines_ + 1 : this->first_line() + 1;
  }
  /// Where it lies in a block, and in an inbox.
  [[nodiscard]] WEFT_HD static std::uint32_t in_block(std::uint32_t line) {
    return (line - 1) * kLinePayload;
  }
  [[nodiscard]] WEFT_HD std::uint32_t in_inbox(std::uint32_t line) const {
    return this->at_line(line == 0 ? this->part_ : this->parts_ + line - 1);
  }

  /// What is `rank`'s of this one's input.
  [[nodiscard]] WEFT_HD const std::byte* share_of(std::uint32_t rank) const {
    return item_.send + std::uint64_t{rank} * to_share_;
  }
  /// Where what comes from `rank` is to lie, of calls that only move.
  [[nodiscard]] WEFT_HD std::byte* place_of(std::uint32_t rank) const {
    return item_.recv + std::uint64_t{rank} * to_place_;
  }

  [[nodiscard]] WEFT_HD std::uint64_t load_share(std::uint32_t rank, std::uint32_t at) const {
    const std::uint64_t payload = load_payload(share_of(rank) + at, bytes_ - at);
    if constexpr (kCalls.reduce && may_premultiply_payloads<Reduction>) {
      if (reduction_.premultiplies()) return reduction_.premultiply_payload(payload);
    }
    return payload;
  }
  // Known to be whole they need not be looked at: a compiler sees that here.
  [[nodiscard]] WEFT_HD std::uint64_t load_payload(const std::byte* from,
                                                   std::uint64_t bytes) const {
    if constexpr (!kCalls.whole) return reduction_.load_payload(from, bytes);
    return reduction_.load_payload(
        static_cast<const std::byte*>(__builtin_assume_aligned(from, kLinePayload)), kLinePayload);
  }
  WEFT_HD void store(std::byte* to, std::uint64_t payload, std::uint32_t at) const {
    if constexpr (!kCalls.whole) {
      reduction_.store_payload(to + at, payload, bytes_ - at);
    } else {
      reduction_.store_payload(
          static_cast<std::byte*>(__builtin_assume_aligned(to + at, kLinePayload)), payload,
          kLinePayload);
    }
  }

  [[nodiscard]] WEFT_HD Outgoing load(std::uint32_t line) const {
    Outgoing outgoing{};
    const bool has_payload = line != 0 && line <= lines_;
    const Ranks to = has_payload ? to_ : 0;
    const std::uint32_t at = has_payload ? in_block(line) : 0;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      outgoing.to[rank] = item_.tag;
      if ((to >> rank & 1U) != 0) outgoing.to[rank] = load_share(rank, at);
    }
    if (!kCalls.reduce && has_payload && has_own_) outgoing.own = load_share(peers_.rank, at);
    return outgoing;
  }

  WEFT_HD void push(std::uint32_t line, const Outgoing& outgoing) {
    const Ranks to = line == 0 ? this->others() : to_;
    const std::uint32_t at = in_inbox(line);
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((to >> rank & 1U) != 0) {
        memory_.store_words(peers_.outbox[rank] + at, flagged_line(outgoing.to[rank], this->flag_));
      }
    }
    if constexpr (!kCalls.reduce) {
      // A rank's own block, where it is to have it.
      std::byte* const place = place_of(peers_.rank);
      if (line == 0 || !has_own_ || share_of(peers_.rank) == place) return;
      store(place, outgoing.own, in_block(line));
    }
  }

  // The lanes of a gang wait together, whatever for. Who finds another call tells the others at
  // once: their other lanes, and this rank's, may wait for payload that nobody sends.
  WEFT_HD void take(std::uint32_t line) {
    const bool is_header = line == 0;
    const Ranks awaited = is_header ? this->others() : from_;
    std::uint64_t own = 0;
    if (kCalls.reduce && !is_header && has_own_) own = load_share(peers_.rank, in_block(line));
    std::uint64_t arrived[kRanks]{};
    if (awaited != 0 && !this->wait_for(in_inbox(line), awaited, arrived)) return;
    if (!is_header) return settle(in_block(line), own, arrived);
    this->compare_tags(arrived);
    if (outcome_.end != KernelEnd::kDone) this->give_up();
  }

  WEFT_HD void settle(std::uint32_t at, std::uint64_t own,
                      const std::uint64_t (&arrived)[kRanks]) const {
    if constexpr (kCalls.reduce) {
      if (has_own_) store(item_.recv, this->reduced(reduction_, own, arrived), at);
    } else {
      static_cast<void>(own);
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if ((from_ >> rank & 1U) != 0) store(place_of(rank), arrived[rank], at);
      }
    }
  }

  const Reduction reduction_;
  const std::uint32_t bytes_;  ///< Of a block: no more than an inbox holds.
  const std::uint32_t lines_;
  const std::uint32_t to_share_;  ///< From one rank's to the next's: 0 where all get the same.
  const std::uint32_t to_place_;
  const bool has_header_lane_;
  const bool has_own_;  ///< A block or a result: of calls with a root, the root alone.
  const Ranks to_;
  const Ranks from_;
};

/// Runs one part of such a call to its end, by the kernel for as much as is known of it.
template <std::uint32_t kRanks, bool kReduces, class G, class M, class R>
  requires lane_group<G> && flagged_memory<M>
KernelOutcome run_blocks_item(G& group, M& memory, const WorkItem& item, const DirectPeers& peers,
                              const R& reduction, std::uint32_t part, std::uint32_t parts) {
  if (has_whole_payloads(item)) {
    return OneShotBlocks<kRanks, BlockCalls{.reduce = kReduces, .whole = true}, R, G, M>(
               group, memory, item, peers, reduction, part, parts)
        .run();
  }
  return OneShotBlocks<kRanks, BlockCalls{.reduce = kReduces}, R, G, M>(group, memory, item, peers,
                                                                        reduction, part, parts)
      .run();
}

}  // namespace weft::device
