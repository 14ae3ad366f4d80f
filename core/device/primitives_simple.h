// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The family of primitives over the Simple protocol, step by step over ConnectionViews. The leader
// waits and checks, all lanes move bytes, the leader posts.
//
// Nothing that a peer wrote bounds a loop or forms an address unchecked: the sizes come from
// ring_geometry.h on both ends and a slot that says otherwise ends the kernel.
//
// Models: tests/models/step_fifo.pml, tests/models/ring_credits.pml, tests/models/both_ends.pml
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/primitives.h"
#include "core/device/slot_check.h"
#include "core/model/connection_view.h"
#include "core/model/operation.h"
#include "core/model/ring_geometry.h"
#include "core/model/work_item.h"

namespace weft::device {

/// A payload of so many bytes is lent where the other side of the slots borrows: less is copied
/// sooner than waited for.
inline constexpr std::uint32_t kLeastLentBytes = 16384;

/// Of blocks of that size and more what nobody keeps a copy of is read by ranks of one process
/// where it lies: measured with two ranks on two cores, docs/performance.md.
inline constexpr std::uint64_t kLeastReadBytes = std::uint64_t{2} << 20;

/// A memory policy whose kernels may lend what lies in the caller's buffers: those of CPUs.
///  - replace_word(word, expected, desired): whether the word was as expected and now is as
///    desired; orders as an acquire and a release.
///  - yield(): while another kernel of this process is at work.
template <class Memory>
concept lends_payloads = requires(Memory& memory, std::uint32_t* word, std::uint32_t value) {
  requires Memory::kLendsPayloads;
  { memory.replace_word(word, value, value) } -> std::same_as<bool>;
  memory.yield();
};

/// One item's primitives; `Item` has the members of a WorkItem that are looked at here. Every lane
/// makes one; all lanes make the same calls with the same arguments. A call answers false when the
/// kernel must end; then outcome() says why, in full on the leader, with `end` alone on other
/// lanes. finish() must be called last.
template <class Group, class Memory, class Reduction, class Item = WorkItem>
  requires lane_group<Group> && device_memory<Memory, Group>
class SimplePrimitives : public Primitives<SimplePrimitives<Group, Memory, Reduction, Item>> {
  using Family = Primitives<SimplePrimitives<Group, Memory, Reduction, Item>>;
  friend Family;

 public:
  /// `receives` and `sends` say which connections the algorithm uses; those must be usable.
  WEFT_HD SimplePrimitives(Group& group, Memory& memory, const Item& item,
                           const Reduction& reduction, std::uint32_t element_bytes, bool receives,
                           bool sends)
      : group_(group),
        memory_(memory),
        item_(item),
        reduction_(reduction),
        element_bytes_(element_bytes) {
    const ConnectionView& from = item.from_previous;
    const ConnectionView& to = item.to_next;
    if (receives) {
      recv_step_ = from.cursor->step;
      recv_slot_ = slot_index(recv_step_, from.steps);
      recv_begin_ = recv_step_;
      seen_tail_ = from.cursor->seen_tail;
      step_bytes_ = from.step_bytes;
    }
    if (sends) {
      send_step_ = to.cursor->step;
      send_slot_ = slot_index(send_step_, to.steps);
      send_begin_ = send_step_;
      seen_head_ = to.cursor->seen_head;
      step_bytes_ = to.step_bytes;
      lends_ = to.borrows && (!to.reads_lent || reading_pays(item, element_bytes));
    }
  }

