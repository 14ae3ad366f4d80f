// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Where the configuration is read from: one file, found by a fixed rule and parsed, and the
// environment. What the values mean is decided in resolve.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/environment.h"
#include "core/config/yaml.h"

namespace weft {

/// A parsed file, if there is one, and an environment. A value; reads nothing after it is made.
class ConfigSource {
 public:
  /// Reads the first that exists of WEFT_CONFIG, the user's weft/weft.yaml ($XDG_CONFIG_HOME, else
  /// ~/.config) and the system's weft.yaml; no file at all is fine, except that WEFT_CONFIG must
  /// name one. Blocks on the file system. Errors are WEFT_ERROR_CONFIG with `FILE:LINE:COL: ...`,
  /// or name the file that cannot be read.
  static Result<ConfigSource> read(Environment environment);

  /// Reads this file and no other; it must exist.
  static Result<ConfigSource> read_file(const std::string& file, Environment environment);

  /// Takes `text` for the content of `file`, which is not opened.
  static Result<ConfigSource> parse(std::string_view text, std::string file,
                                    Environment environment);

  /// No file: the environment alone.
  static ConfigSource without_file(Environment environment);

  /// The file that was read; empty where there is none.
  [[nodiscard]] const std::string& file() const { return file_; }
  /// The file's top-level map; a null node where there is no file.
  [[nodiscard]] const YamlNode& root() const { return root_; }
  [[nodiscard]] const Environment& environment() const { return environment_; }
  /// What was passed over and may surprise, a line each, to be logged by whoever has a log.
  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }

 private:
  explicit ConfigSource(Environment environment) : environment_(std::move(environment)) {}

  std::string file_;
  YamlNode root_;
  Environment environment_;
  std::vector<std::string> notices_;
};

}  // namespace weft
