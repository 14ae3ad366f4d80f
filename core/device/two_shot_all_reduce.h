// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct two-shot all-reduce: each rank gets from every other one the range that it owns, reduces
// it, and writes the result to all others. Two ways over the wire, and no more bytes than a ring
// sends. Payload lies plainly in an inbox, behind one header a part. A call is a row of exchanges
// (core/device/plain_exchanges.h), two for each piece.
//
// All ranges are reduced in the order of rank numbers, each by one rank, so all get the same bits.
//
// Model: tests/models/two_shot.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/lane_loops.h"
#include "core/device/plain_exchanges.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/model/direct_peers.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device {

/// A memory policy for groups of several lanes: what concerns all ranks is done in one pass.
template <class Memory>
concept combines_ranks = requires { requires Memory::kCombinesRanks; };

/// Whether a two-shot of `parts` parts fits between these peers, of which a kernel knows at most
/// `most_ranks`.
WEFT_HD inline bool fits_two_shot(const WorkItem& item, const DirectPeers& peers,
                                  std::uint32_t most_ranks, std::uint32_t parts) {
  const std::uint64_t element_bytes = element_size(item.type);
  return item.algorithm == Algorithm::kTwoShot && item.protocol == Protocol::kSimple &&
         item.operation == Operation::kAllReduce && element_bytes != 0 && item.count != 0 &&
         peers.ranks > 1 && peers.ranks <= most_ranks && peers.rank < peers.ranks &&
         peers.plain_positions != nullptr && parts != 0 && parts <= peers.plain_headers &&
         item.chunk != 0 && item.chunk % grain_elements(element_bytes) == 0 &&
         item.chunk <= peers.plain_half_bytes / element_bytes &&
         two_shot_place(item.chunk * element_bytes, parts, parts, peers.plain_headers) <=
             peers.plain_half_bytes;
}

