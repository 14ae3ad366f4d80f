// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One entry of the parameter table, from which the file, the environment names, `weft config` and
// the documentation are all made. Plugins bring tables of the same type under their own section.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/config/rules.h"

namespace weft {

enum class ParameterType : std::uint8_t {
  kFlag,      ///< true or false.
  kInteger,   ///< A whole number.
  kBytes,     ///< A size: `128KiB`.
  kDuration,  ///< `60s`; nullopt stands for `off`, where that is allowed.
  kText,      ///< One line of text.
  kList,      ///< Several lines of text without commas; none twice.
  kChoice,    ///< One of `choices`.
  kRules,     ///< Rules on pairs of ranks; in the core's table alone.
};

/// `flag`, `integer`, `bytes`, ...
[[nodiscard]] std::string_view parameter_type_name(ParameterType type);

/// The final value of a parameter; bytes are integers, a choice is text.
using Value = std::variant<bool, std::int64_t, std::optional<std::chrono::nanoseconds>, std::string,
                           std::vector<std::string>, std::vector<Rule>>;

/// What is known of a parameter apart from its value.
struct Parameter {
  /// The map of the file that it stands in: lower-case letters, digits and '-'.
  std::string section;
  /// Its key there; a dot leads into a map within: `all_reduce.algorithm`.
  std::string key;
  ParameterType type = ParameterType::kText;
  /// What an integer counts, for readers: "streams". Sizes and durations carry their unit.
  std::string unit = {};
  /// kChoice: what is allowed. kList: what its elements may be, anything where empty.
  std::vector<std::string> choices = {};
  /// Inclusive bounds: of an integer, of a size in bytes, of a duration in nanoseconds, of the
  /// number of elements of a list.
  std::optional<std::int64_t> minimum = {};
  std::optional<std::int64_t> maximum = {};
  bool power_of_two = false;  ///< kBytes, kInteger.
  bool may_be_off = false;    ///< kDuration.
  bool agreed = false;        ///< Must be alike on all ranks of a job.
  /// The default is kept apart from the same value that somebody set, where ranks agree: on some
  /// devices another one counts as long as nobody sets it.
  bool default_varies = false;
  /// Names files or folders: the environment does not count where the process has raised
  /// privileges.
  bool path = false;
  bool of_context = false;  ///< Counts for a whole context: no communicator has its own.
  std::string default_text;
  std::string help;  ///< One sentence, or a few.

  /// `section.key`, as messages, `weft config explain` and the typed access name it.
  [[nodiscard]] std::string name() const { return section + "." + key; }

  /// `WEFT_<SECTION>_<KEY>` in upper case with '_' for '-' and '.'.
  [[nodiscard]] std::string environment_name() const;

  /// What values it takes, for readers: `one of text or json`, `bytes, 4KiB to 4MiB, a power of
  /// two`.
  [[nodiscard]] std::string describe_values() const;
};

/// Reads a value from one line of text, lists by comma, as the environment gives it.
/// WEFT_ERROR_CONFIG begins with the parameter's name and says what is wrong.
[[nodiscard]] Result<Value> parse_value(const Parameter& parameter, std::string_view text);

/// The canonical text of a value, which parse_value reads: `true`, `128KiB`, `p2p,shm,net`, `off`.
[[nodiscard]] std::string print_value(const Parameter& parameter, const Value& value);

/// Whether the entry itself is sound: names well-formed, default readable, help given.
/// WEFT_ERROR_CONFIG says what is wrong with it; whoever adds a plugin's table names the plugin.
[[nodiscard]] Status validate_parameter(const Parameter& parameter);

}  // namespace weft
