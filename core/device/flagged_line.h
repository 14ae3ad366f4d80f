// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The line of the LL protocol: 8 bytes of payload in two words of 8 bytes, each half payload, half
// flag. A word arrives whole or not at all, so a reader that sees the flag of this call in both
// words has the payload too, and no store has to wait for another.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"

namespace weft::device {

WEFT_HD inline Line flagged_line(std::uint64_t payload, std::uint32_t flag) {
  const std::uint64_t high_half = static_cast<std::uint64_t>(flag) << 32;
  return {.low = high_half | (payload & UINT32_MAX), .high = high_half | (payload >> 32)};
}

/// Bits in which the line's flags are not this one.
WEFT_HD inline std::uint32_t flag_difference(Line line, std::uint32_t flag) {
  return (static_cast<std::uint32_t>(line.low >> 32) ^ flag) |
         (static_cast<std::uint32_t>(line.high >> 32) ^ flag);
}

WEFT_HD inline bool has_flag(Line line, std::uint32_t flag) {
  return flag_difference(line, flag) == 0;
}

WEFT_HD inline std::uint64_t payload_of(Line line) {
  return (line.low & UINT32_MAX) | (line.high << 32);
}

}  // namespace weft::device
