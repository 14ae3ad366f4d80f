// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What can be read from a plugin file without running it.
#include "core/plugin/inspect.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

using testing::ElementsAre;

TEST(Inspect, ReadsEverythingAndRunsNothing) {
  const auto info = inspect_plugin(WEFT_FIXTURE_DIR "/weft-short-table.so");
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->file, WEFT_FIXTURE_DIR "/weft-short-table.so");
  EXPECT_EQ(info->struct_size, 352U);
  EXPECT_EQ(info->abi_version, 0U);
  EXPECT_EQ(info->abi_oldest, 0U);
  EXPECT_EQ(info->draft, 8U);
  EXPECT_EQ(info->id, "short-table");
  EXPECT_EQ(info->version, "1.2.3");
  EXPECT_EQ(info->vendor, "The Weft tests");
  EXPECT_EQ(info->description, "A plugin for tests.");
  EXPECT_TRUE(info->tables_read);
  EXPECT_THAT(info->interfaces, ElementsAre("weft.net/1-draft.8", "weft.transport/1-draft.8"));
  ASSERT_EQ(info->parameters.size(), 6U);
  EXPECT_EQ(info->parameters[2].name, "buffer");
  EXPECT_EQ(info->parameters[2].type, WEFT_PARAMETER_BYTES);
  EXPECT_EQ(info->parameters[2].unit, "bytes");
  EXPECT_EQ(info->parameters[2].default_value, "64KiB");
  EXPECT_EQ(info->parameters[2].help, "Size of a buffer.");
  EXPECT_EQ(info->parameters[2].minimum, 4096);
  EXPECT_EQ(info->parameters[2].maximum, 1 << 20);
}

TEST(Inspect, ReadsTheTextsOfAnotherDraftAndNoMore) {
  const auto info = inspect_plugin(WEFT_FIXTURE_DIR "/weft-other-draft.so");
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->draft, 9U);
  EXPECT_EQ(info->id, "other-draft");
  EXPECT_FALSE(info->tables_read);
  EXPECT_TRUE(info->interfaces.empty());
  EXPECT_TRUE(info->parameters.empty());
}

TEST(Inspect, NamesAFileThatIsNotThere) {
  EXPECT_EQ(test::error_text(inspect_plugin("/nowhere/weft-x.so")),
            "/nowhere/weft-x.so: cannot be opened (errno 2, No such file or directory)");
  EXPECT_EQ(test::error_text(inspect_plugin("/dev/zero")), "/dev/zero: is not a regular file");
}

TEST(Inspect, KnowsGoodIds) {
  for (const char* id : {"p2p", "net-socket", "x"})
    EXPECT_TRUE(is_plugin_id(id)) << id;
  for (const char* id :
       {"", "2x", "-x", "Net", "a.b", "a/b", "a b", "abcdefghijklmnopqrstuvwxyz-abcdef"}) {
    EXPECT_FALSE(is_plugin_id(id)) << id;
  }
}

TEST(Inspect, NegotiatesVersions) {
  PluginInfo info;
  info.file = "weft-foo.so";
  info.draft = WEFT_PLUGIN_DRAFT;
  EXPECT_TRUE(check_versions(info));
  info.abi_version = 7;
  EXPECT_TRUE(check_versions(info)) << "newer, and content with an older host";
  info.abi_oldest = 9;
  EXPECT_EQ(test::error_text(check_versions(info)),
            "weft-foo.so claims plugin ABI version 7 and to need at least 9");
}

}  // namespace
}  // namespace weft
