// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A folder with copies of this build's plugins, in which a test may put bad ones beside them. The
// build's own folder may be one that others can write to, from which plugins are not loaded.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/process.h"

namespace weft::test {

class PluginFolder {
 public:
  PluginFolder() {
    for (const char* name : {"p2p", "shm", "net-socket"}) {
      const std::string file = std::string("weft-") + name + ".so";
      copy(std::string(BUILT_PLUGINS) + "/" + name + "/" + file, file);
    }
  }

  /// A file from elsewhere, under a name of this folder, which others cannot write.
  void copy(const std::string& from, const std::string& name) const {
    const std::string to = path() + "/" + name;
    std::filesystem::copy_file(from, to);
    std::filesystem::permissions(to, std::filesystem::perms(0755));
  }
  /// One of tests/support/bad_plugins, as the plugin `as`.
  void add_bad(const std::string& id, const std::string& as) const {
    copy(std::string(FIXTURE_PLUGINS) + "/weft-" + id + ".so", "weft-" + as + ".so");
  }
  [[nodiscard]] const std::string& path() const { return folder_.path(); }
  [[nodiscard]] std::string file_of(const std::string& id) const {
    return path() + "/weft-" + id + ".so";
  }

 private:
  ScratchFolder folder_;
};

}  // namespace weft::test
