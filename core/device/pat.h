// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-gather and reduce-scatter by parallel aggregated trees (core/model/pat_geometry.h), and
// all-reduce by both, one round after the other: every rank sends and gets the same messages in the
// same order, one after the other.
//
// Why none waits for ever: let all ranks have done the messages before this one. Each can fill its
// slot, since the one that lay there is two or more messages of this level older, and its receiver
// has given it back; so each fills it before it waits, and each gets what it waits for. Gathered
// blocks are copied out at once. Partial sums stay in the slots that they came in, since a caller's
// buffers have no room for them: a slot's sums are added to those of the next level and sent on as
// soon as both slots of a window of that level are there, so no more than two of a connection are
// ever kept.
//
// The same holds from half to half of an all-reduce and from round to round: who has done a half
// has given back all slots of it, and counts them, so each half begins as a call does. Two ranks
// may be joined by one connection at one level of the one half and at another of the other: of
// three ranks the one 2 places ahead is 1 behind. It is of one level within a half, and all ranks
// turn from half to half at the same message, so both its ends use it in the same order. A range is
// complete before any of it is gathered, and by then all of this rank's input has gone, or been
// added, so the output may lie where the input did.
//
// An all-reduce that gathers small inputs has the gathering half alone. Its blocks are whole inputs
// in memory of the group, and the output is first written when all are there.
//
// Model: tests/models/step_fifo.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/edge_walk.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/slot_check.h"
#include "core/model/connection_view.h"
#include "core/model/pat_geometry.h"
#include "core/model/pat_links.h"
#include "core/model/ring_geometry.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device {

