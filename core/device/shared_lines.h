// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The steps of step_lines.h by LL128 where lanes go on in gangs and share lines, as wide_lines.h
// has it: a line is stored at once, its flag with it, so no lane waits for another to fill it. The
// first 16 bytes of a step are its header, which the first lane of all has in place of payload.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/any_reduction.h"
#include "core/device/lane_loops.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/step_lines.h"
#include "core/device/wide_lines.h"
#include "core/model/step_lines.h"

namespace weft::device {

static_assert(step_line(Protocol::kLL128).bytes == kWideLineBytes &&
              2 * step_line(Protocol::kLL128).content == kWidePairPayload &&
              kStepHeaderBytes == sizeof(Line));

/// Whether lanes of a group may share the lines of a protocol; where they always do, since their
/// number is known to be one of whole gangs, they need no other way.
template <Protocol kProtocol, class Group, class Memory>
concept may_share_lines =
    kProtocol == Protocol::kLL128 && gang_group<Group> && wide_line_memory<Memory, Group>;
template <Protocol kProtocol, class Group, class Memory>
concept must_share_lines = may_share_lines<kProtocol, Group, Memory> &&
                           requires { requires Group::gang_size() % kWideLineLanes == 0; };

/// Bytes that a view must keep together for lanes of this group. Lanes that have a line each order
/// its words before its flag: each word has to arrive whole, and no more.
template <class Group, class Memory>
WEFT_HD std::uint32_t order_needed(const Group& group, Protocol protocol) {
  if constexpr (may_share_lines<Protocol::kLL128, Group, Memory> && !orders_wide_lines<Memory>) {
    if (group.size() % kWideLineLanes == 0) return least_order_bytes(protocol);
  }
  return has_lines(protocol) ? least_order_bytes(Protocol::kLL) : 0;
}

/// One lane's part of steps. All lanes of a gang make the same calls, in the same order. A pair is
/// two lines, numbered from the slot's first on, and may lie behind the end of the step's `bytes`.
template <class Group, class Memory, class Reduction>
  requires may_share_lines<Protocol::kLL128, Group, Memory>
class SharedLines {
 public:
  WEFT_HD SharedLines(Group& group, Memory& memory, const Reduction& reduction)
      : group_(group),
        memory_(memory),
        reduction_(reduction),
        lane_(group.rank() % kWideLineLanes),
        last_(lane_ + 1 == kWideLineLanes) {}

  /// Calls `move(pair)` for this lane's pairs of a step, until it answers false, which it does on
  /// all lanes of a gang or on none.
  template <class Move>
  WEFT_HD bool each_pair(std::uint32_t bytes, const Move& move) const {
    const std::uint32_t gang = group_.gang_size();
    const std::uint32_t own = group_.rank() % gang / kWideLineLanes;
    const std::uint32_t pairs = (lines_of(bytes) + 1) / 2;
    for (std::uint32_t first = group_.rank() / gang * (gang / kWideLineLanes); first < pairs;
         first += group_.size() / kWideLineLanes) {
      if (!move(first + own)) return false;
    }
    return true;
  }

  /// The caller's payload of a step, which begins at `input`.
  [[nodiscard]] WEFT_HD LineShare read(const std::byte* input, std::uint32_t pair,
                                       std::uint32_t bytes) const {
    const std::uint64_t at = wide_payload_place(pair, lane_);
    return {.first = load(input, at, bytes),
            .second = last_ ? Line{} : load(input, at + kToSecondPayload, bytes)};
  }
  /// The same, multiplied if the reduction asks for that.
  [[nodiscard]] WEFT_HD LineShare read_input(const std::byte* input, std::uint32_t pair,
                                             std::uint32_t bytes) const {
    LineShare share = read(input, pair, bytes);
    if constexpr (may_premultiply_payloads<Reduction>) {
      if (reduction_.premultiplies()) {
        share = each_payload(share, [this](std::uint64_t payload) {
          return reduction_.premultiply_payload(payload);
        });
      }
    }
    return share;
  }
  WEFT_HD void write(std::byte* output, std::uint32_t pair, std::uint32_t bytes,
                     const LineShare& share) const {
    const std::uint64_t at = wide_payload_place(pair, lane_);
    store(output, at, bytes, share.first);
    if (!last_) store(output, at + kToSecondPayload, bytes, share.second);
  }

  [[nodiscard]] WEFT_HD LineShare combine(const LineShare& a, const LineShare& b) const {
    return {.first = combine(a.first, b.first), .second = combine(a.second, b.second)};
  }
  /// What is complete.
  [[nodiscard]] WEFT_HD LineShare finish(const LineShare& share) const {
    if (!reduction_.finishes()) return share;
    return each_payload(
        share, [this](std::uint64_t payload) { return reduction_.finish_payload(payload); });
  }

  /// Fills a pair of lines of a slot.
  WEFT_HD void put(std::byte* slot, std::uint64_t step, std::uint32_t pair,
                   const StepHeader& header, LineShare share) const {
    if (pair == 0 && lane_ == 0) share.first = {.low = header.tag, .high = header.bytes};
    const LineShare lines = with_flags(share, last_, flag_of(step));
    const auto [first, second] = places(slot, pair, static_cast<std::uint32_t>(header.bytes));
    memory_.store_wide(group_, first, lines.first, last_);
    memory_.store_wide(group_, second, lines.second, last_);
  }

