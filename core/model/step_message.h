// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A step of lines of LL as a message of a net.
#pragma once

#include <cstdint>

#include "core/model/line_message.h"
#include "core/model/step_lines.h"

namespace weft {

/// Its headers are the call's tag and these bytes.
[[nodiscard]] constexpr LineMessage step_message(std::uint64_t bytes) {
  return {.headers = kStepHeaderBytes / sizeof(std::uint64_t),
          .payload_bytes = static_cast<std::uint32_t>(bytes)};
}

}  // namespace weft
