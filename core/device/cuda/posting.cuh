// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A warp that posts for the lanes of its CTA. Before a counter may be stored, all that was written
// before must have got there: over a busy link that takes microseconds, in which lanes that wait
// for it move nothing. So they hand the counter over and go on with the next step; they wait only
// where the counter before it has not been stored yet.
//
// Who writes: lane 0 of the group the order of its turn, then the barrier, then the warp reads it.
// There are two, by turns: the warp has read one before it comes to the next barrier, without which
// no lane gets to the same one again. Order: what lanes wrote before the barrier is seen by whoever
// acquires the counter, since a release is cumulative over the barrier.
#pragma once

#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/model/connection_view.h"

namespace weft::device::cuda {

inline constexpr std::uint32_t kPosterThreads = 32;

/// A counter to store, and what is published with it. In shared memory.
struct PostOrder {
  std::uint64_t* counter;  ///< Null: there is nothing more to do.
  std::uint64_t value;
  SlotMeta* slot;  ///< Null: nothing is published with it.
  SlotMeta meta;
};

struct PostBoard {
  PostOrder orders[2];
};

__device__ inline void meet_poster(std::uint32_t lanes) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(kPosterBarrier), "r"(lanes + kPosterThreads)
               : "memory");
}

/// What the warp does, until the lanes have nothing more for it.
__device__ inline void serve_posts(const PostBoard& board, std::uint32_t lanes) {
  for (std::uint32_t turn = 0;; turn ^= 1U) {
    meet_poster(lanes);
    const PostOrder order = board.orders[turn];
    if (order.counter == nullptr) return;
    if (threadIdx.x != lanes) continue;
    if (order.slot != nullptr) *order.slot = order.meta;
    store_release_system(order.counter, order.value);
  }
}

/// Memory of lanes that have such a warp.
class PostingMemory : public CudaMemory {
 public:
  __device__ PostingMemory(const std::uint32_t* abort, std::uint64_t* waiting, std::uint64_t tag,
                           PostBoard& board)
      : CudaMemory(abort, waiting, tag), board_(board) {}

  /// All lanes, after their share of a step: as sync(), then by the leader the slot's metadata,
  /// unless `slot` is null, and post().
  __device__ void publish(CtaGroup& group, SlotMeta* slot, const SlotMeta& meta,
                          std::uint64_t* counter, std::uint32_t* /*waiters*/, std::uint64_t value) {
    if (group.leader()) {
      board_.orders[turn_] = {.counter = counter, .value = value, .slot = slot, .meta = meta};
    }
    turn_ ^= 1U;
    meet_poster(group.size());
  }
  /// All lanes: the warp ends.
  __device__ void dismiss(CtaGroup& group) { publish(group, nullptr, {}, nullptr, nullptr, 0); }

 private:
  PostBoard& board_;
  std::uint32_t turn_ = 0;
};

}  // namespace weft::device::cuda
