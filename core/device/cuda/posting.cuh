// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A warp that posts tails for the lanes of its CTA. Before a tail may be stored, all that was
// written before must have got there: over a busy link that takes microseconds, in which lanes that
// wait for it move nothing. So they hand the tail over and go on with the next step; they wait only
// where the tail before it has not been stored yet.
//
// A head says that a slot has been read, and nothing that was written has to arrive before: the
// leader stores it at once. Lanes have what they read before they come to the barrier, since they
// stored or compared it, so a slot that is filled again cannot change that (tests/gpu/litmus.cu,
// "taken").
//
// Who writes: lane 0 of the group the post of its turn, then the barrier, then the warp reads it.
// There are two, by turns: the warp has read one before it comes to the next barrier, without which
// no lane gets to the same one again. Order: what lanes wrote before the barrier is seen by whoever
// acquires the tail, since a release is cumulative over the barrier.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/policies.h"

namespace weft::device::cuda {

/// In shared memory. Posts without a tail: there is nothing more to do.
struct PostBoard {
  alignas(StepPosts) std::byte posts[2][sizeof(StepPosts)];
};

__device__ inline void meet_poster(std::uint32_t lanes) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(kPosterBarrier), "r"(lanes + kPosterThreads)
               : "memory");
}

/// What the warp does, until the lanes have nothing more for it.
__device__ inline void serve_posts(const PostBoard& board, std::uint32_t lanes) {
  for (std::uint32_t turn = 0;; turn ^= 1U) {
    meet_poster(lanes);
    const StepPosts posts = *reinterpret_cast<const StepPosts*>(board.posts[turn]);
    if (posts.tail == nullptr) return;
    if (threadIdx.x != lanes) continue;
    if (posts.slot != nullptr) *posts.slot = posts.meta;
    store_release_system(posts.tail, posts.filled);
  }
}

/// Memory of lanes that have such a warp.
template <class Base>
class Posting : public Base {
 public:
  __device__ Posting(const std::uint32_t* abort, LongWait* waiting, std::uint64_t tag,
                     PostBoard& board)
      : Base(abort, waiting, tag), board_(board) {}

  /// See posts_apart.
  __device__ void publish(CtaGroup& group, const StepPosts& posts) {
    if (posts.tail != nullptr) {
      hand_over(group, posts);
    } else {
      group.sync();
    }
    if (group.leader() && posts.head != nullptr) store_relaxed_system(posts.head, posts.freed);
  }
  /// All lanes: the warp ends.
  __device__ void dismiss(CtaGroup& group) { hand_over(group, {}); }

 private:
  __device__ void hand_over(CtaGroup& group, const StepPosts& posts) {
    if (group.leader()) *reinterpret_cast<StepPosts*>(board_.posts[turn_]) = posts;
    turn_ ^= 1U;
    meet_poster(group.size());
  }

  PostBoard& board_;
  std::uint32_t turn_ = 0;
};

}  // namespace weft::device::cuda
