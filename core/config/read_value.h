// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reading a parameter's value from a node of a file. Apart from parameter.h so that only readers of
// files know of YAML.
#pragma once

#include <optional>

#include "core/config/origin.h"
#include "core/config/parameter.h"
#include "core/config/problems.h"
#include "core/config/yaml.h"

namespace weft {

/// The value of `parameter` in `node`, or nullopt after telling `problems` what is wrong and where.
/// `base` is where the node was read from.
[[nodiscard]] std::optional<Value> read_value(const Parameter& parameter, const YamlNode& node,
                                              const Origin& base, Problems& problems);

/// The same for a list of rules; finds rules that can never match, too.
[[nodiscard]] std::optional<std::vector<Rule>> read_rules(const Parameter& parameter,
                                                          const YamlNode& node, const Origin& base,
                                                          Problems& problems);

/// What parse_value checks of the elements of a list.
[[nodiscard]] Status check_list(const Parameter& parameter,
                                const std::vector<std::string>& elements);

/// How messages call a node that is not what was wanted: "a list", "a map", "nothing".
[[nodiscard]] std::string describe_node(const YamlNode& node);

}  // namespace weft
