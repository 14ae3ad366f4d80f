// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a kernel stores in lines of LL for another rank, where a net takes it on as one message.
#pragma once

#include <cstdint>

namespace weft {

/// Lines 0 to `headers` - 1 say what the rest belongs to; those of the payload follow.
struct LineMessage {
  std::uint32_t headers = 0;
  std::uint32_t payload_bytes = 0;

  [[nodiscard]] constexpr std::uint32_t lines() const {
    constexpr std::uint64_t kPayloadOfLine = 8;
    const std::uint64_t payload = (payload_bytes + kPayloadOfLine - 1) / kPayloadOfLine;
    return headers + static_cast<std::uint32_t>(payload);
  }
};

}  // namespace weft
