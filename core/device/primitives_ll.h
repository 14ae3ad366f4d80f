// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The family of primitives over the protocols LL and LL128: as SimplePrimitives, with slots of
// lines that tell by themselves that they have come. A receiver looks at them and at no counter; a
// slot goes to it as it is filled, line by line. Head gives slots back as for Simple. Tail is
// posted as well: whoever has waited for long sleeps on it, and a slot that tail promises and whose
// lines do not have their flags ends the kernel.
//
// Slots are used for one protocol alone, from the first step on, and hold nothing but its lines:
// payload lies where no flag is looked for, so it cannot be mistaken for one.
//
// Of LL128, lanes that go on in gangs share lines (shared_lines.h); others have lines of their own.
//
// Each step begins with the call's tag and the bytes of its payload, which the leader compares
// before a lane uses anything of the step. Nothing that a peer wrote bounds a loop or forms an
// address.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/alone_loops.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/primitives.h"
#include "core/device/shared_lines.h"
#include "core/device/slot_check.h"
#include "core/device/step_lines.h"
#include "core/model/connection_view.h"
#include "core/model/ring_geometry.h"
#include "core/model/step_lines.h"
#include "core/model/work_item.h"

namespace weft::device {

/// As SimplePrimitives. The connections' slots are for `kProtocol`
/// alone.
template <Protocol kProtocol, class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group> && line_memory<Memory>
class LinePrimitives : public Primitives<LinePrimitives<kProtocol, Group, Memory, Reduction>> {
  using Family = Primitives<LinePrimitives<kProtocol, Group, Memory, Reduction>>;
  friend Family;

 public:
  /// `receives` and `sends` say which connections the algorithm uses; those must be usable.
  WEFT_HD LinePrimitives(Group& group, Memory& memory, const WorkItem& item,
                         const Reduction& reduction, std::uint32_t element_bytes, bool receives,
                         bool sends)
      : group_(group),
        memory_(memory),
        item_(item),
        loops_(memory, reduction, element_bytes),
        lines_(memory, loops_),
        element_bytes_(element_bytes),
        shares_(kMayShare && group.size() % kWideLineLanes == 0) {
    const ConnectionView& from = item.from_previous;
    const ConnectionView& to = item.to_next;
    if (receives) {
      recv_step_ = from.cursor->step;
      recv_slot_ = slot_index(recv_step_, from.steps);
      recv_begin_ = recv_step_;
      seen_tail_ = recv_step_;
      step_bytes_ = step_payload(kProtocol, from.step_bytes);
    }
    if (sends) {
      send_step_ = to.cursor->step;
      send_slot_ = slot_index(send_step_, to.steps);
      send_begin_ = send_step_;
      step_bytes_ = step_payload(kProtocol, to.step_bytes);
    }
  }

  WEFT_HD KernelOutcome finish() {
    if (group_.leader()) {
      if (recv_step_ != recv_begin_) item_.from_previous.cursor->step = recv_step_;
      if (send_step_ != send_begin_) item_.to_next.cursor->step = send_step_;
      if (outcome_.end != KernelEnd::kDone) {
        const std::uint32_t reason = reason_of(outcome_);
        memory_.give_up(item_.from_previous.peer_error, reason);
        memory_.give_up(item_.to_next.peer_error, reason);
      }
    }
    return outcome_;
  }

 private:
  using Family::at;
  using Loops = AloneLoops<Memory, Reduction>;
  using Lines = StepLines<kProtocol, Memory, Loops>;
  using Content = typename Lines::Content;
  static constexpr bool kMayShare = may_share_lines<kProtocol, Group, Memory>;
  static constexpr bool kMustShare = must_share_lines<kProtocol, Group, Memory>;

  /// Pointers of one step.
  struct Step {
    const std::byte* arrived;
    std::byte* slot;
    const std::byte* input;
    std::byte* output;
    std::uint32_t bytes;
  };

