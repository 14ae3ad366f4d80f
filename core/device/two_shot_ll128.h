// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct calls over LL128 lines in which each rank has a range of its own: the all-reduce by
// two-shot, and its halves. In the first exchange each rank gets from every other one what those
// have of its range, and reduces it; in the second it writes its range to all others. A
// reduce-scatter is the first alone, an all-gather the second, and an all-to-all the first without
// the sum. Nobody waits for anything but lines: no fence, no counter, no barrier of a group.
//
// A call is a row of pieces, each of one exchange or two. That two halves of an inbox suffice for
// any number of them rests on all ranks giving a pair of lines to the same gang, which goes through
// the exchanges in their order: who gets a pair of one knows that the same gang over there has
// taken its own pairs of the one before. So where a piece is one exchange, each piece of a call has
// as many pairs, also where it has less payload: the next call begins in the half of the last but
// one.
//
// Ranges are reduced in the order of rank numbers, each by one rank, so all get the same bits.
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
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Whether such a call fits between these peers, of which a kernel knows at most `most_ranks`.
WEFT_HD inline bool fits_wide_ranges(const WorkItem& item, const DirectPeers& peers,
                                     std::uint32_t most_ranks) {
  const std::uint64_t element_bytes = element_size(item.type);
  const bool blocks = item.operation == Operation::kReduceScatter ||
                      item.operation == Operation::kAllGather ||
                      item.operation == Operation::kAllToAll;
  const Algorithm algorithm = blocks ? Algorithm::kDirect : Algorithm::kTwoShot;
  return item.algorithm == algorithm && item.protocol == Protocol::kLL128 &&
         (blocks || item.operation == Operation::kAllReduce) && element_bytes != 0 &&
         item.count != 0 && peers.ranks > 1 && peers.ranks <= most_ranks &&
         peers.rank < peers.ranks && peers.wide_positions != nullptr && item.chunk != 0 &&
         item.chunk % grain_elements(element_bytes) == 0 &&
         item.chunk <= kMostDirectBytes / element_bytes &&
         wide_half_bytes(item.chunk * element_bytes) <= peers.wide_half_bytes;
}

/// Whether in such a call each lane has all of its 16 bytes or none, and they are aligned.
WEFT_HD inline bool has_plain_ranges(const WorkItem& item) {
  return (reinterpret_cast<std::uintptr_t>(item.send) |
          reinterpret_cast<std::uintptr_t>(item.recv) | (item.count * element_size(item.type))) %
             sizeof(Line) ==
         0;
}

