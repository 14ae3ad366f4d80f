// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions that are looked up when they are needed: kernels of the host are compiled once for all
// types and operations, and call the processor's loops through these.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/types.h>

#include "core/device/host/element_loops.h"
#include "core/device/reductions.h"

namespace weft::device {

/// What device/reductions.h asks of a reduction. Refers to tables that live as long as the library.
class HostReduction {
 public:
  HostReduction() = default;
  /// reducible(type, reduction) must hold. `divisor` is that of averages.
  HostReduction(const ElementLoops& loops, weft_data_type type, weft_reduction reduction,
                std::uint32_t divisor);

  [[nodiscard]] std::uint32_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] bool finishes() const { return divide_ != nullptr; }

  void reduce(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b,
              std::uint64_t count) const {
    loop_(first, second, a, b, count);
  }
  void finish(std::byte* first, std::byte* second, std::uint64_t count) const {
    divide_(first, second, count, divisor_);
  }

 private:
  ReduceLoop loop_ = nullptr;
  DivideLoop divide_ = nullptr;
  std::uint32_t divisor_ = 1;
  std::uint32_t element_bytes_ = 0;
};

/// Whether elements of `type` can be combined by `reduction`.
[[nodiscard]] bool reducible(weft_data_type type, weft_reduction reduction);

}  // namespace weft::device
