// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a plugin file says of itself, as a value: read from the file without running its code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin_api/plugin.h"

namespace weft {

/// One line of a plugin's parameter table, as the file holds it.
struct PluginParameterInfo {
  weft_parameter_type type = WEFT_PARAMETER_TEXT;
  std::string name;
  std::string unit;
  std::string default_value;
  std::string help;
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
};

struct PluginInfo {
  std::string file;  ///< As it was asked for.
  std::uint32_t struct_size = 0;
  std::uint32_t abi_version = 0;
  std::uint32_t abi_oldest = 0;
  std::uint32_t draft = 0;
  std::string id;
  std::string version;
  std::string vendor;
  std::string description;
  /// False for a file of another draft or ABI version: what follows the texts may lie elsewhere
  /// there, so interfaces and parameters stay empty.
  bool tables_read = false;
  std::vector<std::string> interfaces;
  std::vector<PluginParameterInfo> parameters;
  std::vector<std::string> needed;  ///< Libraries that the file asks the system for.
};

}  // namespace weft
