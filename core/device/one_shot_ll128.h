// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct one-shot all-reduce over LL128 lines: as one_shot_all_reduce.h, in one exchange of
// wide_exchanges.h. All ranks reduce in the order of rank numbers, so all get the same bits.
//
// Model: tests/models/two_shot_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/wide_exchanges.h"
#include "core/device/wide_lines.h"
#include "core/model/direct_peers.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Whether a call of one exchange, an all-reduce or one of rooted_ll128.h, fits between these
/// peers, of which a kernel knows at most `most_ranks`.
WEFT_HD inline bool fits_wide_lines(const WorkItem& item, const DirectPeers& peers,
                                    std::uint32_t most_ranks) {
  const std::uint64_t element_bytes = element_size(item.type);
  const bool rooted =
      item.operation == Operation::kBroadcast || item.operation == Operation::kReduce;
  return item.algorithm == Algorithm::kDirect && item.protocol == Protocol::kLL128 &&
         (item.operation == Operation::kAllReduce ||
          (rooted && item.ring_position < peers.ranks)) &&
         element_bytes != 0 && item.count != 0 && item.count <= kMostDirectBytes / element_bytes &&
         peers.ranks > 1 && peers.ranks <= most_ranks && peers.rank < peers.ranks &&
         peers.wide_positions != nullptr &&
         wide_half_bytes(item.count * element_bytes) <= peers.wide_half_bytes;
}

/// Part `part` of `parts` of one call, by one group of whole gangs. All lanes make the same one.
/// `kRanks` bounds the ranks, so that what arrives stays in registers. fits_wide_lines() must hold.
template <std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class OneShotLL128 : WideExchanges<kRanks, Reduction, Group, Memory> {
  using Base = WideExchanges<kRanks, Reduction, Group, Memory>;
  using typename Base::Arrived;
  using typename Base::Expected;

 public:
  WEFT_HD OneShotLL128(Group& group, Memory& memory, const WorkItem& item, const DirectPeers& peers,
                       const Reduction& reduction, std::uint32_t part, std::uint32_t parts)
      : Base(group, memory, item, peers, reduction, part, parts),
        bytes_(item.count * reduction.element_bytes()),
        pairs_(static_cast<std::uint32_t>(wide_pairs(bytes_))),
        plain_((reinterpret_cast<std::uintptr_t>(item.send) |
                reinterpret_cast<std::uintptr_t>(item.recv) | bytes_) %
                   sizeof(Line) ==
               0) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    exchange_ = this->next_exchange();
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      expected_.pairs[rank] = pairs_;
    if (plain_) {
      push_and_take<true>();
    } else {
      push_and_take<false>();
    }
    this->finish();
    return this->outcome_;
  }

 private:
  using Base::item_;
  using Base::kBatch;
  using Base::peers_;

  template <bool kPlain>
  WEFT_HD void push_and_take() {
    this->for_each_batch(pairs_, [&](std::uint32_t pair) { push_batch<kPlain>(pair); });
    this->for_each_batch(pairs_, [&](std::uint32_t pair) { take_batch<kPlain>(pair); });
  }

  template <bool kPlain>
  [[nodiscard]] WEFT_HD LineShare own_share(std::uint32_t pair) const {
    if (pair == 0 || pair >= pairs_) return this->header();
    return this->contribution(this->template load_share<kPlain>(item_.send, bytes_, pair));
  }

  template <bool kPlain>
  WEFT_HD void push_batch(std::uint32_t pair) {
    LineShare shares[kBatch];
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i)
      shares[i] = own_share<kPlain>(this->of_batch(pair, i));
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint32_t now = this->of_batch(pair, i);
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (peers_.outbox[rank] == nullptr) continue;
        this->push(exchange_, rank, now, shares[i], now >= pairs_);
      }
    }
  }

  template <bool kPlain>
  WEFT_HD void take_batch(std::uint32_t pair) {
    LineShare own[kBatch];
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i)
      own[i] = own_share<kPlain>(this->of_batch(pair, i));
    Arrived arrived;
    if (!this->take(exchange_, pair, expected_, arrived)) return;
    WEFT_UNROLL
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint32_t now = this->of_batch(pair, i);
      if (now == 0 || now >= pairs_) continue;
      this->template store_share<kPlain>(item_.recv, bytes_, now,
                                         this->combined(own[i], arrived.from[i]));
    }
  }

  const std::uint64_t bytes_;
  const std::uint32_t pairs_;
  const bool plain_;  // aligned to 16 bytes, on both sides and at the end
  typename Base::Exchange exchange_;
  Expected expected_;
};

}  // namespace weft::device
