// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a connection keeps together, of what its transport and its device know.
#pragma once

#include <algorithm>
#include <cstdint>

#include <plugin_api/transport.h>

namespace weft {

/// ConnectionView::order_bytes of a view that a transport has described. A transport knows of a
/// path what holds for whoever stores there. A device may know more of what joins it to memory of
/// others of its kind: `line_bytes`, common_line_bytes() of all ranks (core/comm/whole_lines.h). Of
/// host memory it says nothing.
[[nodiscard]] inline std::uint8_t order_of(const weft_protocol_view& described,
                                           std::uint32_t line_bytes) {
  const bool of_device = described.memory != WEFT_MEMORY_HOST;
  return static_cast<std::uint8_t>(of_device ? std::max(described.order_bytes, line_bytes)
                                             : described.order_bytes);
}

}  // namespace weft