/// What they have in common: which bytes each rank's range of a piece has. Otherwise as
/// WideExchanges. A block is a range as it is; an all-reduce is cut into ranges.
template <Operation kOperation, std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class WideRanges : protected WideExchanges<kRanks, Reduction, Group, Memory> {
 protected:
  using Base = WideExchanges<kRanks, Reduction, Group, Memory>;
  using Base::item_;
  using Base::kBatch;
  using Base::peers_;
  using typename Base::Arrived;
  using typename Base::Exchange;
  using typename Base::Expected;
  static constexpr bool kIsCut = kOperation == Operation::kAllReduce;
  static constexpr bool kReduces = reduces(kOperation);
  static constexpr bool kKeepsOwn = kOperation == Operation::kAllToAll;

  using Base::Base;

  /// Visits all pieces, as long as the gang stays.
  template <class Visit>
  WEFT_HD void for_each_piece(Visit visit) {
    const std::uint64_t element_bytes = element_size(item_.type);
    std::uint64_t chunk = kIsCut ? 0 : even_chunk(element_bytes);
    for (std::uint64_t base = 0; base < item_.count && !this->left_;) {
      const std::uint64_t left = item_.count - base;
      if constexpr (kIsCut) {
        chunk = two_shot_piece(base, item_.count, item_.chunk, peers_.ranks, element_bytes).chunk;
      }
      const std::uint64_t all = chunk * (kIsCut ? peers_.ranks : 1);
      in_ = item_.send + base * element_bytes;
      out_ = item_.recv + base * element_bytes;
      stride_ = (kIsCut ? chunk : item_.count) * element_bytes;
      range_bytes_ = static_cast<std::uint32_t>(chunk * element_bytes);
      piece_bytes_ = static_cast<std::uint32_t>((left < all ? left : all) * element_bytes);
      pairs_ = pairs_of_bytes(range_bytes_);
      visit();
      base += all;
    }
  }

  /// Where rank `rank`'s range of the piece lies in a buffer that holds all of them.
  [[nodiscard]] WEFT_HD const std::byte* input_of(std::uint32_t rank) const {
    return in_ + rank * stride_;
  }
  [[nodiscard]] WEFT_HD std::byte* output_of(std::uint32_t rank) const {
    return out_ + rank * stride_;
  }
  [[nodiscard]] WEFT_HD std::uint32_t bytes_of(std::uint32_t rank) const {
    if constexpr (!kIsCut) return piece_bytes_;
    const std::uint32_t before = rank * range_bytes_;
    const std::uint32_t rest = before < piece_bytes_ ? piece_bytes_ - before : 0;
    return rest < range_bytes_ ? rest : range_bytes_;
  }
  /// Pairs that carry it, the header among them.
  [[nodiscard]] WEFT_HD std::uint32_t pairs_of(std::uint32_t rank) const {
    return kIsCut ? pairs_of_bytes(bytes_of(rank)) : pairs_;
  }

  WEFT_HD void push_to_all(const Exchange& exchange, std::uint32_t pair, const LineShare& share,
                           bool skip) {
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.outbox[rank] != nullptr) this->push(exchange, rank, pair, share, skip);
    }
  }

  /// Everybody's share of this rank's input, to them, and of an all-to-all its own to the output:
  /// of a batch all loads first.
  template <bool kPlain>
  WEFT_HD void scatter(const Exchange& exchange) {
    const bool keeps = kKeepsOwn && input_of(peers_.rank) != output_of(peers_.rank);
    const auto is_loaded = [&](std::uint32_t rank) {
      return peers_.outbox[rank] != nullptr || (keeps && rank == peers_.rank);
    };
    this->for_each_batch(pairs_, [&](std::uint32_t pair) {
      LineShare shares[kBatch][kRanks];
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        WEFT_UNROLL
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
          if (!is_loaded(rank)) continue;
          shares[i][rank] =
              now == 0 ? this->header()
                       : this->template load_share<kPlain>(input_of(rank), bytes_of(rank), now);
        }
      }
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        WEFT_UNROLL
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
          if (peers_.outbox[rank] != nullptr) {
            const LineShare share =
                now == 0 || !kReduces ? shares[i][rank] : this->contribution(shares[i][rank]);
            this->push(exchange, rank, now, share, now >= pairs_of(rank));
          } else if (is_loaded(rank) && now != 0) {
            this->template store_share<kPlain>(output_of(rank), bytes_of(rank), now,
                                               shares[i][rank]);
          }
        }
      }
    });
  }

  /// What others wrote of their ranges in this exchange, to the output.
  template <bool kPlain>
  WEFT_HD void gather(const Exchange& exchange) {
    Expected expected;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      expected.pairs[rank] = pairs_of(rank);
    this->for_each_batch(pairs_, [&](std::uint32_t pair) {
      Arrived arrived;
      if (!this->take(exchange, pair, expected, arrived)) return;
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        WEFT_UNROLL
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
          if (peers_.inbox[rank] == nullptr || now == 0) continue;
          this->template store_share<kPlain>(output_of(rank), bytes_of(rank), now,
                                             this->payload_of(arrived.from[i][rank]));
        }
      }
    });
  }

  /// Elements of each piece of a block but the last.
  [[nodiscard]] WEFT_HD std::uint64_t even_chunk(std::uint64_t element_bytes) const {
    const std::uint64_t pieces = quotient(item_.count + item_.chunk - 1, item_.chunk);
    return rounded_to_grains(quotient(item_.count + pieces - 1, pieces),
                             grain_elements(element_bytes));
  }

  [[nodiscard]] WEFT_HD static std::uint32_t pairs_of_bytes(std::uint32_t bytes) {
    return 1 + (bytes + kWidePairPayload - 1) / kWidePairPayload;
  }

  // Of the piece.
  const std::byte* in_ = nullptr;  // where its first range begins
  std::byte* out_ = nullptr;       // the same
  std::uint64_t stride_ = 0;       // bytes from a range to the next
  std::uint32_t range_bytes_ = 0;  // of the longest range, or of the longest piece of a block
  std::uint32_t piece_bytes_ = 0;  // of all ranges together, or of the block's piece
  std::uint32_t pairs_ = 0;        // that range_bytes_ take
};

