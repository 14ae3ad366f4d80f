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
#include <type_traits>
#include <vector>

#include "core/device/narrow_float.h"
#include "core/model/connection_view.h"
#include "core/model/operation_tag.h"
#include "core/model/step_lines.h"
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
  bool downwards = false;  ///< The ring runs from high ranks to low ones.
  Protocol protocol = Protocol::kSimple;
  bool lends = false;  ///< Ranks read each other's buffers.
};

/// The links of `channels` rings.
class RingWorld {
 public:
  explicit RingWorld(const RingShape& shape) : shape_(shape) {
    for (std::uint32_t place = 0; place < shape.ranks; ++place)
      order_.push_back(at_place(place));
    for (std::uint32_t i = 0; i < shape.ranks * shape.channels; ++i) {
      links_.emplace_back(shape.steps, shape.step_bytes, shape.sleepers);
    }
  }

  [[nodiscard]] const RingShape& shape() const { return shape_; }
  /// From `rank` to the next one of the ring.
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
      item.protocol = shape_.protocol;
      item.type = task.type;
      item.reduction = task.reduction;
      item.send = static_cast<const std::byte*>(send) + begin * element;
      item.recv = static_cast<std::byte*>(recv) + begin * element;
      item.count = std::min(task.count - begin, share);
      item.chunk = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(shape_.chunk_steps) *
                                                  step_payload(shape_.protocol, shape_.step_bytes) /
                                                  element);
      item.ranks = ranks;
      const std::uint32_t origin = has_root(task.operation) ? at_place(task.root) : 0;
      const std::uint32_t place = at_place(rank);
      item.ring_position = (place + ranks - origin) % ranks;
      item.ring = order_.data();
      item.stride = task.count;
      item.tag = make_operation_tag(task, sequence);
      if (ranks > 1) {
        const std::uint32_t previous = order_[(place + ranks - 1) % ranks];
        item.from_previous = link(previous, channel).receiver(previous);
        item.to_next = link(rank, channel).sender(order_[(place + 1) % ranks]);
        item.from_previous.reads_lent = item.to_next.reads_lent = shape_.lends;
        item.to_next.borrows = shape_.lends;
      }
      result.push_back(item);
    }
    return result;
  }

 private:
  /// The rank at a place of the ring, and the place of a rank.
  [[nodiscard]] std::uint32_t at_place(std::uint32_t place) const {
    return shape_.downwards ? shape_.ranks - 1 - place : place;
  }

  RingShape shape_;
  std::vector<std::uint32_t> order_;
  std::deque<Link> links_;
};

/// The largest number that 8 ranks add exactly in every order: bfloat16 holds whole numbers up to
/// 256, e4m3 up to 16, e5m2 up to 8.
template <class T>
inline constexpr std::int32_t kMostSample = 30;
template <>
inline constexpr std::int32_t kMostSample<Float8E4M3> = 2;
template <>
inline constexpr std::int32_t kMostSample<Float8E5M2> = 1;

/// What rank `rank` brings at `index`: -kMostSample to kMostSample. Of products 1, -1 and 2.
template <class T>
std::int32_t sample_number(std::uint32_t rank, std::uint64_t index,
                           weft_reduction reduction = WEFT_SUM) {
  const std::uint64_t mixed = index * 7 + std::uint64_t{rank} * 13 + index / 64;
  if (reduction == WEFT_PROD) return mixed % 5 == 0 ? 2 : mixed % 2 == 0 ? 1 : -1;
  constexpr std::int32_t kMost = kMostSample<T>;
  return static_cast<std::int32_t>(mixed % (2 * kMost + 1)) - kMost;
}

template <class T>
T as_element(std::int32_t number) {
  if constexpr (narrow_float<T>) {
    return from_float<T>(static_cast<float>(number));
  } else {
    return static_cast<T>(number);
  }
}

template <class T>
T sample(std::uint32_t rank, std::uint64_t index, weft_reduction reduction = WEFT_SUM) {
  return as_element<T>(sample_number<T>(rank, index, reduction));
}

/// The reduction over all ranks by a plain loop, apart from the templates that are tested.
template <class T>
T expected_sample(std::uint32_t ranks, std::uint64_t index, weft_reduction reduction) {
  std::int64_t total = reduction == WEFT_PROD ? 1 : 0;
  T most = sample<T>(0, index);
  T least = most;
  const auto less = [](T a, T b) {
    if constexpr (narrow_float<T>) {
      return to_float(a) < to_float(b);
    } else {
      return a < b;
    }
  };
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::int32_t number = sample_number<T>(rank, index, reduction);
    total = reduction == WEFT_PROD ? total * number : total + number;
    const T value = as_element<T>(number);
    most = less(most, value) ? value : most;
    least = less(value, least) ? value : least;
  }
  if (reduction == WEFT_MAX) return most;
  if (reduction == WEFT_MIN) return least;
  if constexpr (std::is_integral_v<T>) {
    const T wrapped = static_cast<T>(total);
    if (reduction != WEFT_AVG) return wrapped;
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(static_cast<std::int64_t>(wrapped) / std::int64_t{ranks});
    } else {
      return static_cast<T>(static_cast<std::uint64_t>(wrapped) / std::uint64_t{ranks});
    }
  } else if constexpr (narrow_float<T>) {
    const auto whole = static_cast<float>(total);
    return from_float<T>(reduction == WEFT_AVG ? whole / static_cast<float>(ranks) : whole);
  } else {
    const auto whole = static_cast<T>(total);
    return reduction == WEFT_AVG ? whole / static_cast<T>(ranks) : whole;
  }
}

/// Whether `count` elements are alike bit by bit, in which case none has to be looked at by itself:
/// that takes a test, above all under a sanitizer, longer than everything else.
template <class T>
bool same_bits(const T* found, const T* due, std::uint64_t count) {
  return count == 0 || std::memcmp(found, due, count * sizeof(T)) == 0;
}

template <class T>
inline constexpr weft_data_type kTypeOf = WEFT_FLOAT32;
template <>
inline constexpr weft_data_type kTypeOf<std::int8_t> = WEFT_INT8;
template <>
inline constexpr weft_data_type kTypeOf<std::uint8_t> = WEFT_UINT8;
template <>
inline constexpr weft_data_type kTypeOf<std::int32_t> = WEFT_INT32;
template <>
inline constexpr weft_data_type kTypeOf<std::uint32_t> = WEFT_UINT32;
template <>
inline constexpr weft_data_type kTypeOf<std::int64_t> = WEFT_INT64;
template <>
inline constexpr weft_data_type kTypeOf<std::uint64_t> = WEFT_UINT64;
template <>
inline constexpr weft_data_type kTypeOf<double> = WEFT_FLOAT64;
template <>
inline constexpr weft_data_type kTypeOf<Float16> = WEFT_FLOAT16;
template <>
inline constexpr weft_data_type kTypeOf<Bfloat16> = WEFT_BFLOAT16;
template <>
inline constexpr weft_data_type kTypeOf<Float8E4M3> = WEFT_FLOAT8_E4M3;
template <>
inline constexpr weft_data_type kTypeOf<Float8E5M2> = WEFT_FLOAT8_E5M2;

}  // namespace weft::device::testing
