// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines of LL that a GPU's kernel stores in host memory, or looks for there, and the messages in
// which a net moves their payload. A line tells by itself that it has come, so neither side waits
// for the other's stores, nor reads a counter over PCIe and then what it counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/line_message.h"
#include "core/model/operation_tag.h"

namespace weft {

/// One direction between two ranks: slots by turns, each filled with the lines of one step. Its
/// kernel stores into them and this reads, or the other way round. Beside each slot there is room
/// for its message.
///
/// Order: words of 8 bytes are stored and loaded whole, and hold payload and flag (litmus
/// "ll-from-gpu", "ll-to-gpu" in tests/gpu/litmus.cu). When a slot is free is what derived classes
/// rest on.
///
/// Threads: used by one at a time, beside kernels.
class LineMessages {
 public:
  struct Step {
    OperationTag tag = 0;  ///< As this rank has it.
    LineMessage message;
  };
  struct Shape {
    std::uint32_t slots = 0;
    std::uint32_t slot_bytes = 0;  ///< A multiple of two lines.

    [[nodiscard]] constexpr std::size_t line_bytes() const {
      return std::size_t{slots} * slot_bytes;
    }
    [[nodiscard]] constexpr std::size_t bytes() const { return line_bytes() + line_bytes() / 2; }
  };

  virtual ~LineMessages() = default;
  LineMessages(const LineMessages&) = delete;
  LineMessages& operator=(const LineMessages&) = delete;

  /// Where the kernel's slots lie, and where messages lie: what a net must reach.
  [[nodiscard]] std::byte* slots() const { return memory_; }
  [[nodiscard]] std::byte* messages() const { return memory_ + shape_.line_bytes(); }
  [[nodiscard]] std::size_t message_bytes() const { return shape_.slot_bytes / 2; }
  [[nodiscard]] std::byte* message_of(std::uint64_t step) const {
    return messages() + step % shape_.slots * message_bytes();
  }

  /// Takes note of the next step; they are numbered from 0. False, and nothing, where its lines
  /// have no room in a slot.
  bool add(const Step& step);
  /// `step` has been added, and not been forgotten.
  [[nodiscard]] const Step& find(std::uint64_t step) const { return steps_[step - first_]; }
  /// Of steps before this one nothing is asked any more.
  void forget_before(std::uint64_t step);

  /// Of a sender: takes what the kernel has stored since it was asked last. Once all lines of the
  /// step are in its message, the tag that the first has. Steps are collected in their order.
  std::optional<OperationTag> collect(std::uint64_t step);
  /// Of a receiver: stores the lines of a message that has come. False where it cannot be what it
  /// says. One of another call is stored so that the kernel finds that.
  virtual bool deliver(std::uint64_t step, OperationTag tag, std::uint64_t bytes) = 0;

 protected:
  /// `memory` has shape.bytes(), outlives it, and begins with zeros.
  LineMessages(std::byte* memory, const Shape& shape);

  [[nodiscard]] virtual std::uint32_t flag_of(std::uint64_t step) const = 0;
  /// All lines of a step have been taken.
  virtual void collected(std::uint64_t /*step*/) {}

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::uint32_t lines_of_slot() const;
  /// Lines `first` and following: `payload` in each of `lines`, or so many bytes of the step's
  /// message.
  void store(std::uint64_t step, std::uint32_t first, std::uint32_t lines, std::uint64_t payload,
             std::uint32_t flag);
  void store_message(std::uint64_t step, std::uint32_t first, std::uint64_t bytes);

 private:
  [[nodiscard]] std::uint64_t* line_of(std::uint64_t step, std::uint32_t line) const;

  std::byte* const memory_;
  const Shape shape_;
  std::vector<Step> steps_;  // from first_ on
  std::uint64_t first_ = 0;
  std::uint64_t collecting_ = 0;  // the step whose lines are collected, and how many of them are
  std::uint32_t collected_ = 0;
  OperationTag collected_tag_ = 0;
};

}  // namespace weft
