// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-reduce, reduce and broadcast by a tree: chunks go up to the root, each rank adding its own,
// and down from it. In an all-reduce both at once: while chunks still go up, those that the root
// has completed come down, tree_lag() chunks behind.
//
// Every connection of a tree carries one slot for each chunk, so one number tells where all of
// them stand.
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
#include "core/model/tree_links.h"
#include "core/model/work_item.h"

namespace weft::device {

/// One rank's part in one channel's tree, whichever the protocol. All lanes make the same one. The
/// links are *item.tree; item.chunk fits into a slot. `Walk`, which derives from this, moves
/// chunks: rise(number) takes one up, fall(number) takes one down, and both answer false where the
/// kernel must end.
template <class Walk, class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class TreeTurns : protected EdgeWalk<Group, Memory, Reduction> {
  using Base = EdgeWalk<Group, Memory, Reduction>;
  friend Walk;

 public:
  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    const bool rises = item_.operation != Operation::kBroadcast;
    const bool falls = item_.operation != Operation::kReduce;
    for (std::uint64_t turn = 0; turn < chunks_ + lag_; ++turn) {
      if (rises && turn < chunks_ && !walk().rise(turn)) return leave();
      if (falls && turn >= lag_ && !walk().fall(turn - lag_)) return leave();
    }
    finish();
    return outcome();
  }

 private:
  using Base::element_bytes_;
  using Base::group_;
  using Base::item_;
  using Base::memory_;
  using Base::outcome;

  /// `lag`: as of TreeWalk.
  WEFT_HD TreeTurns(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction,
                    std::uint32_t element_bytes, std::uint64_t lag)
      : Base(group, memory, item, reduction, element_bytes),
        links_(*item.tree),
        lag_(item.operation == Operation::kAllReduce && !item.tree->root ? lag : 0),
        chunks_(quotient(item.count + item.chunk - 1, item.chunk)) {}

  struct Chunk {
    std::uint64_t number;
    std::uint64_t at;  ///< Bytes into the caller's buffers.
    std::uint32_t bytes;
  };

  WEFT_HD Chunk chunk(std::uint64_t number) const {
    const std::uint64_t first = number * item_.chunk;
    const std::uint64_t left = item_.count - first;
    const std::uint64_t count = left < item_.chunk ? left : item_.chunk;
    return {.number = number,
            .at = first * element_bytes_,
            .bytes = static_cast<std::uint32_t>(count * element_bytes_)};
  }

  [[nodiscard]] WEFT_HD Walk& walk() { return static_cast<Walk&>(*this); }

  /// The connections that a call uses have moved by as many steps as it has chunks.
  WEFT_HD void finish() {
    group_.sync();  // all lanes have read the cursors
    if (!group_.leader()) return;
    const bool rises = item_.operation != Operation::kBroadcast;
    const bool falls = item_.operation != Operation::kReduce;
    if (!links_.root) {
      if (rises) links_.to_parent.cursor->step += chunks_;
      if (falls) links_.from_parent.cursor->step += chunks_;
    }
    for (std::uint32_t i = 0; i < links_.children; ++i) {
      if (rises) links_.from_child[i].cursor->step += chunks_;
      if (falls) links_.to_child[i].cursor->step += chunks_;
    }
  }

  /// Lets the neighbours' kernels end too, where they can be told from here.
  WEFT_HD KernelOutcome leave() {
    if (!group_.leader()) return outcome();
    const std::uint32_t reason = reason_of(outcome());
    if (!links_.root) {
      memory_.give_up(links_.to_parent.peer_error, reason);
      memory_.give_up(links_.from_parent.peer_error, reason);
    }
    for (std::uint32_t i = 0; i < links_.children; ++i) {
      memory_.give_up(links_.from_child[i].peer_error, reason);
      memory_.give_up(links_.to_child[i].peer_error, reason);
    }
    return outcome();
  }

  const TreeLinks& links_;
  const std::uint64_t lag_;
  const std::uint64_t chunks_;
};

/// By Simple.
template <class Group, class Memory, class Reduction>
class TreeWalk : public TreeTurns<TreeWalk<Group, Memory, Reduction>, Group, Memory, Reduction> {
  using Turns = TreeTurns<TreeWalk, Group, Memory, Reduction>;
  using Base = EdgeWalk<Group, Memory, Reduction>;
  friend Turns;

