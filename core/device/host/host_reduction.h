// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions that are looked up when they are needed: kernels of the host are compiled once for all
// types and operations, and call the processor's loops through these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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

  [[nodiscard]] std::uint64_t combine_payloads(std::uint64_t a, std::uint64_t b) const {
    return combine_payloads_(a, b);
  }
  [[nodiscard]] std::uint64_t finish_payload(std::uint64_t payload) const {
    if (divide_ == nullptr) return payload;
    std::byte bytes[kLinePayload];
    std::memcpy(bytes, &payload, sizeof(bytes));
    divide_(bytes, nullptr, kLinePayload / element_bytes_, divisor_);
    std::memcpy(&payload, bytes, sizeof(bytes));
    return payload;
  }
  [[nodiscard]] static std::uint64_t load_payload(const std::byte* from, std::uint64_t bytes) {
    std::uint64_t payload = 0;
    std::memcpy(&payload, from, bytes < kLinePayload ? bytes : kLinePayload);
    return payload;
  }
  static void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t bytes) {
    std::memcpy(to, &payload, bytes < kLinePayload ? bytes : kLinePayload);
  }

  void reduce(std::byte* first, std::byte* second, const std::byte* a, const std::byte* b,
              std::uint64_t count) const {
    loop_(first, second, a, b, count);
  }
  void finish(std::byte* first, std::byte* second, std::uint64_t count) const {
    divide_(first, second, count, divisor_);
  }

 private:
  ReduceLoop loop_ = nullptr;
  CombinePayloads combine_payloads_ = nullptr;
  DivideLoop divide_ = nullptr;
  std::uint32_t divisor_ = 1;
  std::uint32_t element_bytes_ = 0;
};

/// Whether elements of `type` can be combined by `reduction`.
[[nodiscard]] bool reducible(weft_data_type type, weft_reduction reduction);

}  // namespace weft::device
