// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The parameter tables of the plugins that this configuration would load, for `weft config`.
#pragma once

#include "core/config/source.h"
#include "core/plugin/loader.h"

namespace weft::tool {

/// The tables of the plugins found in the folders that `source` names, read without running any
/// plugin's code.
[[nodiscard]] PluginTables discovered_plugin_tables(const ConfigSource& source);

}  // namespace weft::tool
