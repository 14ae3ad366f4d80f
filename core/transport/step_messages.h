// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Messages of steps of lines between two ranks that send to each other: slots with a head, which a
// kernel and its rank's port share as two kernels do.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model/step_lines.h"
#include "core/model/step_message.h"
#include "core/transport/line_messages.h"

namespace weft {

/// A step begins with its tag and the bytes of its payload. A slot is filled again once head has
/// passed its step before.
class StepMessages : public LineMessages {
 public:
  StepMessages(std::byte* memory, const Shape& shape) : LineMessages(memory, shape) {}

  /// Any message is what it says; the kernel compares.
  bool deliver(std::uint64_t step, OperationTag tag, std::uint64_t bytes) override;

 private:
  [[nodiscard]] std::uint32_t flag_of(std::uint64_t step) const override { return step_flag(step); }
};

}  // namespace weft
