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
#include "core/model/work_item.h"

namespace weft::device {

/// Multiplies elements by one factor, with the loops of products.
class Premultiplier {
 public:
  /// A tile of input that is multiplied before it is combined: stays in the nearest cache.
  static constexpr std::size_t kTileBytes = 2048;

  /// reducible(type, kPremulSum) must hold. Reads the factor now.
  Premultiplier(const ElementLoops& loops, weft_data_type type, const Factor& factor);

  /// `to` may be `from`, and must not overlap it otherwise. Needs no alignment.
  void multiply(std::byte* to, const std::byte* from, std::uint64_t count) const;

 private:
  ReduceLoop loop_;
  std::uint32_t element_bytes_;
  alignas(64) std::byte factors_[kTileBytes];  // the same one over and over
};

/// What device/reductions.h asks of a reduction. Refers to tables that live as long as the library.
class HostReduction {
 public:
  HostReduction() = default;
  /// reducible(type, reduction) must hold. `divisor` is that of averages; `premultiplier` that of
  /// kPremulSum, else null, and outlives this; WorkItem::rounds_each.
  HostReduction(const ElementLoops& loops, weft_data_type type, weft_reduction reduction,
                std::uint32_t divisor, const Premultiplier* premultiplier = nullptr,
                bool rounds_each = false);

  [[nodiscard]] std::uint32_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] bool finishes() const { return divide_ != nullptr; }
  [[nodiscard]] bool premultiplies() const { return premultiplier_ != nullptr; }
  /// Whether the inputs of all ranks are to be combined at once, by accumulate().
  [[nodiscard]] bool accumulates() const { return accumulate_ != nullptr; }

  void reduce(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b,
              std::uint64_t count) const {
    loop_(first, second, a, b, count);
  }
  void finish(std::byte* first, std::byte* second, std::uint64_t count) const {
    divide_(first, second, count, divisor_);
  }
  /// accumulates() must hold for these. Combines and finishes `count` elements of from[0] to
  /// from[ranks - 1], kMostDirectRanks at most; those of rank `own` are multiplied first if that is
  /// asked for.
  void accumulate(std::byte* first, std::byte* second, const std::byte* const* from,
                  std::uint32_t ranks, std::uint32_t own, std::uint64_t count) const;
  /// The same, neither multiplied nor finished.
  void accumulate_alone(std::byte* first, const std::byte* const* from, std::uint32_t ranks,
                        std::uint64_t count) const {
    accumulate_(first, nullptr, from, ranks, count, 1);
  }
  /// premultiplies() must hold for these. As copy and reduce, of an input that is multiplied first.
  void premultiply_copy(std::byte* to, const std::byte* input, std::uint64_t count) const {
    premultiplier_->multiply(to, input, count);
  }
  void premultiply_reduce(std::byte* first, std::byte* second, const std::byte* other,
                          const std::byte* input, std::uint64_t count, bool input_first) const;

 private:
  ReduceLoop loop_ = nullptr;
  DivideLoop divide_ = nullptr;
  AccumulateLoop accumulate_ = nullptr;
  const Premultiplier* premultiplier_ = nullptr;
  std::uint32_t divisor_ = 1;
  std::uint32_t element_bytes_ = 0;
};

/// Whether elements of `type` can be combined by `reduction`.
[[nodiscard]] bool reducible(weft_data_type type, weft_reduction reduction);

}  // namespace weft::device
