// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// 64 bits that travel with every slot and say which call its bytes belong to, so that ranks which
// called different things get an error that names both calls instead of wrong data or a hang.
#pragma once

#include <cstdint>

#include "core/model/operation.h"

namespace weft {

/// Layout, from the lowest bit: operation 7, whether through a window 1, type 8, reduction 4, root
/// 12, fingerprint 16, sequence number 16. Root is kept modulo 4096 and the sequence number modulo
/// 65536: enough to tell two calls that meet on one connection apart. The fingerprint is of the
/// count and the place in a window, and on the host device of all calls before this one as well
/// (CallHistory::past): calls that differed unseen, since no data met, are found at the next call
/// whose data does.
using OperationTag = std::uint64_t;

[[nodiscard]] constexpr std::uint16_t count_fingerprint(std::uint64_t count) {
  // Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio.
  return static_cast<std::uint16_t>((count * 0x9E3779B97F4A7C15ULL) >> 48);
}

/// A call that goes through windows is another than one of the same size that does not.
[[nodiscard]] constexpr std::uint16_t size_fingerprint(const Task& task) {
  constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93ULL;
  return count_fingerprint(task.count ^ task.place * kOdd);
}

[[nodiscard]] constexpr OperationTag make_operation_tag(const Task& task, std::uint64_t sequence,
                                                        std::uint16_t past = 0) {
  return static_cast<std::uint64_t>(task.operation) |
         (static_cast<std::uint64_t>(task.place != 0 ? 1 : 0) << 7) |
         (static_cast<std::uint64_t>(task.type & 0xFF) << 8) |
         (static_cast<std::uint64_t>(task.reduction & 0xF) << 16) |
         (static_cast<std::uint64_t>(task.root & 0xFFF) << 20) |
         (static_cast<std::uint64_t>(size_fingerprint(task) ^ past) << 32) |
         (static_cast<std::uint64_t>(sequence & 0xFFFF) << 48);
}

/// The parts of a tag that a peer sent. Values may be anything: names are looked up with care.
struct OperationTagParts {
  std::uint8_t operation;
  bool in_window;
  std::uint8_t type;
  std::uint8_t reduction;
  std::uint16_t root;
  std::uint16_t count_fingerprint;
  std::uint16_t sequence;
};

[[nodiscard]] constexpr OperationTagParts split_operation_tag(OperationTag tag) {
  return {.operation = static_cast<std::uint8_t>(tag & 0x7F),
          .in_window = (tag >> 7 & 1) != 0,
          .type = static_cast<std::uint8_t>(tag >> 8),
          .reduction = static_cast<std::uint8_t>((tag >> 16) & 0xF),
          .root = static_cast<std::uint16_t>((tag >> 20) & 0xFFF),
          .count_fingerprint = static_cast<std::uint16_t>(tag >> 32),
          .sequence = static_cast<std::uint16_t>(tag >> 48)};
}

/// The number that a peer's tag has the last bits of, if it is near `mine`: ranks that meet are.
[[nodiscard]] constexpr std::uint64_t sequence_near(std::uint64_t mine, OperationTag tag) {
  const auto ahead =
      static_cast<std::int16_t>(static_cast<std::uint16_t>((tag >> 48) - (mine & 0xFFFF)));
  return ahead < 0 && mine < static_cast<std::uint64_t>(-std::int64_t{ahead})
             ? tag >> 48
             : mine + static_cast<std::uint64_t>(std::int64_t{ahead});
}

}  // namespace weft
