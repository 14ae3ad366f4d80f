// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/plugin_parameters.h"

namespace weft::tool {

std::vector<Parameter> discovered_plugin_parameters(const ConfigSource& /*source*/) {
  return {};
}

}  // namespace weft::tool
