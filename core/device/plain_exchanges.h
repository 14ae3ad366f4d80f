// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Exchanges through plain halves of inboxes: in each, every part of a rank posts a header to the
// same part of every other rank, behind what it has written, and waits for theirs. The counter of a
// header is posted with release and waited for with acquire, as a tail is.
//
// Why two halves suffice: a part that begins exchange e + 2, which takes the half of e, has a
// header of e + 1 from the same part of every other rank, and that one had taken all of e before it
// wrote anything of e + 1. Other parts of that rank may be behind, but what they write has places
// of its own for the whole call; and between two calls all parts of a rank have ended. So nobody
// can be overtaken, however slow it is. Inboxes of CPUs also carry one-shots
// (core/device/host/host_one_shot.h), which are an exchange each.
//
// Model: tests/models/two_shot.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/slot_check.h"
#include "core/model/direct_peers.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Part `part` of `parts` of one call, by one group. All lanes make the same one.
template <class Group, class Memory>
  requires lane_group<Group> && device_memory<Memory, Group>
class PlainExchanges {
 protected:
  WEFT_HD PlainExchanges(Group& group, Memory& memory, const WorkItem& item,
                         const DirectPeers& peers, std::uint32_t part, std::uint32_t parts)
      : group_(group), memory_(memory), item_(item), peers_(peers), part_(part), parts_(parts) {}

  /// Finds the call's place in the sequence, which the call before it writes. Before anything else.
  WEFT_HD void begin() { exchange_ = peers_.plain_positions[part_]; }
  WEFT_HD void begin_exchange() {
    ++exchange_;
    half_ = peers_.plain_begin + (exchange_ % kDirectHalves) * peers_.plain_half_bytes;
  }
  /// The half of the exchange before this one.
  [[nodiscard]] WEFT_HD std::uint64_t half_before() const {
    return peers_.plain_begin + ((exchange_ - 1) % kDirectHalves) * peers_.plain_half_bytes;
  }

  [[nodiscard]] WEFT_HD DirectHeader* header_in(std::byte* box) const {
    return reinterpret_cast<DirectHeader*>(box + half_) + part_;
  }
  /// The other ranks, the next one first.
  [[nodiscard]] WEFT_HD std::uint32_t other(std::uint32_t step) const {
    return (peers_.rank + 1 + step) % peers_.ranks;
  }

  WEFT_HD void post_to(std::uint32_t peer) {
    DirectHeader* header = header_in(peers_.outbox[peer]);
    header->tag = item_.tag;
    memory_.post(&header->call, &header->waiters, exchange_);
  }

  /// A header for each other rank, by a lane of its own, behind what all lanes have written.
  WEFT_HD void post_all() {
    group_.sync();
    for (std::uint32_t step = group_.rank(); step + 1 < peers_.ranks; step += group_.size())
      post_to(other(step));
  }

  /// Waits for one other rank's header of this exchange.
  WEFT_HD KernelOutcome await(std::uint32_t peer) {
    DirectHeader* from = header_in(peers_.inbox[peer]);
    const WaitResult waited =
        memory_.wait_at_least(&from->call, &from->waiters, exchange_, peers_.error[peer]);
    if (waited.status == WaitStatus::kAborted) return end_of_wait(waited, peer);
    // A peer that gave up posted before; its tag says more than that it did.
    if (waited.status == WaitStatus::kPeerError && memory_.load_acquire(&from->call) < exchange_) {
      return end_of_wait(waited, peer);
    }
    // The first part speaks for its rank, and has posted before it gives up. Another one may give
    // up before that, but only for an abort or for what some first part has found.
    if (part_ != 0 || from->tag == item_.tag) return {};
    return {
        .end = KernelEnd::kTagMismatch, .peer = peer, .expected = item_.tag, .found = from->tag};
  }

  /// Waits for all, each by a lane of its own. Also the barrier behind which all lanes may read.
  WEFT_HD bool await_all() {
    for (std::uint32_t step = group_.rank(); step + 1 < peers_.ranks && done_;
         step += group_.size()) {
      outcome_ = await(other(step));
      done_ = outcome_.end == KernelEnd::kDone;
    }
    done_ = !group_.any(!done_);
    return done_;
  }

  WEFT_HD void finish() {
    // Also the barrier behind which no lane reads the position any more.
    group_.sync();
    for (std::uint32_t word = part_ + group_.rank() * parts_; word < peers_.plain_headers;
         word += group_.size() * parts_) {
      peers_.plain_positions[word] = exchange_;
    }
    if (done_ || !group_.leader()) return;
    // What made another lane leave is mostly there to be seen still, and nobody waits for long: all
    // lanes came back from their waits.
    for (std::uint32_t step = 0; step + 1 < peers_.ranks; ++step) {
      if (outcome_.end == KernelEnd::kDone) outcome_ = await(other(step));
    }
    // But a peer that gives up may have posted since.
    for (std::uint32_t step = 0; step + 1 < peers_.ranks; ++step) {
      std::uint32_t* const error = peers_.error[other(step)];
      const std::uint32_t told = error == nullptr ? 0 : memory_.load_word(error);
      if (outcome_.end == KernelEnd::kDone && told != 0) {
        outcome_ = end_of_wait({.status = WaitStatus::kPeerError, .value = told}, other(step));
      }
    }
    if (outcome_.end == KernelEnd::kDone) outcome_.end = KernelEnd::kAborted;
    for (std::uint32_t step = 0; step + 1 < peers_.ranks; ++step)
      memory_.give_up(peers_.peer_error[other(step)], reason_of(outcome_));
  }

  Group& group_;
  Memory& memory_;
  const WorkItem& item_;
  const DirectPeers& peers_;
  const std::uint32_t part_;
  const std::uint32_t parts_;
  std::uint64_t exchange_ = 0;
  std::uint64_t half_ = 0;
  bool done_ = true;
  KernelOutcome outcome_;
};

}  // namespace weft::device
