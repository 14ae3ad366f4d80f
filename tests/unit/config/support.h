// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of the configuration share.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <stdlib.h>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/config/resolve.h"
#include "core/config/source.h"

namespace weft {

/// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-config-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

  /// Writes a file below the folder and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

/// An environment in which no file is found.
inline Environment bare_environment(std::map<std::string, std::string> variables = {}) {
  return {.variables = std::move(variables),
          .raised_privileges = false,
          .system_folder = "/nonexistent/weft"};
}

/// The parameters of two plugins.
inline std::vector<Parameter> plugin_table() {
  return {{.section = "net-socket",
           .key = "interfaces",
           .type = ParameterType::kList,
           .default_text = "",
           .help = "Interfaces."},
          {.section = "net-socket",
           .key = "streams",
           .type = ParameterType::kInteger,
           .unit = "streams",
           .minimum = 1,
           .maximum = 16,
           .default_text = "2",
           .help = "Streams of a connection."},
          {.section = "shm",
           .key = "huge",
           .type = ParameterType::kFlag,
           .default_text = "false",
           .help = "Huge pages."}};
}

/// Resolves `text` as the file f.yaml, with the two plugins.
inline Result<Config> resolve_text(const std::string& text,
                                   std::map<std::string, std::string> variables = {}) {
  WEFT_TRY_ASSIGN(const ConfigSource source,
                  ConfigSource::parse(text, "f.yaml", bare_environment(std::move(variables))));
  return resolve(source, plugin_table());
}

/// The message with which `text` is refused; "accepted" where it is not.
inline std::string refusal(const std::string& text,
                           std::map<std::string, std::string> variables = {}) {
  const auto config = resolve_text(text, std::move(variables));
  if (config) return "accepted";
  EXPECT_EQ(config.error().code(), WEFT_ERROR_CONFIG);
  return config.error().to_string();
}

}  // namespace weft
