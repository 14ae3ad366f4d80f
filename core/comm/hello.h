// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The first thing that ranks tell one another: who they are, and the settings that must be alike
// everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// Of Hello::line_peers, and bytes of each.
inline constexpr std::size_t kMostLinePeers = 64;
inline constexpr std::size_t kMostLinePeerBytes = 32;

struct Hello {
  std::string version;              ///< Of weft.
  std::string agreed_settings;      ///< Config::agreed_text
  std::vector<std::byte> report;    ///< encode_report
  std::uint32_t device_groups = 0;  ///< DeviceRuntime::groups_at_once
  std::uint32_t line_bytes = 8;     ///< DeviceRuntime::line_bytes
  /// That the rank's device has besides (Context::enter_device).
  std::uint32_t other_communicators = 0;
  std::vector<std::string> line_peers{};  ///< DeviceRuntime::line_peers, kMostLinePeers at most.
};

[[nodiscard]] std::vector<std::byte> encode_hello(const Hello& hello);
/// Texts of at most 64 KiB.
[[nodiscard]] Result<Hello> decode_hello(std::span<const std::byte> bytes);

/// Whether every rank runs the same version with the same agreed settings; names both ranks and
/// the setting.
[[nodiscard]] Status check_agreement(std::span<const Hello> hellos);

}  // namespace weft
