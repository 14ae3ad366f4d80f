// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The part of the process environment that the configuration reads, as a value, so that nothing
// below this file asks the process and tests make their own.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// What the surroundings of a process say. A value.
struct Environment {
  /// WEFT_*, HOME and XDG_CONFIG_HOME, as far as they are set. An empty variable counts as unset.
  std::map<std::string, std::string> variables = {};
  /// The process runs with more rights than its user (AT_SECURE): variables that name paths do not
  /// count, nor does the user's own configuration.
  bool raised_privileges = false;
  /// Where the system's weft.yaml stands.
  std::string system_folder = "/etc/weft";

  /// The value of a variable, or an empty text where it is unset.
  [[nodiscard]] std::string_view get(const std::string& name) const;
};

/// Reads the environment of this process. Not safe while another thread calls setenv.
[[nodiscard]] Environment capture_environment();

/// Variables that begin with WEFT_ and are no parameters: WEFT_CONFIG, WEFT_RANK, ...
[[nodiscard]] std::span<const std::string_view> reserved_variables();

}  // namespace weft
