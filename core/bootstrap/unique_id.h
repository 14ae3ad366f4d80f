// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The unique id of a communicator: where its rendezvous is served, and the secret that its ranks
// share. Opaque bytes to applications, which carry it from rank 0 to the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"

namespace weft {

struct UniqueId {
  std::array<std::byte, 128> bytes{};

  bool operator==(const UniqueId&) const = default;
};

using Secret = std::array<std::byte, 32>;

/// What a unique id says.
struct UniqueIdContents {
  Secret secret{};
  std::vector<SocketAddress> roots;  ///< In the order in which they are tried.

  bool operator==(const UniqueIdContents&) const = default;
};

/// How many root addresses an id has room for.
inline constexpr std::size_t kMaxRootAddresses = 4;

/// Packs the first kMaxRootAddresses addresses.
[[nodiscard]] UniqueId make_unique_id(const UniqueIdContents& contents);

/// Reads an id; INVALID_ARGUMENT for bytes that are none, UNSUPPORTED for another version of it.
[[nodiscard]] Result<UniqueIdContents> read_unique_id(const UniqueId& id);

/// A fresh secret of the system's random source.
[[nodiscard]] Result<Secret> random_secret();

/// A secret that follows from `secret`, `purpose` and `number`, and tells nothing about it.
[[nodiscard]] Result<Secret> derive_secret(const Secret& secret, std::string_view purpose,
                                           std::uint64_t number);

}  // namespace weft