  /// Takes one. `wait_for(come)` waits for it; where it answers false, alike on all lanes of the
  /// gang, this does as well.
  template <class WaitFor>
  WEFT_HD bool take(const std::byte* slot, std::uint64_t step, std::uint32_t pair,
                    std::uint32_t bytes, LineShare& share, const WaitFor& wait_for) const {
    const auto [first, second] = places(slot, pair, bytes);
    if (!load_lines(first, second, step, share, wait_for)) return false;
    share = without_flags(share, last_);
    return true;
  }

  /// By a gang, whose first lane alone learns what the header says.
  template <class WaitFor>
  WEFT_HD bool read_header(const std::byte* slot, std::uint64_t step, StepHeader& header,
                           const WaitFor& wait_for) const {
    const std::byte* const line =
        group_.rank() % group_.gang_size() < kWideLineLanes ? slot + lane_ * sizeof(Line) : nullptr;
    LineShare share;
    if (!load_lines(line, static_cast<const std::byte*>(nullptr), step, share, wait_for)) {
      return false;
    }
    header = {.tag = share.first.low, .bytes = share.first.high};
    return true;
  }

 private:
  /// Where this lane's parts of a pair's lines lie; null where the step has no such line.
  template <class Pointer>
  struct Places {
    Pointer first;
    Pointer second;
  };
  template <class Pointer>
  [[nodiscard]] WEFT_HD Places<Pointer> places(Pointer slot, std::uint32_t pair,
                                               std::uint32_t bytes) const {
    const std::uint32_t lines = lines_of(bytes);
    const Pointer at = slot + std::uint64_t{pair} * 2 * kWideLineBytes + lane_ * sizeof(Line);
    return {.first = 2 * pair < lines ? at : nullptr,
            .second = 2 * pair + 1 < lines ? at + kWideLineBytes : nullptr};
  }

  template <class WaitFor>
  WEFT_HD bool load_lines(const std::byte* first, const std::byte* second, std::uint64_t step,
                          LineShare& share, const WaitFor& wait_for) const {
    const std::uint64_t flag = flag_of(step);
    const auto come = [&] {
      group_.gather_gang();
      share.first = memory_.load_wide(group_, first, flag, last_);
      share.second = memory_.load_wide(group_, second, flag, last_);
      const bool lacks = (first != nullptr && share.first.high != flag) ||
                         (second != nullptr && share.second.high != flag);
      return !group_.any_of_gang(last_ && lacks);
    };
    return come() || wait_for(come);
  }

  [[nodiscard]] WEFT_HD static std::uint32_t lines_of(std::uint32_t bytes) {
    constexpr std::uint32_t kContent = step_line(Protocol::kLL128).content;
    return (kStepHeaderBytes + bytes + kContent - 1) / kContent;
  }
  [[nodiscard]] WEFT_HD static std::uint64_t flag_of(std::uint64_t step) { return step + 1; }

  // `at` counts from the header on, which is nothing of the caller's.
  [[nodiscard]] WEFT_HD Line load(const std::byte* input, std::uint64_t at,
                                  std::uint32_t bytes) const {
    if (at < kStepHeaderBytes || at - kStepHeaderBytes >= bytes) return {};
    const std::byte* const from = input + (at - kStepHeaderBytes);
    const std::uint64_t left = bytes - (at - kStepHeaderBytes);
    return is_whole(from, left) ? memory_.load_line(from) : load_piece<AnyReduction>(from, left);
  }
  WEFT_HD void store(std::byte* output, std::uint64_t at, std::uint32_t bytes,
                     const Line& line) const {
    if (at < kStepHeaderBytes || at - kStepHeaderBytes >= bytes) return;
    std::byte* const to = output + (at - kStepHeaderBytes);
    const std::uint64_t left = bytes - (at - kStepHeaderBytes);
    if (is_whole(to, left)) {
      memory_.store_line(to, line);
    } else {
      store_piece<AnyReduction>(to, line, left);
    }
  }
  [[nodiscard]] WEFT_HD static bool is_whole(const std::byte* at, std::uint64_t left) {
    return left >= sizeof(Line) && reinterpret_cast<std::uintptr_t>(at) % sizeof(Line) == 0;
  }

  [[nodiscard]] WEFT_HD Line combine(const Line& a, const Line& b) const {
    if constexpr (requires { reduction_.combine_lines(a, b); }) {
      return reduction_.combine_lines(a, b);
    } else {
      return combine_lines<Reduction>(a, b);
    }
  }
  template <class Change>
  [[nodiscard]] WEFT_HD static LineShare each_payload(const LineShare& share,
                                                      const Change& change) {
    return {.first = {.low = change(share.first.low), .high = change(share.first.high)},
            .second = {.low = change(share.second.low), .high = change(share.second.high)}};
  }

  Group& group_;
  Memory& memory_;
  const Reduction reduction_;
  const std::uint32_t lane_;
  const bool last_;  // of the eight: it has the flags
};

}  // namespace weft::device
