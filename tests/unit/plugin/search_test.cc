// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which folders are searched where the configuration names none.
#include "core/plugin/search.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class Search : public testing::Test {
 protected:
  std::string touch(const std::string& name) const {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    return path.string();
  }
  test::PluginFolder folder_;
};

TEST_F(Search, ABuildTreeFindsItsOwnPlugins) {
  touch("meson-private/coredata.dat");
  touch("plugins/shm/weft-shm.so");
  touch("plugins/net-socket/weft-net-socket.so");
  touch("plugins/half-built/notes.txt");
  for (const char* object : {"core/api/libweft.so.0", "tools/weft", "tests/unit/plugin/test",
                             "compat/nccl/libnccl.so.2"}) {
    EXPECT_THAT(
        plugin_directories_for(touch(object), "/installed"),
        ElementsAre(folder_.path() + "/plugins/net-socket", folder_.path() + "/plugins/shm"))
        << object;
  }
}

TEST_F(Search, AnInstallationInsideABuildTreeDoesNot) {
  touch("meson-private/coredata.dat");
  touch("plugins/shm/weft-shm.so");
  EXPECT_THAT(plugin_directories_for(touch("root/lib/libweft.so.0"), "/installed"),
              ElementsAre("/installed"));
}

TEST_F(Search, PluginsBesideAMovedLibraryComeFirst) {
  touch("lib/weft/plugins/weft-shm.so");
  EXPECT_THAT(plugin_directories_for(touch("lib/libweft.so.0"), "/installed"),
              ElementsAre(folder_.path() + "/lib/weft/plugins"));
}

TEST_F(Search, TheFolderOfTheInstallationIsLast) {
  EXPECT_THAT(plugin_directories_for(touch("lib/libweft.so.0"), "/installed"),
              ElementsAre("/installed"));
  EXPECT_THAT(plugin_directories_for("", "/installed"), ElementsAre("/installed"));
}

TEST_F(Search, ConfiguredFoldersReplaceTheDefault) {
  EXPECT_THAT(plugin_directories({"/a", "/b"}), ElementsAre("/a", "/b"));
  EXPECT_EQ(plugin_directories({}), default_plugin_directories());
}

TEST_F(Search, ThisTestRunsInABuildTree) {
  for (const std::string& directory : default_plugin_directories()) {
    EXPECT_THAT(directory, testing::StartsWith(fs::canonical(WEFT_BUILD_ROOT).string()));
  }
}

TEST_F(Search, ListsPluginFilesAndWhatHidesThem) {
  touch("a/weft-shm.so");
  touch("a/weft-net-socket.so");
  touch("a/weft-.so");
  touch("a/weft-Big.so");
  touch("a/other.so");
  touch("b/weft-shm.so");
  const std::vector<std::string> directories = {folder_.path() + "/a", folder_.path() + "/none",
                                                folder_.path() + "/b"};
  const auto found = find_plugins(directories);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].id, "net-socket");
  EXPECT_EQ(found[1].id, "shm");
  EXPECT_EQ(found[1].hidden_by, "");
  EXPECT_EQ(found[2].file, folder_.path() + "/b/weft-shm.so");
  EXPECT_EQ(found[2].hidden_by, folder_.path() + "/a/weft-shm.so");
  EXPECT_EQ(find_plugin(directories, "shm").value(), folder_.path() + "/a/weft-shm.so");
}

}  // namespace
}  // namespace weft
