// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Where a configuration value came from: the built-in default, a place in a file, an environment
// variable or a communicator's own configuration. Printed before every configuration error.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// The layers of the configuration, lowest first: a later one overrides an earlier one.
enum class OriginKind : std::uint8_t { kDefault, kFile, kEnvironment, kCommunicator };

/// One place that sets a value.
struct Origin {
  OriginKind kind = OriginKind::kDefault;
  std::string name;  ///< The file or the variable; empty for the other kinds.
  int line = 0;      ///< From 1; kFile only.
  int column = 0;    ///< From 1; kFile only.

  /// `default`, `FILE:LINE:COL`, `WEFT_LOG_LEVEL` or `communicator`.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Origin&, const Origin&) = default;
};

}  // namespace weft
