// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-gather and reduce-scatter by parallel aggregated trees (core/model/pat_geometry.h): every
// rank sends and gets the same messages in the same order, one after the other.
//
// Why none waits for ever: let all ranks have done the messages before this one. Each can fill its
// slot, since the one that lay there is two or more messages of this level older, and its receiver
// has given it back; so each fills it before it waits, and each gets what it waits for. Gathered
// blocks are copied out at once. Partial sums stay in the slots that they came in, since a caller's
// buffers have no room for them: a slot's sums are added to those of the next level and sent on as
// soon as both slots of a window of that level are there, so no more than two of a connection are
// ever kept.
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
#include "core/model/work_item.h"

namespace weft::device {

/// One rank's part in one channel. All lanes make the same one. The links are *item.pat, over two
/// slots or more; item.chunk fits into a slot.
template <class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class PatWalk : EdgeWalk<Group, Memory, Reduction> {
  using Base = EdgeWalk<Group, Memory, Reduction>;

 public:
  WEFT_HD PatWalk(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction,
                  std::uint32_t element_bytes)
      : Base(group, memory, item, reduction, element_bytes),
        links_(*item.pat),
        round_(pat_round(item.ranks, item.pat->to[0].step_bytes,
                         (item.chunk < item.count ? item.chunk : item.count) * element_bytes)) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    const bool gathers = item_.operation == Operation::kAllGather;
    for (base_ = 0; base_ < item_.count; base_ += item_.chunk) {
      const std::uint64_t left = item_.count - base_;
      count_ = left < item_.chunk ? left : item_.chunk;
      block_bytes_ = static_cast<std::uint32_t>(count_ * element_bytes_);
      if (!(gathers ? gather_round() : scatter_round())) return leave();
      ++rounds_;
    }
    finish();
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

  WEFT_HD bool gather_round() {
    for (std::uint32_t window = 0; window < round_.windows(); ++window) {
      for (std::uint32_t level = round_.opened_by(window) + 1; level-- != 0;) {
        const PatMessage message = round_.message(level, window >> level);
        if (message.count != 0 && !gather(message)) return false;
      }
    }
    return true;
  }

  WEFT_HD bool scatter_round() {
    for (std::uint32_t window = 0; window < round_.windows(); ++window) {
      for (std::uint32_t level = 0; level <= round_.closed_by(window); ++level) {
        const PatMessage message = round_.message(level, window >> level);
        if (message.count != 0 && !scatter(message)) return false;
      }
    }
    for (std::uint32_t level = 0; level < links_.levels; ++level)
      give_back(links_.from[level], number_of(level, round_.messages_over(level)) - 1);
    return true;
  }

  /// What this rank has of other trees goes ahead, and as much comes from behind.
  WEFT_HD bool gather(const PatMessage& message) {
    const ConnectionView& to = links_.to[message.level];
    const ConnectionView& from = links_.from[message.level];
    const std::uint64_t number = number_of(message.level, message.number);
    if (!await_free(to, number)) return false;
    std::byte* const sent = slot(to, number);
    for (std::uint32_t i = 0; i < message.count; ++i) {
      const std::byte* source = item_.recv + place_of(message.near(i));
      std::byte* kept = nullptr;
      // A round begins with this rank's own block alone.
      if (message.level + 1 == links_.levels) {
        std::byte* const own = item_.recv + place_of(0);
        source = item_.send + base_ * element_bytes_;
        if (source != own) kept = own;
      }
      memory_.copy(group_, sent + std::uint64_t{i} * block_bytes_, kept, source, block_bytes_);
    }
    group_.sync();
    pass_on(to, number, message.count * block_bytes_);
    std::uint32_t offset = 0;
    if (!await_filled(from, number, message.count * block_bytes_, offset)) return false;
    const std::byte* const arrived = slot(from, number) + offset;
    for (std::uint32_t i = 0; i < message.count; ++i) {
      memory_.copy(group_, item_.recv + place_of(message.far(i)), nullptr,
                   arrived + std::uint64_t{i} * block_bytes_, block_bytes_);
    }
    group_.sync();
    give_back(from, number);
    return true;
  }

  /// What this rank has summed up of other trees goes behind, and as much comes from ahead.
  WEFT_HD bool scatter(const PatMessage& message) {
    const std::uint32_t level = message.level;
    const ConnectionView& to = links_.to[level];
    const std::uint64_t number = number_of(level, message.number);
    if (!await_free(to, number)) return false;
    std::byte* const sent = slot(to, number);
    for (std::uint32_t i = 0; i < message.count; ++i) {
      std::byte* const sum = sent + std::uint64_t{i} * block_bytes_;
      const std::byte* const input = item_.send + place_of(message.far(i));
      const std::byte* const partial = partial_sum(message.far(i), level);
      if (partial != nullptr) {
        add_input(sum, partial, input, count_);
      } else {
        take_input(sum, input, count_);
      }
    }
    group_.sync();
    pass_on(to, number, message.count * block_bytes_);
    std::uint32_t offset = 0;
    if (!await_filled(links_.from[level], number, message.count * block_bytes_, offset)) {
      return false;
    }
    offsets_[level][message.number % 2] = offset;
    std::byte* const arrived = slot(links_.from[level], number) + offset;
    for (std::uint32_t i = 0; i < message.count; ++i) {
      const std::byte* const partial = partial_sum(message.near(i), level);
      if (partial == nullptr) continue;
      std::byte* const sum = arrived + std::uint64_t{i} * block_bytes_;
      memory_.reduce(reduction_, group_, sum, nullptr, sum, partial, count_);
    }
    group_.sync();
    if (level + 1 == links_.levels) complete(arrived);
    if (level != 0) give_back_below(message);
    return true;
  }

  /// All have sent their part of this rank's own block.
  WEFT_HD void complete(const std::byte* partial) {
    std::byte* const output = item_.recv + base_ * element_bytes_;
    add_input(output, partial, item_.send + place_of(0), count_);
    group_.sync();
    if (reduction_.finishes()) memory_.finish(reduction_, group_, output, nullptr, count_);
    group_.sync();
  }

  /// What came of the block whose owner is `away` places behind, over the levels below this one;
  /// null where nothing did. Of the rank that is the last of its tree over some levels it is still
  /// where it was before those.
  WEFT_HD const std::byte* partial_sum(std::uint32_t away, std::uint32_t level) const {
    while (level-- != 0) {
      if (away + (1U << level) >= item_.ranks) continue;
      const std::uint32_t block = away >> (level + 1);
      const std::uint32_t message = block / round_.blocks;
      return slot(links_.from[level], number_of(level, message)) + offsets_[level][message % 2] +
             std::uint64_t{block % round_.blocks} * block_bytes_;
    }
    return nullptr;
  }

  /// The slots of the level below whose sums this message has taken. The last one of a round may
  /// hold one of a higher level's: it stays until the round ends.
  WEFT_HD void give_back_below(const PatMessage& message) {
    const std::uint32_t below = message.level - 1;
    const std::uint32_t last = round_.messages_over(below) - 1;
    const std::uint32_t taken = 2 * message.number + 2;
    const std::uint32_t free = taken < last ? taken : last;
    if (free > 2 * message.number) give_back(links_.from[below], number_of(below, free) - 1);
  }

  WEFT_HD std::uint64_t number_of(std::uint32_t level, std::uint32_t message) const {
    return rounds_ * round_.messages_over(level) + message;
  }

  /// Bytes to this round's chunk of the block whose owner is so many places behind.
  WEFT_HD std::uint64_t place_of(std::uint32_t away) const {
    const PatTorus torus{.ranks = item_.ranks, .row = links_.row};
    const std::uint32_t owner = item_.ring[torus.behind(item_.ring_position, away)];
    return (owner * item_.stride + base_) * element_bytes_;
  }

  /// The connections have moved by what the rounds sent.
  WEFT_HD void finish() {
    group_.sync();  // all lanes have read the cursors
    if (!group_.leader()) return;
    for (std::uint32_t level = 0; level < links_.levels; ++level) {
      links_.to[level].cursor->step += number_of(level, 0);
      links_.from[level].cursor->step += number_of(level, 0);
    }
  }

  /// Lets the partners' kernels end too, where they can be told from here.
  WEFT_HD KernelOutcome leave() {
    if (!group_.leader()) return outcome();
    const std::uint32_t reason = reason_of(outcome());
    for (std::uint32_t level = 0; level < links_.levels; ++level) {
      memory_.give_up(links_.to[level].peer_error, reason);
      memory_.give_up(links_.from[level].peer_error, reason);
    }
    return outcome();
  }

  const PatLinks& links_;
  const PatRound round_;
  std::uint64_t rounds_ = 0;  ///< That have ended.
  std::uint64_t base_ = 0;    ///< First element of this round's chunk.
  std::uint64_t count_ = 0;   ///< Its elements.
  std::uint32_t block_bytes_ = 0;
  /// Where what came begins in its slot, by level and message, of which two are kept.
  std::uint32_t offsets_[kMostPatLevels][2] = {};
};

}  // namespace weft::device
