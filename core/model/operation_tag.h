// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// 64 bits that travel with every slot and say which call its bytes belong to, so that ranks which
// called different things get an error that names both calls instead of wrong data or a hang.
#pragma once

#include <cstdint>

#include "core/model/operation.h"

namespace weft {

/// Layout, from the lowest bit: operation 5, protocol that was asked for 2, whether through a
/// window 1, type 4, algorithm that was asked for 4, reduction 3, whether channels are limited 1,
/// root 12, fingerprint 16, sequence number 16. Root is kept modulo 4096 and the sequence number
/// modulo 65536: enough to tell two calls that meet on one connection apart. The fingerprint is of
/// the count, the place in a window and the limit of channels, and on the host device of all calls
/// before this one as well (CallHistory::past): calls that differed unseen, since no data met, are
/// found at the next call whose data does.
using OperationTag = std::uint64_t;

/// The bits of a tag that hold the operation.
inline constexpr OperationTag kTagOperationBits = 0x1F;
static_assert(kOperationCount <= kTagOperationBits + 1);
static_assert(kAlgorithmCount < 16 && kProtocolCount < 4, "0 stands for any");
static_assert(WEFT_FLOAT8_E5M2 < 16 && kPremulSum < 8);

/// A call that goes through windows is another than one of the same size that does not, and so is
/// one on fewer channels.
[[nodiscard]] constexpr std::uint16_t size_fingerprint(std::uint64_t count, std::uint64_t place,
                                                       std::uint32_t max_channels) {
  constexpr std::uint64_t kOdd = 0xD6E8FEB86659FD93ULL;
  constexpr std::uint64_t kOther = 0xA0761D6478BD642FULL;
  // Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio.
  return static_cast<std::uint16_t>(
      ((count ^ place * kOdd ^ max_channels * kOther) * 0x9E3779B97F4A7C15ULL) >> 48);
}

[[nodiscard]] constexpr OperationTag make_operation_tag(const Task& task, std::uint64_t sequence,
                                                        std::uint16_t past = 0) {
  const WayOptions& options = task.options;
  const OperationTag protocol =
      options.protocol ? 1 + static_cast<OperationTag>(*options.protocol) : 0;
  const OperationTag algorithm =
      options.algorithm ? 1 + static_cast<OperationTag>(*options.algorithm) : 0;
  const std::uint16_t size = size_fingerprint(task.count, task.place, options.max_channels);
  return static_cast<OperationTag>(task.operation) | (protocol << 5) |
         (static_cast<OperationTag>(task.place != 0 ? 1 : 0) << 7) |
         (static_cast<OperationTag>(task.type & 0xF) << 8) | (algorithm << 12) |
         (static_cast<OperationTag>(task.reduction & 0x7) << 16) |
         (static_cast<OperationTag>(options.max_channels != 0 ? 1 : 0) << 19) |
         (static_cast<OperationTag>(task.root & 0xFFF) << 20) |
         (static_cast<OperationTag>(size ^ past) << 32) |
         (static_cast<OperationTag>(sequence & 0xFFFF) << 48);
}

/// Of a tag that was made without it, for call 0.
[[nodiscard]] constexpr OperationTag add_sequence(OperationTag tag, std::uint64_t sequence) {
  return tag | (static_cast<OperationTag>(sequence & 0xFFFF) << 48);
}

/// Of a tag that was made without it.
[[nodiscard]] constexpr OperationTag add_past(OperationTag tag, std::uint16_t past) {
  return tag ^ (static_cast<OperationTag>(past) << 32);
}

/// The parts of a tag that a peer sent. Values may be anything: names are looked up with care.
struct OperationTagParts {
  std::uint8_t operation;
  std::uint8_t protocol;  ///< One more than what was asked for; 0: any.
  bool in_window;
  std::uint8_t type;
  std::uint8_t algorithm;  ///< Likewise.
  std::uint8_t reduction;
  bool limits_channels;
  std::uint16_t root;
  std::uint16_t fingerprint;
  std::uint16_t sequence;
};

[[nodiscard]] constexpr OperationTagParts split_operation_tag(OperationTag tag) {
  return {.operation = static_cast<std::uint8_t>(tag & kTagOperationBits),
          .protocol = static_cast<std::uint8_t>((tag >> 5) & 0x3),
          .in_window = (tag >> 7 & 1) != 0,
          .type = static_cast<std::uint8_t>((tag >> 8) & 0xF),
          .algorithm = static_cast<std::uint8_t>((tag >> 12) & 0xF),
          .reduction = static_cast<std::uint8_t>((tag >> 16) & 0x7),
          .limits_channels = (tag >> 19 & 1) != 0,
          .root = static_cast<std::uint16_t>((tag >> 20) & 0xFFF),
          .fingerprint = static_cast<std::uint16_t>(tag >> 32),
          .sequence = static_cast<std::uint16_t>(tag >> 48)};
}

/// What the receiver of a message from rank `peer` called, by the tag that both ends have for it,
/// which is that of the send. Tags of other operations stay as they are.
[[nodiscard]] constexpr OperationTag tag_of_receive(OperationTag tag, std::uint32_t peer) {
  constexpr OperationTag kRootBits = OperationTag{0xFFF} << 20;
  if ((tag & kTagOperationBits) != static_cast<OperationTag>(Operation::kSend)) return tag;
  return (tag & ~kTagOperationBits & ~kRootBits) | static_cast<OperationTag>(Operation::kRecv) |
         (static_cast<OperationTag>(peer & 0xFFF) << 20);
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
