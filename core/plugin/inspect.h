// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reads a plugin's entry from its file without running any of its code (not even constructors),
// and decides whether this weft can work with it. The loader looks here first; `weft plugin` prints
// it. The file may be anything.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/plugin/plugin_info.h"

namespace weft {

/// The symbol that every plugin exports.
inline constexpr const char* kPluginEntrySymbol = "weft_plugin_entry";

/// Size of the entry in the first draft: smaller ones are none.
inline constexpr std::uint32_t kFirstDescriptorSize = 352;

/// Oldest plugin ABI version that this weft accepts.
inline constexpr std::uint32_t kOldestAbiVersion = 0;

/// Reads the entry of the plugin file whose contents are `bytes`; `file` names it in messages.
/// A file of another draft is read as far as drafts agree (see PluginInfo::tables_read).
[[nodiscard]] Result<PluginInfo> inspect_plugin_bytes(std::span<const std::byte> bytes,
                                                      std::string_view file);

/// The same for a file by name. Regular files of at most 1 GiB.
[[nodiscard]] Result<PluginInfo> inspect_plugin(const std::string& file);

/// Whether this weft and the plugin speak the same draft and agree on an ABI version.
[[nodiscard]] Status check_versions(const PluginInfo& info);

/// Whether each interface that this weft knows by name has the revision and draft that it speaks,
/// and whether there is any such interface at all.
[[nodiscard]] Status check_interfaces(const PluginInfo& info);

/// Whether the file is called weft-<id>.so.
[[nodiscard]] Status check_file_name(const PluginInfo& info);

/// Lower-case letters, digits and '-', beginning with a letter, at most 31.
[[nodiscard]] bool is_plugin_id(std::string_view id);

}  // namespace weft
