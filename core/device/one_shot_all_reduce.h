// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Direct one-shot all-reduce over LL lines: every rank writes its whole input into an inbox at each
// other rank, and reduces what arrives in its own with its input. One way over the wire, no
// counter, no barrier between ranks; bytes grow with the ranks, so it is for small calls.
//
// All ranks reduce in the order of rank numbers, so all get the same bits.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/inbox_lines.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/model/direct_peers.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Part `part` of `parts` of one call, by one group. All lanes make the same one. `kRanks` bounds
/// the ranks, so that what arrives stays in registers. A call has direct_lines() of its bytes, of
/// which each part must have one.
template <std::uint32_t kRanks, class Reduction, class Group, class Memory>
  requires lane_group<Group> && flagged_memory<Memory>
class OneShotAllReduce : InboxLines<kRanks, Group, Memory> {
  using Base = InboxLines<kRanks, Group, Memory>;

 public:
  WEFT_HD OneShotAllReduce(Group& group, Memory& memory, const WorkItem& item,
                           const DirectPeers& peers, const Reduction& reduction, std::uint32_t part,
                           std::uint32_t parts)
      : Base(group, memory, item, peers, part, parts),
        reduction_(reduction),
        bytes_(static_cast<std::uint32_t>(item.count) * reduction.element_bytes()),
        lines_(static_cast<std::uint32_t>(direct_lines(bytes_))) {}

  /// The leader's answer is the complete one.
  WEFT_HD KernelOutcome run() {
    std::uint32_t line = this->first_line();
    // Under way while the call's place in the sequence is looked up.
    const std::uint64_t first = line < lines_ ? own_payload(line) : 0;
    this->begin();
    if (line < lines_) push(line, first);
    for (line += this->line_stride(); line < lines_; line += this->line_stride())
      push(line, own_payload(line));
    for (line = this->first_line(); line < lines_ && outcome_.end == KernelEnd::kDone;
         line += this->line_stride()) {
      take(line);
    }
    this->finish();
    return outcome_;
  }

 private:
  using Base::item_;
  using Base::memory_;
  using Base::outcome_;
  using Base::peers_;

  // Line 0 is the header: the call's tag.
  [[nodiscard]] WEFT_HD std::uint64_t own_payload(std::uint32_t line) const {
    if (line == 0) return item_.tag;
    const std::uint32_t at = (line - 1) * kLinePayload;
    const std::uint64_t payload = reduction_.load_payload(item_.send + at, bytes_ - at);
    if constexpr (may_premultiply_payloads<Reduction>) {
      if (reduction_.premultiplies()) return reduction_.premultiply_payload(payload);
    }
    return payload;
  }

  WEFT_HD void push(std::uint32_t line, std::uint64_t payload) {
    const Line full = flagged_line(payload, this->flag_);
    const std::uint32_t at = this->at_line(line);
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (peers_.outbox[rank] != nullptr) memory_.store_words(peers_.outbox[rank] + at, full);
    }
  }

  WEFT_HD void take(std::uint32_t line) {
    const std::uint64_t own = own_payload(line);
    std::uint64_t arrived[kRanks]{};
    if (!this->wait_for(this->at_line(line), this->others(), arrived)) return;
    if (line == 0) return this->compare_tags(arrived);
    const std::uint64_t reduced = this->reduced(reduction_, own, arrived);
    const std::uint32_t at = (line - 1) * kLinePayload;
    reduction_.store_payload(item_.recv + at, reduced, bytes_ - at);
  }

  const Reduction reduction_;
  const std::uint32_t bytes_;  ///< No more than an inbox holds.
  const std::uint32_t lines_;
};

}  // namespace weft::device
