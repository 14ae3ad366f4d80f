// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the three threads share that copy in bulk (core/device/bulk_walkers.h says how), what they
// ask of their memory, and the one of them that stores tails.
//
// It stores them since a release waits for microseconds, which the storer need not: the poster
// takes them in turn from `posts`, whose entries are the storer's until `queued` has passed them
// and again once `posted` has.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/model/connection_view.h"
#include "core/model/output_table.h"

namespace weft::device {

/// What a bulk copy begins at a multiple of, and has a multiple of.
inline constexpr std::uint32_t kBulkGrain = 16;
inline constexpr std::uint32_t kPieces = 8;
inline constexpr std::uint32_t kMostPosts = 16;
/// Steps that are stored and may not have arrived: no more than groups are under way.
inline constexpr std::uint32_t kMostUnsettled = 8;

/// Memory whose threads copy between their board and what other groups see, while they go on.
///  - kPieceBytes: what is copied at once, a multiple of kBulkGrain.
///  - make_barrier(barrier, arrivals), show_barriers(), arrive(barrier),
///    arrive_and_expect(barrier, bytes), has_completed(barrier, parity): a barrier's phase ends
///    when all have arrived and all announced bytes have been loaded.
///  - bulk_load(piece, from, bytes, barrier): under way until the barrier has counted it.
///  - bulk_store(to, piece, bytes), close_group(): stores since the last one belong together.
///  - await_reads<kLeft>(), await_stores<kLeft>(): until all but the last kLeft groups of this
///    thread have read their pieces; until what they wrote is there.
///  - order_bulk_after_loads(): bulk copies that follow come after what was acquired before.
///  - load_rest(rest, from, bytes), store_rest(to, rest, bytes): what no bulk copy takes.
///  - load_shared, store_shared: a word of the board that another thread reads or writes meanwhile.
///  - fence_board(): what this thread wrote to the board is seen before what it writes after, and
///    likewise of what it reads; fence_shared(): accesses to it stay in the order they are in.
///  - fence(): as in flagged memory; store_relaxed(counter, value): a counter, after it.
///  - give_back(head, value): a head, behind loads that have ended.
///  - idle(): between looks at the board. False: leave.
template <class T>
concept bulk_memory =
    requires(T& memory, std::uint64_t* counter, std::uint32_t* word, const std::uint32_t* seen,
             std::uint32_t value, std::byte* to, const std::byte* from) {
      { T::kPieceBytes } -> std::convertible_to<std::uint32_t>;
      memory.make_barrier(counter, value);
      memory.show_barriers();
      memory.arrive(counter);
      memory.arrive_and_expect(counter, value);
      { memory.has_completed(counter, value) } -> std::same_as<bool>;
      memory.bulk_load(to, from, value, counter);
      memory.bulk_store(to, from, value);
      memory.close_group();
      memory.template await_reads<1>();
      memory.template await_stores<1>();
      memory.order_bulk_after_loads();
      memory.load_rest(to, from, value);
      memory.store_rest(to, from, value);
      { memory.load_shared(seen) } -> std::same_as<std::uint32_t>;
      memory.store_shared(word, value);
      memory.fence_board();
      memory.fence_shared();
      memory.fence();
      { memory.load_acquire(counter) } -> std::same_as<std::uint64_t>;
      memory.store_relaxed(counter, std::uint64_t{});
      memory.give_back(counter, std::uint64_t{});
      { memory.load_word(word) } -> std::same_as<std::uint32_t>;
      { memory.pause(value) } -> std::same_as<KernelOutcome>;
      { memory.idle() } -> std::same_as<bool>;
    };

/// The tail of a step to be stored, and what is to be written before it.
struct BulkPost {
  std::uint64_t* tail = nullptr;  ///< None: there is nothing more to do.
  std::uint64_t value = 0;
  SlotMeta* slot = nullptr;
  SlotMeta meta{};
};

/// Where its three threads reach it alone.
template <bulk_memory Memory>
struct BulkBoard {
  alignas(128) std::byte pieces[kPieces][Memory::kPieceBytes];
  std::byte rests[kPieces][kBulkGrain];  ///< What of a piece is no multiple of kBulkGrain.
  std::uint64_t full[kPieces];
  std::uint64_t empty[kPieces];
  struct {
    std::uint64_t filled;
    std::uint64_t group;
    std::uint32_t slot;
    std::uint32_t bytes;
  } unsettled[kMostUnsettled];  ///< Of the storer alone.
  alignas(BulkPost) std::byte posts[kMostPosts][sizeof(BulkPost)];
  std::uint32_t queued;
  std::uint32_t posted;
  std::uint32_t ended;
  OutputWay way;
  std::byte* next_output;  ///< By outputs: where the item's begins at the next rank.
};

/// One thread; a barrier of all follows.
template <bulk_memory Memory>
WEFT_HD void prepare(Memory& memory, BulkBoard<Memory>& board) {
  for (std::uint32_t i = 0; i < kPieces; ++i) {
    memory.make_barrier(&board.full[i], 1);
    memory.make_barrier(&board.empty[i], 1);
  }
  board.queued = 0;
  board.posted = 0;
  board.ended = 0;
  board.way = OutputWay::kSlots;
  board.next_output = nullptr;
  memory.show_barriers();
}

/// What the poster does: all that is queued at a time it posts after one fence, which takes the
/// longer the more of the stores beside it are under way.
template <bulk_memory Memory>
WEFT_HD void serve_posts(Memory& memory, BulkBoard<Memory>& board) {
  for (std::uint32_t served = 0;;) {
    const std::uint32_t queued = memory.load_shared(&board.queued);
    if (queued == served) {
      if (!memory.idle()) return;
      continue;
    }
    memory.fence_board();
    BulkPost latest{};
    bool last = false;
    for (; served != queued; ++served) {
      const BulkPost post = *reinterpret_cast<const BulkPost*>(board.posts[served % kMostPosts]);
      last = post.tail == nullptr;
      if (last) continue;
      *post.slot = post.meta;
      latest = post;
    }
    // What was read above may be overwritten from here on. A thread's accesses to the board keep
    // their order if the compiler leaves them in it.
    memory.fence_shared();
    memory.store_shared(&board.posted, served);
    memory.fence();
    if (latest.tail != nullptr) memory.store_relaxed(latest.tail, latest.value);
    if (last) return;
  }
}

}  // namespace weft::device
