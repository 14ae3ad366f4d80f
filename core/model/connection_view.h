// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a kernel sees of one direction of one connection on one channel: pointers and sizes, no
// owner, no ABI struct. Both ends count steps from 0 and never wrap (64 bits).
//
// Model: tests/models/step_fifo.pml
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// Lies beside the payload of each step and is published together with it by the tail.
struct SlotMeta {
  std::uint32_t size;    ///< Bytes of payload in this slot.
  std::uint32_t offset;  ///< Where they begin, in bytes from the slot's start; or kLent.
  std::uint64_t tag;     ///< OperationTag of the call that the bytes belong to.
};

/// The payload is not in the slot. Of a sender whose ConnectionView::borrows the slot begins with
/// its address, until head has passed the step. At a receiver whose view `lands` it has come to
/// where the caller wants it. Of a transfer that is lent (PairPayload::kLent) the slot holds the
/// address at the sender. No receiver takes it for an offset.
inline constexpr std::uint32_t kLent = UINT32_MAX;

/// What the slot of a sender begins with whose view `borrows`. A receiver whose view `reads_lent`
/// reads the payload where it lies, once it has replaced kLentOpen by kLentTaken, and until it
/// returns the slot. A sender that ends badly replaces kLentOpen by kLentWithdrawn, or waits for
/// the slot where it comes too late: nobody reads its caller's buffer afterwards.
struct LentSlot {
  const std::byte* payload;
  std::uint32_t state;
};
inline constexpr std::uint32_t kLentOpen = 1;
inline constexpr std::uint32_t kLentTaken = 2;
inline constexpr std::uint32_t kLentWithdrawn = 3;

/// Where an end of a connection stands between operations. Written only by the worker that runs
/// the channel; kept in memory of the device so that a replayed graph goes on from it.
struct ConnectionCursor {
  std::uint64_t step = 0;
  // The last counters that were seen, so that the other end's line is read only when it has moved.
  std::uint64_t seen_head = 0;  ///< By a sender.
  std::uint64_t seen_tail = 0;  ///< By a receiver of steps of Simple in a ring.
};

/// Which of `steps` slots a step takes. A GPU divides 64 bits by a routine of more than a hundred
/// instructions; there are nearly always as many slots as a power of two.
[[nodiscard]] constexpr std::uint32_t slot_index(std::uint64_t step, std::uint32_t steps) {
  if ((steps & (steps - 1)) == 0) return static_cast<std::uint32_t>(step) & (steps - 1);
  return static_cast<std::uint32_t>(step % steps);
}

/// One direction. The sender fills slot (step % steps), then publishes tail = step + 1; the
/// receiver consumes it, which may mean to write there as well, then returns head = step + 1. The
/// sender may fill step s once head + steps > s.
///
/// Order: payload and SlotMeta are written before tail is stored with release; whoever reads tail
/// with acquire sees them. head likewise frees the slot. A waiter that sleeps adds itself to the
/// waiter word (sequentially consistent) and then reads the counter again; a poster stores the
/// counter sequentially consistent and then reads the waiter word; either sees the other.
struct ConnectionView {
  std::byte* buffer = nullptr;            ///< `steps` slots of `step_bytes`.
  std::uint64_t* head = nullptr;          ///< Steps consumed; written by the receiver.
  std::uint64_t* tail = nullptr;          ///< Steps filled; written by the sender.
  std::uint32_t* head_waiters = nullptr;  ///< Sleepers on head; null: nobody may sleep on it.
  std::uint32_t* tail_waiters = nullptr;  ///< Sleepers on tail; null: nobody may sleep on it.
  SlotMeta* slots = nullptr;              ///< `steps` entries.
  std::uint32_t* error = nullptr;         ///< Non-zero: the other end gave up. May be null.
  std::uint32_t* peer_error = nullptr;    ///< Where a kernel that gives up tells the other end.
  ConnectionCursor* cursor = nullptr;     ///< This end's position.
  std::uint32_t steps = 0;
  std::uint32_t step_bytes = 0;
  std::uint8_t order_bytes = 8;  ///< 8, 16 or 128: what a store keeps together.
  /// Of a sender: its slots are taken within this process, which reads the payload where it lies.
  bool borrows = false;
  /// Of a receiver: complete chunks of an all-reduce may come straight to the caller's output.
  /// A byte for two flags: arguments of kernels hold many views.
  bool lands : 1 = false;
  bool in_host_memory : 1 = false;  ///< Where its slots and counters are.
  std::uint8_t unused : 6 = 0;      ///< Views are compared by their bytes.
  /// What is lent is read by the receiver's kernel, in this process. Alike at both ends.
  bool reads_lent = false;
  std::uint32_t peer = 0;  ///< Rank at the other end, for reports.

  [[nodiscard]] bool connected() const { return buffer != nullptr; }
};

/// Whether a call has steps in slots of the connection the other way: in turns, and which turns.
enum class BothEnds : std::uint8_t { kNo, kOddTurns, kEvenTurns };

/// Of a call by both ends (Plan::both_ends). Neighbours have theirs in opposite turns, so that a
/// link carries stores of one half of the channels and loads of the other at any time.
[[nodiscard]] constexpr BothEnds both_ends_of(std::uint64_t channel) {
  return channel % 2 == 0 ? BothEnds::kOddTurns : BothEnds::kEvenTurns;
}

/// Steps of a turn; docs/performance.md has what others take.
inline constexpr std::uint64_t kStepsOfTurn = 4;

[[nodiscard]] constexpr bool lies_at_other_end(BothEnds ends, std::uint64_t step) {
  const bool is_odd_turn = step / kStepsOfTurn % 2 == 1;
  return ends == (is_odd_turn ? BothEnds::kOddTurns : BothEnds::kEvenTurns);
}

/// Where the payload of a step lies that has this slot. Of a call by both ends some steps have that
/// of `back`, the connection the other way between the same two: where those of `view` lie at the
/// receiver, these lie at the sender. Nobody else wants them: in such a call nothing is sent on
/// `back`, its receiver had taken all of earlier calls before it began, and its sender begins
/// the next call once it has taken all of this one.
///
/// Model: tests/models/both_ends.pml
[[nodiscard]] constexpr std::byte* slot_payload(const ConnectionView& view,
                                                const ConnectionView& back, BothEnds ends,
                                                std::uint64_t step, std::uint32_t slot) {
  const ConnectionView& at = lies_at_other_end(ends, step) ? back : view;
  return at.buffer + static_cast<std::size_t>(slot) * at.step_bytes;
}

}  // namespace weft