 public:
  /// `lag` is how many chunks of an all-reduce this rank, if not the root, sends up before it takes
  /// the first that comes down: tree_lag(), or less.
  WEFT_HD TreeWalk(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction,
                   std::uint32_t element_bytes, std::uint64_t lag)
      : Turns(group, memory, item, reduction, element_bytes, lag) {}

 private:
  using Chunk = typename Turns::Chunk;
  using Base::add_input;
  using Base::await_free;
  using Base::element_bytes_;
  using Base::give_back;
  using Base::group_;
  using Base::item_;
  using Base::memory_;
  using Base::reduction_;
  using Base::slot;
  using Base::take_input;
  using Turns::chunk;
  using Turns::links_;

  /// The chunk of all below and of this rank: to the parent, or at the root to the output,
  /// complete.
  WEFT_HD bool rise(std::uint64_t number) {
    const Chunk now = chunk(number);
    const std::uint32_t count = now.bytes / element_bytes_;
    const std::byte* const input = item_.send + now.at;
    std::byte* sum = nullptr;
    std::byte* partial = nullptr;
    if (links_.root) {
      sum = item_.recv + now.at;
    } else {
      if (!await_free(links_.to_parent, number)) return false;
      sum = slot(links_.to_parent, number);
    }
    if (links_.children == 0) take_input(sum, input, count);
    // Until the last child the sum grows in the first one's slot, which is near where senders write
    // to it: the parent's may lie in another device, or have been sent off. Where receivers read,
    // it is far, and right all the same.
    const std::byte* before = nullptr;
    for (std::uint32_t i = 0; i < links_.children; ++i) {
      std::byte* arrived = nullptr;
      if (!await_filled(links_.from_child[i], now, arrived)) return false;
      std::byte* const kept = i == 0 ? arrived : partial;
      std::byte* const to = i + 1 == links_.children ? sum : kept;
      if (i == 0) {
        add_input(to, arrived, input, count);
      } else {
        memory_.reduce(reduction_, group_, to, nullptr, arrived, before, count);
      }
      group_.sync();
      partial = kept;
      before = to;
      if (i != 0) give_back(links_.from_child[i], number);
    }
    if (links_.children != 0) give_back(links_.from_child[0], number);
    if (links_.root && reduction_.finishes()) {
      memory_.finish(reduction_, group_, sum, nullptr, count);
    }
    group_.sync();
    if (!links_.root) pass_on(links_.to_parent, now);
    return true;
  }

  /// The complete chunk: from the parent, or at the root from a buffer, to the output and to all
  /// below.
  WEFT_HD bool fall(std::uint64_t number) {
    const Chunk now = chunk(number);
    std::byte* const output = item_.recv == nullptr ? nullptr : item_.recv + now.at;
    const std::byte* source = output;
    if (!links_.root) {
      std::byte* arrived = nullptr;
      if (!await_filled(links_.from_parent, now, arrived)) return false;
      source = arrived;
    } else if (item_.operation == Operation::kBroadcast) {
      source = item_.send + now.at;
    }
    // The first copy also goes to the first child, so that what came is read once less.
    std::byte* kept = output == source ? nullptr : output;
    for (std::uint32_t i = 0; i < links_.children; ++i) {
      if (!await_free(links_.to_child[i], number)) return false;
      memory_.copy(group_, slot(links_.to_child[i], number), kept, source, now.bytes);
      kept = nullptr;
      group_.sync();
      pass_on(links_.to_child[i], now);
    }
    if (kept != nullptr) {
      memory_.copy(group_, kept, nullptr, source, now.bytes);
      group_.sync();
    }
    if (!links_.root) give_back(links_.from_parent, number);
    return true;
  }

  /// Waits for this chunk and answers where it lies.
  WEFT_HD bool await_filled(const ConnectionView& from, const Chunk& now, std::byte*& out) {
    std::uint32_t offset = 0;
    const bool came = Base::await_filled(from, now.number, now.bytes, offset);
    out = slot(from, now.number) + offset;
    return came;
  }

  WEFT_HD void pass_on(const ConnectionView& to, const Chunk& now) {
    Base::pass_on(to, now.number, now.bytes);
  }
};

}  // namespace weft::device
