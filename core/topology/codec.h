// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Topology values as bytes and back. Bytes come from peers: sizes, counts, lengths and characters
// are all checked, and an error names the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/model/ring_geometry.h"
#include "core/topology/topology.h"

namespace weft {

/// More than this many bytes are refused unread.
inline constexpr std::size_t kMaxReportBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxTopologyBytes = std::size_t{1} << 28;
inline constexpr std::size_t kMaxNics = 1024;
inline constexpr std::size_t kMaxNumaNodes = 1024;
inline constexpr std::size_t kMaxPciNodes = 1024;
inline constexpr std::uint32_t kMaxBridges = 256;  ///< Left out between two nodes.
inline constexpr std::size_t kMaxAddresses = 256;
inline constexpr std::size_t kMaxCpuRanges = 4096;
inline constexpr std::uint32_t kMaxCpus = 1U << 16;
inline constexpr std::size_t kMaxIdLength = 64;
inline constexpr std::size_t kMaxTextLength = 256;

/// Answers INVALID_ARGUMENT for a value outside the limits above.
[[nodiscard]] Result<std::vector<std::byte>> encode_report(const RankReport& report);
[[nodiscard]] Result<RankReport> decode_report(std::span<const std::byte> bytes);

[[nodiscard]] Result<std::vector<std::byte>> encode(const Topology& topology);
/// Also checks what merge() promises: ranks numbered from 0, hosts that exist.
[[nodiscard]] Result<Topology> decode(std::span<const std::byte> bytes);

}  // namespace weft
