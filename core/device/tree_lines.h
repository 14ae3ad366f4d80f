// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The tree of tree.h over the protocols LL and LL128, whose slots hold lines that tell by
// themselves that they have come (primitives_ll.h): a chunk goes on line by line, each as soon as
// all below, or the rank above, have sent theirs. A chunk is a step on every edge.
//
// Slots are given back, posted, filled to their end and compared as those of rings are; nothing
// that a peer wrote bounds a loop or forms an address.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/alone_loops.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/shared_lines.h"
#include "core/device/slot_check.h"
#include "core/device/step_lines.h"
#include "core/device/tree.h"
#include "core/model/connection_view.h"
#include "core/model/step_lines.h"
#include "core/model/tree_links.h"
#include "core/model/work_item.h"

namespace weft::device {

/// As TreeWalk. The connections' slots are for `kProtocol` alone; item.chunk fits into their
/// payload.
template <Protocol kProtocol, class Group, class Memory, class Reduction>
  requires line_memory<Memory>
class LineTreeWalk : public TreeTurns<LineTreeWalk<kProtocol, Group, Memory, Reduction>, Group,
                                      Memory, Reduction> {
  using Turns = TreeTurns<LineTreeWalk, Group, Memory, Reduction>;
  using Base = EdgeWalk<Group, Memory, Reduction>;
  friend Turns;

 public:
  WEFT_HD LineTreeWalk(Group& group, Memory& memory, const WorkItem& item,
                       const Reduction& reduction, std::uint32_t element_bytes, std::uint64_t lag)
      : Turns(group, memory, item, reduction, element_bytes, lag),
        loops_(memory, reduction, element_bytes),
        lines_(memory, loops_),
        shares_(kMayShare && group.size() % kWideLineLanes == 0) {}

 private:
  using Chunk = typename Turns::Chunk;
  using Base::await_free;
  using Base::give_back;
  using Base::go_on;
  using Base::group_;
  using Base::item_;
  using Base::memory_;
  using Base::note;
  using Base::outcome;
  using Base::reduction_;
  using Base::slot;
  using Turns::chunk;
  using Turns::links_;
  using Loops = AloneLoops<Memory, Reduction>;
  using Lines = StepLines<kProtocol, Memory, Loops>;
  using Content = typename Lines::Content;
  static constexpr bool kMayShare = may_share_lines<kProtocol, Group, Memory>;
  static constexpr bool kMustShare = must_share_lines<kProtocol, Group, Memory>;

  /// Connections that a chunk comes by, or leaves by.
  struct Edges {
    const ConnectionView* views;
    std::uint32_t count;
  };

  [[nodiscard]] WEFT_HD Edges above(const ConnectionView& view) const {
    return {.views = &view, .count = links_.root ? 0U : 1U};
  }

  WEFT_HD bool rise(std::uint64_t number) {
    const Chunk now = chunk(number);
    return step(
        now, {.views = links_.from_child, .count = links_.children}, above(links_.to_parent),
        [&](const auto& part) { return rise_part(now, part); },
        [&](const auto& lines, std::uint32_t pair) { return rise_pair(lines, now, pair); });
  }

  WEFT_HD bool fall(std::uint64_t number) {
    const Chunk now = chunk(number);
    return step(
        now, above(links_.from_parent), {.views = links_.to_child, .count = links_.children},
        [&](const auto& part) { return fall_part(now, part); },
        [&](const auto& lines, std::uint32_t pair) { return fall_pair(lines, now, pair); });
  }

  /// One chunk: `move(part)` does a lane's part of it, or `move_pair(lines, pair)` where lanes
  /// share lines. Of both the one that is not needed is not made.
  template <class Move, class MovePair>
  WEFT_HD bool step(const Chunk& now, const Edges& from, const Edges& to, const Move& move,
                    const MovePair& move_pair) {
    if (!go_on(group_.broadcast(await_headers(now, from)))) return false;
    for (std::uint32_t i = 0; i < to.count; ++i) {
      if (!await_free(to.views[i], now.number)) return false;
    }
    const bool moved = move_all(now, to, move, move_pair);
    if (group_.any(!moved)) {
      const bool lost = group_.any(!moved && lacks_lines());
      return go_on(group_.broadcast(group_.leader() ? why_left(lost, now, from) : 0));
    }
    publish(now, from, to);
    return true;
  }

  template <class Move, class MovePair>
  WEFT_HD bool move_all(const Chunk& now, const Edges& to, const Move& move,
                        const MovePair& move_pair) {
    if constexpr (kMayShare) {
      if (shares_) {
        const auto lines = shared_lines();
        return lines.each_pair(now.bytes,
                               [&](std::uint32_t pair) { return move_pair(lines, pair); });
      }
    }
    if constexpr (!kMustShare) {
      if (!Lines::each_part(group_, now.bytes, move)) return false;
      fill_rests(now, to);
    }
    return true;
  }

  /// By others than the lanes, where the device has them: they post for two edges at once.
  WEFT_HD void publish(const Chunk& now, const Edges& from, const Edges& to) {
    if constexpr (posts_apart<Memory, Group>) {
      for (std::uint32_t i = 0; i < from.count || i < to.count; ++i) {
        StepPosts posts;
        if (i < to.count) {
          posts.tail = to.views[i].tail;
          posts.filled = step_of(to.views[i], now) + 1;
        }
        if (i < from.count) {
          posts.head = from.views[i].head;
          posts.freed = step_of(from.views[i], now) + 1;
        }
        memory_.publish(group_, posts);
      }
    } else {
      if (group_.leader()) {
        for (std::uint32_t i = 0; i < to.count; ++i)
          memory_.post(to.views[i].tail, to.views[i].tail_waiters, step_of(to.views[i], now) + 1);
      }
      for (std::uint32_t i = 0; i < from.count; ++i)
        give_back(from.views[i], now.number);
    }
  }

  [[nodiscard]] WEFT_HD static std::uint64_t step_of(const ConnectionView& view, const Chunk& now) {
    return view.cursor->step + now.number;
  }

  WEFT_HD bool rise_part(const Chunk& now, const LinePart& part) {
    const std::uint32_t header = part.header();
    Content sum;
    if (part.bytes() > header) {
      const std::uint32_t bytes = part.bytes() - header;
      const std::uint64_t place = now.at + part.begin + header - kStepHeaderBytes;
      std::byte* const partial = sum.bytes + header;
      std::byte* const last = links_.root ? item_.recv + place : partial;
      if (links_.children == 0) loops_.read(last, nullptr, item_.send + place, bytes);
      for (std::uint32_t i = 0; i < links_.children; ++i) {
        Content arrived;
        if (!take(links_.from_child[i], now, part, arrived)) return false;
        std::byte* const to = i + 1 == links_.children ? last : partial;
        if (i == 0) {
          loops_.template reduce<false>(to, nullptr, arrived.bytes + header, item_.send + place,
                                        bytes);
        } else {
          loops_.add(to, arrived.bytes + header, partial, bytes);
        }
      }
      if (links_.root && reduction_.finishes()) loops_.finish(last, nullptr, bytes);
    }
    if (!links_.root) put(links_.to_parent, now, part, sum);
    return true;
  }

  WEFT_HD bool fall_part(const Chunk& now, const LinePart& part) {
    const std::uint32_t header = part.header();
    Content arrived;
    if (part.bytes() > header) {
      const std::uint32_t bytes = part.bytes() - header;
      const std::uint64_t place = now.at + part.begin + header - kStepHeaderBytes;
      std::byte* const output = item_.recv == nullptr ? nullptr : item_.recv + place;
      if (links_.root) {
        const bool copies = item_.operation == Operation::kBroadcast;
        const std::byte* const source = copies ? item_.send + place : output;
        loops_.copy(arrived.bytes + header, source == output ? nullptr : output, source, bytes);
      } else {
        if (!take(links_.from_parent, now, part, arrived)) return false;
        loops_.copy(output, nullptr, arrived.bytes + header, bytes);
      }
    }
    for (std::uint32_t i = 0; i < links_.children; ++i)
      put(links_.to_child[i], now, part, arrived);
    return true;
  }

  // The same by all lanes of a gang.
  template <class Shared>
  WEFT_HD bool rise_pair(const Shared& lines, const Chunk& now, std::uint32_t pair) {
    LineShare sum = lines.read_input(item_.send + now.at, pair, now.bytes);
    for (std::uint32_t i = 0; i < links_.children; ++i) {
      LineShare arrived;
      if (!take(lines, links_.from_child[i], now, pair, arrived)) return false;
      sum = lines.combine(arrived, sum);
    }
    if (links_.root) {
      lines.write(item_.recv + now.at, pair, now.bytes, lines.finish(sum));
    } else {
      put(lines, links_.to_parent, now, pair, sum);
    }
    return true;
  }

  template <class Shared>
  WEFT_HD bool fall_pair(const Shared& lines, const Chunk& now, std::uint32_t pair) {
    std::byte* const output = item_.recv == nullptr ? nullptr : item_.recv + now.at;
    LineShare share;
    const std::byte* source = nullptr;
    if (links_.root) {
      source = item_.operation == Operation::kBroadcast ? item_.send + now.at : output;
      share = lines.read(source, pair, now.bytes);
    } else if (!take(lines, links_.from_parent, now, pair, share)) {
      return false;
    }
    if (output != nullptr && output != source) lines.write(output, pair, now.bytes, share);
    for (std::uint32_t i = 0; i < links_.children; ++i)
      put(lines, links_.to_child[i], now, pair, share);
    return true;
  }

  template <class Shared>
  WEFT_HD bool take(const Shared& lines, const ConnectionView& from, const Chunk& now,
                    std::uint32_t pair, LineShare& share) {
    return lines.take(slot(from, now.number), step_of(from, now), pair, now.bytes, share,
                      waiting<true>(from, now));
  }

  template <class Shared>
  WEFT_HD void put(const Shared& lines, const ConnectionView& to, const Chunk& now,
                   std::uint32_t pair, const LineShare& share) {
    lines.put(slot(to, now.number), step_of(to, now), pair, {.tag = item_.tag, .bytes = now.bytes},
              share);
  }

  [[nodiscard]] WEFT_HD auto shared_lines() {
    return SharedLines<Group, Memory, Reduction>(group_, memory_, reduction_);
  }

  WEFT_HD bool take(const ConnectionView& from, const Chunk& now, const LinePart& part,
                    Content& content) {
    return lines_.take(slot(from, now.number), step_of(from, now), part, content.bytes,
                       waiting(from, now));
  }

  WEFT_HD void put(const ConnectionView& to, const Chunk& now, const LinePart& part,
                   const Content& content) {
    lines_.put(slot(to, now.number), step_of(to, now), part, content.bytes,
               {.tag = item_.tag, .bytes = now.bytes});
  }

  WEFT_HD void fill_rests(const Chunk& now, const Edges& to) {
    if constexpr (!Lines::kWide) {
      for (std::uint32_t i = 0; i < to.count; ++i) {
        const ConnectionView& view = to.views[i];
        const std::uint64_t step = step_of(view, now);
        if (!fills_whole_slot(step, view.steps)) continue;
        lines_.fill_rest(group_, slot(view, now.number), step, Lines::lines_of(now.bytes),
                         view.step_bytes);
      }
    }
  }

  WEFT_HD WaitResult wait_for_tail(const ConnectionView& from, const Chunk& now) {
    return memory_.wait_at_least(from.tail, from.tail_waiters, step_of(from, now) + 1, from.error);
  }

  /// Any lane, or all of a gang together: waits until `come()`; false where the kernel must end,
  /// and outcome() may say why.
  template <bool kTogether = false>
  WEFT_HD auto waiting(const ConnectionView& from, const Chunk& now) {
    return [this, &from, &now](const auto& come) {
      for (std::uint32_t turn = 0; memory_.look_again(turn); ++turn) {
        if (come()) return true;
      }
      bool leaves = false;
      if (!kTogether || leads_gang()) {
        const WaitResult result = wait_for_tail(from, now);
        leaves = result.status != WaitStatus::kReady;
        if (leaves) note(end_of_wait(result, from.peer));
      }
      if constexpr (kTogether) leaves = group_.any_of_gang(leaves);
      return !leaves && static_cast<bool>(come());
    };
  }

  [[nodiscard]] WEFT_HD bool leads_gang() const {
    if constexpr (kMayShare) return group_.rank() % group_.gang_size() == 0;
    return false;
  }

  /// All lanes. The leader, with its gang where lanes share lines, waits for the beginning of what
  /// is to come, and compares it. Answers the verdict.
  WEFT_HD std::uint64_t await_headers(const Chunk& now, const Edges& edges) {
    if constexpr (kMayShare) {
      if (shares_) {
        if (group_.rank() >= group_.gang_size()) return 0;
        for (std::uint32_t i = 0; i < edges.count; ++i) {
          const ConnectionView& from = edges.views[i];
          StepHeader header;
          const bool begun = shared_lines().read_header(slot(from, now.number), step_of(from, now),
                                                        header, waiting<true>(from, now));
          std::uint64_t verdict = 0;
          if (group_.leader())
            verdict = begun ? judge(header, from, now) : why_left(true, now, edges);
          if (group_.any_of_gang(verdict != 0)) return verdict;
        }
        return 0;
      }
    }
    if constexpr (!kMustShare) {
      if (group_.leader()) return await_headers_alone(now, edges);
    }
    return 0;
  }

  WEFT_HD std::uint64_t judge(const StepHeader& header, const ConnectionView& from,
                              const Chunk& now) {
    const KernelOutcome found = check_header(header, from.peer, item_.tag, now.bytes);
    return found.end == KernelEnd::kDone ? 0 : note(found);
  }

  WEFT_HD std::uint64_t await_headers_alone(const Chunk& now, const Edges& edges) {
    for (std::uint32_t i = 0; i < edges.count; ++i) {
      const ConnectionView& from = edges.views[i];
      const std::uint64_t step = step_of(from, now);
      StepHeader header;
      if (!lines_.read_header(slot(from, now.number), step, header, waiting(from, now))) {
        return why_left(true, now, edges);
      }
      const std::uint64_t verdict = judge(header, from, now);
      if (verdict != 0) return verdict;
      // What fills the rest of the slot is in no order with the step's own lines; tail is behind
      // it.
      if (!Lines::kWide && fills_whole_slot(step, from.steps)) {
        const WaitResult result = wait_for_tail(from, now);
        if (result.status != WaitStatus::kReady) return note(end_of_wait(result, from.peer));
      }
    }
    return 0;
  }

  /// Of a lane that has left: whether tail promised lines that there are not. It was told to leave
  /// otherwise; of a gang its first lane knows.
  [[nodiscard]] WEFT_HD bool lacks_lines() const {
    return outcome().end == KernelEnd::kDone && (!shares_ || leads_gang());
  }

  /// Leader only, where a lane has left; `lost`: where one of them lacks lines. Tails are not asked
  /// again: they may have come since the lane was told.
  WEFT_HD std::uint64_t why_left(bool lost, const Chunk& now, const Edges& edges) {
    if (outcome().end != KernelEnd::kDone) return note(outcome());
    if (lost) {
      return note({.end = KernelEnd::kSizeMismatch,
                   .peer = edges.views[0].peer,
                   .expected = now.bytes,
                   .found = 0});
    }
    for (std::uint32_t i = 0; i < edges.count; ++i) {
      const KernelOutcome told = told_by_peer(memory_, edges.views[i]);
      if (told.end != KernelEnd::kDone) return note(told);
    }
    return note(
        {.end = KernelEnd::kAborted, .peer = edges.views[0].peer, .expected = 0, .found = 0});
  }

  Loops loops_;
  Lines lines_;
  const bool shares_;
};

}  // namespace weft::device
