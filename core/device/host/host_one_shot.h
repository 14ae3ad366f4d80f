// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The direct one-shot between CPUs: every rank writes what it has for another into its inbox there,
// and works on what came to it: all-reduce, all-gather, reduce-scatter. Where
// core/device/one_shot_all_reduce.h cuts a call into lines for many lanes, a CPU writes a payload
// as a whole, with one header that says it is there: its stores stay in order at no cost, and it
// can sleep on a word. Inboxes are the same; ranks on GPUs never share one with ranks on CPUs.
//
// Every rank waits for every other one in every call. So its half of call e is read to the end when
// anybody begins call e + 2, which takes the same half: that one got a header of call e + 1 from
// it.
//
// All ranks reduce in the order of rank numbers, so all get the same bits.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/device/policies.h"
#include "core/model/direct_peers.h"
#include "core/model/operation.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device {

// A half has 128 bytes at least, or 16 for each 8 of payload and 16 more.
static_assert(sizeof(DirectHeader) + 48 <= direct_half_bytes(48) &&
              sizeof(DirectHeader) + 64 <= direct_half_bytes(64));

/// Whether the host's one-shot can do it.
[[nodiscard]] constexpr bool host_one_shot_knows(Operation operation) {
  return is_planned(operation) && !has_root(operation) && !has_uneven_blocks(operation);
}

/// One call by one thread; fits_inboxes() and host_one_shot_knows() must hold for the item.
template <class Group, class Memory, class Reduction>
  requires lane_group<Group> && device_memory<Memory, Group>
class HostOneShot {
 public:
  HostOneShot(Group& group, Memory& memory, const WorkItem& item, const Reduction& reduction)
      : group_(group),
        memory_(memory),
        item_(item),
        peers_(*item.direct),
        reduction_(reduction),
        bytes_(item.count * element_size(item.type)) {
    // The first two of the words are one number here.
    std::memcpy(&call_, peers_.positions, sizeof(call_));
    ++call_;
    half_ = (call_ % kDirectHalves) * peers_.half_bytes;
  }

  KernelOutcome run() {
    for (std::uint32_t step = 1; step < peers_.ranks; ++step)
      push((peers_.rank + step) % peers_.ranks);
    for (std::uint32_t step = 1; step < peers_.ranks && done(); ++step)
      take((peers_.rank + step) % peers_.ranks);
    std::memcpy(peers_.positions, &call_, sizeof(call_));
    if (!done()) return outcome_;
    if (item_.operation == Operation::kAllGather) {
      gather();
    } else {
      reduce();
    }
    return outcome_;
  }

 private:
  [[nodiscard]] bool done() const { return outcome_.end == KernelEnd::kDone; }

  [[nodiscard]] DirectHeader* header_in(std::byte* box) const {
    return reinterpret_cast<DirectHeader*>(box + half_);
  }
  [[nodiscard]] std::byte* payload_from(std::uint32_t peer) const {
    return reinterpret_cast<std::byte*>(header_in(peers_.inbox[peer]) + 1);
  }
  /// What `rank` is to get of this one's.
  [[nodiscard]] const std::byte* share_of(std::uint32_t rank) const {
    return item_.send + (item_.operation == Operation::kReduceScatter ? rank * bytes_ : 0);
  }

  void push(std::uint32_t peer) {
    DirectHeader* to = header_in(peers_.outbox[peer]);
    auto* payload = reinterpret_cast<std::byte*>(to + 1);
    if (reduction_.premultiplies()) {
      memory_.premultiply_copy(reduction_, group_, payload, share_of(peer), item_.count);
    } else {
      memory_.copy(group_, payload, nullptr, share_of(peer), bytes_);
    }
    to->tag = item_.tag;
    to->count = item_.count;
    memory_.post(&to->call, &to->waiters, call_);
  }

  void take(std::uint32_t peer) {
    DirectHeader* from = header_in(peers_.inbox[peer]);
    const WaitResult waited =
        memory_.wait_at_least(&from->call, &from->waiters, call_, peers_.error[peer]);
    if (waited.status == WaitStatus::kAborted) {
      outcome_ = {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
      return;
    }
    // A peer that gave up posted before; its tag says more than that it did.
    if (waited.status == WaitStatus::kPeerError && memory_.load_acquire(&from->call) < call_) {
      outcome_ = {.end = KernelEnd::kPeerError, .peer = peer, .expected = 0, .found = waited.value};
      return;
    }
    if (from->tag == item_.tag && from->count == item_.count) return;
    outcome_ = {
        .end = KernelEnd::kTagMismatch, .peer = peer, .expected = item_.tag, .found = from->tag};
  }

  void gather() {
    for (std::uint32_t rank = 0; rank < peers_.ranks; ++rank) {
      const std::byte* from = rank == peers_.rank ? item_.send : payload_from(rank);
      std::byte* to = item_.recv + rank * bytes_;
      if (from != to) memory_.copy(group_, to, nullptr, from, bytes_);
    }
  }

  // What lies between the first step and the last lies in the inbox, whose bytes nobody needs any
  // more: the result may lie where this rank's own share does.
  void reduce() {
    const auto share_from = [&](std::uint32_t rank) -> const std::byte* {
      return rank == peers_.rank ? share_of(rank) : payload_from(rank);
    };
    if constexpr (accumulates_inputs<Memory, Group, Reduction>) {
      if (reduction_.accumulates()) {
        const std::byte* from[kMostDirectRanks];
        for (std::uint32_t rank = 0; rank < peers_.ranks; ++rank)
          from[rank] = share_from(rank);
        memory_.accumulate(reduction_, group_, item_.recv, nullptr, from, peers_.ranks, peers_.rank,
                           item_.count);
        return;
      }
    }
    std::byte* between = payload_from(peers_.rank == 0 ? 1 : 0);
    const std::byte* so_far = share_from(0);
    for (std::uint32_t rank = 1; rank < peers_.ranks; ++rank) {
      std::byte* to = rank + 1 == peers_.ranks ? item_.recv : between;
      combine(to, so_far, share_from(rank), rank);
      so_far = to;
    }
    if (reduction_.finishes()) {
      memory_.finish(reduction_, group_, item_.recv, nullptr, item_.count);
    }
  }

  // What came was multiplied by who sent it; this rank's own share still lies as the caller gave
  // it.
  void combine(std::byte* to, const std::byte* so_far, const std::byte* share, std::uint32_t rank) {
    const bool own_first = rank == 1 && peers_.rank == 0;
    if (reduction_.premultiplies() && (own_first || rank == peers_.rank)) {
      memory_.premultiply_reduce(reduction_, group_, to, nullptr, own_first ? share : so_far,
                                 own_first ? so_far : share, item_.count, own_first);
    } else {
      memory_.reduce(reduction_, group_, to, nullptr, so_far, share, item_.count);
    }
  }

  Group& group_;
  Memory& memory_;
  const WorkItem& item_;
  const DirectPeers& peers_;
  const Reduction& reduction_;
  const std::uint64_t bytes_;
  std::uint64_t call_ = 0;
  std::uint64_t half_ = 0;
  KernelOutcome outcome_;
};

}  // namespace weft::device
