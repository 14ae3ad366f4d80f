// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct one-shot all-reduce over LL128 lines: as one_shot_all_reduce.h, but eight lanes store a
// line of 128 bytes together, of which 120 are payload and the last 8 a flag. Where the way to the
// other ranks keeps such a line together, whoever sees the flag has the payload; a fifteenth of the
// bytes is spent on flags instead of half.
//
// Flags count the calls by wide lines of this communicator and never come again.
//
// All ranks reduce in the order of rank numbers, so all get the same bits.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/slot_check.h"
#include "core/device/wide_lines.h"
#include "core/model/direct_peers.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Whether an LL128 all-reduce fits between these peers, of which a kernel knows at most
/// `most_ranks`.
WEFT_HD inline bool fits_wide_lines(const WorkItem& item, const DirectPeers& peers,
                                    std::uint32_t most_ranks) {
  const std::uint64_t element_bytes = element_size(item.type);
  return item.algorithm == Algorithm::kDirect && item.protocol == Protocol::kLL128 &&
         item.operation == Operation::kAllReduce && element_bytes != 0 && item.count != 0 &&
         item.count <= kMostDirectBytes / element_bytes && peers.ranks > 1 &&
         peers.ranks <= most_ranks && peers.rank < peers.ranks && peers.wide_positions != nullptr &&
         wide_half_bytes(item.count * element_bytes) <= peers.wide_half_bytes;
}

