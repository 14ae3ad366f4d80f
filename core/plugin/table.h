// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Copies a plugin's function table into one of the host's own size, once, at load: a required entry
// that is missing is an error, a missing optional one becomes a stub that refuses. Calls then need
// no test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/plugin/plugin.h"

namespace weft {

/// Names of the functions that a plugin's table lacks.
class MissingFunctions {
 public:
  void add(std::string_view name) { names_.emplace_back(name); }
  [[nodiscard]] bool contains(std::string_view name) const {
    return std::ranges::find(names_, name) != names_.end();
  }

 private:
  std::vector<std::string> names_;
};

/// Fills one table; `Table` begins with struct_size and a reserved word, then functions alone.
template <typename Table>
class TableReader {
 public:
  TableReader(const Plugin& plugin, const char* interface_id)
      : plugin_(plugin), interface_id_(interface_id) {}

  /// Copies what the plugin compiled, and nothing beyond it.
  Status read() {
    static_assert(offsetof(Table, struct_size) == 0);
    WEFT_TRY_ASSIGN(const void* raw, plugin_.find_interface(interface_id_));
    std::uint32_t size = 0;
    std::memcpy(&size, raw, sizeof(size));
    if (size < kHead) {
      return fail(plugin_.defect(
          "get_interface", fmt::format("gave a table of {} bytes for {}", size, interface_id_)));
    }
    // Half an entry at the end is none.
    const std::size_t whole = kHead + (size - kHead) / sizeof(void*) * sizeof(void*);
    std::memcpy(&table_, raw, std::min(whole, sizeof(Table)));
    table_.struct_size = sizeof(Table);
    return {};
  }

  template <typename Answer, typename... Arguments>
  TableReader& require(Answer (*Table::*entry)(Arguments...), std::string_view name) {
    if (table_.*entry == nullptr) required_.emplace_back(name);
    return *this;
  }

  template <typename Answer, typename... Arguments>
  TableReader& allow(Answer (*Table::*entry)(Arguments...), std::string_view name) {
    if (table_.*entry == nullptr) {
      table_.*entry = &refuse<Answer, Arguments...>;
      missing_.add(name);
    }
    return *this;
  }

  /// Whether every required entry is there.
  [[nodiscard]] Status check() const {
    if (required_.empty()) return {};
    return fail(Error(WEFT_ERROR_PLUGIN,
                      fmt::format("{}: its table for {} lacks {}", plugin_.info().file,
                                  interface_id_, fmt::join(required_, ", ")),
                      "update the plugin")
                    .with_context(plugin_context(plugin_.id())));
  }

  [[nodiscard]] const Table& table() const { return table_; }
  [[nodiscard]] const MissingFunctions& missing() const { return missing_; }

 private:
  static constexpr std::size_t kHead = 2 * sizeof(std::uint32_t);
  static_assert((sizeof(Table) - kHead) % sizeof(void*) == 0);

  template <typename Answer, typename... Arguments>
  static Answer refuse(Arguments... /*arguments*/) {
    if constexpr (!std::is_void_v<Answer>) return WEFT_ERROR_UNSUPPORTED;
  }

  const Plugin& plugin_;
  const char* interface_id_;
  Table table_{};
  std::vector<std::string> required_;
  MissingFunctions missing_;
};

/// The error of a call through such a table: a stub has no way to say whose it is, so it is said
/// here.
[[nodiscard]] inline Error table_error(const Plugin& plugin, const MissingFunctions& missing,
                                       const char* interface_id, weft_result code,
                                       std::string_view function) {
  if (code == WEFT_ERROR_UNSUPPORTED && missing.contains(function)) {
    return Error(code, fmt::format("its {} has no {}", interface_id, function))
        .with_context(plugin_context(plugin.id()));
  }
  return plugin.error(code, function);
}

}  // namespace weft
