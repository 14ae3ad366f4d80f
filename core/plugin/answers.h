// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Looks at what a plugin gave back before anyone relies on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/plugin/plugin.h"

namespace weft {

/// The bytes of a blob that `function` gave, at most `limit` of them.
[[nodiscard]] Result<std::span<const std::byte>> checked_blob(const Plugin& plugin,
                                                              std::string_view function,
                                                              const weft_blob& blob,
                                                              std::uint64_t limit);

/// The text in a fixed field called `name`; it must end within the field. Control characters
/// become spaces.
[[nodiscard]] Result<std::string> checked_text(const Plugin& plugin, std::string_view function,
                                               std::string_view name, std::span<const char> field);

}  // namespace weft