  template <unsigned kBits>
  WEFT_HD bool run(Extent extent, std::uint64_t output) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    const ConnectionView& from = item_.from_previous;
    const ConnectionView& to = item_.to_next;
    std::uint64_t input_at = extent.offset * element_bytes_;
    std::uint64_t output_at = output * element_bytes_;
    std::uint64_t left = extent.count * element_bytes_;
    while (left != 0) {
      const auto bytes = static_cast<std::uint32_t>(left < step_bytes_ ? left : step_bytes_);
      Step step{.arrived = nullptr,
                .slot = nullptr,
                .input = at(item_.send, input_at),
                .output = at(item_.recv, output_at),
                .bytes = bytes};
      if constexpr (kRecv) {
        step.arrived = from.buffer + static_cast<std::size_t>(recv_slot_) * from.step_bytes;
      }
      if constexpr (kSend) {
        step.slot = to.buffer + static_cast<std::size_t>(send_slot_) * to.step_bytes;
      }
      StepHeader header;
      const bool begun = read_header<kBits>(step, header);
      if (!agree(group_.leader() ? await<kBits>(step, begun, header) : 0)) return false;
      const bool moved = move_step<kBits>(step);
      if (group_.any(!moved)) {
        const bool lost = group_.any(!moved && lacks_lines());
        return agree(group_.leader() ? why_left(lost, bytes) : 0);
      }
      publish<kBits>();
      if constexpr (kSend) {
        ++send_step_;
        send_slot_ = send_slot_ + 1 == to.steps ? 0 : send_slot_ + 1;
      }
      if constexpr (kRecv) {
        ++recv_step_;
        recv_slot_ = recv_slot_ + 1 == from.steps ? 0 : recv_slot_ + 1;
      }
      input_at += bytes;
      output_at += bytes;
      left -= bytes;
    }
    return true;
  }

  /// Whether the leader's verdict, the end of the kernel in its upper half, is to go on.
  WEFT_HD bool agree(std::uint64_t verdict) {
    const std::uint64_t end = group_.broadcast(verdict) >> 32;
    if (end != 0) outcome_.end = static_cast<KernelEnd>(end);
    return end == 0;
  }

  /// By others than the lanes, where the device has them.
  template <unsigned kBits>
  WEFT_HD void publish() {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    const ConnectionView& from = item_.from_previous;
    const ConnectionView& to = item_.to_next;
    if constexpr (posts_apart<Memory, Group>) {
      StepPosts posts;
      if constexpr (kSend) {
        posts.tail = to.tail;
        posts.filled = send_step_ + 1;
      }
      if constexpr (kRecv) {
        posts.head = from.head;
        posts.freed = recv_step_ + 1;
      }
      memory_.publish(group_, posts);
    } else {
      if (!group_.leader()) return;
      if constexpr (kSend) memory_.post(to.tail, to.tail_waiters, send_step_ + 1);
      if constexpr (kRecv) memory_.post(from.head, from.head_waiters, recv_step_ + 1);
    }
  }

  // All lanes: each does its parts of the step.
  template <unsigned kBits>
  WEFT_HD bool move_step(const Step& step) {
    if constexpr (kMayShare) {
      if (shares_) {
        const auto lines = shared_lines();
        return lines.each_pair(
            step.bytes, [&](std::uint32_t pair) { return move_pair<kBits>(lines, step, pair); });
      }
    }
    if constexpr (!kMustShare) {
      if (!Lines::each_part(group_, step.bytes,
                            [&](const LinePart& part) { return move_part<kBits>(step, part); })) {
        return false;
      }
      if constexpr ((kBits & kSendBit) != 0 && !Lines::kWide) {
        const ConnectionView& to = item_.to_next;
        if (fills_whole_slot(send_step_, to.steps)) {
          lines_.fill_rest(group_, step.slot, send_step_, Lines::lines_of(step.bytes),
                           to.step_bytes);
        }
      }
    }
    return true;
  }

