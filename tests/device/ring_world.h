// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A ring of ranks inside one process over connections made by hand, and the sums to compare with:
// what a communicator's transports and planner give to the kernels, without either.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include "core/device/half.h"
#include "core/model/connection_view.h"
#include "core/model/operation_tag.h"
#include "core/model/work_item.h"

namespace weft::device::testing {

/// Both ends' view of one direction of one connection on one channel.
class Link {
 public:
  /// `sleepers`: waiters may sleep in a futex.
  Link(std::uint32_t steps, std::uint32_t step_bytes, bool sleepers = true)
      : buffer_((static_cast<std::size_t>(steps) * step_bytes + sizeof(Block) - 1) / sizeof(Block)),
        slots_(steps),
        sleepers_(sleepers),
        steps_(steps),
        step_bytes_(step_bytes) {}

  ConnectionView sender(std::uint32_t peer) { return view(peer, sender_cursor_, sender_error_); }
  ConnectionView receiver(std::uint32_t peer) {
    return view(peer, receiver_cursor_, receiver_error_);
  }

  // What a test reads or breaks.
  std::uint64_t& head() { return head_.value; }
  std::uint64_t& tail() { return tail_.value; }
  SlotMeta& slot(std::uint32_t index) { return slots_[index]; }
  std::uint32_t& sender_error() { return sender_error_; }
  std::uint32_t& receiver_error() { return receiver_error_; }
  ConnectionCursor& sender_cursor() { return sender_cursor_; }
  ConnectionCursor& receiver_cursor() { return receiver_cursor_; }
  [[nodiscard]] std::uint32_t steps() const { return steps_; }

 private:
  struct alignas(128) Block {
    std::byte bytes[128];
  };
  struct alignas(128) Counter {
    std::uint64_t value = 0;
    std::uint32_t waiters = 0;
  };

  ConnectionView view(std::uint32_t peer, ConnectionCursor& cursor, std::uint32_t& error) {
    return {.buffer = buffer_.front().bytes,
            .head = &head_.value,
            .tail = &tail_.value,
            .head_waiters = sleepers_ ? &head_.waiters : nullptr,
            .tail_waiters = sleepers_ ? &tail_.waiters : nullptr,
            .slots = slots_.data(),
            .error = &error,
            .cursor = &cursor,
            .steps = steps_,
            .step_bytes = step_bytes_,
            .order_bytes = 8,
            .peer = peer};
  }

  std::vector<Block> buffer_;
  std::vector<SlotMeta> slots_;
  Counter head_;
  Counter tail_;
  ConnectionCursor sender_cursor_;
  ConnectionCursor receiver_cursor_;
  std::uint32_t sender_error_ = 0;
  std::uint32_t receiver_error_ = 0;
  bool sleepers_;
  std::uint32_t steps_;
  std::uint32_t step_bytes_;
};

struct RingShape {
  std::uint32_t ranks = 2;
  std::uint32_t channels = 1;
  std::uint32_t steps = 8;
  std::uint32_t step_bytes = 256;
  std::uint32_t chunk_steps = 2;
  bool sleepers = true;
};

/// The links of `channels` rings; ring position of a rank is its number, rotated by the root for
/// operations that have one.
class RingWorld {
 public:
  explicit RingWorld(const RingShape& shape) : shape_(shape) {
    for (std::uint32_t i = 0; i < shape.ranks * shape.channels; ++i) {
      links_.emplace_back(shape.steps, shape.step_bytes, shape.sleepers);
    }
  }

  [[nodiscard]] const RingShape& shape() const { return shape_; }
  /// From `rank` to the next one.
  Link& link(std::uint32_t rank, std::uint32_t channel = 0) {
    return links_[channel * shape_.ranks + rank];
  }

  /// The items of one rank, one for each channel that gets a share.
  std::vector<WorkItem> items(std::uint32_t rank, const Task& task, std::uint64_t sequence,
                              const void* send, void* recv) {
    const std::uint64_t element = std::max<std::size_t>(1, element_size(task.type));
    const std::uint32_t ranks = shape_.ranks;
    std::vector<WorkItem> result;
    const std::uint64_t share = (task.count + shape_.channels - 1) / shape_.channels;
    for (std::uint32_t channel = 0; channel < shape_.channels; ++channel) {
      const std::uint64_t begin = std::min(task.count, channel * share);
      WorkItem item;
      item.operation = task.operation;
      item.type = task.type;
      item.reduction = task.reduction;
      item.send = static_cast<const std::byte*>(send) + begin * element;
      item.recv = static_cast<std::byte*>(recv) + begin * element;
      item.count = std::min(task.count - begin, share);
      item.chunk = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(shape_.chunk_steps) * shape_.step_bytes / element);
      item.ranks = ranks;
      item.ring_position = (rank + ranks - task.root) % ranks;
      item.tag = make_operation_tag(task, sequence);
      if (ranks > 1) {
        item.from_previous =
            link((rank + ranks - 1) % ranks, channel).receiver((rank + ranks - 1) % ranks);
        item.to_next = link(rank, channel).sender((rank + 1) % ranks);
      }
      result.push_back(item);
    }
    return result;
  }

 private:
  RingShape shape_;
  std::deque<Link> links_;
};

/// What rank `rank` brings at `index`: -30 to 30, so that 8 ranks add them exactly in every type
/// and order; bfloat16 holds whole numbers up to 256.
inline std::int32_t sample_number(std::uint32_t rank, std::uint64_t index) {
  return static_cast<std::int32_t>((index * 7 + std::uint64_t{rank} * 13 + index / 64) % 61) - 30;
}

template <class T>
T as_element(std::int32_t number) {
  if constexpr (half_float<T>) {
    return from_float<T>(static_cast<float>(number));
  } else {
    return static_cast<T>(number);
  }
}

template <class T>
T sample(std::uint32_t rank, std::uint64_t index) {
  return as_element<T>(sample_number(rank, index));
}

/// The all-reduce by a plain loop over ranks.
template <class T>
T expected_sample(std::uint32_t ranks, std::uint64_t index, weft_reduction reduction) {
  std::int32_t result = sample_number(0, index);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const std::int32_t number = sample_number(rank, index);
    result = reduction == WEFT_SUM ? result + number : std::max(result, number);
  }
  return as_element<T>(result);
}

template <class T>
inline constexpr weft_data_type kTypeOf = WEFT_FLOAT32;
template <>
inline constexpr weft_data_type kTypeOf<std::int32_t> = WEFT_INT32;
template <>
inline constexpr weft_data_type kTypeOf<Float16> = WEFT_FLOAT16;
template <>
inline constexpr weft_data_type kTypeOf<Bfloat16> = WEFT_BFLOAT16;

}  // namespace weft::device::testing
