// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The plugin's parameters: the static table that the host shows, and their final values.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "support.h"

namespace weft::net_socket {

enum class Family : uint8_t { kAny, kIpv4, kIpv6 };

/// Final values of the plugin's parameters.
struct Options {
  std::vector<std::string> interfaces;  ///< Patterns; see select_devices.
  uint32_t streams = 0;                 ///< Of one connection, 0: by cost; the sender's count.
  uint32_t stripe = 32 * 1024;  ///< Least payload of one stream of a message, bytes; likewise.
  uint32_t send_buffer = 0;     ///< Bytes, 0: the kernel's choice.
  uint32_t receive_buffer = 0;  ///< Bytes, 0: the kernel's choice.
  Family family = Family::kAny;
  std::string congestion;  ///< Name of TCP's congestion control; empty: by the path.
  /// From connect to the last handshake. Nothing: no deadline.
  std::chrono::nanoseconds connect_timeout{std::chrono::seconds(30)};
  /// How long the peer's kernel may leave what was sent, or a probe, unanswered.
  std::chrono::nanoseconds peer_timeout{std::chrono::seconds(10)};
};

/// The table of the plugin's entry: constant data, so that it can be read without running code.
inline constexpr uint32_t kParameterCount = 9;
extern const weft_parameter kParameters[kParameterCount];

/// Asks the host for each parameter.
Result<Options> read_options(const Host& host);

}  // namespace weft::net_socket
