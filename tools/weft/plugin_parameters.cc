// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/plugin_parameters.h"

#include "core/config/resolve.h"
#include "core/plugin/search.h"

namespace weft::tool {

PluginTables discovered_plugin_tables(const ConfigSource& source) {
  const auto config = resolve_core(source);
  // What is wrong with it is told by whoever resolves it as a whole.
  if (!config) return {};
  return read_plugin_tables(plugin_directories(config->list("plugins.path")));
}

}  // namespace weft::tool