  /// Writes the cursors back. The position of a kernel that failed is written too, though nothing
  /// may go on from it.
  WEFT_HD KernelOutcome finish() {
    if constexpr (lends_payloads<Memory>) {
      if (lent_ && outcome_.end == KernelEnd::kDone) await_return();
      if (lent_ && outcome_.end != KernelEnd::kDone) withdraw();
    }
    // A cursor that did not move is not written: without a step no barrier parts this from the
    // other lanes' reads in the constructor.
    if (group_.leader()) {
      if (recv_step_ != recv_begin_) {
        item_.from_previous.cursor->step = recv_step_;
        item_.from_previous.cursor->seen_tail = seen_tail_;
      }
      if (send_step_ != send_begin_) {
        item_.to_next.cursor->step = send_step_;
        item_.to_next.cursor->seen_head = seen_head_;
      }
      if (outcome_.end != KernelEnd::kDone) give_up();
    }
    return outcome_;
  }

 private:
  using Family::at;

  /// Whether a reader in this process gains what its sender waits for it: with blocks that caches
  /// do not hold. What is in the cache of another core is read slower than a slot written for it.
  WEFT_HD static bool reading_pays(const Item& item, std::uint32_t element_bytes) {
    return (item.operation == Operation::kAllGather ||
            item.operation == Operation::kReduceScatter) &&
           item.count * element_bytes >= kLeastReadBytes;
  }

  // Leader only: lets the neighbours' kernels end too, where they can be told from here.
  WEFT_HD void give_up() {
    const std::uint32_t reason = reason_of(outcome_);
    memory_.give_up(item_.from_previous.peer_error, reason);
    memory_.give_up(item_.to_next.peer_error, reason);
  }

  template <unsigned kBits>
  WEFT_HD bool run(Extent extent, std::uint64_t output) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    const ConnectionView& from = item_.from_previous;
    const ConnectionView& to = item_.to_next;
    std::uint64_t input_at = extent.offset * element_bytes_;
    std::uint64_t output_at = output * element_bytes_;
    std::uint64_t left = extent.count * element_bytes_;
    while (left != 0) {
      const auto bytes = static_cast<std::uint32_t>(left < step_bytes_ ? left : step_bytes_);
      const std::uint64_t verdict = group_.broadcast(group_.leader() ? await<kBits>(bytes) : 0);
      if ((verdict >> 32) != 0) {
        outcome_.end = static_cast<KernelEnd>(verdict >> 32);
        return false;
      }
      std::byte* slot = nullptr;
      const std::byte* arrived = nullptr;
      if constexpr (kSend) {
        slot = slot_payload(to, from, both_ends<kBits>(), send_step_, send_slot_);
      }
      const std::byte* const input = at(item_.send, input_at);
      std::byte* const result = at(item_.recv, output_at);
      if constexpr (kRecv) {
        const auto offset = static_cast<std::uint32_t>(verdict);
        if (kMayLand<kBits> && offset == kLent && from.lands) {
          arrived = result;
        } else if (lends_payloads<Memory> && offset == kLent) {
          if (!take_lent(arrived)) return false;
        } else {
          arrived = slot_payload(from, to, both_ends<kBits>(), recv_step_, recv_slot_) + offset;
        }
      }
      std::uint32_t place = 0;  // NOLINT(misc-const-correctness): a lender changes it
      if constexpr (kSend && kHasBuffer<kBits> && lends_payloads<Memory>) {
        // What is to be multiplied first does not lie in the input.
        const bool lies_there = !kReadsInputAlone<kBits> || !premultiplies(reduction_);
        // Where it is copied to the output anyway, the slot's copy costs little more.
        const bool pays = !to.reads_lent || kSentAlone<kBits>;
        if (lends_ && bytes >= kLeastLentBytes && lies_there && pays) {
          lend<kBits>(slot, arrived, input, result, bytes);
          place = kLent;
        }
      }
      if (place != kLent) move<kBits>(slot, arrived, input, result, bytes);
      publish<kBits>(SlotMeta{.size = bytes, .offset = place, .tag = item_.tag});
      if constexpr (kSend) {
        ++send_step_;
        send_slot_ = send_slot_ + 1 == to.steps ? 0 : send_slot_ + 1;
      }
      if constexpr (kRecv) {
        ++recv_step_;
        recv_slot_ = recv_slot_ + 1 == from.steps ? 0 : recv_slot_ + 1;
      }
      input_at += bytes;
      output_at += bytes;
      left -= bytes;
    }
    return true;
  }

