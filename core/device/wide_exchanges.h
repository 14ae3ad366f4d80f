// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Exchanges through halves of inboxes that are made for lines of LL128: eight lanes store a line of
// 128 bytes together, of which 120 are payload and the last 8 a flag. Where the way to the other
// ranks keeps such a line together, whoever sees the flag has the payload; a fifteenth of the bytes
// is spent on flags instead of half. What calls by them have in common, whatever they move.
//
// Exchanges of a communicator take the two halves in turn. Their flags count them and never come
// again. In each, every rank writes at least a header, pair 0, to every other.
//
// Model: tests/models/flagged_lines.pml, tests/models/two_shot_lines.pml
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

/// Part `part` of `parts` of one call, by one group of whole gangs. All lanes make the same one.
/// `kRanks` bounds the ranks, so that what arrives stays in registers.
template <std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class WideExchanges {
 protected:
  /// Pairs of a lane that are under way at once.
  static constexpr std::uint32_t kBatch = kRanks <= 2 ? 2 : 1;

  struct Exchange {
    std::uint64_t flag = 0;
    std::uint64_t half = 0;  ///< Where its half begins in an inbox.
  };
  /// How many pairs, the header among them, come from each rank; none from this one.
  struct Expected {
    std::uint32_t pairs[kRanks];
  };
  struct Arrived {
    LineShare from[kBatch][kRanks];
  };

  WEFT_HD WideExchanges(Group& group, Memory& memory, const WorkItem& item,
                        const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                        std::uint32_t parts)
      : group_(group),
        memory_(memory),
        item_(item),
        peers_(peers),
        reduction_(reduction),
        part_(part),
        parts_(parts),
        lane_(group.rank() % kWideLineLanes),
        last_(lane_ + 1 == kWideLineLanes) {}

  /// Finds this lane's pairs and the call's place in the sequence. Before anything else.
  WEFT_HD void begin() {
    position_ = peers_.wide_positions[part_];
    const std::uint32_t gang_size = group_.gang_size();
    const std::uint32_t pairs_of_gang = gang_size / kWideLineLanes;
    const std::uint32_t gangs = group_.size() / gang_size;
    first_ = (part_ * gangs + group_.rank() / gang_size) * pairs_of_gang;
    own_ = group_.rank() % gang_size / kWideLineLanes;
    stride_ = parts_ * gangs * pairs_of_gang;
  }

  [[nodiscard]] WEFT_HD Exchange next_exchange() {
    const std::uint64_t position = position_++;
    return {.flag = position + 1,
            .half = peers_.wide_begin + (position % kDirectHalves) * peers_.wide_half_bytes};
  }

  /// Visits this lane's batches of up to `pairs` pairs by their first, as long as the gang stays. A
  /// gang goes on together: what ends the loop is the same number on all its lanes.
  template <class Visit>
  WEFT_HD void for_each_batch(std::uint32_t pairs, Visit visit) {
    for (std::uint32_t pair = first_; pair < pairs && !left_; pair += kBatch * stride_)
      visit(pair + own_);
  }
  /// Pair number `i` of a batch.
  [[nodiscard]] WEFT_HD std::uint32_t of_batch(std::uint32_t pair, std::uint32_t i) const {
    return pair + i * stride_;
  }

  /// Bytes before this lane's payload of a pair, of which pair 0 has none.
  [[nodiscard]] WEFT_HD std::uint64_t place_of(std::uint32_t pair) const {
    return wide_payload_place(pair - 1, lane_);
  }
  [[nodiscard]] WEFT_HD LineShare header() const {
    return {.first = {.low = item_.tag, .high = 0}, .second = {}};
  }

  /// What a rank contributes to a reduction, of what it has.
  [[nodiscard]] WEFT_HD LineShare contribution(LineShare share) const {
    if constexpr (may_premultiply_payloads<Reduction>) {
      if (reduction_.premultiplies()) {
        share = {.first = premultiplied(share.first), .second = premultiplied(share.second)};
      }
    }
    return share;
  }

  /// What this lane has of a pair, not the header, of the `bytes` bytes at `from`. `kPlain`: `from`
  /// is aligned to 16 bytes, and `bytes` a multiple of it.
  template <bool kPlain>
  [[nodiscard]] WEFT_HD LineShare load_share(const std::byte* from, std::uint64_t bytes,
                                             std::uint32_t pair) const {
    const std::uint64_t at = place_of(pair);
    return {.first = load<kPlain>(from, bytes, at),
            .second = last_ ? Line{} : load<kPlain>(from, bytes, at + kToSecondPayload)};
  }
  template <bool kPlain>
  WEFT_HD void store_share(std::byte* to, std::uint64_t bytes, std::uint32_t pair,
                           const LineShare& share) {
    const std::uint64_t at = place_of(pair);
    store<kPlain>(to, bytes, at, share.first);
    if (!last_) store<kPlain>(to, bytes, at + kToSecondPayload, share.second);
  }

  /// Stores this lane's share, without flags, of a pair at rank `peer`; with `skip`, which may
  /// differ between lines, only joins the others.
  WEFT_HD void push(const Exchange& exchange, std::uint32_t peer, std::uint32_t pair,
                    const LineShare& share, bool skip) {
    const LineShare lines = with_flags(share, last_, exchange.flag);
    std::byte* to = skip ? nullptr : peers_.outbox[peer] + box_place(exchange, pair);
    memory_.store_wide(group_, to, lines.first, last_);
    memory_.store_wide(group_, to == nullptr ? to : to + kWideLineBytes, lines.second, last_);
  }

  /// Waits for a batch of all ranks at once, so that their loads are under way together, and
  /// compares tags where it has headers. False: the gang leaves. Called, instead of inlined, it
  /// would have what arrives pass through memory.
  WEFT_HD_INLINE bool take(const Exchange& exchange, std::uint32_t pair, const Expected& expected,
                           Arrived& arrived) {
    if (!wait_for(exchange, pair, expected, arrived)) return false;
    if (pair == 0) {
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.inbox[rank] != nullptr) compare_tag(rank, arrived.from[0][rank]);
      }
      // At once: other gangs may wait for lines that the other call does not have, and come to no
      // barrier before its rank leaves as well.
      if (outcome_.end == KernelEnd::kTagMismatch) tell_others();
    }
    left_ = group_.any_of_gang(outcome_.end != KernelEnd::kDone);
    return !left_;
  }

  [[nodiscard]] WEFT_HD LineShare payload_of(const LineShare& lines) const {
    return without_flags(lines, last_);
  }
  /// What came of pair number `i` of a batch, with this rank's own, in the order of rank numbers.
  [[nodiscard]] WEFT_HD LineShare combined(const LineShare& own,
                                           const LineShare (&arrived)[kRanks]) const {
    if constexpr (may_accumulate<Reduction>) {
      if (reduction_.accumulates()) return accumulated(own, arrived);
    }
    LineShare reduced = peers_.rank == 0 ? own : payload_of(arrived[0]);
    WEFT_UNROLL
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank >= peers_.ranks) continue;
      const LineShare next = rank == peers_.rank ? own : payload_of(arrived[rank]);
      reduced = {.first = combine(reduced.first, next.first),
                 .second = combine(reduced.second, next.second)};
    }
    return {.first = finished(reduced.first), .second = finished(reduced.second)};
  }

  /// The leader's outcome is the complete one then.
  WEFT_HD void finish() {
    // Also the barrier behind which no lane reads the position any more.
    const bool failed = group_.any(left_);
    for (std::uint32_t word = part_ + group_.rank() * parts_; word < kMostDirectParts;
         word += group_.size() * parts_) {
      peers_.wide_positions[word] = position_;
    }
    if (!failed || !group_.leader()) return;
    // What made another lane leave is there to be seen still.
    if (outcome_.end == KernelEnd::kDone) outcome_ = memory_.why_leave(peers_);
    tell_others();
  }
  /// Of a lane that knows why: that this rank leaves.
  WEFT_HD void tell_others() {
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
  const std::uint32_t lane_;
  const bool last_;  // of the eight: it has the flags
  bool left_ = false;
  KernelOutcome outcome_;

 private:
  template <bool kPlain>
  [[nodiscard]] WEFT_HD Line load(const std::byte* from, std::uint64_t bytes,
                                  std::uint64_t at) const {
    if (at >= bytes) return {};
    if constexpr (kPlain) {
      return memory_.load_line(from + at);
    } else {
      return load_piece<Reduction>(from + at, bytes - at);
    }
  }
  template <bool kPlain>
  WEFT_HD void store(std::byte* to, std::uint64_t bytes, std::uint64_t at, Line line) {
    if (at >= bytes) return;
    if constexpr (kPlain) {
      memory_.store_line(to + at, line);
    } else {
      store_piece<Reduction>(to + at, line, bytes - at);
    }
  }
  [[nodiscard]] WEFT_HD Line premultiplied(Line line) const {
    if constexpr (may_premultiply_payloads<Reduction>) {
      return {.low = reduction_.premultiply_payload(line.low),
              .high = reduction_.premultiply_payload(line.high)};
    } else {
      return line;
    }
  }
  [[nodiscard]] WEFT_HD Line combine(Line a, Line b) const {
    return {.low = reduction_.combine_payloads(a.low, b.low),
            .high = reduction_.combine_payloads(a.high, b.high)};
  }
  [[nodiscard]] WEFT_HD Line finished(Line line) const {
    return {.low = reduction_.finish_payload(line.low),
            .high = reduction_.finish_payload(line.high)};
  }

  // Payload by payload: floats of all of them at once would take too many registers.
  [[nodiscard]] WEFT_HD LineShare accumulated(const LineShare& own,
                                              const LineShare (&arrived)[kRanks]) const {
    const auto payload = [&](const auto& part) {
      return reduction_.template accumulate_ranks<kRanks>(peers_.ranks, [&](std::uint32_t rank) {
        return part(rank == peers_.rank ? own : payload_of(arrived[rank]));
      });
    };
    return {.first = {.low = payload([](const LineShare& of) { return of.first.low; }),
                      .high = payload([](const LineShare& of) { return of.first.high; })},
            .second = {.low = payload([](const LineShare& of) { return of.second.low; }),
                       .high = payload([](const LineShare& of) { return of.second.high; })}};
  }

  /// Where this lane's part of the first line of a pair lies in an inbox.
  [[nodiscard]] WEFT_HD std::uint64_t box_place(const Exchange& exchange,
                                                std::uint32_t pair) const {
    return exchange.half + std::uint64_t{pair} * 2 * kWideLineBytes + lane_ * sizeof(Line);
  }

  WEFT_HD_INLINE bool have_come(const Exchange& exchange, std::uint32_t pair,
                                const Expected& expected, Arrived& arrived) {
    group_.gather_gang();
    // Two loops: a look at the first line would wait for it before the next is asked for.
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint32_t now = of_batch(pair, i);
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.inbox[rank] == nullptr) continue;
        const std::byte* from =
            now < expected.pairs[rank] ? peers_.inbox[rank] + box_place(exchange, now) : nullptr;
        LineShare& share = arrived.from[i][rank];
        share.first = memory_.load_wide(group_, from, exchange.flag, last_);
        share.second = memory_.load_wide(group_, from == nullptr ? from : from + kWideLineBytes,
                                         exchange.flag, last_);
      }
    }
    std::uint64_t difference = 0;
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const LineShare& share = arrived.from[i][rank];
        const bool comes =
            peers_.inbox[rank] != nullptr && of_batch(pair, i) < expected.pairs[rank];
        if (comes)
          difference |= (share.first.high ^ exchange.flag) | (share.second.high ^ exchange.flag);
      }
    }
    const bool all = !last_ || difference == 0;
    return !group_.any_of_gang(!all);
  }

  WEFT_HD_INLINE bool wait_for(const Exchange& exchange, std::uint32_t pair,
                               const Expected& expected, Arrived& arrived) {
    bool leaves = false;
    for (std::uint32_t turn = 0; !have_come(exchange, pair, expected, arrived); ++turn) {
      if (leaves) {
        left_ = true;
        look_at_headers(exchange);
        return false;
      }
      const KernelOutcome seen = memory_.keep_waiting(turn, peers_);
      if (!group_.any_of_gang(seen.end != KernelEnd::kDone)) continue;
      outcome_ = seen;
      left_ = group_.any_of_gang(seen.end == KernelEnd::kAborted);
      if (left_) return false;
      // A peer that gave up wrote its lines before; they say more than that it did.
      leaves = true;
    }
    if (leaves) outcome_ = {};
    return true;
  }

  // Of a gang that leaves since a peer gave up: if that was for another call, the header, which
  // came before, says so. Lines of the gang's own may never come in a call that is shorter there,
  // or has another root; and who tells first of its gangs is heard.
  WEFT_HD void look_at_headers(const Exchange& exchange) {
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] == nullptr) continue;
      group_.gather_gang();
      const LineShare header = {
          .first = memory_.load_wide(group_, peers_.inbox[rank] + box_place(exchange, 0),
                                     exchange.flag, last_),
          .second = {}};
      if (!group_.any_of_gang(last_ && header.first.high != exchange.flag)) {
        compare_tag(rank, header);
      }
    }
  }

  WEFT_HD void compare_tag(std::uint32_t rank, const LineShare& header) {
    const std::uint64_t tag = header.first.low;
    if (lane_ != 0 || tag == item_.tag) return;
    outcome_ = {.end = KernelEnd::kTagMismatch, .peer = rank, .expected = item_.tag, .found = tag};
  }

  std::uint64_t position_ = 0;  // of the next exchange
  std::uint32_t first_ = 0;     // pair of this lane's gang
  std::uint32_t own_ = 0;       // of the gang's pairs
  std::uint32_t stride_ = 0;
};

}  // namespace weft::device
