// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Steps of lines of LL that a net moves: a kernel stores lines in a slot in host memory, or looks
// for them there, and the net moves their payload.
//
// Models: tests/models/line_steps.pml; of the lines of a step tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/operation_tag.h"
#include "core/model/step_lines.h"

namespace weft {

/// One direction of a connection whose steps may go by lines: slots beside those of Simple, which
/// the same counters guard. Which steps do each end knows of its own: a message is alike.
///
/// Order: the lines of a slot are stored by the kernel and read here, or the other way round, by
/// steps in their order, and a slot is used again once head has passed its step.
///
/// Threads: used by one at a time, beside kernels.
class LineSteps {
 public:
  /// What the lines of a step begin with.
  struct Header {
    OperationTag tag = 0;
    std::uint64_t bytes = 0;  ///< Of payload.
  };

  /// Bytes of a slot for steps of so much payload.
  [[nodiscard]] static constexpr std::uint32_t slot_bytes(std::uint32_t payload) {
    constexpr StepLine kLine = step_line(Protocol::kLL);
    return (kStepHeaderBytes + payload + kLine.content - 1) / kLine.content * kLine.bytes;
  }

  /// `memory` has `steps` slots of `slot_bytes` each, outlives it, and begins with zeros.
  LineSteps(std::byte* memory, std::uint32_t steps, std::uint32_t slot_bytes);

  [[nodiscard]] std::byte* memory() const { return memory_; }
  [[nodiscard]] std::uint32_t bytes_of_slot() const { return slot_bytes_; }
  /// Bytes of payload that a slot holds.
  [[nodiscard]] std::uint64_t room() const;

  /// Takes note whether steps go by lines, from those noted before up to `end`.
  void add(std::uint64_t end, bool by_lines);
  /// `step` has been added, and not been forgotten.
  [[nodiscard]] bool goes_by_lines(std::uint64_t step) const;
  /// Of steps before this one nothing is asked any more.
  void forget_before(std::uint64_t step);

  /// Of a sender: whether the kernel has begun to store that step.
  [[nodiscard]] bool has_begun(std::uint64_t step) const;
  /// Takes to `payload` what the kernel has stored since it was asked last; that has room for the
  /// payload of a slot. Once all lines have come, what the first of them say. Steps are collected
  /// in their order. More bytes than a slot holds are told, and not taken.
  std::optional<Header> collect(std::uint64_t step, std::byte* payload);
  /// Of a receiver: stores the lines of a message that has come. Of more bytes than a slot holds
  /// those that it does: the kernel finds by the header that it is not meant.
  void deliver(std::uint64_t step, const Header& header, const std::byte* payload);
  /// Of a step that went otherwise: its slot has no lines that were not written for long, as
  /// fills_whole_slot() wants it.
  void pass(std::uint64_t step);

 private:
  [[nodiscard]] std::uint64_t* line_of(std::uint64_t step, std::uint32_t line) const;
  [[nodiscard]] std::uint32_t lines_of_slot() const;
  void fill(std::uint64_t step, std::uint32_t first);

  std::byte* const memory_;
  const std::uint32_t steps_;
  const std::uint32_t slot_bytes_;
  std::uint64_t collecting_ = 0;  // the step whose lines are collected,
  std::uint32_t collected_ = 0;   // how many of them are,
  Header header_;                 // and what its first two say, once they are
  struct Form {
    std::uint64_t end;
    bool by_lines;
  };
  std::vector<Form> forms_;     // in the order of steps
  std::size_t first_form_ = 0;  // that is not forgotten
};

}  // namespace weft
