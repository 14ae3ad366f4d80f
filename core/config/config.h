// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The resolved configuration: every parameter with its final value, where that came from and what
// the lower layers said. Made by resolve.h; plain lookups from then on.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/config/origin.h"
#include "core/config/parameter.h"

namespace weft {

/// One layer's word on a parameter.
struct ConfigLayer {
  Origin origin;
  Value value;
};

/// A parameter and all that was said on it.
struct ConfigEntry {
  Parameter parameter;
  std::vector<ConfigLayer> layers;  ///< Lowest first, the default among them; the last one counts.

  [[nodiscard]] const Value& value() const { return layers.back().value; }
  [[nodiscard]] const Origin& origin() const { return layers.back().origin; }
  /// The value's canonical text.
  [[nodiscard]] std::string text() const { return print_value(parameter, value()); }
  /// Whether anyone but the built-in default set it.
  [[nodiscard]] bool is_set() const { return origin().kind != OriginKind::kDefault; }
};

/// A value: copied into a context, read by any thread.
class Config {
 public:
  Config(std::vector<ConfigEntry> entries, std::string file, std::vector<std::string> notices);

  /// All entries, in the order of the table.
  [[nodiscard]] const std::vector<ConfigEntry>& entries() const { return entries_; }
  /// The entry of `section.key`, or null. Lives as long as this Config is neither changed nor
  /// moved.
  [[nodiscard]] const ConfigEntry* find(std::string_view name) const;
  /// Whether somebody set `section.key`: false where the default stands, and for unknown names.
  [[nodiscard]] bool is_set(std::string_view name) const {
    const ConfigEntry* entry = find(name);
    return entry != nullptr && entry->is_set();
  }
  /// The entries of one section, in the order of the table; lives as those of find.
  [[nodiscard]] std::vector<const ConfigEntry*> section(std::string_view name) const;
  /// The file that was read; empty where there was none.
  [[nodiscard]] const std::string& file() const { return file_; }
  /// What was passed over and may surprise, a line each.
  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }

  /// Values by `section.key`. To ask for a name that is not in the table, or for another type than
  /// its own, is a defect of the caller and ends the process with a message.
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] std::uint64_t bytes(std::string_view name) const;
  /// nullopt where it is off.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration(std::string_view name) const;
  /// Of a text or a choice.
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& list(std::string_view name) const;
  /// `transports.rules`.
  [[nodiscard]] const std::vector<Rule>& rules() const;
  /// The section `log` as the Logger takes it.
  [[nodiscard]] LogOptions log_options() const;

  /// A communicator's own configuration: `overrides` maps `section.key` to text as parse_value
  /// reads it. WEFT_ERROR_CONFIG names what is unknown or wrong.
  [[nodiscard]] Result<Config> with_overrides(
      const std::map<std::string, std::string>& overrides) const;

  /// `section.key=value` for each parameter that all ranks must have alike, a line each, by name.
  [[nodiscard]] std::string agreed_text() const;

 private:
  [[nodiscard]] const ConfigEntry& entry_or_die(std::string_view name) const;
  template <typename T>
  [[nodiscard]] const T& value_or_die(std::string_view name) const;

  std::vector<ConfigEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::string file_;
  std::vector<std::string> notices_;
};

/// Says how two agreed_text differ, for the message of a mismatch:
/// `transports.order is p2p,shm,net here and shm,net there`. Empty where they are alike. The text
/// of a peer may be anything.
[[nodiscard]] std::string describe_difference(std::string_view here, std::string_view there);

}  // namespace weft
