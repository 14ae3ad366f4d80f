// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What one rank writes to another in a call over inboxes of LL lines: what kernels store
// (core/device/one_shot_all_reduce.h, core/device/one_shot_blocks.h), as ports to nets know it,
// which take it on as messages.
#pragma once

#include <cstdint>

#include "core/model/direct_peers.h"
#include "core/model/operation.h"

namespace weft {

/// Lines 0 to `headers` - 1 of a half hold the call's tag, each; those of the payload follow.
struct InboxMessage {
  std::uint32_t headers = 0;
  std::uint32_t payload_lines = 0;

  [[nodiscard]] constexpr std::uint32_t lines() const { return headers + payload_lines; }
};

/// Of a call that is cut into `parts` parts and has `bytes` bytes: of the whole in an all-reduce,
/// else of one block. Of operations with a root, whether the message is from it or to it.
[[nodiscard]] constexpr InboxMessage inbox_message(Operation operation, std::uint64_t bytes,
                                                   std::uint32_t parts, bool from_root,
                                                   bool to_root) {
  const auto lines = static_cast<std::uint32_t>(direct_lines(bytes) - 1);
  switch (operation) {
    case Operation::kAllReduce:
      return {.headers = 1, .payload_lines = lines};
    case Operation::kBroadcast:
    case Operation::kScatter:
      return {.headers = parts, .payload_lines = from_root ? lines : 0};
    case Operation::kReduce:
    case Operation::kGather:
      return {.headers = parts, .payload_lines = to_root ? lines : 0};
    default:
      return {.headers = parts, .payload_lines = lines};
  }
}

}  // namespace weft
