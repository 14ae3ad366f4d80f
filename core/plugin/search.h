// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Where plugins are looked for, what lies there, and whether it may be loaded.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace weft {

/// A file called weft-<id>.so in a plugin folder; nothing of it has been read.
struct FoundPlugin {
  std::string id;
  std::string file;
  std::string hidden_by;  ///< The file of the same id in an earlier folder, which counts instead.
};

/// The folders that count where the configuration names none: in a build tree that tree's own
/// plugins; else `weft/plugins` beside this library, where that is a folder; else the folder that
/// Weft was installed with. Nothing from the environment enters.
[[nodiscard]] std::vector<std::string> default_plugin_directories();

/// `configured` (the value of plugins.path), or the default where that is empty.
[[nodiscard]] std::vector<std::string> plugin_directories(std::vector<std::string> configured);

/// The same rule for the object file `object`; `installed` is the last resort.
[[nodiscard]] std::vector<std::string> plugin_directories_for(const std::string& object,
                                                              const std::string& installed);

/// All plugin files in the folders, in order of folders and then of names. Folders that are not
/// there, or cannot be read, hold none.
[[nodiscard]] std::vector<FoundPlugin> find_plugins(std::span<const std::string> directories);

/// The file that `id` would be loaded from. The error names every folder that was searched, and an
/// id that is nearly the same.
[[nodiscard]] Result<std::string> find_plugin(std::span<const std::string> directories,
                                              std::string_view id);

/// Refuses a plugin file if others than root and this process's user can write it or its folder.
[[nodiscard]] Status check_trusted(const std::string& file);

}  // namespace weft
