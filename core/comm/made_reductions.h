// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The reductions that a user made for a communicator, by the numbers that stand for them in calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/model/work_item.h"

namespace weft {

/// Numbers of a context's reductions: no two communicators get the same one.
class ReductionNumbers {
 public:
  /// Below are the constants of weft_reduction, and room for more of them.
  static constexpr weft_reduction kFirst = 4096;

  /// Begins anywhere, so that numbers of two contexts seldom meet.
  ReductionNumbers();
  weft_reduction next();

 private:
  std::atomic<std::uint32_t> next_;
};

/// Of one communicator; used by the thread that makes its calls.
class MadeReductions {
 public:
  explicit MadeReductions(ReductionNumbers& numbers) : numbers_(numbers) {}

  /// A sum of inputs of `type`, each multiplied by `factor`. Never fails but for memory.
  weft_reduction add(weft_data_type type, const Factor& factor);
  /// INVALID_ARGUMENT for what is no number of this communicator, or of another type.
  [[nodiscard]] Result<Factor> find(weft_reduction number, weft_data_type type) const;
  /// INVALID_ARGUMENT for what is no number of this communicator.
  Status remove(weft_reduction number);

 private:
  struct Made {
    weft_reduction number;
    weft_data_type type;
    Factor factor;
  };

  ReductionNumbers& numbers_;
  std::vector<Made> made_;  // few
};

}  // namespace weft
