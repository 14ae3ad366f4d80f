// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the numbers of what ranks tell each other about calls travel: 8 bytes each, the lowest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

inline void append_u64(std::vector<std::byte>& out, std::uint64_t value) {
  for (unsigned i = 0; i < 8; ++i)
    out.push_back(static_cast<std::byte>((value >> (8U * i)) & 0xFFU));
}

/// Of the first 8 of `bytes`, which there must be.
[[nodiscard]] inline std::uint64_t read_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 8; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8U * i);
  return value;
}

}  // namespace weft