/// Part `part` of `parts` of one call, by one group of whole gangs. All lanes make the same one.
/// `kRanks` bounds the ranks, so that what arrives stays in registers. fits_wide_lines() must hold.
template <std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class OneShotLL128 {
 public:
  WEFT_HD OneShotLL128(Group& group, Memory& memory, const WorkItem& item, const DirectPeers& peers,
                       const Reduction& reduction, std::uint32_t part, std::uint32_t parts)
      : group_(group),
        memory_(memory),
        item_(item),
        peers_(peers),
        reduction_(reduction),
        part_(part),
        parts_(parts),
        bytes_(item.count * reduction.element_bytes()),
        pairs_(wide_pairs(bytes_)),
        lane_(group.rank() % kWideLineLanes),
        last_(lane_ + 1 == kWideLineLanes),
        aligned_((reinterpret_cast<std::uintptr_t>(item.send) |
                  reinterpret_cast<std::uintptr_t>(item.recv)) %
                     sizeof(Line) ==
                 0) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    const std::uint64_t position = peers_.wide_positions[part_];
    flag_ = position + 1;
    half_ = peers_.wide_begin + (position % kDirectHalves) * peers_.wide_half_bytes;
    const std::uint32_t gang_size = group_.gang_size();
    const std::uint32_t pairs_of_gang = gang_size / kWideLineLanes;
    const std::uint64_t gangs = group_.size() / gang_size;
    // A gang goes on together: what ends a loop is the same number on all its lanes.
    const std::uint64_t first = (part_ * gangs + group_.rank() / gang_size) * pairs_of_gang;
    const std::uint64_t own = group_.rank() % gang_size / kWideLineLanes;
    stride_ = parts_ * gangs * pairs_of_gang;
    for (std::uint64_t pair = first; pair < pairs_; pair += kBatch * stride_)
      push(pair + own);
    for (std::uint64_t pair = first; pair < pairs_ && !left_; pair += kBatch * stride_)
      take(pair + own);
    finish(position);
    return outcome_;
  }

 private:
  /// Pairs of a lane that are under way at once.
  static constexpr std::uint32_t kBatch = kRanks <= 2 ? 2 : 1;

  /// Bytes into the caller's buffers.
  [[nodiscard]] WEFT_HD std::uint64_t place_of(std::uint64_t pair) const {
    return wide_payload_place(pair - 1, lane_);
  }

  [[nodiscard]] WEFT_HD Line load(std::uint64_t at) const {
    const Line line = load_as_it_lies(at);
    if constexpr (may_premultiply_payloads<Reduction>) {
      if (reduction_.premultiplies()) {
        return {.low = reduction_.premultiply_payload(line.low),
                .high = reduction_.premultiply_payload(line.high)};
      }
    }
    return line;
  }
  [[nodiscard]] WEFT_HD Line load_as_it_lies(std::uint64_t at) const {
    if (aligned_ && at + sizeof(Line) <= bytes_) return memory_.load_line(item_.send + at);
    return at < bytes_ ? load_piece<Reduction>(item_.send + at, bytes_ - at) : Line{};
  }
  WEFT_HD void store(std::uint64_t at, Line line) {
    line = {.low = reduction_.finish_payload(line.low),
            .high = reduction_.finish_payload(line.high)};
    if (aligned_ && at + sizeof(Line) <= bytes_) {
      memory_.store_line(item_.recv + at, line);
      return;
    }
    if (at < bytes_) store_piece<Reduction>(item_.recv + at, line, bytes_ - at);
  }

  /// Pair 0 is the header: the call's tag.
  [[nodiscard]] WEFT_HD LineShare own_share(std::uint64_t pair) const {
    if (pair == 0 || pair >= pairs_) return {.first = {.low = item_.tag, .high = 0}, .second = {}};
    const std::uint64_t at = place_of(pair);
    return {.first = load(at), .second = last_ ? Line{} : load(at + kToSecondPayload)};
  }

  /// Where this lane's part of the first line of a pair lies in an inbox.
  [[nodiscard]] WEFT_HD std::uint64_t box_place(std::uint64_t pair) const {
    return half_ + pair * 2 * kWideLineBytes + lane_ * sizeof(Line);
  }

  WEFT_HD void push(std::uint64_t pair) {
    LineShare shares[kBatch];
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i)
      shares[i] = own_share(pair + i * stride_);
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint64_t now = pair + i * stride_;
      const LineShare lines = with_flags(shares[i], last_, flag_);
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.outbox[rank] == nullptr) continue;
        std::byte* to = now < pairs_ ? peers_.outbox[rank] + box_place(now) : nullptr;
        memory_.store_wide(group_, to, lines.first, last_);
        memory_.store_wide(group_, to == nullptr ? to : to + kWideLineBytes, lines.second, last_);
      }
    }
  }

  WEFT_HD void take(std::uint64_t pair) {
    LineShare own[kBatch];
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i)
      own[i] = own_share(pair + i * stride_);
    LineShare arrived[kBatch][kRanks];
    if (!wait_for(pair, arrived)) return;
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint64_t now = pair + i * stride_;
      if (now >= pairs_) continue;
      if (now == 0) {
        WEFT_UNROLL
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
          if (peers_.inbox[rank] != nullptr) compare_tag(rank, arrived[i][rank]);
        }
      } else {
        put(place_of(now), own[i], arrived[i]);
      }
    }
    left_ = group_.any_of_gang(outcome_.end != KernelEnd::kDone);
  }

  WEFT_HD void put(std::uint64_t at, const LineShare& own, const LineShare (&arrived)[kRanks]) {
    LineShare reduced = peers_.rank == 0 ? own : whole(arrived[0]);
    WEFT_UNROLL
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank >= peers_.ranks) continue;
      const LineShare next = rank == peers_.rank ? own : whole(arrived[rank]);
      reduced = {.first = combine(reduced.first, next.first),
                 .second = combine(reduced.second, next.second)};
    }
    store(at, reduced.first);
    if (!last_) store(at + kToSecondPayload, reduced.second);
  }
  [[nodiscard]] WEFT_HD LineShare whole(const LineShare& share) const {
    return without_flags(share, last_);
  }
  [[nodiscard]] WEFT_HD Line combine(Line a, Line b) const {
    return {.low = reduction_.combine_payloads(a.low, b.low),
            .high = reduction_.combine_payloads(a.high, b.high)};
  }

  // The shares of all ranks at once, so that their loads are under way together.
  WEFT_HD bool have_come(std::uint64_t pair, LineShare (&arrived)[kBatch][kRanks]) {
    bool all = true;
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint64_t now = pair + i * stride_;
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.inbox[rank] == nullptr) continue;
        const std::byte* from = now < pairs_ ? peers_.inbox[rank] + box_place(now) : nullptr;
        LineShare& share = arrived[i][rank];
        share.first = memory_.load_wide(group_, from, flag_, last_);
        share.second =
            memory_.load_wide(group_, from == nullptr ? from : from + kWideLineBytes, flag_, last_);
        const bool come = share.first.high == flag_ && share.second.high == flag_;
        all = all && (from == nullptr || !last_ || come);
      }
    }
    return !group_.any_of_gang(!all);
  }

  WEFT_HD bool wait_for(std::uint64_t pair, LineShare (&arrived)[kBatch][kRanks]) {
    for (std::uint32_t turn = 0; !have_come(pair, arrived); ++turn) {
      const KernelOutcome seen = memory_.keep_waiting(turn, peers_);
      if (!group_.any_of_gang(seen.end != KernelEnd::kDone)) continue;
      // A peer that gave up wrote its lines before; they say more than that it did.
      if (!group_.any_of_gang(seen.end == KernelEnd::kAborted) && have_come(pair, arrived)) {
        return true;
      }
      outcome_ = seen;
      left_ = true;
      if (!group_.any_of_gang(seen.end == KernelEnd::kAborted)) look_at_headers(pair, arrived[0]);
      return false;
    }
    return true;
  }

  // Of a gang that leaves: a header may have come although other lines of its batch have not, and
  // never will in a call that is shorter there.
  WEFT_HD void look_at_headers(std::uint64_t pair, const LineShare (&headers)[kRanks]) {
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] == nullptr) continue;
      const bool lacks = pair == 0 && last_ && headers[rank].first.high != flag_;
      if (group_.any_of_gang(lacks) || pair != 0) continue;
      compare_tag(rank, headers[rank]);
    }
  }

  WEFT_HD void compare_tag(std::uint32_t rank, const LineShare& header) {
    const std::uint64_t tag = header.first.low;
    if (lane_ != 0 || tag == item_.tag) return;
    outcome_ = {.end = KernelEnd::kTagMismatch, .peer = rank, .expected = item_.tag, .found = tag};
  }

  WEFT_HD void finish(std::uint64_t position) {
    // Also the barrier behind which no lane reads the position any more.
    const bool failed = group_.any(left_);
    for (std::uint32_t word = part_ + group_.rank() * parts_; word < kMostDirectParts;
         word += group_.size() * parts_) {
      peers_.wide_positions[word] = position + 1;
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
  const std::uint64_t pairs_;
  const std::uint32_t lane_;
  const bool last_;     // of the eight: it has the flags
  const bool aligned_;  // to 16 bytes, on both sides
  std::uint64_t flag_ = 0;
  std::uint64_t half_ = 0;
  std::uint64_t stride_ = 0;
  bool left_ = false;
  KernelOutcome outcome_;
};

}  // namespace weft::device
