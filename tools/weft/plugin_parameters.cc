// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/plugin_parameters.h"

#include <utility>

#include "core/config/resolve.h"
#include "core/plugin/loader.h"
#include "core/plugin/search.h"

namespace weft::tool {

std::vector<Parameter> discovered_plugin_parameters(const ConfigSource& source) {
  const auto config = resolve_core(source);
  // What is wrong with it is told by whoever resolves it as a whole.
  if (!config) return {};
  PluginTables tables = read_plugin_tables(plugin_directories(config->list("plugins.path")));
  return std::move(tables.parameters);
}

}  // namespace weft::tool
