// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The core's own parameters. To add one: an entry in core_parameters.cc, a reader of its value, and
// docs/configuration.md made anew by `weft config schema --markdown --core`.
#pragma once

#include <vector>

#include "core/config/parameter.h"

namespace weft {

/// The core's table, section by section, in the order of the documentation.
[[nodiscard]] std::vector<Parameter> core_parameters();

}  // namespace weft