/// One rank's part in one channel. All lanes make the same one. The links are those halves of
/// *item.pat that the operation has, over two slots or more; item.chunk fits into a slot.
template <class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class PatWalk : EdgeWalk<Group, Memory, Reduction> {
  using Base = EdgeWalk<Group, Memory, Reduction>;

 public:
  /// `gathered`: as of run_pat_item().
  WEFT_HD PatWalk(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction,
                  std::uint32_t element_bytes, std::byte* gathered)
      : Base(group, memory, item, reduction, element_bytes),
        operation_(pat_operation(item.operation, item.gathers_inputs)),
        blocks_(item.gathers_inputs ? gathered : item.recv),
        scatter_(item.pat->scatter),
        gather_(item.pat->gather),
        levels_(item.pat->levels),
        torus_{.ranks = item.ranks, .row = item.pat->row},
        round_(pat_round(operation_, item.ranks,
                         (pat_scatters(operation_) ? scatter_ : gather_).to[0].step_bytes,
                         item.count, item.chunk, element_bytes)) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    while (base_ < item_.count) {
      const std::uint64_t elements = cut_round();
      if (item_.gathers_inputs) bring_input();
      if (pat_scatters(operation_) && !scatter_round()) return leave();
      if (pat_gathers(operation_) && !gather_round()) return leave();
      if (item_.gathers_inputs) sum_up();
      base_ += elements;
    }
    return outcome();
  }

 private:
  using Base::add_input;
  using Base::await_filled;
  using Base::await_free;
  using Base::element_bytes_;
  using Base::give_back;
  using Base::group_;
  using Base::item_;
  using Base::memory_;
  using Base::outcome;
  using Base::pass_on;
  using Base::reduction_;
  using Base::slot;
  using Base::take_input;

  /// The round that begins at base_; answers how far it leads, in elements of the channel.
  WEFT_HD std::uint64_t cut_round() {
    const std::uint64_t left = item_.count - base_;
    std::uint64_t longest = left < item_.chunk ? left : item_.chunk;
    std::uint64_t elements = longest;
    even_ = true;
    if (operation_ == Operation::kAllReduce) {
      piece_ = two_shot_piece(base_, item_.count, item_.chunk, item_.ranks, element_bytes_);
      longest = piece_.chunk;
      even_ = longest * item_.ranks <= left;
      elements = even_ ? longest * item_.ranks : left;
    }
    even_bytes_ = static_cast<std::uint32_t>(longest * element_bytes_);
    even_count_ = longest;
    sought_.level = kMostPatLevels;
    return elements;
  }

  WEFT_HD bool gather_round() {
    for (std::uint32_t window = 0; window < round_.windows(); ++window) {
      for (std::uint32_t level = round_.opened_by(window) + 1; level-- != 0;) {
        const PatMessage message = round_.message(level, window >> level);
        if (message.count != 0 && !gather(message)) return false;
      }
    }
    end_half(gather_);
    return true;
  }

  WEFT_HD bool scatter_round() {
    for (std::uint32_t window = 0; window < round_.windows(); ++window) {
      for (std::uint32_t level = 0; level <= round_.closed_by(window); ++level) {
        const PatMessage message = round_.message(level, window >> level);
        if (message.count != 0 && !scatter(message)) return false;
      }
    }
    for (std::uint32_t level = 0; level < levels_; ++level)
      give_back(scatter_.from[level], round_.messages_over(level) - 1);
    end_half(scatter_);
    return true;
  }

  /// What this rank has of other trees goes ahead, and as much comes from behind.
  WEFT_HD bool gather(const PatMessage& message) {
    const ConnectionView& to = gather_.to[message.level];
    const ConnectionView& from = gather_.from[message.level];
    if (!await_free(to, message.number)) return false;
    std::byte* sent = slot(to, message.number);
    for (std::uint32_t i = 0; i < message.count; ++i) {
      const Extent block = block_of(message.near(i));
      std::byte* const own = blocks_ + block.offset * element_bytes_;
      const std::byte* source = own;
      std::byte* kept = nullptr;
      // A round that only gathers begins with this rank's own block alone, which is an input.
      if (item_.operation == Operation::kAllGather && message.level + 1 == levels_) {
        source = item_.send + base_ * element_bytes_;
        if (source != own) kept = own;
      }
      memory_.copy(group_, sent, kept, source, block.count * element_bytes_);
      sent += block.count * element_bytes_;
    }
    group_.sync();
    pass_on(to, message.number, bytes_of(message, message.near(0)));
    std::uint32_t offset = 0;
    if (!await_filled(from, message.number, bytes_of(message, message.far(0)), offset)) {
      return false;
    }
    const std::byte* arrived = slot(from, message.number) + offset;
    for (std::uint32_t i = 0; i < message.count; ++i) {
      const Extent block = block_of(message.far(i));
      memory_.copy(group_, blocks_ + block.offset * element_bytes_, nullptr, arrived,
                   block.count * element_bytes_);
      arrived += block.count * element_bytes_;
    }
    group_.sync();
    give_back(from, message.number);
    return true;
  }

  // Of inputs that are gathered: this rank's own, before.
  WEFT_HD void bring_input() {
    take_input(blocks_ + block_of(0).offset * element_bytes_, item_.send, item_.count);
    group_.sync();
  }

  // And the sum of all, afterwards, in memory of the group until the last one is added. The output
  // may lie where the input did, and a lane may write what another one read: every lane has brought
  // its part of the input by now.
  WEFT_HD void sum_up() {
    const std::uint64_t bytes = item_.count * element_bytes_;
    for (std::uint32_t place = 1; place < item_.ranks; ++place) {
      std::byte* const to = place + 1 == item_.ranks ? item_.recv : blocks_;
      memory_.reduce(reduction_, group_, to, nullptr, blocks_, blocks_ + place * bytes,
                     item_.count);
      group_.sync();
    }
    if (reduction_.finishes()) {
      memory_.finish(reduction_, group_, item_.recv, nullptr, item_.count);
    }
    group_.sync();
  }

  /// What this rank has summed up of other trees goes behind, and as much comes from ahead.
  WEFT_HD bool scatter(const PatMessage& message) {
    const std::uint32_t level = message.level;
    const ConnectionView& to = scatter_.to[level];
    const ConnectionView& from = scatter_.from[level];
    if (!await_free(to, message.number)) return false;
    std::byte* sum = slot(to, message.number);
    for (std::uint32_t i = 0; i < message.count; ++i) {
      const Extent block = block_of(message.far(i));
      const std::byte* const input = item_.send + block.offset * element_bytes_;
      const std::byte* const partial = partial_sum(message.far(i), level);
      if (partial != nullptr) {
        add_input(sum, partial, input, block.count);
      } else {
        take_input(sum, input, block.count);
      }
      sum += block.count * element_bytes_;
    }
    group_.sync();
    pass_on(to, message.number, bytes_of(message, message.far(0)));
    std::uint32_t offset = 0;
    if (!await_filled(from, message.number, bytes_of(message, message.near(0)), offset)) {
      return false;
    }
    offsets_[level][message.number % 2] = offset;
    std::byte* const arrived = slot(from, message.number) + offset;
    sum = arrived;
    for (std::uint32_t i = 0; i < message.count; ++i) {
      const std::uint64_t count = block_of(message.near(i)).count;
      const std::byte* const partial = partial_sum(message.near(i), level);
      if (partial != nullptr) {
        memory_.reduce(reduction_, group_, sum, nullptr, sum, partial, count);
      }
      sum += count * element_bytes_;
    }
    group_.sync();
    if (level + 1 == levels_) complete(arrived);
    if (level != 0) give_back_below(message);
    return true;
  }

  /// All have sent their part of this rank's own block.
  WEFT_HD void complete(const std::byte* partial) {
    const Extent own = block_of(0);
    const std::uint64_t place = item_.operation == Operation::kReduceScatter ? base_ : own.offset;
    std::byte* const output = item_.recv + place * element_bytes_;
    add_input(output, partial, item_.send + own.offset * element_bytes_, own.count);
    group_.sync();
    if (reduction_.finishes()) memory_.finish(reduction_, group_, output, nullptr, own.count);
    group_.sync();
  }

  /// What came of the block whose owner is `away` places behind, over the levels below this one;
  /// null where nothing did. Of the rank that is the last of its tree over some levels it is still
  /// where it was before those.
  WEFT_HD const std::byte* partial_sum(std::uint32_t away, std::uint32_t level) {
    while (level-- != 0) {
      if (away + (1U << level) >= item_.ranks) continue;
      const std::uint32_t block = away >> (level + 1);
      const std::uint32_t message = block / round_.blocks;
      return slot(scatter_.from[level], message) + offsets_[level][message % 2] +
             place_in_message(level, block);
    }
    return nullptr;
  }

  /// Where block number `block` of those that came over a level begins in its message. They are
  /// asked for one after the other, so that lengths are not added up anew for each.
  WEFT_HD std::uint64_t place_in_message(std::uint32_t level, std::uint32_t block) {
    const std::uint32_t first = block / round_.blocks * round_.blocks;
    if (even_) return std::uint64_t{block - first} * even_bytes_;
    if (sought_.level != level || sought_.block < first || sought_.block > block) {
      sought_ = {.level = level, .block = first, .bytes = 0};
    }
    for (; sought_.block < block; ++sought_.block)
      sought_.bytes += block_of(sought_.block << (level + 1)).count * element_bytes_;
    return sought_.bytes;
  }

  /// Of a message whose first block's owner is so many places behind.
  WEFT_HD std::uint32_t bytes_of(const PatMessage& message, std::uint32_t away) const {
    if (even_) return message.count * even_bytes_;
    std::uint64_t count = 0;
    for (std::uint32_t i = 0; i < message.count; ++i)
      count += block_of(away + (i << (message.level + 1))).count;
    return static_cast<std::uint32_t>(count * element_bytes_);
  }

  /// The slots of the level below whose sums this message has taken. The last one of a round may
  /// hold one of a higher level's: it stays until the round ends.
  WEFT_HD void give_back_below(const PatMessage& message) {
    const std::uint32_t below = message.level - 1;
    const std::uint32_t last = round_.messages_over(below) - 1;
    const std::uint32_t taken = 2 * message.number + 2;
    const std::uint32_t free = taken < last ? taken : last;
    if (free > 2 * message.number) give_back(scatter_.from[below], free - 1);
  }

  /// This round's chunk of the block whose owner is so many places behind, in the buffer that has
  /// all blocks.
  WEFT_HD Extent block_of(std::uint32_t away) const {
    const std::uint32_t place = torus_.behind(item_.ring_position, away);
    if (item_.gathers_inputs) return {.offset = place * item_.count, .count = item_.count};
    if (item_.operation == Operation::kAllReduce) return piece_.extent(place, item_.count);
    return {.offset = item_.ring[place] * item_.stride + base_, .count = even_count_};
  }

  /// The connections have moved by what the half sent.
  WEFT_HD void end_half(const PatHalf& half) {
    group_.sync();  // all lanes have read the cursors
    if (group_.leader()) {
      for (std::uint32_t level = 0; level < levels_; ++level) {
        half.to[level].cursor->step += round_.messages_over(level);
        half.from[level].cursor->step += round_.messages_over(level);
      }
    }
    group_.sync();
  }

  /// Lets the partners' kernels end too, where they can be told from here.
  WEFT_HD KernelOutcome leave() {
    if (!group_.leader()) return outcome();
    if (pat_scatters(operation_)) give_up(scatter_);
    if (pat_gathers(operation_)) give_up(gather_);
    return outcome();
  }
  WEFT_HD void give_up(const PatHalf& half) {
    const std::uint32_t reason = reason_of(outcome());
    for (std::uint32_t level = 0; level < levels_; ++level) {
      memory_.give_up(half.to[level].peer_error, reason);
      memory_.give_up(half.from[level].peer_error, reason);
    }
  }

  /// A block of those that came over a level, and how many bytes of its message lie before it.
  struct Sought {
    std::uint32_t level = kMostPatLevels;
    std::uint32_t block = 0;
    std::uint64_t bytes = 0;
  };

  const Operation operation_;  ///< By which blocks travel.
  std::byte* const blocks_;    ///< Where those of all ranks lie in the end.
  const PatHalf& scatter_;
  const PatHalf& gather_;
  const std::uint32_t levels_;
  const PatTorus torus_;
  const PatRound round_;
  std::uint64_t base_ = 0;  ///< First element of this round, of a block or of the channel.
  RingLoop piece_{};        ///< Of an all-reduce: this round's.
  bool even_ = true;        ///< All blocks of this round are as long: so many elements, bytes.
  std::uint64_t even_count_ = 0;
  std::uint32_t even_bytes_ = 0;
  Sought sought_;
  /// Where what came begins in its slot, by level and message, of which two are kept.
  std::uint32_t offsets_[kMostPatLevels][2] = {};
};

}  // namespace weft::device
