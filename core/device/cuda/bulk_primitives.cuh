// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The primitives that only copy, by bulk copies through shared memory: two threads of a CTA walk
// the same algorithm. The loader brings what is to be sent or kept from the caller's input or from
// the slots of from_previous into pieces of shared memory; the storer writes them to the caller's
// output and to the slots of to_next. The steps are those of SimplePrimitives, so that a rank need
// not know by which of the two its neighbours copy.
//
// By outputs (core/model/output_table.h) the storer writes to the place in the next rank's output
// instead of to the slot, and the loader takes what has come out of this rank's: so what arrives is
// written once, and what is not passed on is not touched again. Steps, counters and checks are the
// same. That nobody writes there any more once this kernel has ended holds as it does for slots: it
// has seen the tail of each step.
//
// Who writes: each piece belongs to the loader until its barrier `full` completes a phase, and then
// to the storer until `empty` does. A slot's head may be posted once its bytes lie in shared
// memory, a tail once the stores of its step have ended: the storer goes on storing meanwhile, and
// sees to what is left before it waits for anything. It stores no counter itself, since a release
// waits for microseconds: a third thread, the poster, takes them in turn from `posts`, whose
// entries are the storer's until `queued` has passed them and again once `posted` has. `ended` is
// raised by whichever of the two walkers ends badly; the other one then ends without a word.
//
// Model of steps by outputs: tests/models/output_agreement.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/bulk_copy.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/primitives.h"
#include "core/device/slot_check.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace weft::device::cuda {

inline constexpr std::uint32_t kPieceBytes = 16384;
inline constexpr std::uint32_t kPieces = 8;
/// Groups of stores after which a piece is taken to have been read, and a step to have arrived.
inline constexpr std::uint32_t kReadsUnderWay = 3;
inline constexpr std::uint32_t kStoresUnderWay = 6;  // settle_oldest() has a case for each
/// Steps that are stored and may not have arrived: no more than groups are under way.
inline constexpr std::uint32_t kMostUnsettled = 8;
inline constexpr std::uint32_t kMostPosts = 16;
static_assert(kReadsUnderWay < kPieces && kStoresUnderWay < kMostUnsettled);

/// A counter to be stored, and what is to be written before it.
struct BulkPost {
  std::uint64_t* counter;  ///< None: there is nothing more to do.
  std::uint64_t value;
  SlotMeta* slot;  ///< None of heads.
  SlotMeta meta;
};

/// In shared memory.
struct BulkBoard {
  alignas(128) std::byte pieces[kPieces][kPieceBytes];
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

/// One thread; a barrier of the CTA follows.
__device__ inline void prepare(BulkBoard& board) {
  for (std::uint32_t i = 0; i < kPieces; ++i) {
    make_barrier(&board.full[i], 1);
    make_barrier(&board.empty[i], 1);
  }
  board.queued = 0;
  board.posted = 0;
  board.ended = 0;
  board.way = OutputWay::kSlots;
  board.next_output = nullptr;
  show_barriers();
}

__device__ inline std::uint32_t load_shared(const std::uint32_t* word) {
  return *static_cast<const volatile std::uint32_t*>(word);
}
__device__ inline void store_shared(std::uint32_t* word, std::uint32_t value) {
  *static_cast<volatile std::uint32_t*>(word) = value;
}

/// What the poster does: all that is queued at a time it posts after one fence, which takes the
/// longer the more of this multiprocessor's stores are under way.
__device__ inline void serve_posts(BulkBoard& board) {
  for (std::uint32_t served = 0;;) {
    const std::uint32_t queued = load_shared(&board.queued);
    if (queued == served) continue;
    __threadfence_block();
    BulkPost tail{};
    BulkPost head{};
    bool last = false;
    for (; served != queued; ++served) {
      const BulkPost post = *reinterpret_cast<const BulkPost*>(board.posts[served % kMostPosts]);
      if (post.slot != nullptr) {
        *post.slot = post.meta;
        tail = post;
      } else if (post.counter != nullptr) {
        head = post;
      } else {
        last = true;
      }
    }
    // What was read above may be overwritten from here on. A thread's accesses to shared memory
    // keep their order if the compiler leaves them in it.
    asm volatile("" ::: "memory");
    store_shared(&board.posted, served);
    __threadfence_system();
    if (tail.counter != nullptr) store_relaxed_system(tail.counter, tail.value);
    if (head.counter != nullptr) store_relaxed_system(head.counter, head.value);
    if (last) return;
  }
}

/// What both walkers are.
class BulkWalker {
 public:
  __device__ BulkWalker(CudaMemory& memory, const WorkItem& item, BulkBoard& board,
                        std::uint32_t element_bytes)
      : memory_(memory), item_(item), board_(board), element_bytes_(element_bytes) {}

