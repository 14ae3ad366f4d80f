// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What one rank writes to another in a call over inboxes of LL lines: what kernels store
// (core/device/one_shot_all_reduce.h, core/device/one_shot_blocks.h), as ports to nets know it,
// which take it on as messages: one of each call, or several stripes of it side by side.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/model/direct_peers.h"
#include "core/model/operation.h"

namespace weft {

/// Lines 0 to `headers` - 1 of a half hold the call's tag, each; those of the payload follow.
struct InboxMessage {
  std::uint32_t headers = 0;
  std::uint32_t payload_lines = 0;
  /// Of a stripe: how many lines lie before those of its payload, but for its headers.
  std::uint32_t skipped = 0;

  [[nodiscard]] constexpr std::uint32_t lines() const { return headers + payload_lines; }
  [[nodiscard]] constexpr std::uint32_t first_of_payload() const { return headers + skipped; }
};

/// The most stripes that a message may go in.
inline constexpr std::uint32_t kMostInboxStripes = 4;
/// So much payload alone pays for a message more, 4 KiB, once there are three of them: two take as
/// long as one message does.
inline constexpr std::uint32_t kLeastLinesOfStripe = 512;
inline constexpr std::uint32_t kLeastStripedLines = 3 * kLeastLinesOfStripe;

/// How many stripes a message has that may have `most` of them.
[[nodiscard]] constexpr std::uint32_t stripes_of(std::uint32_t payload_lines, std::uint32_t most) {
  return payload_lines < kLeastStripedLines ? 1
                                            : std::min(payload_lines / kLeastLinesOfStripe, most);
}

/// Number `stripe` of those. The first has the headers; one without lines is not sent.
[[nodiscard]] constexpr InboxMessage stripe_of(const InboxMessage& whole, std::uint32_t stripe,
                                               std::uint32_t most) {
  constexpr std::uint32_t kGrain = 8;  // lines that ports take at once
  const std::uint32_t stripes = stripes_of(whole.payload_lines, most);
  const std::uint32_t even = (whole.payload_lines + stripes - 1) / stripes;
  const std::uint32_t each = (even + kGrain - 1) / kGrain * kGrain;
  const std::uint32_t begin = std::min(stripe * each, whole.payload_lines);
  return {.headers = stripe == 0 ? whole.headers : 0,
          .payload_lines = stripe < stripes ? std::min(each, whole.payload_lines - begin) : 0,
          .skipped = begin + (stripe == 0 ? 0 : whole.headers)};
}

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
