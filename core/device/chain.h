// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions along the chain of all ranks by their numbers: chunks go up from rank 0, each rank
// adding its own behind what came, to the last rank; the complete ones come down to whom they are
// for: all ranks, the root, the rank whose block it is. So each element is
// ((r0 + r1) + r2) + ..., whatever its place, and its bits depend on the inputs alone.
//
// Both ways at once, as in a tree: what is complete comes down chain_lag() chunks behind. Blocks
// take turns, chunk by chunk, so that the way down is busy while the way up is.
//
// Model: tests/models/step_fifo.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/edge_walk.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/slot_check.h"
#include "core/model/chain_links.h"
#include "core/model/connection_view.h"
#include "core/model/work_item.h"

namespace weft::device {

/// One rank's part in one channel's chain. All lanes make the same one. The links are *item.chain;
/// item.chunk fits into a slot; there are two ranks or more.
template <class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class ChainWalk : EdgeWalk<Group, Memory, Reduction> {
  using Base = EdgeWalk<Group, Memory, Reduction>;

 public:
  /// `lag` is how many chunks this rank, if not the last, sends up before it takes the first that
  /// comes down: chain_lag(), or less.
  WEFT_HD ChainWalk(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction,
                    std::uint32_t element_bytes, std::uint64_t lag)
      : Base(group, memory, item, reduction, element_bytes),
        links_(*item.chain),
        last_(item.chain->rank + 1 == item.ranks),
        blocks_(has_blocks(item.operation) ? item.ranks : 1),
        lag_(last_ ? 0 : lag) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    Turn up = first();
    Turn down = up;
    std::uint64_t ahead = 0;
    while (!over(down)) {
      if (!over(up)) {
        if (!(last_ ? complete(chunk(up)) : rise(chunk(up)))) return leave();
        advance(up);
        ++ahead;
      }
      if (ahead <= lag_ && !over(up)) continue;
      if (!last_ && !fall(chunk(down))) return leave();
      advance(down);
      --ahead;
    }
    finish();
    return outcome();
  }

 private:
  using Base::add_input;
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

  // Turns are walked in the order in which chunks go up, and come down.
  struct Turn {
    std::uint64_t base;   ///< First element, of its block.
    std::uint32_t block;  ///< Whose block it is; 0 where there are none.
  };
  struct Chunk {
    std::uint64_t input_at;  ///< Bytes into the caller's input.
    std::uint64_t output_at;
    std::uint32_t bytes;
    std::uint32_t lowest;  ///< The rank down to which it comes.
  };

  [[nodiscard]] WEFT_HD std::uint64_t elements_of(std::uint32_t block) const {
    return item_.blocks == nullptr ? item_.count : item_.blocks[block].count;
  }
  [[nodiscard]] WEFT_HD bool over(const Turn& turn) const { return turn.base >= item_.count; }
  WEFT_HD void pass_over_empty(Turn& turn) const {
    while (!over(turn) && turn.base >= elements_of(turn.block))
      step(turn);
  }
  WEFT_HD void step(Turn& turn) const {
    if (++turn.block != blocks_) return;
    turn.block = 0;
    turn.base += item_.chunk;
  }
  [[nodiscard]] WEFT_HD Turn first() const {
    Turn turn{.base = 0, .block = 0};
    pass_over_empty(turn);
    return turn;
  }
  WEFT_HD void advance(Turn& turn) const {
    step(turn);
    pass_over_empty(turn);
  }

  [[nodiscard]] WEFT_HD Chunk chunk(const Turn& turn) const {
    const std::uint64_t left = elements_of(turn.block) - turn.base;
    const std::uint64_t count = left < item_.chunk ? left : item_.chunk;
    const std::uint64_t begin =
        item_.blocks == nullptr ? turn.block * item_.stride : item_.blocks[turn.block].offset;
    return {.input_at = (begin + turn.base) * element_bytes_,
            .output_at = turn.base * element_bytes_,
            .bytes = static_cast<std::uint32_t>(count * element_bytes_),
            .lowest = blocks_ > 1 ? turn.block : links_.root};
  }

  [[nodiscard]] WEFT_HD bool keeps(const Chunk& now) const {
    return item_.operation == Operation::kAllReduce || now.lowest == links_.rank;
  }
  [[nodiscard]] WEFT_HD bool passes_down(const Chunk& now) const {
    return now.lowest < links_.rank;
  }