 protected:
  static constexpr std::uint32_t index_of(std::uint64_t turn) {
    return static_cast<std::uint32_t>(turn % kPieces);
  }
  static constexpr std::uint32_t parity_of(std::uint64_t turn) {
    return static_cast<std::uint32_t>(turn / kPieces % 2);
  }
  [[nodiscard]] __device__ bool other_ended() const { return load_shared(&board_.ended) != 0; }
  [[nodiscard]] __device__ bool by_outputs() const { return board_.way == OutputWay::kOutputs; }
  /// False if the other thread has ended badly.
  __device__ bool await(std::uint64_t* barrier, std::uint32_t parity) const {
    while (!has_completed(barrier, parity)) {
      if (other_ended()) return false;
    }
    return true;
  }
  /// False if the kernel must end.
  __device__ bool await(std::uint64_t* counter, std::uint64_t threshold, std::uint64_t& seen,
                        std::uint32_t* error, std::uint32_t peer) {
    for (std::uint32_t turn = 0;; ++turn) {
      seen = load_acquire_system(counter);
      if (seen >= threshold) return true;
      if (other_ended()) return false;
      const KernelOutcome told = memory_.pause(turn);
      if (told.end != KernelEnd::kDone) {
        return fail(end_of_wait({.status = WaitStatus::kAborted, .value = 0}, peer));
      }
      if (error == nullptr || turn % kTurnsBetweenLooks != kTurnsBetweenLooks - 1) continue;
      const std::uint32_t reason = load_relaxed_system(error);
      if (reason != 0) {
        return fail(end_of_wait({.status = WaitStatus::kPeerError, .value = reason}, peer));
      }
    }
  }
  __device__ bool fail(const KernelOutcome& outcome) {
    outcome_ = outcome;
    store_shared(&board_.ended, 1);
    return false;
  }
  /// After a failure: lets the neighbours' kernels end too.
  __device__ KernelOutcome end() {
    if (outcome_.end != KernelEnd::kDone) {
      const std::uint32_t reason = reason_of(outcome_);
      memory_.give_up(item_.from_previous.peer_error, reason);
      memory_.give_up(item_.to_next.peer_error, reason);
    }
    return outcome_;
  }

  static constexpr std::uint32_t kTurnsBetweenLooks = 512;

  CudaMemory& memory_;
  const WorkItem& item_;
  BulkBoard& board_;
  const std::uint32_t element_bytes_;
  std::uint64_t turn_ = 0;  // pieces so far
  KernelOutcome outcome_;
};

class BulkLoader : public BulkWalker, public Primitives<BulkLoader> {
  friend class Primitives<BulkLoader>;

 public:
  __device__ BulkLoader(CudaMemory& memory, const WorkItem& item, BulkBoard& board,
                        std::uint32_t element_bytes, bool receives, bool sends)
      : BulkWalker(memory, item, board, element_bytes),
        step_bytes_(sends ? item.to_next.step_bytes : item.from_previous.step_bytes),
        step_(receives ? item.from_previous.cursor->step : 0) {}

  /// What is under way to shared memory arrives before the CTA ends.
  __device__ KernelOutcome finish() {
    const std::uint64_t first = turn_ < kPieces ? 0 : turn_ - kPieces;
    for (std::uint64_t turn = first; turn < turn_; ++turn) {
      while (!has_completed(&board_.full[index_of(turn)], parity_of(turn))) {
      }
    }
    return end();
  }

 private:
  template <unsigned kBits>
  __device__ bool run(Extent extent, std::uint64_t output) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    constexpr bool kInput = (kBits & kInputBit) != 0;
    static_assert(!kRecv || !kInput, "bulk copies do not reduce");
    const std::byte* source = kInput ? item_.send : item_.recv;
    source += (kInput ? extent.offset : output) * element_bytes_;
    std::uint64_t left = extent.count * element_bytes_;
    while (left != 0) {
      const auto bytes = static_cast<std::uint32_t>(left < step_bytes_ ? left : step_bytes_);
      const std::byte* from = source;
      if constexpr (kRecv) {
        const std::byte* const slot = arrived(bytes);
        if (slot == nullptr) return false;
        if (!by_outputs()) from = slot;
      }
      if (kRecv && !kSend && by_outputs()) {
        if (!hand_over_nothing()) return false;
      } else if (!load(from, bytes)) {
        return false;
      }
      source += bytes;
      left -= bytes;
    }
    return true;
  }

