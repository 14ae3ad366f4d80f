// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A warp that posts for the lanes of its CTA. Before a counter may be stored, all that was written
// before must have got there: over a busy link that takes microseconds, in which lanes that wait
// for it move nothing. So they hand the counter over and go on with the next step; they wait only
// where the counter before it has not been stored yet.
//
// Who writes: lane 0 of the group the posts of its turn, then the barrier, then the warp reads it.
// There are two, by turns: the warp has read one before it comes to the next barrier, without which
// no lane gets to the same one again. Order: what lanes wrote before the barrier is seen by whoever
// acquires the counter, since a release is cumulative over the barrier.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/policies.h"

namespace weft::device::cuda {

/// In shared memory. Posts without a counter: there is nothing more to do.
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
    if (posts.tail == nullptr && posts.head == nullptr) return;
    if (threadIdx.x != lanes) continue;
    if (posts.tail != nullptr) {
      if (posts.slot != nullptr) *posts.slot = posts.meta;
      store_release_system(posts.tail, posts.filled);
    }
    if (posts.head != nullptr) store_release_system(posts.head, posts.freed);
  }
}

/// Memory of lanes that have such a warp.
template <class Base>
class Posting : public Base {
 public:
  __device__ Posting(const std::uint32_t* abort, std::uint64_t* waiting, std::uint64_t tag,
                     PostBoard& board)
      : Base(abort, waiting, tag), board_(board) {}

  /// See posts_apart.
  __device__ void publish(CtaGroup& group, const StepPosts& posts) {
    if (group.leader()) *reinterpret_cast<StepPosts*>(board_.posts[turn_]) = posts;
    turn_ ^= 1U;
    meet_poster(group.size());
  }
  /// All lanes: the warp ends.
  __device__ void dismiss(CtaGroup& group) { publish(group, {}); }

 private:
  PostBoard& board_;
  std::uint32_t turn_ = 0;
};

}  // namespace weft::device::cuda
