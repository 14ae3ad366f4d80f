// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the memory of one connection is laid out, for every transport whose ranks share host memory.
//
//   header    magic, size, nonce; the two error words on a line of their own
//   protocol  for each: tail with its waiter word | head with its waiter word | slot metadata
//   buffers   for each protocol: steps * step_bytes, from a page's start
//
// A counter shares its line with the waiter word that belongs to it: whoever stores the counter
// needs that line alone anyhow and then reads the waiter word for nothing, while the one who writes
// the waiter word is about to sleep, so that a miss more is no matter. Head and tail have a pair of
// 64-byte lines each, since processors fetch such pairs together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <plugin_api/transport.h>

#include "plugins/common/host.h"

namespace weft::plugins {

inline constexpr std::size_t kLineBytes = 128;
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kMaxProtocols = 3;

using Nonce = std::array<std::uint8_t, 16>;

/// What both ends ask for, for one protocol. Plain data without padding: it travels.
struct ProtocolSpec {
  weft_protocol protocol = 0;
  std::uint32_t steps = 0;
  std::uint32_t step_bytes = 0;

  bool operator==(const ProtocolSpec&) const = default;
};

/// Where the parts of a segment lie, in bytes from its start.
struct SegmentLayout {
  struct Protocol {
    ProtocolSpec spec;
    std::uint64_t control = 0;
    std::uint64_t buffer = 0;
  };
  std::vector<Protocol> protocols;
  std::uint64_t size = 0;  ///< A multiple of kPageBytes.

  /// The specs as they travel; absent ones are zero.
  [[nodiscard]] std::array<ProtocolSpec, kMaxProtocols> specs() const;
};

/// Checks one request and lays out its segment. Reports what is wrong with it.
weft_result make_layout(const Host& host, const weft_connection_request* wanted,
                        std::uint32_t ranks, SegmentLayout* out);

/// The memory of a connection as one end sees it. Owns nothing.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, const SegmentLayout* layout) : base_(base), layout_(layout) {}

  explicit operator bool() const { return base_ != nullptr; }

  /// Writes the header into zeroed memory.
  void initialise(const Nonce& nonce) const;
  /// Whether the header is one of this version, size and nonce.
  [[nodiscard]] bool matches(const Nonce& nonce) const;
  /// Describes the segment to the end of `direction`; false if it has no such protocol.
  bool describe(weft_protocol protocol, weft_direction direction, weft_protocol_view* out) const;
  /// Stores `reason` where the end opposite of `direction` looks for it, and wakes all sleepers.
  void give_up(weft_direction direction, std::uint32_t reason) const;

 private:
  std::byte* base_ = nullptr;
  const SegmentLayout* layout_ = nullptr;
};

/// 16 bytes from the kernel.
Nonce random_nonce();

}  // namespace weft::plugins