  /// A piece of no bytes: the storer may give the slot back.
  __device__ bool hand_over_nothing() {
    const std::uint32_t index = index_of(turn_);
    if (!await(&board_.empty[index], parity_of(turn_) ^ 1U)) return false;
    arrive(&board_.full[index]);
    ++turn_;
    return true;
  }

  /// Where the next slot's payload is, once it has come; null if the kernel must end.
  __device__ const std::byte* arrived(std::uint32_t bytes) {
    const ConnectionView& from = item_.from_previous;
    if (seen_tail_ <= step_ && !await(from.tail, step_ + 1, seen_tail_, from.error, from.peer)) {
      return nullptr;
    }
    const auto slot = slot_index(step_, from.steps);
    const SlotMeta meta = from.slots[slot];
    const KernelOutcome found = check_slot(meta, from, item_.tag, bytes);
    if (found.end != KernelEnd::kDone) {
      fail(found);
      return nullptr;
    }
    order_bulk_after_loads();
    ++step_;
    return from.buffer + static_cast<std::size_t>(slot) * from.step_bytes + meta.offset;
  }

  __device__ bool load(const std::byte* source, std::uint32_t bytes) {
    for (std::uint32_t at = 0; at < bytes; at += kPieceBytes, ++turn_) {
      const std::uint32_t index = index_of(turn_);
      if (!await(&board_.empty[index], parity_of(turn_) ^ 1U)) return false;
      const std::uint32_t piece = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
      const std::uint32_t whole = piece & ~(kBulkGrain - 1);
      for (std::uint32_t i = whole; i < piece; ++i)
        board_.rests[index][i - whole] = source[at + i];
      if (whole == 0) {
        arrive(&board_.full[index]);
        continue;
      }
      arrive_and_expect(&board_.full[index], whole);
      bulk_load(board_.pieces[index], source + at, whole, &board_.full[index]);
    }
    return true;
  }

  const std::uint32_t step_bytes_;
  std::uint64_t step_;
  std::uint64_t seen_tail_ = 0;
};

class BulkStorer : public BulkWalker, public Primitives<BulkStorer> {
  friend class Primitives<BulkStorer>;

 public:
  __device__ BulkStorer(CudaMemory& memory, const WorkItem& item, BulkBoard& board,
                        std::uint32_t element_bytes, bool receives, bool sends)
      : BulkWalker(memory, item, board, element_bytes),
        step_bytes_(sends ? item.to_next.step_bytes : item.from_previous.step_bytes),
        receives_(receives),
        sends_(sends),
        recv_step_(receives ? item.from_previous.cursor->step : 0),
        send_step_(sends ? item.to_next.cursor->step : 0) {}

  __device__ KernelOutcome finish() {
    while (settle_oldest()) {
    }
    post({});
    if (receives_) item_.from_previous.cursor->step = recv_step_;
    if (sends_) item_.to_next.cursor->step = send_step_;
    return end();
  }

