// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ranks do before a call whose data may go straight into each other's outputs: each tells all
// others where its own is, or that it may not be written to. It is a one-shot all-gather by LL
// lines, in sequence with all other calls over inboxes, and the barrier that such a call begins
// with: nobody writes into an output before its rank has come to the call.
//
// Models: tests/models/output_agreement.pml, tests/models/flagged_lines.pml
#pragma once

#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/inbox_lines.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/model/direct_peers.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

namespace weft::device {

/// By one group. All lanes make the same one. Of `item` the tag alone counts; `table` is this
/// rank's.
template <std::uint32_t kRanks, class Group, class Memory>
  requires lane_group<Group> && flagged_memory<Memory>
class OutputAgreement : InboxLines<kRanks, Group, Memory> {
  using Base = InboxLines<kRanks, Group, Memory>;

 public:
  WEFT_HD OutputAgreement(Group& group, Memory& memory, const WorkItem& item,
                          const DirectPeers& peers, std::uint64_t offer, OutputTable& table)
      : Base(group, memory, item, peers, 0, 1), offer_(offer), table_(table) {}

  /// The leader's answer is the complete one; so is what it has written to the table by then.
  WEFT_HD KernelOutcome run() {
    this->begin();
    if (this->group_.leader()) {
      push(kHeader, this->item_.tag);
      push(kOffer, offer_);
      table_.way = agree();
    }
    this->finish();
    return this->outcome_;
  }

 private:
  // Lines of a half: that of the header is where all calls have it.
  static constexpr std::uint32_t kHeader = 0;
  static constexpr std::uint32_t kOffer = 1;

  WEFT_HD void push(std::uint32_t line, std::uint64_t payload) {
    const Line full = flagged_line(payload, this->flag_);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (this->peers_.outbox[rank] == nullptr) continue;
      this->memory_.store_words(this->peers_.outbox[rank] + this->at_line(line), full);
    }
  }

  // Every rank sees all offers, so all come to the same.
  WEFT_HD OutputWay agree() {
    std::uint64_t arrived[kRanks];
    if (!this->wait_for(this->at_line(kHeader), this->others(), arrived)) return OutputWay::kNone;
    this->compare_tags(arrived);
    if (this->outcome_.end != KernelEnd::kDone) return OutputWay::kNone;
    if (!this->wait_for(this->at_line(kOffer), this->others(), arrived)) return OutputWay::kNone;
    bool all = true;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank >= this->peers_.ranks) continue;
      table_.offers[rank] = rank == this->peers_.rank ? offer_ : arrived[rank];
      all = all && table_.offers[rank] != 0;
    }
    return all ? OutputWay::kOutputs : OutputWay::kSlots;
  }

  const std::uint64_t offer_;
  OutputTable& table_;
};

}  // namespace weft::device