/// Part `part` of `parts` of one call, by one group. All lanes make the same one. `kRanks` bounds
/// the ranks; fits_two_shot() must hold.
template <std::uint32_t kRanks, class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class TwoShotAllReduce : PlainExchanges<Group, Memory> {
  using Base = PlainExchanges<Group, Memory>;

 public:
  WEFT_HD TwoShotAllReduce(Group& group, Memory& memory, const WorkItem& item,
                           const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                           std::uint32_t parts)
      : Base(group, memory, item, peers, part, parts),
        reduction_(reduction),
        element_bytes_(element_size(item.type)),
        place_(two_shot_place(item.chunk * element_bytes_, part, parts, peers.plain_headers)) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    for (std::uint64_t base = 0; base < item_.count && done_; base += piece_.chunk * peers_.ranks) {
      piece_ = two_shot_piece(base, item_.count, item_.chunk, peers_.ranks, element_bytes_);
      begin_exchange();
      scatter();
      if (!await_all()) break;
      begin_exchange();
      reduce();
      if (!await_all()) break;
      gather();
    }
    finish();
    return outcome_;
  }

 private:
  static constexpr bool kWide = combines_ranks<Memory>;
  using Base::await_all;
  using Base::begin_exchange;
  using Base::done_;
  using Base::finish;
  using Base::group_;
  using Base::half_;
  using Base::half_before;
  using Base::item_;
  using Base::memory_;
  using Base::other;
  using Base::outcome_;
  using Base::part_;
  using Base::parts_;
  using Base::peers_;
  using Base::post_all;
  using Base::post_to;

  /// This part's share of a rank's range.
  [[nodiscard]] WEFT_HD Extent share_of(std::uint32_t rank) const {
    return two_shot_share(piece_.extent(rank, item_.count), part_, parts_, element_bytes_);
  }
  [[nodiscard]] WEFT_HD const std::byte* input(Extent share) const {
    return item_.send + share.offset * element_bytes_;
  }
  [[nodiscard]] WEFT_HD std::byte* output(Extent share) const {
    return item_.recv + share.offset * element_bytes_;
  }
  [[nodiscard]] WEFT_HD std::byte* payload_in(std::byte* box) const { return box + half_ + place_; }

  WEFT_HD void scatter() {
    if constexpr (kWide) {
      if (premultiplies(reduction_)) {
        for (std::uint32_t step = 0; step + 1 < peers_.ranks; ++step)
          push_input(other(step));
        post_all();
        return;
      }
      const std::byte* from[kRanks] = {};
      std::byte* to[kRanks] = {};
      std::uint64_t bytes[kRanks] = {};
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (rank >= peers_.ranks || rank == peers_.rank) continue;
        const Extent share = share_of(rank);
        from[rank] = input(share);
        to[rank] = payload_in(peers_.outbox[rank]);
        bytes[rank] = share.count * element_bytes_;
      }
      lane_copy_each<kRanks>(group_, memory_, to, from, bytes);
      post_all();
    } else {
      for (std::uint32_t step = 0; step + 1 < peers_.ranks; ++step) {
        push_input(other(step));
        post_to(other(step));
      }
    }
  }

  WEFT_HD void push_input(std::uint32_t peer) {
    const Extent share = share_of(peer);
    if (share.count == 0) return;
    std::byte* to = payload_in(peers_.outbox[peer]);
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        memory_.premultiply_copy(reduction_, group_, to, input(share), share.count);
        return;
      }
    }
    memory_.copy(group_, to, nullptr, input(share), share.count * element_bytes_);
  }

  /// What came, with this rank's own input, to the output and to all others.
  WEFT_HD void reduce() {
    const Extent share = share_of(peers_.rank);
    if constexpr (kWide) {
      const std::byte* const mine = own_input(share);
      const std::byte* from[kRanks] = {};
      std::byte* to[kRanks] = {};
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (rank >= peers_.ranks) continue;
        const bool own = rank == peers_.rank;
        from[rank] = own ? mine : arrived(rank);
        to[rank] = own ? output(share) : payload_in(peers_.outbox[rank]);
      }
      lane_reduce_ranks<kRanks>(reduction_, group_, memory_, to, from, peers_.ranks, share.count);
      post_all();
    } else {
      reduce_one_by_one(share);
      post_all();
    }
  }

  /// This rank's own input, multiplied if that is asked for: then it lies where the result will.
  [[nodiscard]] WEFT_HD const std::byte* own_input(Extent share) {
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        if (share.count != 0) {
          memory_.premultiply_copy(reduction_, group_, output(share), input(share), share.count);
        }
        group_.sync();
        return output(share);
      }
    }
    return input(share);
  }

  /// Where what rank `rank` wrote in the exchange before this one lies.
  [[nodiscard]] WEFT_HD std::byte* arrived(std::uint32_t rank) const {
    return peers_.inbox[rank] + half_before() + place_;
  }

  // Tile by tile, so that what one step writes is near when the next one reads it.
  WEFT_HD void reduce_one_by_one(Extent share) {
    constexpr std::uint64_t kTileBytes = 4096;
    const std::uint64_t tile = kTileBytes / element_bytes_;
    for (std::uint64_t at = 0; at < share.count; at += tile) {
      const std::uint64_t left = share.count - at;
      reduce_tile({.offset = share.offset + at, .count = left < tile ? left : tile},
                  at * element_bytes_);
    }
  }

  // What lies between the first step and the last lies where nobody needs the bytes any more. `at`:
  // the bytes of the share before the tile.
  WEFT_HD void reduce_tile(Extent tile, std::uint64_t at) {
    std::byte* between = arrived(peers_.rank == 0 ? 1 : 0) + at;
    std::byte* const nearest = payload_in(peers_.outbox[other(0)]) + at;
    const bool finishes = reduction_.finishes();
    const auto from = [&](std::uint32_t rank) -> const std::byte* {
      return rank == peers_.rank ? input(tile) : arrived(rank) + at;
    };
    if (!accumulate(output(tile), nearest, from, tile.count)) {
      const std::byte* so_far = from(0);
      for (std::uint32_t rank = 1; rank < peers_.ranks; ++rank) {
        const bool last = rank + 1 == peers_.ranks;
        std::byte* to = last ? output(tile) : between;
        combine(to, last && !finishes ? nearest : nullptr, so_far, from(rank), rank, tile.count);
        so_far = to;
      }
      if (finishes) memory_.finish(reduction_, group_, output(tile), nearest, tile.count);
    }
    // Two at a time, which reads the result once.
    for (std::uint32_t step = 1; step + 1 < peers_.ranks; step += 2) {
      std::byte* second =
          step + 2 < peers_.ranks ? payload_in(peers_.outbox[other(step + 1)]) + at : nullptr;
      memory_.copy(group_, payload_in(peers_.outbox[other(step)]) + at, second, output(tile),
                   tile.count * element_bytes_);
    }
  }

  /// What all ranks have, where it is not to be combined step by step; false where it is.
  template <class From>
  WEFT_HD bool accumulate(std::byte* first, std::byte* second, const From& from_rank,
                          std::uint64_t count) {
    if constexpr (accumulates_inputs<Memory, Group, Reduction>) {
      if (reduction_.accumulates()) {
        const std::byte* from[kRanks];
        for (std::uint32_t rank = 0; rank < peers_.ranks; ++rank)
          from[rank] = from_rank(rank);
        memory_.accumulate(reduction_, group_, first, second, from, peers_.ranks, peers_.rank,
                           count);
        return true;
      }
    }
    return false;
  }

  // What came was multiplied by who sent it; this rank's own input still lies as the caller gave
  // it.
  WEFT_HD void combine(std::byte* first, std::byte* second, const std::byte* so_far,
                       const std::byte* next, std::uint32_t rank, std::uint64_t count) {
    if constexpr (may_premultiply<Reduction>) {
      const bool own_first = rank == 1 && peers_.rank == 0;
      if (reduction_.premultiplies() && (own_first || rank == peers_.rank)) {
        memory_.premultiply_reduce(reduction_, group_, first, second, own_first ? next : so_far,
                                   own_first ? so_far : next, count, own_first);
        return;
      }
    }
    memory_.reduce(reduction_, group_, first, second, so_far, next, count);
  }

  /// What others reduced, to the output.
  WEFT_HD void gather() {
    if constexpr (kWide) {
      const std::byte* from[kRanks] = {};
      std::byte* to[kRanks] = {};
      std::uint64_t bytes[kRanks] = {};
      WEFT_UNROLL
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (rank >= peers_.ranks || rank == peers_.rank) continue;
        const Extent share = share_of(rank);
        from[rank] = payload_in(peers_.inbox[rank]);
        to[rank] = output(share);
        bytes[rank] = share.count * element_bytes_;
      }
      lane_copy_each<kRanks>(group_, memory_, to, from, bytes);
    } else {
      for (std::uint32_t step = 0; step + 1 < peers_.ranks; ++step) {
        const Extent share = share_of(other(step));
        if (share.count == 0) continue;
        memory_.copy(group_, output(share), nullptr, payload_in(peers_.inbox[other(step)]),
                     share.count * element_bytes_);
      }
    }
  }

  const Reduction reduction_;
  const std::uint64_t element_bytes_;
  const std::uint64_t place_;  // of this part's payload in a half
  RingLoop piece_;
};

}  // namespace weft::device
