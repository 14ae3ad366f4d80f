// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a source and the parameter tables to a Config: defaults, then the file, then the
// environment. In two steps, because the tables of plugins are known only once plugins.path is.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/config/parameter.h"
#include "core/config/problems.h"
#include "core/config/source.h"

namespace weft {

/// The first step: the core's parameters alone, for what is needed before plugins are found.
/// Sections and variables that are not the core's pass unseen; whatever is the core's is checked.
/// Errors are WEFT_ERROR_CONFIG with a finding a line, each beginning with its place.
[[nodiscard]] Result<Config> resolve_core(const ConfigSource& source);

/// The value of plugins.path alone, whatever else is wrong: for commands that tell all that is
/// wrong at once, which needs the tables of plugins.
[[nodiscard]] Result<std::vector<std::string>> resolve_plugin_path(const ConfigSource& source);

/// A section that belongs to a plugin whose table cannot be read, and why, with the plugin's file.
struct UnreadSection {
  std::string name;
  std::string why;
};

/// The second step: the core's parameters and those of plugins, in that order. Anything unknown is
/// an error now. What stands in `unread_sections` passes with a notice: the plugin may not be
/// needed, and where it is, its own error tells more than "unknown section" would.
[[nodiscard]] Result<Config> resolve(const ConfigSource& source,
                                     std::span<const Parameter> plugin_parameters,
                                     std::span<const UnreadSection> unread_sections = {});

/// The section that a key of the file or an environment variable belongs to, if it is unread.
[[nodiscard]] const UnreadSection* find_unread(std::span<const UnreadSection> sections,
                                               std::string_view name);

/// Adds to `entry` a layer that reads `text`, or tells `problems` why not. For this layer's own
/// use.
void add_text_layer(ConfigEntry& entry, std::string_view text, const Origin& origin,
                    Problems& problems);

}  // namespace weft
