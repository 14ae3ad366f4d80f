// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Who touches memory.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace weft::checker {

/// One kernel at work. The first call is number 0.
struct Actor {
  std::uint32_t rank = 0;
  std::uint32_t channel = 0;
  std::uint32_t call = 0;
  std::uint32_t part = 0;  ///< Of a call that goes directly.
  std::uint32_t lane = 0;  ///< Of a kernel that has several.

  [[nodiscard]] std::string name() const {
    return fmt::format("rank {}, channel {}, call {}", rank, channel, call);
  }
};

}  // namespace weft::checker
