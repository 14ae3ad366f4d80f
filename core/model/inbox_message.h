// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What one rank writes to another in a call over inboxes of LL lines. One definition for kernels,
// which store the lines, and for ports to nets, which take them on as messages.
#pragma once

#include <cstdint>

#include "core/model/direct_peers.h"
#include "core/model/line_message.h"
#include "core/model/operation.h"

namespace weft {

/// Of a call that is cut into `parts` parts and has `bytes` bytes: of the whole in an all-reduce,
/// else of one block. Of operations with a root, whether the message is from it or to it. Each
/// header holds the call's tag; lines are whole.
[[nodiscard]] constexpr LineMessage inbox_message(Operation operation, std::uint64_t bytes,
                                                  std::uint32_t parts, bool from_root,
                                                  bool to_root) {
  constexpr std::uint64_t kPayloadOfLine = 8;
  const auto payload = static_cast<std::uint32_t>((direct_lines(bytes) - 1) * kPayloadOfLine);
  switch (operation) {
    case Operation::kAllReduce:
      return {.headers = 1, .payload_bytes = payload};
    case Operation::kBroadcast:
    case Operation::kScatter:
      return {.headers = parts, .payload_bytes = from_root ? payload : 0};
    case Operation::kReduce:
    case Operation::kGather:
      return {.headers = parts, .payload_bytes = to_root ? payload : 0};
    default:
      return {.headers = parts, .payload_bytes = payload};
  }
}

}  // namespace weft