/// An all-reduce or a reduce-scatter: part `part` of `parts` of one call, by one group of whole
/// gangs. All lanes make the same one, and all ranks have as many parts and lanes. `kRanks` bounds
/// the ranks, so that what arrives stays in registers. fits_wide_ranges() must hold, and
/// has_plain_ranges() where it is `kPlain`. WorkItem::count is that of a block where there are
/// blocks; WorkItem::chunk, the most elements of a range.
template <bool kPlain, Operation kOperation, std::uint32_t kRanks, class Reduction, class Group,
          class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class TwoShotLL128 : WideRanges<kOperation, kRanks, Reduction, Group, Memory> {
  using Base = WideRanges<kOperation, kRanks, Reduction, Group, Memory>;
  using Base::kBatch;
  using Base::peers_;
  using typename Base::Arrived;
  using typename Base::Exchange;
  using typename Base::Expected;
  static constexpr bool kGathers = kOperation == Operation::kAllReduce;

 public:
  WEFT_HD TwoShotLL128(Group& group, Memory& memory, const WorkItem& item, const DirectPeers& peers,
                       const Reduction& reduction, std::uint32_t part, std::uint32_t parts)
      : Base(group, memory, item, peers, reduction, part, parts) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    this->for_each_piece([&] {
      const Exchange first = this->next_exchange();
      this->template scatter<kPlain>(first);
      if constexpr (kGathers) {
        const Exchange second = this->next_exchange();
        reduce(first, second);
        this->template gather<kPlain>(second);
      } else {
        reduce(first, first);
      }
    });
    this->finish();
    return this->outcome_;
  }

 private:
  /// What came of this rank's range, with its own, to the output; of all-reduces also to all
  /// others.
  WEFT_HD void reduce(const Exchange& first, const Exchange& second) {
    const std::uint32_t bytes = this->bytes_of(peers_.rank);
    const std::uint32_t pairs = this->pairs_of(peers_.rank);
    const std::byte* const from = this->input_of(peers_.rank);
    std::byte* const to = kGathers ? this->output_of(peers_.rank) : this->out_;
    Expected expected;
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      expected.pairs[rank] = pairs;
    this->for_each_batch(pairs, [&](std::uint32_t pair) {
      LineShare own[kBatch];
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        own[i] = now == 0 ? this->header() : this->template load_share<kPlain>(from, bytes, now);
      }
      Arrived arrived;
      if (!this->take(first, pair, expected, arrived)) return;
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        const LineShare reduced =
            now == 0 ? own[i] : this->combined(this->contribution(own[i]), arrived.from[i]);
        if constexpr (kGathers) this->push_to_all(second, now, reduced, now >= pairs);
        if (now != 0) this->template store_share<kPlain>(to, bytes, now, reduced);
      }
    });
  }
};

/// The same of an all-to-all. What a lane writes to the output it has loaded before, of the same
/// place in each block.
template <bool kPlain, std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class AllToAllLL128 : WideRanges<Operation::kAllToAll, kRanks, Reduction, Group, Memory> {
  using Base = WideRanges<Operation::kAllToAll, kRanks, Reduction, Group, Memory>;

 public:
  WEFT_HD AllToAllLL128(Group& group, Memory& memory, const WorkItem& item,
                        const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                        std::uint32_t parts)
      : Base(group, memory, item, peers, reduction, part, parts) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    this->for_each_piece([&] {
      const typename Base::Exchange exchange = this->next_exchange();
      this->template scatter<kPlain>(exchange);
      this->template gather<kPlain>(exchange);
    });
    this->finish();
    return this->outcome_;
  }
};

/// The same of an all-gather.
template <bool kPlain, std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires gang_group<Group> && wide_line_memory<Memory, Group>
class AllGatherLL128 : WideRanges<Operation::kAllGather, kRanks, Reduction, Group, Memory> {
  using Base = WideRanges<Operation::kAllGather, kRanks, Reduction, Group, Memory>;
  using Base::kBatch;
  using Base::peers_;
  using typename Base::Exchange;

 public:
  WEFT_HD AllGatherLL128(Group& group, Memory& memory, const WorkItem& item,
                         const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                         std::uint32_t parts)
      : Base(group, memory, item, peers, reduction, part, parts) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    this->begin();
    this->for_each_piece([&] {
      const Exchange exchange = this->next_exchange();
      push_own(exchange);
      this->template gather<kPlain>(exchange);
    });
    this->finish();
    return this->outcome_;
  }

 private:
  /// This rank's own block, to all others and to its place in the output.
  WEFT_HD void push_own(const Exchange& exchange) {
    const std::byte* const from = this->in_;
    std::byte* const to = this->output_of(peers_.rank);
    const bool moves = from != to;
    this->for_each_batch(this->pairs_, [&](std::uint32_t pair) {
      LineShare own[kBatch];
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        own[i] = now == 0 ? this->header()
                          : this->template load_share<kPlain>(from, this->piece_bytes_, now);
      }
      WEFT_UNROLL
      for (std::uint32_t i = 0; i < kBatch; ++i) {
        const std::uint32_t now = this->of_batch(pair, i);
        this->push_to_all(exchange, now, own[i], now >= this->pairs_);
        if (moves && now != 0) {
          this->template store_share<kPlain>(to, this->piece_bytes_, now, own[i]);
        }
      }
    });
  }
};

}  // namespace weft::device
