// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The parameter tables of the plugins that this configuration would load, for `weft config`.
#pragma once

#include <vector>

#include "core/config/parameter.h"
#include "core/config/source.h"

namespace weft::tool {

/// The parameters of the plugins found in the folders that `source` names, read without running any
/// plugin's code. Plugins that cannot be read bring none.
[[nodiscard]] std::vector<Parameter> discovered_plugin_parameters(const ConfigSource& source);

}  // namespace weft::tool
