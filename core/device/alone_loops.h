// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Element loops for one lane on its own, over a few elements: those of the memory where it has some
// for a group of one lane, those of lanes otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/lane_loops.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/single_lane.h"

namespace weft::device {

/// Memory with loops for a group of one lane: that of CPUs, whose loops pay from some elements on.
template <class M>
concept works_alone = requires(M& memory, SingleLane& lane, std::byte* to, const std::byte* from) {
  memory.copy(lane, to, to, from, std::uint64_t{});
};

/// What one lane does with the elements that it has. As `Memory`'s functions of those names.
template <class Memory, class Reduction>
class AloneLoops {
 public:
  WEFT_HD AloneLoops(Memory& memory, const Reduction& reduction, std::uint32_t element_bytes)
      : memory_(memory), reduction_(reduction), element_bytes_(element_bytes) {}

  [[nodiscard]] WEFT_HD const Reduction& reduction() const { return reduction_; }

  WEFT_HD void copy(std::byte* first, std::byte* second, const std::byte* source,
                    std::uint64_t bytes) {
    if constexpr (works_alone<Memory>) {
      memory_.copy(alone_, first, second, source, bytes);
    } else {
      lane_copy(alone_, memory_, first, second, source, bytes);
    }
  }

  /// The caller's input, which is all that is read.
  WEFT_HD void read(std::byte* first, std::byte* second, const std::byte* input,
                    std::uint32_t bytes) {
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        memory_.premultiply_copy(reduction_, alone_, first, input, bytes / element_bytes_);
        if (second != nullptr) copy(second, nullptr, first, bytes);
        return;
      }
    }
    copy(first, second, input, bytes);
  }

  /// What arrived with the caller's input; `kFinishes`: it is complete then.
  template <bool kFinishes>
  WEFT_HD void reduce(std::byte* first, std::byte* second, const std::byte* arrived,
                      const std::byte* input, std::uint32_t bytes) {
    const std::uint32_t count = bytes / element_bytes_;
    if constexpr (kFinishes) {
      if (reduction_.finishes()) {
        combine(first, nullptr, arrived, input, count);
        finish(first, second, bytes);
        return;
      }
    }
    combine(first, second, arrived, input, count);
  }

  /// What arrived with `before`, which holds the caller's input already.
  WEFT_HD void add(std::byte* to, const std::byte* arrived, const std::byte* before,
                   std::uint32_t bytes) {
    add_up(to, nullptr, arrived, before, bytes / element_bytes_);
  }

  /// What is complete, where it lies, and to `second` if that is not null.
  WEFT_HD void finish(std::byte* complete, std::byte* second, std::uint32_t bytes) {
    const std::uint32_t count = bytes / element_bytes_;
    if constexpr (works_alone<Memory>) {
      memory_.finish(reduction_, alone_, complete, second, count);
    } else {
      lane_finish(reduction_, alone_, complete, second, count);
    }
  }

 private:
  WEFT_HD void combine(std::byte* first, std::byte* second, const std::byte* arrived,
                       const std::byte* input, std::uint32_t count) {
    if constexpr (may_premultiply<Reduction>) {
      if (reduction_.premultiplies()) {
        memory_.premultiply_reduce(reduction_, alone_, first, second, arrived, input, count, false);
        return;
      }
    }
    add_up(first, second, arrived, input, count);
  }

  WEFT_HD void add_up(std::byte* first, std::byte* second, const std::byte* arrived,
                      const std::byte* input, std::uint32_t count) {
    if constexpr (works_alone<Memory>) {
      memory_.reduce(reduction_, alone_, first, second, arrived, input, count);
    } else {
      lane_reduce(reduction_, alone_, memory_, first, second, arrived, input, count);
    }
  }

  Memory& memory_;
  const Reduction reduction_;
  const std::uint32_t element_bytes_;
  SingleLane alone_;
};

}  // namespace weft::device
