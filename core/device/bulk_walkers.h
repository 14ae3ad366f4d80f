// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The primitives that only copy, by bulk copies through a board of pieces: two threads walk the
// same algorithm. The loader brings what is to be sent or kept from the caller's input or from the
// slots of from_previous into pieces; the storer writes them to the caller's output and to the
// slots of to_next. The steps are those of SimplePrimitives, so that a rank need not know by which
// of the two its neighbours copy.
//
// By outputs (core/model/output_table.h) the storer writes to the place in the next rank's output
// instead of to the slot, and the loader takes what has come out of this rank's: so what arrives is
// written once, and what is not passed on is not touched again. Steps, counters and checks are the
// same. That nobody writes there any more once this kernel has ended holds as it does for slots: it
// has seen the tail of each step.
//
// Who writes: each piece belongs to the loader until its barrier `full` completes a phase, and then
// to the storer until `empty` does. A slot's head may be posted once its bytes lie in pieces, a
// tail once the stores of its step have ended: the storer goes on storing meanwhile, and sees to
// what is left before it waits for anything. It stores no tail itself, but the poster does
// (core/device/bulk_board.h). `ended` is raised by whichever of the two walkers ends badly; the
// other one then ends without a word.
//
// Models of steps by outputs and by both ends: tests/models/output_agreement.pml,
// tests/models/both_ends.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/bulk_board.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/primitives.h"
#include "core/device/slot_check.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Groups of stores after which a piece is taken to have been read, and a step to have arrived.
inline constexpr std::uint32_t kReadsUnderWay = 3;
inline constexpr std::uint32_t kStoresUnderWay = 6;  // settle_oldest() has a case for each
static_assert(kReadsUnderWay < kPieces && kStoresUnderWay < kMostUnsettled);

/// What both walkers are.
template <bulk_memory Memory>
class BulkWalker {
 public:
  WEFT_HD BulkWalker(Memory& memory, const WorkItem& item, BulkBoard<Memory>& board,
                     std::uint32_t element_bytes)
      : memory_(memory), item_(item), board_(board), element_bytes_(element_bytes) {}

 protected:
  static constexpr std::uint32_t kPieceBytes = Memory::kPieceBytes;

  static constexpr std::uint32_t index_of(std::uint64_t turn) {
    return static_cast<std::uint32_t>(turn % kPieces);
  }
  static constexpr std::uint32_t parity_of(std::uint64_t turn) {
    return static_cast<std::uint32_t>(turn / kPieces % 2);
  }
  [[nodiscard]] WEFT_HD bool other_ended() const { return memory_.load_shared(&board_.ended) != 0; }
  [[nodiscard]] WEFT_HD bool by_outputs() const { return board_.way == OutputWay::kOutputs; }
  /// False if the other thread has ended badly.
  WEFT_HD bool await(std::uint64_t* barrier, std::uint32_t parity) const {
    while (!memory_.has_completed(barrier, parity)) {
      if (other_ended() || !memory_.idle()) return false;
    }
    return true;
  }
  /// False if the kernel must end.
  WEFT_HD bool await(std::uint64_t* counter, std::uint64_t threshold, std::uint64_t& seen,
                     std::uint32_t* error, std::uint32_t peer) {
    for (std::uint32_t turn = 0;; ++turn) {
      seen = memory_.load_acquire(counter);
      if (seen >= threshold) return true;
      if (other_ended()) return false;
      const KernelOutcome told = memory_.pause(turn);
      if (told.end != KernelEnd::kDone) {
        return fail(end_of_wait({.status = WaitStatus::kAborted, .value = 0}, peer));
      }
      if (error == nullptr || turn % kTurnsBetweenLooks != kTurnsBetweenLooks - 1) continue;
      const std::uint32_t reason = memory_.load_word(error);
      if (reason != 0) {
        return fail(end_of_wait({.status = WaitStatus::kPeerError, .value = reason}, peer));
      }
    }
  }
  WEFT_HD bool fail(const KernelOutcome& outcome) {
    outcome_ = outcome;
    memory_.store_shared(&board_.ended, 1);
    return false;
  }
  /// After a failure: lets the neighbours' kernels end too.
  WEFT_HD KernelOutcome end() {
    if (outcome_.end != KernelEnd::kDone) {
      const std::uint32_t reason = reason_of(outcome_);
      memory_.give_up(item_.from_previous.peer_error, reason);
      memory_.give_up(item_.to_next.peer_error, reason);
    }
    return outcome_;
  }

  static constexpr std::uint32_t kTurnsBetweenLooks = 512;

