// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The group of lanes of a device that runs each work item by one thread.
#pragma once

#include <cstdint>

namespace weft::device {

/// One lane: every collective step of a group is a no-op.
struct SingleLane {
  static constexpr std::uint32_t rank() { return 0; }
  static constexpr std::uint32_t size() { return 1; }
  static constexpr bool leader() { return true; }
  static constexpr void sync() {}
  static constexpr std::uint64_t broadcast(std::uint64_t value) { return value; }
  static constexpr bool any(bool flag) { return flag; }
};

}  // namespace weft::device
