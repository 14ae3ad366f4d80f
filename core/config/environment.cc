// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/environment.h"

#include <array>
#include <sys/auxv.h>
#include <unistd.h>

namespace weft {
namespace {

constexpr std::array<std::string_view, 8> kReserved = {
    "WEFT_CONFIG",     "WEFT_HOST_ID",    "WEFT_FABRIC_ID", "WEFT_RANK",
    "WEFT_WORLD_SIZE", "WEFT_LOCAL_RANK", "WEFT_ROOT",      "WEFT_SECRET"};

}  // namespace

std::string_view Environment::get(const std::string& name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string_view() : std::string_view(found->second);
}

Environment capture_environment() {
  Environment out;
  out.raised_privileges = getauxval(AT_SECURE) != 0;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.starts_with("WEFT_") || name == "HOME" || name == "XDG_CONFIG_HOME") {
      // As for getenv, the first of two entries of one name counts.
      out.variables.emplace(name, text.substr(equals + 1));
    }
  }
  return out;
}

std::span<const std::string_view> reserved_variables() {
  return kReserved;
}

}  // namespace weft
