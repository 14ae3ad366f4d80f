// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/answers.h"

#include <algorithm>

#include <fmt/format.h>

namespace weft {

Result<std::span<const std::byte>> checked_blob(const Plugin& plugin, std::string_view function,
                                                const weft_blob& blob, std::uint64_t limit) {
  if (blob.size > limit) {
    return fail(plugin.defect(
        function, fmt::format("gave {} bytes, and at most {} are allowed", blob.size, limit)));
  }
  if (blob.data == nullptr && blob.size != 0) {
    return fail(plugin.defect(function, fmt::format("gave {} bytes at NULL", blob.size)));
  }
  return std::span(static_cast<const std::byte*>(blob.data), blob.size);
}

Result<std::string> checked_text(const Plugin& plugin, std::string_view function,
                                 std::string_view name, std::span<const char> field) {
  const auto end = std::ranges::find(field, '\0');
  if (end == field.end()) {
    return fail(plugin.defect(function, fmt::format("gave a {} that does not end", name)));
  }
  std::string text(field.begin(), end);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace weft
