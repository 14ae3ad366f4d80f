// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Where the ranks of a communicator write straight into each other's memory: what the direct
// algorithms see of it. Pointers and sizes, no owner.
//
// Model: tests/models/flagged_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

struct MulticastView;

/// The most ranks that write to each other directly, and the most parts that one call is cut into.
inline constexpr std::uint32_t kMostDirectRanks = 8;
inline constexpr std::uint32_t kMostDirectParts = 64;

/// The largest call, in bytes, that an inbox may be made for; and the halves of an inbox.
inline constexpr std::uint64_t kMostDirectBytes = std::uint64_t{16} << 20;
inline constexpr std::uint32_t kDirectHalves = 2;

/// Flags of lines count the calls, from 1 on, and begin again after so many; even, since calls
/// take the two halves of an inbox in turn.
inline constexpr std::uint32_t kFlagPeriod = 0xFFFFFFFE;

/// A line of LL128: payload, then a flag of 8 bytes; and the lanes that store one together, 16
/// bytes each. Lines come in pairs, whose payload is a multiple of 16 bytes.
inline constexpr std::uint32_t kWideLineBytes = 128;
inline constexpr std::uint32_t kWideLineLanes = 8;
inline constexpr std::uint32_t kWidePairPayload = 240;

/// Each rank has an inbox for each other rank: two halves, which calls take in turn. A half is a
/// header line and then the payload's lines, of 16 bytes each (see core/device/flagged_line.h).
///
/// Why two halves suffice: a rank begins call e + 2 only after call e + 1 ended, in which it got a
/// line that every other rank wrote after it had taken all lines of call e.
///
/// A call's place in the sequence is memory of the device rather than a part of the call, so that a
/// replayed graph goes on from where the last call ended. Each part reads its own word; at its end
/// part p of n writes the words p, p + n, p + 2 n and so on.
struct DirectPeers {
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  std::uint32_t half_bytes = 0;                 ///< Of an inbox, a multiple of 128.
  std::uint32_t most_parts = kMostDirectParts;  ///< That a call is cut into; alike on all ranks.
  std::uint32_t period = kFlagPeriod;           ///< Alike on all ranks.
  /// kMostDirectParts words, each below `period`; of CPUs the first two are one number, which
  /// begins at 0 and has no period.
  std::uint32_t* positions = nullptr;
  /// Halves for payload without flags (core/model/two_shot.h): where the first begins in an inbox,
  /// the bytes of one, a multiple of 128 or 0 for none, and the headers that each begins with, one
  /// for each part that a call may have. On CPUs they are the halves above; on GPUs payload never
  /// lies where flags of lines are looked for.
  std::uint32_t plain_begin = 0;
  std::uint32_t plain_half_bytes = 0;
  std::uint32_t plain_headers = 1;
  /// Exchanges through plain halves so far: plain_headers numbers, used as `positions` are, on CPUs
  /// the same memory.
  std::uint64_t* plain_positions = nullptr;
  /// Halves for wide lines (core/device/wide_lines.h), where devices keep those together: as above,
  /// but exchanges through them, of which a call may have several, are counted apart, in
  /// kMostDirectParts numbers (core/device/wide_exchanges.h).
  std::uint32_t wide_begin = 0;
  std::uint32_t wide_half_bytes = 0;
  std::uint64_t* wide_positions = nullptr;
  /// Memory behind one address of all ranks (core/model/multicast.h); null: there is none. Read by
  /// the device's host side. Its calls are exchanges through plain halves.
  const MulticastView* multicast = nullptr;
  std::byte* inbox[kMostDirectRanks]{};           ///< Lines from rank r; null for the rank itself.
  std::byte* outbox[kMostDirectRanks]{};          ///< Rank r's inbox of this rank's lines.
  std::uint32_t* error[kMostDirectRanks]{};       ///< Not zero: rank r gave up. May be null.
  std::uint32_t* peer_error[kMostDirectRanks]{};  ///< Where rank r is told so. May be null.
};

/// Lines of a call of `payload` bytes, the header line included.
[[nodiscard]] constexpr std::uint64_t direct_lines(std::uint64_t payload) {
  constexpr std::uint64_t kPayloadOfLine = 8;
  return 1 + (payload + kPayloadOfLine - 1) / kPayloadOfLine;
}

/// Bytes of one half for calls of up to `payload` bytes.
[[nodiscard]] constexpr std::uint64_t direct_half_bytes(std::uint64_t payload) {
  constexpr std::uint64_t kLine = 16;
  return (direct_lines(payload) * kLine + 127) / 128 * 128;
}

/// The same in pairs of wide lines; the header takes one.
[[nodiscard]] constexpr std::uint64_t wide_pairs(std::uint64_t payload) {
  return 1 + (payload + kWidePairPayload - 1) / kWidePairPayload;
}
[[nodiscard]] constexpr std::uint64_t wide_half_bytes(std::uint64_t payload) {
  return wide_pairs(payload) * 2 * kWideLineBytes;
}

/// Bytes of one half by which ranks can meet that have no data for each other: a line of each part.
inline constexpr std::uint64_t kLeastDirectHalfBytes = std::uint64_t{kMostDirectParts} * 16;

}  // namespace weft
