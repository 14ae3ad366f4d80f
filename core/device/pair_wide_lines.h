// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks in steps of lines of LL128, which lanes share: as pair_lines.h, but
// for longer ones, which take several slots. No store waits for another, and the receiver has a
// line as soon as it comes; of steps of Simple it has none before all have.
//
// A step begins with the call's tag and the bytes of its payload, which the leader compares before
// a lane uses anything of it. Nothing that a peer wrote bounds a loop or forms an address.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/shared_lines.h"
#include "core/device/slot_check.h"
#include "core/device/step_lines.h"
#include "core/model/pair_transfer.h"
#include "core/model/step_lines.h"

namespace weft::device {

/// Groups whose lanes share lines, by the memory that they have.
template <class Group, class Memory>
concept has_pair_wide_lines = may_share_lines<Protocol::kLL128, Group, Memory>;

/// All lanes make the same one and call the same. What a transfer has left begins at `moved`, and
/// goes by steps that are full, but for its last.
template <class Group, class Memory>
  requires lane_group<Group> && device_memory<Memory, Group> && has_pair_wide_lines<Group, Memory>
class PairWideLines {
 public:
  WEFT_HD PairWideLines(Group& group, Memory& memory)
      : group_(group), memory_(memory), lines_(group, memory, {}) {}

  /// Bytes of payload that a slot of this view has room for.
  [[nodiscard]] WEFT_HD static std::uint32_t room(const ConnectionView& view) {
    return step_payload(Protocol::kLL128, view.step_bytes);
  }

  /// Fills so many slots, which are free, from step number `at` on.
  WEFT_HD void put(const PairTransfer& transfer, std::uint64_t at, std::uint32_t steps) const {
    each_step(transfer, at, steps, [&](std::byte* slot, const Step& step) {
      return lines_.each_pair(step.bytes, [&](std::uint32_t pair) {
        lines_.put(slot, step.number, pair, {.tag = transfer.tag, .bytes = step.bytes},
                   lines_.read(transfer.from + step.begin, pair, step.bytes));
        return true;
      });
    });
  }

  /// By the leader's gang: whether the header of the step has come, of a transfer that has so many
  /// bytes left; the leader's outcome() tells what it says against the transfer. Waits for it where
  /// `waits`; outcome() may say why it has not come.
  [[nodiscard]] WEFT_HD bool look_at_header(const PairTransfer& transfer, std::uint64_t at,
                                            bool waits) {
    const Step step{
        .number = at, .begin = transfer.moved, .bytes = bytes_of(transfer, transfer.moved)};
    StepHeader header;
    const bool come = lines_.read_header(
        slot_of(transfer.view, at), at, header,
        [&](const auto& has_come) { return waits && wait_for(transfer, step, has_come); });
    if (come && group_.leader()) outcome_ = compare(transfer, header, step.bytes);
    return come;
  }

  /// Empties so many slots from step number `at` on, whose header has come and holds; the leader
  /// compares those of the others. False on all lanes of a gang whose lines do not come or do not
  /// hold; outcome() of its first lane says why.
  [[nodiscard]] WEFT_HD bool take(const PairTransfer& transfer, std::uint64_t at,
                                  std::uint32_t steps) {
    return each_step(transfer, at, steps, [&](const std::byte* slot, const Step& step) {
      const bool come = lines_.each_pair(step.bytes, [&](std::uint32_t pair) {
        LineShare share;
        if (!lines_.take(slot, step.number, pair, step.bytes, share, [&](const auto& has_come) {
              return wait_for(transfer, step, has_come);
            })) {
          return false;
        }
        if (pair == 0 && group_.leader()) {
          outcome_ =
              compare(transfer, {.tag = share.first.low, .bytes = share.first.high}, step.bytes);
        }
        lines_.write(transfer.to + step.begin, pair, step.bytes, share);
        return true;
      });
      return come && !group_.any_of_gang(outcome_.end != KernelEnd::kDone);
    });
  }

  [[nodiscard]] WEFT_HD const KernelOutcome& outcome() const { return outcome_; }

 private:
  static constexpr std::uint32_t kTurnsBetweenWords = 64;

  struct Step {
    std::uint64_t number;
    std::uint64_t begin;  ///< Of its payload within the transfer's.
    std::uint32_t bytes;
  };

  /// Bytes of the step of a transfer that begins there.
  [[nodiscard]] WEFT_HD static std::uint32_t bytes_of(const PairTransfer& transfer,
                                                      std::uint64_t begin) {
    const std::uint64_t left = transfer.bytes - begin;
    const std::uint32_t most = room(transfer.view);
    return left < most ? static_cast<std::uint32_t>(left) : most;
  }

  /// Until `move` answers false. Lanes go on from one to the next by themselves.
  template <class Move>
  WEFT_HD static bool each_step(const PairTransfer& transfer, std::uint64_t at, std::uint32_t steps,
                                const Move& move) {
    std::uint64_t begin = transfer.moved;
    for (std::uint32_t i = 0; i < steps; ++i) {
      const Step step{.number = at + i, .begin = begin, .bytes = bytes_of(transfer, begin)};
      if (!move(slot_of(transfer.view, at + i), step)) return false;
      begin += step.bytes;
    }
    return true;
  }

  [[nodiscard]] WEFT_HD static KernelOutcome compare(const PairTransfer& transfer,
                                                     const StepHeader& header,
                                                     std::uint32_t bytes) {
    return check_header(header, transfer.view.peer, transfer.tag, bytes);
  }

  [[nodiscard]] WEFT_HD static std::byte* slot_of(const ConnectionView& view, std::uint64_t at) {
    return view.buffer + std::uint64_t{slot_index(at, view.steps)} * view.step_bytes;
  }

  /// By all lanes of a gang, for lines of a step. They leave, too, where its header says that they
  /// will not come.
  template <class Come>
  WEFT_HD bool wait_for(const PairTransfer& transfer, const Step& step, const Come& come) {
    for (std::uint32_t turn = 0; !come(); ++turn) {
      const bool looks_at_words = turn % kTurnsBetweenWords == kTurnsBetweenWords - 1;
      KernelOutcome end;
      if (looks_at_words) end = look_at_words(transfer, step);
      if (leads_gang() && end.end == KernelEnd::kDone) end = memory_.pause(turn);
      if (!group_.any_of_gang(end.end != KernelEnd::kDone)) continue;
      // What the peer wrote before it gave up may just have come.
      if (come()) return true;
      outcome_ = end;
      return false;
    }
    return true;
  }

  /// By all lanes of a gang; the answer of its first one counts.
  [[nodiscard]] WEFT_HD KernelOutcome look_at_words(const PairTransfer& transfer,
                                                    const Step& step) {
    const ConnectionView& view = transfer.view;
    StepHeader header;
    const bool begun = lines_.read_header(slot_of(view, step.number), step.number, header,
                                          [](const auto& /*come*/) { return false; });
    if (!leads_gang()) return {};
    if (begun) {
      const KernelOutcome found = compare(transfer, header, step.bytes);
      if (found.end != KernelEnd::kDone) return found;
    }
    const std::uint32_t told = view.error == nullptr ? 0 : memory_.load_word(view.error);
    if (told == 0) return {};
    return {.end = KernelEnd::kPeerError, .peer = view.peer, .expected = 0, .found = told};
  }

  [[nodiscard]] WEFT_HD bool leads_gang() const { return group_.rank() % group_.gang_size() == 0; }

  Group& group_;
  Memory& memory_;
  SharedLines<Group, Memory, TypedReduction<std::uint8_t, Add>> lines_;
  KernelOutcome outcome_;
};

}  // namespace weft::device
