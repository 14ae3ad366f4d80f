// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Talk between a test and the process that it started, in messages over a socket pair.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::test {

/// Sends one message; false if nobody reads any more.
inline bool send_message(int socket, std::span<const std::uint8_t> bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}
inline bool send_message(int socket, std::string_view text) {
  return send_message(socket, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// The next message; empty at the end.
inline std::string receive_message(int socket) {
  std::string bytes(std::size_t{64} * 1024, '\0');
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

}  // namespace weft::test
