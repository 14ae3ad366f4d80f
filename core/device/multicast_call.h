// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-reduce, all-gather and reduce-scatter by multicast: a two-shot whose halves a switch does.
// Each rank stages its input in memory of its own that the common address stands for, then gets its
// range from there combined over all ranks, or has its block there, stores that to all ranks at
// once, and takes what it wants out of its own memory again.
//
// A piece is two meetings of the same part of all ranks, exchanges through inboxes
// (core/device/plain_exchanges.h) that carry headers alone. After the first all have staged, and
// have taken out what the piece before left there; after the second all have combined. Between the
// first and the second only the owner of a range touches it, in the memory of all ranks; at any
// other time each rank touches its own memory alone. So one place for each share is enough, and a
// rank whose calls have ended well is left alone by all others.
//
// Switches combine in an order of their own: results of floats may differ from those of other ways,
// in their last bits, but are the same on all ranks, since each element is combined once.
//
// Model: tests/models/multicast.pml
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "core/device/plain_exchanges.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Memory that one address may stand for on all ranks. Any lane calls any of it.
///  - reduce_load(reduction, view, at): the 16 aligned bytes `at` bytes from the beginning of each
///    rank's memory, combined over all ranks in any order, and finished; switches_combine() holds.
///  - store_all(view, at, line): stores them to all ranks.
///  - join_addresses(): what this lane stored by one of the two addresses before, and what others
///    stored that it has seen, is loaded by the other one after.
template <class T, class R>
concept multicast_memory = requires(T& memory, const R& reduction, const MulticastView& view,
                                    std::uint64_t at, Line line) {
  { memory.reduce_load(reduction, view, at) } -> std::same_as<Line>;
  memory.store_all(view, at, line);
  memory.join_addresses();
};

/// Whether a call of `parts` parts fits between these peers.
WEFT_HD inline bool fits_multicast_call(const WorkItem& item, const DirectPeers& peers,
                                        const MulticastView& view, std::uint32_t parts) {
  const std::uint64_t element_bytes = element_size(item.type);
  if (item.algorithm != Algorithm::kMulticast || item.protocol != Protocol::kSimple ||
      !fits_multicast(item.operation) || element_bytes == 0 || item.count == 0 || peers.ranks < 2 ||
      peers.ranks > kMostDirectRanks || peers.rank >= peers.ranks ||
      peers.plain_positions == nullptr || parts == 0 || parts > peers.plain_headers ||
      item.chunk == 0 || item.chunk % grain_elements(element_bytes) != 0 ||
      item.chunk > view.bytes / element_bytes) {
    return false;
  }
  return view.own != nullptr &&
         multicast_places(item.chunk * element_bytes, peers.ranks, parts).at(parts, 0) <=
             view.bytes &&
         (!reduces(item.operation) || switches_combine(item.type, item.reduction));
}

/// Part `part` of `parts` of one call, by one group. All lanes make the same one.
/// fits_multicast_call() must hold.
template <class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group> && multicast_memory<Memory, Reduction>
class MulticastCall : PlainExchanges<Group, Memory> {
  using Base = PlainExchanges<Group, Memory>;

 public:
  WEFT_HD MulticastCall(Group& group, Memory& memory, const WorkItem& item,
                        const DirectPeers& peers, const MulticastView& view,
                        const Reduction& reduction, std::uint32_t part, std::uint32_t parts)
      : Base(group, memory, item, peers, part, parts),
        view_(view),
        reduction_(reduction),
        element_bytes_(element_size(item.type)),
        places_(multicast_places(item.chunk * element_bytes_, peers.ranks, parts)) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    for (std::uint64_t base = 0; base < item_.count;
         base += multicast_step(item_.operation, piece_, peers_.ranks)) {
      piece_ = multicast_piece(item_.operation, base, item_.count, item_.chunk, peers_.ranks,
                               element_bytes_);
      // Another lane may still take out what a lane stages over.
      if (base != 0) group_.sync();
      stage();
      if (!meet()) break;
      combine();
      if (!meet()) break;
      take_out();
    }
    this->finish();
    return this->outcome_;
  }

 private:
  using Base::group_;
  using Base::item_;
  using Base::memory_;
  using Base::part_;
  using Base::parts_;
  using Base::peers_;

  [[nodiscard]] WEFT_HD bool gathers() const { return item_.operation == Operation::kAllGather; }
  [[nodiscard]] WEFT_HD bool scatters() const {
    return item_.operation == Operation::kReduceScatter;
  }

  /// This part's share of a rank's range.
  [[nodiscard]] WEFT_HD Extent share_of(std::uint32_t rank) const {
    return two_shot_share(multicast_range(item_.operation, piece_, rank, item_.count), part_,
                          parts_, element_bytes_);
  }
  [[nodiscard]] WEFT_HD std::uint64_t place_of(std::uint32_t rank) const {
    return places_.at(part_, rank);
  }
  /// Bytes from the beginning of a buffer that holds a block for each rank, or one for all.
  [[nodiscard]] WEFT_HD std::uint64_t offset_of(std::uint32_t rank, Extent share,
                                                bool has_all_blocks) const {
    return (share.offset + (has_all_blocks ? rank * item_.stride : 0)) * element_bytes_;
  }

  WEFT_HD bool meet() {
    memory_.join_addresses();
    this->begin_exchange();
    this->post_all();
    if (!this->await_all()) return false;
    memory_.join_addresses();
    return true;
  }

  /// This rank's input, to its own memory.
  WEFT_HD void stage() {
    for (std::uint32_t rank = 0; rank < peers_.ranks; ++rank) {
      if (gathers() && rank != peers_.rank) continue;
      const Extent share = share_of(rank);
      if (share.count == 0) continue;
      std::byte* const to = view_.own + place_of(rank);
      const std::byte* const from = item_.send + offset_of(rank, share, scatters());
      if constexpr (may_premultiply<Reduction>) {
        if (reduction_.premultiplies()) {
          memory_.premultiply_copy(reduction_, group_, to, from, share.count);
          continue;
        }
      }
      memory_.copy(group_, to, nullptr, from, share.count * element_bytes_);
    }
  }

  // Whole lines, since places are: what the last one holds beyond the share nobody takes out.
  WEFT_HD void combine() {
    const std::uint64_t bytes = share_of(peers_.rank).count * element_bytes_;
    const std::uint64_t place = place_of(peers_.rank);
    for (std::uint64_t at = group_.rank() * sizeof(Line); at < bytes;
         at += static_cast<std::uint64_t>(group_.size()) * sizeof(Line)) {
      const Line line = gathers() ? memory_.load_line(view_.own + place + at)
                                  : memory_.reduce_load(reduction_, view_, place + at);
      if (scatters()) {
        memory_.store_line(view_.own + place + at, line);
      } else {
        memory_.store_all(view_, place + at, line);
      }
    }
  }

  /// What has come, to the output.
  WEFT_HD void take_out() {
    for (std::uint32_t rank = 0; rank < peers_.ranks; ++rank) {
      if (scatters() && rank != peers_.rank) continue;
      const Extent share = share_of(rank);
      if (share.count == 0) continue;
      memory_.copy(group_, item_.recv + offset_of(rank, share, gathers()), nullptr,
                   view_.own + place_of(rank), share.count * element_bytes_);
    }
  }

  const MulticastView& view_;
  const Reduction reduction_;
  const std::uint64_t element_bytes_;
  const MulticastPlaces places_;
  RingLoop piece_;
};

}  // namespace weft::device