  /// After what all lanes did; by others than the lanes, where the device has them. The tail goes
  /// first: someone waits for the data, while a free slot is rarely urgent.
  template <unsigned kBits>
  WEFT_HD void publish(const SlotMeta& meta) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    const ConnectionView& from = item_.from_previous;
    const ConnectionView& to = item_.to_next;
    if constexpr (posts_apart<Memory, Group>) {
      StepPosts posts;
      if constexpr (kSend) {
        posts.tail = to.tail;
        posts.filled = send_step_ + 1;
        posts.slot = to.slots + send_slot_;
        posts.meta = meta;
      }
      if constexpr (kRecv) {
        posts.head = from.head;
        posts.freed = recv_step_ + 1;
      }
      memory_.publish(group_, posts);
    } else {
      group_.sync();
      if (!group_.leader()) return;
      if constexpr (kSend) {
        to.slots[send_slot_] = meta;
        memory_.post(to.tail, to.tail_waiters, send_step_ + 1);
      }
      if constexpr (kRecv) give_back(memory_, from.head, from.head_waiters, recv_step_ + 1);
    }
  }

  template <unsigned kBits>
  WEFT_HD void move(std::byte* slot, const std::byte* arrived, const std::byte* input,
                    std::byte* output, std::uint32_t bytes) {
    constexpr bool kRecv = (kBits & kRecvBit) != 0;
    constexpr bool kSend = (kBits & kSendBit) != 0;
    constexpr bool kInput = (kBits & kInputBit) != 0;
    constexpr bool kOutput = (kBits & kOutputBit) != 0;
    std::byte* first = kOutput ? output : slot;
    std::byte* second = kOutput && kSend ? slot : nullptr;
    if constexpr (kRecv && kInput) {
      const std::uint32_t count = bytes / element_bytes_;
      if constexpr ((kBits & kFinishBit) != 0) {
        if (reduction_.finishes()) {
          reduce(first, nullptr, arrived, input, count);
          group_.sync();
          memory_.finish(reduction_, group_, first, second, count);
          return;
        }
      }
      reduce(first, second, arrived, input, count);
    } else {
      if constexpr (kReadsInputAlone<kBits> && may_premultiply<Reduction>) {
        if (reduction_.premultiplies()) {
          memory_.premultiply_copy(reduction_, group_, first, input, bytes / element_bytes_);
          if (second == nullptr) return;
          group_.sync();
          memory_.copy(group_, second, nullptr, first, bytes);
          return;
        }
      }
      const std::byte* const source = kRecv ? arrived : kInput ? input : output;
      memory_.copy(group_, first, second, source, bytes);
    }
  }

  WEFT_HD void reduce(std::byte* first, std::byte* second, const std::byte* arrived,
                      const std::byte* input, std::uint32_t count) {
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        memory_.premultiply_reduce(reduction_, group_, first, second, arrived, input, count, false);
        return;
      }
    }
    memory_.reduce(reduction_, group_, first, second, arrived, input, count);
  }

  // Of calls one way, by devices that reach the slots of both ends.
  template <unsigned kBits>
  [[nodiscard]] WEFT_HD BothEnds both_ends() const {
    constexpr bool kOneWay = ((kBits & kRecvBit) != 0) != ((kBits & kSendBit) != 0);
    return kOneWay && !lends_payloads<Memory> ? item_.both_ends : BothEnds::kNo;
  }

  // The caller's input is all that is read.
  template <unsigned kBits>
  static constexpr bool kReadsInputAlone = (kBits & kInputBit) != 0 && (kBits & kRecvBit) == 0;

  // What is sent lies in a buffer of the caller as well: in the output, or still where it is read.
  template <unsigned kBits>
  static constexpr bool kHasBuffer = (kBits & kOutputBit) != 0 || (kBits & kRecvBit) == 0;

  // What is received is only to be in the output.
  template <unsigned kBits>
  static constexpr bool kMayLand = lends_payloads<Memory> && (kBits & kRecvBit) != 0 &&
                                   (kBits & kOutputBit) != 0 && (kBits & kInputBit) == 0;

  /// Instead of filling the slot: what is sent stays in the caller's buffer, and the slot says
  /// where. Nothing of this kernel writes there before the receiver has it, since a chunk that
  /// comes back contains what was sent.
  template <unsigned kBits>
  void lend(std::byte* slot, const std::byte* arrived, const std::byte* input, std::byte* output,
            std::uint32_t bytes) {
    const std::byte* payload = kReadsOutput<kBits> ? output : input;
    if constexpr ((kBits & kOutputBit) != 0) {
      move<kBits & ~kSendBit>(nullptr, arrived, input, output, bytes);
      payload = output;
    }
    auto* const lent = reinterpret_cast<LentSlot*>(slot);
    lent->payload = payload;
    memory_.store_word(&lent->state, kLentOpen);
    lent_ = true;
  }

  /// Where the payload of this step lies, which is read there until the slot is returned. False
  /// where its sender has taken it back: its end is told as any other.
  WEFT_HD bool take_lent(const std::byte*& payload) {
    if constexpr (lends_payloads<Memory>) {
      const ConnectionView& from = item_.from_previous;
      auto* const lent = reinterpret_cast<LentSlot*>(
          from.buffer + static_cast<std::size_t>(recv_slot_) * from.step_bytes);
      payload = lent->payload;
      if (memory_.replace_word(&lent->state, kLentOpen, kLentTaken)) return true;
      const WaitResult told =
          memory_.wait_at_least(from.tail, from.tail_waiters, UINT64_MAX, from.error);
      leave(told, from.peer);
    }
    return false;
  }

  /// Of a call that ends badly: nobody reads its caller's buffers afterwards. Who has begun to read
  /// a step waits for nothing until it returns the slot.
  WEFT_HD void withdraw() {
    const ConnectionView& to = item_.to_next;
    // Those of earlier calls that ended badly stay withdrawn.
    const std::uint64_t taken = memory_.load_acquire(to.head);
    for (std::uint64_t step = taken < send_begin_ ? send_begin_ : taken; step < send_step_;
         ++step) {
      const auto slot = slot_index(step, to.steps);
      if (to.slots[slot].offset != kLent) continue;
      auto* const lent =
          reinterpret_cast<LentSlot*>(to.buffer + static_cast<std::size_t>(slot) * to.step_bytes);
      if (memory_.replace_word(&lent->state, kLentOpen, kLentWithdrawn)) continue;
      while (memory_.load_acquire(to.head) <= step)
        memory_.yield();
    }
  }

  /// The caller has its buffers back when the call ends. One that ends badly does not wait: its
  /// communicator gives up the connections.
  WEFT_HD void await_return() {
    const ConnectionView& to = item_.to_next;
    const WaitResult result = memory_.wait_at_least(to.head, to.head_waiters, send_step_, to.error);
    if (result.status != WaitStatus::kReady) leave(result, to.peer);
  }

  /// Leader only: waits for this step's slots and checks what arrived. Answers the end of the
  /// kernel in the upper half, or the payload's offset in the lower one.
  template <unsigned kBits>
  WEFT_HD std::uint64_t await(std::uint32_t bytes) {
    std::uint32_t offset = 0;  // NOLINT(misc-const-correctness): a receiver changes it
    if constexpr ((kBits & kRecvBit) != 0) {
      const ConnectionView& from = item_.from_previous;
      if (seen_tail_ <= recv_step_) {
        const WaitResult result =
            memory_.wait_at_least(from.tail, from.tail_waiters, recv_step_ + 1, from.error);
        if (result.status != WaitStatus::kReady) return leave(result, from.peer);
        seen_tail_ = result.value;
      }
      // Copied once: what is checked is what is used, even if the peer goes on writing.
      const SlotMeta meta = from.slots[recv_slot_];
      if (meta.tag != item_.tag)
        return fail(KernelEnd::kTagMismatch, from.peer, item_.tag, meta.tag);
      if (meta.size != bytes) return fail(KernelEnd::kSizeMismatch, from.peer, bytes, meta.size);
      const bool landed = kMayLand<kBits> && from.lands && meta.offset == kLent;
      const bool lent = lends_payloads<Memory> && from.reads_lent && meta.offset == kLent;
      if (!landed && !lent &&
          (meta.offset > from.step_bytes - bytes || meta.offset % kSlotOffsetGrain != 0)) {
        return fail(KernelEnd::kSizeMismatch, from.peer, bytes,
                    static_cast<std::uint64_t>(meta.offset) + meta.size);
      }
      offset = meta.offset;
    }
    if constexpr ((kBits & kSendBit) != 0) {
      const ConnectionView& to = item_.to_next;
      if (seen_head_ + to.steps <= send_step_) {
        const std::uint64_t threshold = send_step_ < to.steps ? 0 : send_step_ + 1 - to.steps;
        const WaitResult result =
            memory_.wait_at_least(to.head, to.head_waiters, threshold, to.error);
        if (result.status != WaitStatus::kReady) return leave(result, to.peer);
        seen_head_ = result.value;
      }
    }
    if constexpr (fetches_ahead<Memory>) fetch_next<kBits>();
    return offset;
  }

  /// The slots of the next steps, as far as their other ends are known to have done with them: what
  /// was written last by another processor takes as long to come as a small call takes.
  template <unsigned kBits>
  void fetch_next() const {
    if constexpr ((kBits & kRecvBit) != 0) {
      const ConnectionView& from = item_.from_previous;
      if (seen_tail_ > recv_step_ + 1) {
        const std::uint32_t next = recv_slot_ + 1 == from.steps ? 0 : recv_slot_ + 1;
        Memory::fetch_to_read(from.buffer + std::size_t{next} * from.step_bytes);
        Memory::fetch_to_read(from.slots + next);
      }
    }
    if constexpr ((kBits & kSendBit) != 0) {
      const ConnectionView& to = item_.to_next;
      if (seen_head_ + to.steps > send_step_ + 1) {
        const std::uint32_t next = send_slot_ + 1 == to.steps ? 0 : send_slot_ + 1;
        Memory::fetch_to_write(to.buffer + std::size_t{next} * to.step_bytes);
        Memory::fetch_to_write(to.slots + next);
      }
    }
  }

  WEFT_HD std::uint64_t leave(const WaitResult& result, std::uint32_t peer) {
    outcome_ = end_of_wait(result, peer);
    return static_cast<std::uint64_t>(outcome_.end) << 32;
  }

  WEFT_HD std::uint64_t fail(KernelEnd end, std::uint32_t peer, std::uint64_t expected,
                             std::uint64_t found) {
    outcome_ = KernelOutcome{.end = end, .peer = peer, .expected = expected, .found = found};
    return static_cast<std::uint64_t>(end) << 32;
  }

  Group& group_;
  Memory& memory_;
  const Item& item_;
  const Reduction reduction_;
  const std::uint32_t element_bytes_;
  std::uint32_t step_bytes_ = 0;
  std::uint32_t recv_slot_ = 0;
  std::uint32_t send_slot_ = 0;
  std::uint64_t recv_step_ = 0;
  std::uint64_t send_step_ = 0;
  std::uint64_t recv_begin_ = 0;
  std::uint64_t send_begin_ = 0;
  // The last counters seen, so that a peer's line is read again only when it has to have moved.
  std::uint64_t seen_tail_ = 0;
  std::uint64_t seen_head_ = 0;
  bool lends_ = false;
  bool lent_ = false;
  KernelOutcome outcome_;
};

}  // namespace weft::device
