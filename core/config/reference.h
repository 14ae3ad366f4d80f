// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What is generated from parameter tables for readers and editors: a JSON Schema of the file and a
// reference page in Markdown. Pure functions of the table.
#pragma once

#include <span>
#include <string>

#include "core/config/parameter.h"

namespace weft {

/// A JSON Schema (draft 2020-12) of the configuration file, indented, ending in a newline.
[[nodiscard]] std::string json_schema(std::span<const Parameter> table);

/// A page that lists every parameter with type, default, variable and help.
[[nodiscard]] std::string markdown_reference(std::span<const Parameter> table);

}  // namespace weft
