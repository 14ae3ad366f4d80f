// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/plugin_parameters.h"

#include <string>
#include <utility>
#include <vector>

#include "core/config/resolve.h"
#include "core/plugin/search.h"

namespace weft::tool {

PluginTables discovered_plugin_tables(const ConfigSource& source) {
  // What is wrong with it is told by whoever resolves it as a whole.
  auto path = resolve_plugin_path(source);
  return read_plugin_tables(
      plugin_directories(path ? std::move(*path) : std::vector<std::string>()));
}

}  // namespace weft::tool