  Memory& memory_;
  const WorkItem& item_;
  BulkBoard<Memory>& board_;
  const std::uint32_t element_bytes_;
  std::uint64_t turn_ = 0;  // pieces so far
  KernelOutcome outcome_;
};

template <bulk_memory Memory>
class BulkLoader : BulkWalker<Memory>, public Primitives<BulkLoader<Memory>> {
  friend class Primitives<BulkLoader>;
  using Base = BulkWalker<Memory>;
  using Base::await;
  using Base::board_;
  using Base::by_outputs;
  using Base::element_bytes_;
  using Base::end;
  using Base::fail;
  using Base::index_of;
  using Base::item_;
  using Base::kPieceBytes;
  using Base::memory_;
  using Base::parity_of;
  using Base::turn_;

 public:
  WEFT_HD BulkLoader(Memory& memory, const WorkItem& item, BulkBoard<Memory>& board,
                     std::uint32_t element_bytes, bool receives, bool sends)
      : Base(memory, item, board, element_bytes),
        step_bytes_(sends ? item.to_next.step_bytes : item.from_previous.step_bytes),
        step_(receives ? item.from_previous.cursor->step : 0) {}

  /// What is under way to shared memory arrives before the CTA ends.
  WEFT_HD KernelOutcome finish() {
    const std::uint64_t first = turn_ < kPieces ? 0 : turn_ - kPieces;
    for (std::uint64_t turn = first; turn < turn_; ++turn) {
      while (!memory_.has_completed(&board_.full[index_of(turn)], parity_of(turn))) {
        if (!memory_.idle()) return end();
      }
    }
    return end();
  }

 private:
  template <unsigned kBits>
  WEFT_HD bool run(Extent extent, std::uint64_t output) {
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
  WEFT_HD bool hand_over_nothing() {
    const std::uint32_t index = index_of(turn_);
    if (!await(&board_.empty[index], parity_of(turn_) ^ 1U)) return false;
    memory_.arrive(&board_.full[index]);
    ++turn_;
    return true;
  }

  /// Where the next slot's payload is, once it has come; null if the kernel must end.
  WEFT_HD const std::byte* arrived(std::uint32_t bytes) {
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
    memory_.order_bulk_after_loads();
    ++step_;
    return slot_payload(from, item_.to_next, item_.both_ends, step_ - 1, slot) + meta.offset;
  }

  WEFT_HD bool load(const std::byte* source, std::uint32_t bytes) {
    for (std::uint32_t at = 0; at < bytes; at += kPieceBytes, ++turn_) {
      const std::uint32_t index = index_of(turn_);
      if (!await(&board_.empty[index], parity_of(turn_) ^ 1U)) return false;
      const std::uint32_t piece = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
      const std::uint32_t whole = piece & ~(kBulkGrain - 1);
      if (whole != piece)
        memory_.load_rest(board_.rests[index], source + at + whole, piece - whole);
      if (whole == 0) {
        memory_.arrive(&board_.full[index]);
        continue;
      }
      memory_.arrive_and_expect(&board_.full[index], whole);
      memory_.bulk_load(board_.pieces[index], source + at, whole, &board_.full[index]);
    }
    return true;
  }

  const std::uint32_t step_bytes_;
  std::uint64_t step_;
  std::uint64_t seen_tail_ = 0;
};

template <bulk_memory Memory>
class BulkStorer : BulkWalker<Memory>, public Primitives<BulkStorer<Memory>> {
  friend class Primitives<BulkStorer>;
  using Base = BulkWalker<Memory>;
  using Base::await;
  using Base::board_;
  using Base::by_outputs;
  using Base::element_bytes_;
  using Base::end;
  using Base::index_of;
  using Base::item_;
  using Base::kPieceBytes;
  using Base::memory_;
  using Base::parity_of;
  using Base::turn_;

 public:
  WEFT_HD BulkStorer(Memory& memory, const WorkItem& item, BulkBoard<Memory>& board,
                     std::uint32_t element_bytes, bool receives, bool sends)
      : Base(memory, item, board, element_bytes),
        step_bytes_(sends ? item.to_next.step_bytes : item.from_previous.step_bytes),
        receives_(receives),
        sends_(sends),
        recv_step_(receives ? item.from_previous.cursor->step : 0),
        send_step_(sends ? item.to_next.cursor->step : 0) {}

  WEFT_HD KernelOutcome finish() {
    while (settle_oldest()) {
    }
    post({});
    if (receives_) item_.from_previous.cursor->step = recv_step_;
    if (sends_) item_.to_next.cursor->step = send_step_;
    return end();
  }