  /// The chunk of all below and of this rank, to the one above.
  WEFT_HD bool rise(const Chunk& now) {
    const std::uint32_t count = now.bytes / element_bytes_;
    const std::byte* const input = item_.send + now.input_at;
    std::byte* arrived = nullptr;
    if (links_.rank != 0 && !await_filled(links_.from_below, risen_, now, arrived)) return false;
    if (!await_free(links_.to_above, risen_)) return false;
    std::byte* const sum = slot(links_.to_above, risen_);
    if (arrived == nullptr) {
      take_input(sum, input, count);
    } else {
      add_input(sum, nullptr, arrived, input, count);
    }
    group_.sync();
    pass_on(links_.to_above, risen_, now.bytes);
    if (links_.rank != 0) give_back(links_.from_below, risen_);
    ++risen_;
    return true;
  }

  /// At the last rank: the complete chunk, to its output and to the rank below.
  WEFT_HD bool complete(const Chunk& now) {
    const std::uint32_t count = now.bytes / element_bytes_;
    const std::byte* const input = item_.send + now.input_at;
    std::byte* arrived = nullptr;
    if (!await_filled(links_.from_below, risen_, now, arrived)) return false;
    std::byte* first = nullptr;
    std::byte* second = nullptr;
    if (passes_down(now)) {
      if (!await_free(links_.to_below, passed_)) return false;
      first = slot(links_.to_below, passed_);
    }
    if (keeps(now)) {
      second = first;
      first = item_.recv + now.output_at;
    } else if (reduction_.finishes()) {
      // Where it can be read again: the slot below may lie in another device, to which senders
      // write.
      second = first;
      first = arrived;
    }
    if (reduction_.finishes()) {
      add_input(first, nullptr, arrived, input, count);
      group_.sync();
      memory_.finish(reduction_, group_, first, second, count);
    } else {
      add_input(first, second, arrived, input, count);
    }
    group_.sync();
    if (passes_down(now)) pass_on(links_.to_below, passed_++, now.bytes);
    give_back(links_.from_below, risen_++);
    return true;
  }

  /// The complete chunk from above, to the output and to the rank below, where it is for them.
  WEFT_HD bool fall(const Chunk& now) {
    if (now.lowest > links_.rank) return true;
    std::byte* arrived = nullptr;
    if (!await_filled(links_.from_above, fallen_, now, arrived)) return false;
    std::byte* first = keeps(now) ? item_.recv + now.output_at : nullptr;
    std::byte* second = nullptr;
    if (passes_down(now)) {
      if (!await_free(links_.to_below, passed_)) return false;
      second = first;
      first = slot(links_.to_below, passed_);
    }
    memory_.copy(group_, first, second, arrived, now.bytes);
    group_.sync();
    if (passes_down(now)) pass_on(links_.to_below, passed_++, now.bytes);
    give_back(links_.from_above, fallen_++);
    return true;
  }

  /// Waits for this chunk and answers where it lies.
  WEFT_HD bool await_filled(const ConnectionView& from, std::uint64_t number, const Chunk& now,
                            std::byte*& out) {
    std::uint32_t offset = 0;
    const bool came = Base::await_filled(from, number, now.bytes, offset);
    out = slot(from, number) + offset;
    return came;
  }

  WEFT_HD void finish() {
    group_.sync();  // all lanes have read the cursors
    if (!group_.leader()) return;
    if (!last_) {
      links_.to_above.cursor->step += risen_;
      links_.from_above.cursor->step += fallen_;
    }
    if (links_.rank != 0) {
      links_.from_below.cursor->step += risen_;
      links_.to_below.cursor->step += passed_;
    }
  }

  /// Lets the neighbours' kernels end too, where they can be told from here.
  WEFT_HD KernelOutcome leave() {
    if (!group_.leader()) return outcome();
    const std::uint32_t reason = reason_of(outcome());
    if (!last_) {
      memory_.give_up(links_.to_above.peer_error, reason);
      memory_.give_up(links_.from_above.peer_error, reason);
    }
    if (links_.rank != 0) {
      memory_.give_up(links_.to_below.peer_error, reason);
      memory_.give_up(links_.from_below.peer_error, reason);
    }
    return outcome();
  }

  const ChainLinks& links_;
  const bool last_;
  const std::uint32_t blocks_;
  const std::uint64_t lag_;
  // Slots of this call: on both connections upwards, on that from above, on that to below.
  std::uint64_t risen_ = 0;
  std::uint64_t fallen_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace weft::device