 private:
  template <unsigned kBits>
  __device__ bool run(Extent extent, std::uint64_t output) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    const ConnectionView& to = item_.to_next;
    std::uint64_t place = output * element_bytes_;  // in the outputs of this rank and the next
    std::uint64_t left = extent.count * element_bytes_;
    while (left != 0) {
      const auto bytes = static_cast<std::uint32_t>(left < step_bytes_ ? left : step_bytes_);
      std::byte* slot = nullptr;
      std::uint32_t slot_index = 0;
      if constexpr (kSend) {
        if (!await_credit()) return false;
        slot_index = weft::slot_index(send_step_, to.steps);
        slot = by_outputs() ? board_.next_output + place
                            : to.buffer + static_cast<std::size_t>(slot_index) * to.step_bytes;
      }
      if (kRecv && !kSend && by_outputs()) {
        if (!take_nothing()) return false;
      } else if (!store_step<kBits>(item_.recv + place, slot, bytes)) {
        return false;
      }
      if constexpr (kRecv) {
        post({.counter = item_.from_previous.head, .value = ++recv_step_});
      }
      if constexpr (kSend) {
        auto& step = board_.unsettled[unsettled_end_++ % kMostUnsettled];
        step.filled = ++send_step_;
        step.group = turn_;
        step.slot = slot_index;
        step.bytes = bytes;
      }
      place += bytes;
      left -= bytes;
    }
    return true;
  }

  /// The pieces of a step, as they come, to this rank's output and to where the next one takes
  /// them.
  template <unsigned kBits>
  __device__ bool store_step(std::byte* kept, std::byte* next, std::uint32_t bytes) {
    // By outputs what was received lies in this one's already.
    const bool keeps = (kBits & kOutputBit) != 0 && ((kBits & kRecvBit) == 0 || !by_outputs());
    for (std::uint32_t at = 0; at < bytes; at += kPieceBytes, ++turn_) {
      const std::uint32_t piece = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
      if (turn_ - settled_ == kStoresUnderWay) settle_oldest();
      if (!await_piece()) return false;
      if (keeps) store(kept + at, piece);
      if constexpr ((kBits & kSendBit) != 0) store(next + at, piece);
      close_group();
      give_back();
    }
    return true;
  }

  /// A piece of no bytes, which stands for a step that stays where it came to.
  __device__ bool take_nothing() {
    if (turn_ - settled_ == kStoresUnderWay) settle_oldest();
    if (!await_piece()) return false;
    close_group();
    give_back();
    ++turn_;
    return true;
  }

  // While there is nothing to store, what was stored is seen to, the oldest first.
  __device__ bool await_credit() {
    const ConnectionView& to = item_.to_next;
    const std::uint64_t threshold = send_step_ < to.steps ? 0 : send_step_ + 1 - to.steps;
    if (knows_head_ && seen_head_ >= threshold) return true;
    do {
      seen_head_ = load_acquire_system(to.head);
    } while (seen_head_ < threshold && settle_oldest());
    if (seen_head_ < threshold && !await(to.head, threshold, seen_head_, to.error, to.peer)) {
      return false;
    }
    knows_head_ = true;
    order_bulk_after_loads();
    return true;
  }

  __device__ bool await_piece() {
    std::uint64_t* const full = &board_.full[index_of(turn_)];
    do {
      if (has_completed(full, parity_of(turn_))) return true;
    } while (settle_oldest());
    return await(full, parity_of(turn_));
  }

  __device__ void store(std::byte* to, std::uint32_t piece) const {
    const std::uint32_t index = index_of(turn_);
    const std::uint32_t whole = piece & ~(kBulkGrain - 1);
    if (whole != 0) bulk_store(to, board_.pieces[index], whole);
    for (std::uint32_t i = whole; i < piece; ++i)
      to[i] = board_.rests[index][i - whole];
  }

  /// After the group of piece turn_: pieces that have been read go back to the loader.
  __device__ void give_back() {
    await_reads<kReadsUnderWay>();
    for (; given_back_ + kReadsUnderWay < turn_ + 1; ++given_back_)
      arrive(&board_.empty[index_of(given_back_)]);
  }

  /// Waits until the oldest of the stores under way has arrived; false if there is none.
  __device__ bool settle_oldest() {
    switch (turn_ - settled_) {
      case 0:
        return false;
      case 1:
        await_stores<0>();
        break;
      case 2:
        await_stores<1>();
        break;
      case 3:
        await_stores<2>();
        break;
      case 4:
        await_stores<3>();
        break;
      case 5:
        await_stores<4>();
        break;
      default:
        await_stores<kStoresUnderWay - 1>();
        break;
    }
    ++settled_;
    const ConnectionView& to = item_.to_next;
    for (; unsettled_begin_ != unsettled_end_; ++unsettled_begin_) {
      const auto& step = board_.unsettled[unsettled_begin_ % kMostUnsettled];
      if (step.group > settled_) break;
      post({.counter = to.tail,
            .value = step.filled,
            .slot = to.slots + step.slot,
            .meta = {.size = step.bytes, .offset = 0, .tag = item_.tag}});
    }
    return true;
  }

  __device__ void post(const BulkPost& what) {
    while (queued_ - load_shared(&board_.posted) == kMostPosts) {
    }
    *reinterpret_cast<BulkPost*>(board_.posts[queued_ % kMostPosts]) = what;
    __threadfence_block();
    store_shared(&board_.queued, ++queued_);
  }

  const std::uint32_t step_bytes_;
  const bool receives_;
  const bool sends_;
  bool knows_head_ = false;
  std::uint64_t recv_step_;
  std::uint64_t send_step_;
  std::uint64_t seen_head_ = 0;
  std::uint64_t given_back_ = 0;  // pieces
  std::uint64_t settled_ = 0;     // pieces
  std::uint32_t unsettled_begin_ = 0;
  std::uint32_t unsettled_end_ = 0;
  std::uint32_t queued_ = 0;
};

}  // namespace weft::device::cuda

#endif
