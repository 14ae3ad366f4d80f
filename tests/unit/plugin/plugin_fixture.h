// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of plugins share: a folder of their own with copies of fixture plugins, and a
// context to load them into.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/device_runtime.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/plugin/loader.h"
#include "tests/support/memory_runtime.h"

namespace weft::test {

/// A new folder that only this user can write; removed with all that is in it.
class PluginFolder {
 public:
  PluginFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-plugin-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = std::filesystem::canonical(pattern).string();
  }
  ~PluginFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PluginFolder(const PluginFolder&) = delete;
  PluginFolder& operator=(const PluginFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(std::string_view id) const {
    return path_ + "/weft-" + std::string(id) + ".so";
  }

  /// Copies the fixture `id` here and gives the copy's name.
  std::string add(std::string_view id) const {
    using std::filesystem::perms;
    std::filesystem::copy_file(std::string(WEFT_FIXTURE_DIR) + "/weft-" + std::string(id) + ".so",
                               file(id));
    std::filesystem::permissions(file(id), perms::owner_all | perms::group_read);
    return file(id);
  }

  /// Makes a plugin file with this content.
  std::string write(std::string_view id, std::string_view content) const {
    std::ofstream(file(id), std::ios::binary) << content;
    std::filesystem::permissions(file(id), std::filesystem::perms::owner_all);
    return file(id);
  }

 private:
  std::string path_;
};

[[nodiscard]] inline std::string read_whole(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What a plugin host needs around it. A quiet log: failures are values here.
struct Context {
  Context() : reactor(Reactor::create().value()) {
    LogOptions options;
    options.level = WEFT_LOG_ERROR;
    logger.configure(options);
  }
  [[nodiscard]] std::unique_ptr<PluginHost> host(const PluginFolder& folder,
                                                 ParameterReader parameters = {}) {
    return std::make_unique<PluginHost>(PluginHostOptions{{folder.path()}, std::move(parameters)},
                                        logger, *reactor, runtime);
  }
  /// A host in which the fixture does wrong what `how` says.
  [[nodiscard]] std::unique_ptr<PluginHost> misbehaving(const PluginFolder& folder,
                                                        std::string how) {
    return host(folder, [how = std::move(how)](const Parameter& parameter) -> Result<Value> {
      return parse_value(parameter, parameter.key == "misbehave" ? how : parameter.default_text);
    });
  }

  Logger logger;
  std::unique_ptr<Reactor> reactor;
  MemoryRuntime runtime;
};

/// The text of an error; the test fails where there is none.
template <typename T>
[[nodiscard]] std::string error_text(const Result<T>& result) {
  if (result) {
    ADD_FAILURE() << "it worked, and should not have";
    return {};
  }
  return result.error().to_string();
}

}  // namespace weft::test
