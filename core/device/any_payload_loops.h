// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Loops of one lane for a reduction that is looked up when it runs: for lines of LL, of which a
// lane has one payload at a time, and elements that lie anywhere. As those of lane_loops.h
// otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/any_reduction.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"

namespace weft::device {

/// Calls `make(offset, bytes left)` for each payload of `bytes` bytes and stores what it answers to
/// `first` and, unless it is null, `second`.
template <class Make>
WEFT_HD void for_each_payload(std::byte* first, std::byte* second, std::uint64_t bytes,
                              const Make& make) {
  for (std::uint64_t at = 0; at < bytes; at += kLinePayload) {
    const std::uint64_t left = bytes - at;
    const std::uint64_t payload = make(at, left);
    AnyReduction::store_payload(first + at, payload, left);
    if (second != nullptr) AnyReduction::store_payload(second + at, payload, left);
  }
}

WEFT_HD inline void payload_copy(std::byte* first, std::byte* second, const std::byte* source,
                                 std::uint64_t bytes) {
  for_each_payload(first, second, bytes, [source](std::uint64_t at, std::uint64_t left) {
    return AnyReduction::load_payload(source + at, left);
  });
}

WEFT_HD inline void payload_reduce(const AnyReduction& reduction, std::byte* first,
                                   std::byte* second, const std::byte* a, const std::byte* b,
                                   std::uint64_t count) {
  for_each_payload(first, second, count * reduction.element_bytes(),
                   [&reduction, a, b](std::uint64_t at, std::uint64_t left) {
                     return reduction.combine_payloads(AnyReduction::load_payload(a + at, left),
                                                       AnyReduction::load_payload(b + at, left));
                   });
}

WEFT_HD inline void payload_finish(const AnyReduction& reduction, std::byte* complete,
                                   std::byte* second, std::uint64_t count) {
  for_each_payload(
      complete, second, count * reduction.element_bytes(),
      [&reduction, complete](std::uint64_t at, std::uint64_t left) {
        return reduction.finish_payload(AnyReduction::load_payload(complete + at, left));
      });
}

WEFT_HD inline void payload_premultiply(const AnyReduction& reduction, std::byte* to,
                                        const std::byte* input, std::uint64_t count) {
  for_each_payload(
      to, nullptr, count * reduction.element_bytes(),
      [&reduction, input](std::uint64_t at, std::uint64_t left) {
        return reduction.premultiply_payload(AnyReduction::load_payload(input + at, left));
      });
}

/// `other` with the multiplied `input`.
WEFT_HD inline void payload_premultiply_reduce(const AnyReduction& reduction, std::byte* first,
                                               std::byte* second, const std::byte* other,
                                               const std::byte* input, std::uint64_t count) {
  for_each_payload(
      first, second, count * reduction.element_bytes(),
      [&reduction, other, input](std::uint64_t at, std::uint64_t left) {
        return reduction.combine_payloads(
            AnyReduction::load_payload(other + at, left),
            reduction.premultiply_payload(AnyReduction::load_payload(input + at, left)));
      });
}

}  // namespace weft::device
