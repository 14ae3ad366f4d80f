// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Broadcasts and reduces over LL128 lines, each in one exchange of wide_exchanges.h: the root
// writes its input to all others, or all others write theirs to the root, which reduces in the
// order of rank numbers. Who has no payload for a rank writes it the header all the same, and all
// wait for the headers of all: that is what two halves suffice by.
//
// Model: tests/models/two_shot_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/one_shot_ll128.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/wide_exchanges.h"
#include "core/device/wide_lines.h"
#include "core/model/direct_peers.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Part `part` of `parts` of one call, by one group of whole gangs. All lanes make the same one.
/// `kRanks` bounds the ranks, so that what arrives stays in registers. fits_wide_lines() must hold,
/// and has_plain_ranges() where it is `kPlain`. The root is the origin of WorkItem::ring_position.
template <bool kPlain, Operation kOperation, std::uint32_t kRanks, class Reduction, class Group,
          class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class RootedLL128 : WideExchanges<kRanks, Reduction, Group, Memory> {
  using Base = WideExchanges<kRanks, Reduction, Group, Memory>;
  using typename Base::Arrived;
  using typename Base::Exchange;
  using typename Base::Expected;
  static_assert(kOperation == Operation::kBroadcast || kOperation == Operation::kReduce);
  static constexpr bool kReduces = kOperation == Operation::kReduce;

 public:
  WEFT_HD RootedLL128(Group& group, Memory& memory, const WorkItem& item, const DirectPeers& peers,
                      const Reduction& reduction, std::uint32_t part, std::uint32_t parts)
      : Base(group, memory, item, peers, reduction, part, parts),
        bytes_(item.count * element_size(item.type)),
        pairs_(static_cast<std::uint32_t>(wide_pairs(bytes_))),
        root_((peers.rank < item.ring_position ? peers.ranks : 0) + peers.rank -
              item.ring_position),
        sends_((root_ == peers.rank) != kReduces) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    const Exchange exchange = this->next_exchange();
    push_headers(exchange);
    if (sends_) push_payload(exchange);
    take_headers(exchange);
    if (!sends_) take_payload(exchange);
    this->finish();
    return this->outcome_;
  }

 private:
  using Base::item_;
  using Base::kBatch;
  using Base::peers_;

  /// Whether this rank writes its input to that one.
  [[nodiscard]] WEFT_HD bool gets_payload(std::uint32_t rank) const {
    return sends_ && (!kReduces || rank == root_);
  }

  /// To those that get nothing else.
  WEFT_HD void push_headers(const Exchange& exchange) {
    this->for_each_batch(1, [&](std::uint32_t pair) {
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.outbox[rank] == nullptr || gets_payload(rank)) continue;
        this->push(exchange, rank, pair, this->header(), pair != 0);
      }
    });
  }

  /// This rank's input, behind a header; of a broadcast also to its output.
  WEFT_HD void push_payload(const Exchange& exchange) {
    const bool keeps = !kReduces && item_.send != item_.recv;
    this->for_each_batch(pairs_, [&](std::uint32_t pair) {
      LineShare own[kBatch];
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i)
        own[i] = own_share(this->of_batch(pair, i));
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        if constexpr (kReduces) {
          const LineShare share = now == 0 ? own[i] : this->contribution(own[i]);
          this->push(exchange, root_, now, share, now >= pairs_);
        } else {
          WEFT_UNROLL
          for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
            if (peers_.outbox[rank] == nullptr) continue;
            this->push(exchange, rank, now, own[i], now >= pairs_);
          }
          if (keeps && now != 0) store(now, own[i]);
        }
      }
    });
  }

  // Before any payload: of calls that differ both may wait for what nobody sends.
  WEFT_HD void take_headers(const Exchange& exchange) {
    Expected expected;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      expected.pairs[rank] = 1;
    this->for_each_batch(1, [&](std::uint32_t pair) {
      Arrived arrived;
      static_cast<void>(this->take(exchange, pair, expected, arrived));
    });
  }

  /// What comes with payload from the root, or to it with this rank's own, to the output.
  WEFT_HD void take_payload(const Exchange& exchange) {
    Expected expected;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      expected.pairs[rank] = kReduces || rank == root_ ? pairs_ : 1;
    this->for_each_batch(pairs_, [&](std::uint32_t pair) {
      LineShare own[kBatch];
      if constexpr (kReduces) {
        WEFT_UNROLL
        for (std::uint32_t i = 0; i < kBatch; ++i)
          own[i] = own_share(this->of_batch(pair, i));
      }
      Arrived arrived;
      if (!this->take(exchange, pair, expected, arrived)) return;
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        if (now == 0) continue;
        if constexpr (kReduces) {
          store(now, this->combined(this->contribution(own[i]), arrived.from[i]));
        } else {
          store(now, this->payload_of(of_root(arrived.from[i])));
        }
      }
    });
  }

  // By masks: a compiler would have a place that it does not know pass through memory.
  [[nodiscard]] WEFT_HD LineShare of_root(const LineShare (&arrived)[kRanks]) const {
    LineShare share{};
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.inbox[rank] == nullptr) continue;
      const std::uint64_t mask = rank == root_ ? ~std::uint64_t{0} : 0;
      share.first.low |= arrived[rank].first.low & mask;
      share.first.high |= arrived[rank].first.high & mask;
      share.second.low |= arrived[rank].second.low & mask;
      share.second.high |= arrived[rank].second.high & mask;
    }
    return share;
  }

  [[nodiscard]] WEFT_HD LineShare own_share(std::uint32_t pair) const {
    return pair == 0 ? this->header() : this->template load_share<kPlain>(item_.send, bytes_, pair);
  }
  WEFT_HD void store(std::uint32_t pair, const LineShare& share) {
    this->template store_share<kPlain>(item_.recv, bytes_, pair, share);
  }

  const std::uint64_t bytes_;
  const std::uint32_t pairs_;
  const std::uint32_t root_;
  const bool sends_;
};

}  // namespace weft::device