 private:
  template <unsigned kBits>
  WEFT_HD bool run(Extent extent, std::uint64_t output) {
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
        slot = by_outputs()
                   ? board_.next_output + place
                   : slot_payload(to, item_.from_previous, item_.both_ends, send_step_, slot_index);
      }
      if (kRecv && !kSend && by_outputs()) {
        if (!take_nothing()) return false;
      } else if (!store_step<kBits>(item_.recv + place, slot, bytes)) {
        return false;
      }
      if constexpr (kRecv) {
        memory_.give_back(item_.from_previous.head, ++recv_step_);
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
  WEFT_HD bool store_step(std::byte* kept, std::byte* next, std::uint32_t bytes) {
    // By outputs what was received lies in this one's already.
    const bool keeps = (kBits & kOutputBit) != 0 && ((kBits & kRecvBit) == 0 || !by_outputs());
    for (std::uint32_t at = 0; at < bytes; at += kPieceBytes, ++turn_) {
      const std::uint32_t piece = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
      if (turn_ - settled_ == kStoresUnderWay) settle_oldest();
      if (!await_piece()) return false;
      if (keeps) store(kept + at, piece);
      if constexpr ((kBits & kSendBit) != 0) store(next + at, piece);
      memory_.close_group();
      give_back();
    }
    return true;
  }

  /// A piece of no bytes, which stands for a step that stays where it came to.
  WEFT_HD bool take_nothing() {
    if (turn_ - settled_ == kStoresUnderWay) settle_oldest();
    if (!await_piece()) return false;
    memory_.close_group();
    give_back();
    ++turn_;
    return true;
  }

  // While there is nothing to store, what was stored is seen to, the oldest first.
  WEFT_HD bool await_credit() {
    const ConnectionView& to = item_.to_next;
    const std::uint64_t threshold = send_step_ < to.steps ? 0 : send_step_ + 1 - to.steps;
    if (knows_head_ && seen_head_ >= threshold) return true;
    do {
      seen_head_ = memory_.load_acquire(to.head);
    } while (seen_head_ < threshold && settle_oldest());
    if (seen_head_ < threshold && !await(to.head, threshold, seen_head_, to.error, to.peer)) {
      return false;
    }
    knows_head_ = true;
    memory_.order_bulk_after_loads();
    return true;
  }

  WEFT_HD bool await_piece() {
    std::uint64_t* const full = &board_.full[index_of(turn_)];
    do {
      if (memory_.has_completed(full, parity_of(turn_))) return true;
    } while (settle_oldest());
    return await(full, parity_of(turn_));
  }

  WEFT_HD void store(std::byte* to, std::uint32_t piece) const {
    const std::uint32_t index = index_of(turn_);
    const std::uint32_t whole = piece & ~(kBulkGrain - 1);
    if (whole != 0) memory_.bulk_store(to, board_.pieces[index], whole);
    if (whole != piece) memory_.store_rest(to + whole, board_.rests[index], piece - whole);
  }

  /// After the group of piece turn_: pieces that have been read go back to the loader.
  WEFT_HD void give_back() {
    memory_.template await_reads<kReadsUnderWay>();
    for (; given_back_ + kReadsUnderWay < turn_ + 1; ++given_back_)
      memory_.arrive(&board_.empty[index_of(given_back_)]);
  }

  /// Waits until the oldest of the stores under way has arrived; false if there is none.
  WEFT_HD bool settle_oldest() {
    switch (turn_ - settled_) {
      case 0:
        return false;
      case 1:
        memory_.template await_stores<0>();
        break;
      case 2:
        memory_.template await_stores<1>();
        break;
      case 3:
        memory_.template await_stores<2>();
        break;
      case 4:
        memory_.template await_stores<3>();
        break;
      case 5:
        memory_.template await_stores<4>();
        break;
      default:
        memory_.template await_stores<kStoresUnderWay - 1>();
        break;
    }
    ++settled_;
    const ConnectionView& to = item_.to_next;
    for (; unsettled_begin_ != unsettled_end_; ++unsettled_begin_) {
      const auto& step = board_.unsettled[unsettled_begin_ % kMostUnsettled];
      if (step.group > settled_) break;
      post({.tail = to.tail,
            .value = step.filled,
            .slot = to.slots + step.slot,
            .meta = {.size = step.bytes, .offset = 0, .tag = item_.tag}});
    }
    return true;
  }

  WEFT_HD void post(const BulkPost& what) {
    while (queued_ - memory_.load_shared(&board_.posted) == kMostPosts) {
      if (!memory_.idle()) return;
    }
    *reinterpret_cast<BulkPost*>(board_.posts[queued_ % kMostPosts]) = what;
    memory_.fence_board();
    memory_.store_shared(&board_.queued, ++queued_);
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

}  // namespace weft::device