  // By all lanes of a gang.
  template <unsigned kBits, class Shared>
  WEFT_HD bool move_pair(const Shared& lines, const Step& step, std::uint32_t pair) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    LineShare share{};
    if constexpr ((kBits & kInputBit) != 0) {
      share = lines.read_input(step.input, pair, step.bytes);  // while lines are under way
    } else if constexpr (kReadsOutput<kBits>) {
      share = lines.read(step.output, pair, step.bytes);
    }
    if constexpr (kRecv) {
      LineShare arrived;
      if (!lines.take(step.arrived, recv_step_, pair, step.bytes, arrived, waiting<true>())) {
        return false;
      }
      if constexpr ((kBits & kInputBit) != 0) {
        share = lines.combine(arrived, share);
        if constexpr ((kBits & kFinishBit) != 0) share = lines.finish(share);
      } else {
        share = arrived;
      }
    }
    if constexpr ((kBits & kOutputBit) != 0) lines.write(step.output, pair, step.bytes, share);
    if constexpr ((kBits & kSendBit) != 0) {
      lines.put(step.slot, send_step_, pair, {.tag = item_.tag, .bytes = step.bytes}, share);
    }
    return true;
  }

  template <unsigned kBits>
  WEFT_HD bool move_part(const Step& step, const LinePart& part) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    constexpr bool kInput = (kBits & kInputBit) != 0;
    constexpr bool kOutput = (kBits & kOutputBit) != 0;
    Content arrived;
    Content sent;
    if constexpr (kRecv) {
      if (!lines_.take(step.arrived, recv_step_, part, arrived.bytes, waiting())) return false;
    }
    const std::byte* leaves = sent.bytes;
    const std::uint32_t header = part.header();
    if (part.bytes() > header) {
      const std::uint32_t bytes = part.bytes() - header;
      const std::uint64_t place = part.begin + header - kStepHeaderBytes;
      const std::byte* const input = at(step.input, place);
      std::byte* const first = kOutput ? at(step.output, place) : sent.bytes + header;
      std::byte* const second = kOutput && kSend ? sent.bytes + header : nullptr;
      if constexpr (kRecv && kInput) {
        constexpr bool kFinishes = (kBits & kFinishBit) != 0;
        loops_.template reduce<kFinishes>(first, second, arrived.bytes + header, input, bytes);
      } else if constexpr (kRecv) {
        loops_.copy(first, nullptr, arrived.bytes + header, bytes);
        leaves = arrived.bytes;
      } else if constexpr (kInput) {
        loops_.read(first, second, input, bytes);
      } else {
        loops_.copy(first, nullptr, at(step.output, place), bytes);
      }
    }
    if constexpr (kSend) {
      lines_.put(step.slot, send_step_, part, leaves, {.tag = item_.tag, .bytes = step.bytes});
    }
    return true;
  }

  [[nodiscard]] WEFT_HD auto shared_lines() {
    return SharedLines<Group, Memory, Reduction>(group_, memory_, loops_.reduction());
  }

  /// Any lane, or all of a gang together: waits until `come()`; false where the kernel must end,
  /// and outcome_ may say why.
  template <bool kTogether = false>
  WEFT_HD auto waiting() {
    return [this](const auto& come) {
      for (std::uint32_t turn = 0; memory_.look_again(turn); ++turn) {
        if (come()) return true;
      }
      bool leaves = false;
      if ((!kTogether || leads_gang()) && seen_tail_ <= recv_step_) {
        const WaitResult result = wait_for_tail();
        leaves = result.status != WaitStatus::kReady;
        if (leaves) outcome_ = end_of_wait(result, item_.from_previous.peer);
        if (!leaves) seen_tail_ = result.value;
      }
      if constexpr (kTogether) leaves = group_.any_of_gang(leaves);
      return !leaves && static_cast<bool>(come());
    };
  }

  [[nodiscard]] WEFT_HD bool leads_gang() const {
    if constexpr (kMayShare) return group_.rank() % group_.gang_size() == 0;
    return false;
  }

  WEFT_HD WaitResult wait_for_tail() {
    const ConnectionView& from = item_.from_previous;
    return memory_.wait_at_least(from.tail, from.tail_waiters, recv_step_ + 1, from.error);
  }

  /// Of a lane that has left: whether tail promised lines that there are not. It was told to leave
  /// otherwise; of a gang its first lane knows.
  [[nodiscard]] WEFT_HD bool lacks_lines() const {
    return outcome_.end == KernelEnd::kDone && (!shares_ || leads_gang());
  }

  /// Leader only, where a lane has left; `lost`: where one of them lacks lines. Tail is not asked
  /// again: it may have come since the lane was told.
  WEFT_HD std::uint64_t why_left(bool lost, std::uint32_t bytes) {
    if (outcome_.end != KernelEnd::kDone) return leave(outcome_);
    const ConnectionView& from = item_.from_previous;
    if (lost) {
      return leave(
          {.end = KernelEnd::kSizeMismatch, .peer = from.peer, .expected = bytes, .found = 0});
    }
    const KernelOutcome told = told_by_peer(memory_, from);
    if (told.end != KernelEnd::kDone) return leave(told);
    return leave({.end = KernelEnd::kAborted, .peer = from.peer, .expected = 0, .found = 0});
  }

  WEFT_HD std::uint64_t leave(const KernelOutcome& outcome) {
    outcome_ = outcome;
    return static_cast<std::uint64_t>(outcome_.end) << 32;
  }

  /// By the leader, with its gang where lanes share lines: waits for the beginning of what is to
  /// come. False where the kernel must end.
  template <unsigned kBits>
  WEFT_HD bool read_header(const Step& step, StepHeader& header) {
    if constexpr ((kBits & kRecvBit) != 0) {
      if constexpr (kMayShare) {
        if (shares_) {
          return group_.rank() >= group_.gang_size() ||
                 shared_lines().read_header(step.arrived, recv_step_, header, waiting<true>());
        }
      }
      if constexpr (!kMustShare) {
        return !group_.leader() || lines_.read_header(step.arrived, recv_step_, header, waiting());
      }
    }
    return true;
  }

  /// Leader only: compares that beginning, and waits for a free slot. Answers the end of the kernel
  /// in the upper half.
  template <unsigned kBits>
  WEFT_HD std::uint64_t await(const Step& step, bool begun, const StepHeader& header) {
    if constexpr ((kBits & kRecvBit) != 0) {
      if (!begun) return why_left(true, step.bytes);
      const KernelOutcome found =
          check_header(header, item_.from_previous.peer, item_.tag, step.bytes);
      if (found.end != KernelEnd::kDone) return leave(found);
      // What fills the rest of the slot is in no order with the step's own lines; tail is behind
      // it.
      if (!Lines::kWide && fills_whole_slot(recv_step_, item_.from_previous.steps)) {
        const WaitResult result = wait_for_tail();
        if (result.status != WaitStatus::kReady) {
          return leave(end_of_wait(result, item_.from_previous.peer));
        }
      }
    }
    if constexpr ((kBits & kSendBit) != 0) {
      const ConnectionView& to = item_.to_next;
      if (seen_head_ + to.steps <= send_step_ || send_step_ == send_begin_) {
        const std::uint64_t threshold = send_step_ < to.steps ? 0 : send_step_ + 1 - to.steps;
        const WaitResult result =
            memory_.wait_at_least(to.head, to.head_waiters, threshold, to.error);
        if (result.status != WaitStatus::kReady) return leave(end_of_wait(result, to.peer));
        seen_head_ = result.value;
      }
    }
    return 0;
  }

  Group& group_;
  Memory& memory_;
  const WorkItem& item_;
  Loops loops_;
  Lines lines_;
  const std::uint32_t element_bytes_;
  const bool shares_;
  std::uint32_t step_bytes_ = 0;
  std::uint32_t recv_slot_ = 0;
  std::uint32_t send_slot_ = 0;
  std::uint64_t recv_step_ = 0;
  std::uint64_t send_step_ = 0;
  std::uint64_t recv_begin_ = 0;
  std::uint64_t send_begin_ = 0;
  // The last counters seen, so that a peer's line is read again only when it has to have moved.
  std::uint64_t seen_tail_ = 0;
  std::uint64_t seen_head_ = 0;
  KernelOutcome outcome_;
};

}  // namespace weft::device
