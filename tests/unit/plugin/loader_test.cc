// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Every way in which a plugin can be refused, with the very message.
#include "core/plugin/loader.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

using test::Context;
using test::error_text;
using test::PluginFolder;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

class Loader : public testing::Test {
 protected:
  /// The message with which the fixture `id` is refused.
  std::string refusal(std::string_view id) {
    folder_.add(id);
    return error_text(context_.host(folder_)->load(id));
  }
  [[nodiscard]] std::string file(std::string_view id) const { return folder_.file(id); }

  Context context_;
  PluginFolder folder_;
};

TEST_F(Loader, LoadsASoundPlugin) {
  folder_.add("sample");
  const auto host = context_.host(folder_);
  const auto plugin = host->load("sample");
  ASSERT_TRUE(plugin) << plugin.error().to_string();
  const PluginInfo& info = (*plugin)->info();
  EXPECT_EQ(info.id, "sample");
  EXPECT_EQ(info.version, "1.2.3");
  EXPECT_EQ(info.file, file("sample"));
  EXPECT_TRUE((*plugin)->offers("weft.net/1-draft.8"));
  EXPECT_TRUE((*plugin)->offers("weft.transport/1-draft.8"));
  EXPECT_FALSE((*plugin)->offers("weft.tuner/1-draft.8"));
  EXPECT_NE(std::getenv("FIXTURE_RAN_sample"), nullptr);
}

TEST_F(Loader, AnswersTheSameInstanceAgainAndCountsItOnce) {
  folder_.add("sample");
  const auto host = context_.host(folder_);
  const auto first = host->load("sample");
  const auto second = host->load("sample");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  const auto counters = (*first)->counters();
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0].name, "starts_total");
  EXPECT_EQ(counters[0].value, 1U);
}

TEST_F(Loader, TwoContextsShareNothing) {
  folder_.add("sample");
  const auto first = context_.host(folder_);
  const auto second = context_.host(folder_);
  const auto one = first->load("sample");
  const auto two = second->load("sample");
  ASSERT_TRUE(one && two);
  EXPECT_NE((*one)->instance(), (*two)->instance());
  EXPECT_EQ((*one)->counters()[0].value, 1U);
  EXPECT_EQ((*two)->counters()[0].value, 1U);
}

TEST_F(Loader, LetsPluginsComeToRestBeforeTheyEnd) {
  folder_.add("sample");
  LogOptions told;
  told.level = WEFT_LOG_INFO;
  context_.logger.configure(told);
  const auto end_of = [&](std::string how) {
    testing::internal::CaptureStderr();
    {
      const auto host = context_.misbehaving(folder_, std::move(how));
      EXPECT_TRUE(host->load("sample"));
    }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(end_of(""), HasSubstr("sample: ended, asked to rest 1 times"));
  EXPECT_THAT(end_of("quiesce-thrice"), HasSubstr("sample: ended, asked to rest 3 times"));
  EXPECT_THAT(end_of("quiesce-fails"),
              AllOf(HasSubstr("sample: plugin sample: cannot flush (errno 5, Input/output error); "
                              "try: look at the device"),
                    HasSubstr("sample: ended, asked to rest 1 times")));
  EXPECT_THAT(end_of("quiesce-slow"),
              HasSubstr("sample: has not come to rest, and is ended all the same"));
}

TEST_F(Loader, SecondContextWorksAfterTheFirstHasGone) {
  folder_.add("sample");
  ASSERT_TRUE(context_.host(folder_)->load("sample"));
  EXPECT_TRUE(context_.host(folder_)->load("sample"));
}

TEST_F(Loader, GivesParametersByTheReader) {
  folder_.add("sample");
  std::vector<std::string> asked;
  const auto host = context_.host(folder_, [&](const Parameter& parameter) -> Result<Value> {
    asked.push_back(parameter.name());
    return parse_value(parameter, parameter.default_text);
  });
  ASSERT_TRUE(host->load("sample"));
  EXPECT_THAT(asked,
              testing::ElementsAre("sample.streams", "sample.eager", "sample.buffer",
                                   "sample.patience", "sample.misbehave", "sample.interfaces"));
}

TEST_F(Loader, PassesOnWhatTheReaderRefuses) {
  folder_.add("sample");
  const auto host = context_.host(folder_, [](const Parameter& parameter) -> Result<Value> {
    return parse_value(parameter, parameter.key == "streams" ? "99" : parameter.default_text);
  });
  EXPECT_THAT(error_text(host->load("sample")), StartsWith("sample.streams"));
}

TEST_F(Loader, AcceptsALongerEntryOfALaterPlugin) {
  folder_.add("long-entry");
  const auto host = context_.host(folder_);
  EXPECT_TRUE(host->load("long-entry"));
}

TEST_F(Loader, NamesTheFoldersThatWereSearched) {
  PluginFolder other;
  PluginHost host({{folder_.path(), other.path()}, {}}, context_.logger, *context_.reactor,
                  context_.runtime);
  EXPECT_EQ(error_text(host.load("sample")),
            "there is no plugin sample: no weft-sample.so in " + folder_.path() + ", " +
                other.path() + "; try: set plugins.path to the folder that holds the plugins");
}

TEST_F(Loader, NamesAPluginOfNearlyThatName) {
  folder_.add("sample");
  EXPECT_EQ(error_text(context_.host(folder_)->load("smaple")),
            "there is no plugin smaple: no weft-smaple.so in " + folder_.path() +
                "; try: sample, which is there");
  EXPECT_EQ(
      error_text(context_.host(folder_)->load("net-ib")),
      "there is no plugin net-ib: no weft-net-ib.so in " + folder_.path() + "; try: one of sample");
}

TEST_F(Loader, RefusesNamesThatLeadElsewhere) {
  EXPECT_EQ(
      error_text(context_.host(folder_)->load("../../tmp/x")),
      "\"../../tmp/x\" is no name of a plugin; try: lower-case letters, digits and '-', as in "
      "net-socket");
}

TEST_F(Loader, RefusesRelativeFolders) {
  PluginHost host({{"plugins"}, {}}, context_.logger, *context_.reactor, context_.runtime);
  EXPECT_EQ(error_text(host.load("sample")),
            "the plugin folder \"plugins\" is not an absolute path");
}

TEST_F(Loader, RefusesAnotherMagicNumber) {
  EXPECT_EQ(refusal("bad-magic"),
            file("bad-magic") +
                ": its weft_plugin_entry begins with 0x0000000000001234, not with the magic number "
                "0x47554c5054464557; try: rebuild it against plugin_api/plugin.h");
}

TEST_F(Loader, RefusesAnotherDraftBeforeAnyOfItsCodeRuns) {
  EXPECT_EQ(refusal("other-draft"),
            file("other-draft") +
                " was built for draft 9 of the plugin ABI, this weft speaks draft 8; try: update "
                "weft, or use an older plugin");
  EXPECT_EQ(std::getenv("FIXTURE_RAN_other-draft"), nullptr);
  EXPECT_EQ(refusal("old-draft"),
            file("old-draft") +
                " was built for draft 0 of the plugin ABI, this weft speaks draft 8; try: rebuild "
                "the plugin against this weft's headers");
  EXPECT_EQ(std::getenv("FIXTURE_RAN_old-draft"), nullptr);
}

TEST_F(Loader, RefusesAPluginThatNeedsANewerHost) {
  EXPECT_EQ(refusal("newer-abi"),
            file("newer-abi") +
                " needs version 5 of the plugin ABI or newer, this weft speaks version 0; try: "
                "update weft, or use an older plugin");
}

TEST_F(Loader, RefusesALibraryWithoutEntry) {
  EXPECT_EQ(refusal("no-entry"),
            file("no-entry") +
                ": it exports no symbol weft_plugin_entry, so it is no weft plugin; try: define it "
                "with WEFT_PLUGIN_EXPORT of plugin_api/plugin.h");
  EXPECT_EQ(std::getenv("FIXTURE_RAN_no-entry"), nullptr);
}

TEST_F(Loader, RefusesAnIdThatIsNotTheFilesName) {
  EXPECT_EQ(refusal("wrong-id"), file("wrong-id") +
                                     " holds the plugin \"someone-else\"; try: rename it to "
                                     "weft-someone-else.so");
}

TEST_F(Loader, RefusesAnEntryThatIsTooShort) {
  EXPECT_EQ(refusal("short-entry"),
            file("short-entry") + ": its weft_plugin_entry claims 100 bytes, and has at least 352");
}

TEST_F(Loader, RefusesNullFunctionsOfTheEntry) {
  EXPECT_EQ(refusal("null-deinit"), file("null-deinit") + ": its deinit is NULL");
}

TEST_F(Loader, TellsWhyInitFailed) {
  EXPECT_EQ(refusal("init-fails"), file("init-fails") +
                                       ": plugin init-fails: cannot open /dev/nothing (errno 2, No "
                                       "such file or directory); try: load the driver");
  EXPECT_EQ(refusal("init-silent"), file("init-silent") +
                                        ": plugin init-silent: init failed with "
                                        "WEFT_ERROR_OUT_OF_RESOURCES and gave no reason");
  EXPECT_EQ(
      refusal("init-empty"),
      file("init-empty") + ": plugin init-empty: init gave no instance; try: update the plugin");
}

TEST_F(Loader, CatchesAnExceptionOfInit) {
  EXPECT_EQ(refusal("init-throws"), file("init-throws") +
                                        ": plugin init-throws: init threw an exception: no license "
                                        "found; try: update the plugin");
}

TEST_F(Loader, RefusesGarbageInTheParameterTable) {
  EXPECT_EQ(refusal("null-parameter"),
            file("null-parameter") + ": the name of its parameter 0 is NULL");
  EXPECT_EQ(refusal("odd-parameter"),
            file("odd-parameter") +
                ": the type of its parameter \"streams\" is 77, which this weft does not know");
  EXPECT_EQ(refusal("many-parameters"),
            file("many-parameters") + ": it claims 100000 parameters, and 1024 are allowed");
  // What lies behind the six that there are is the compiler's and the linker's choice.
  const std::string wild = file("wild-parameters");
  EXPECT_THAT(refusal("wild-parameters"),
              AnyOf(StartsWith(wild + ": its parameter 6 claims "),
                    StartsWith(wild + ": the name of its parameter 6 is "),
                    MatchesRegex(wild + ": the [a-z]+ of its parameter \".*\" .*")));
  EXPECT_THAT(refusal("bad-default"),
              StartsWith(file("bad-default") + ": its parameter table is not sound: "
                                               "bad-default.streams: its default \"many\" is "
                                               "refused: "));
  EXPECT_EQ(refusal("bad-text"),
            file("bad-text") + ": its vendor is not printable UTF-8: \"\\x1b[31mred\"");
}

TEST_F(Loader, RefusesAnInterfaceOfAnotherDraft) {
  EXPECT_EQ(refusal("other-interface"),
            file("other-interface") +
                " offers the interface weft.net/1-draft.9, this weft speaks weft.net/1-draft.8; "
                "try: rebuild the plugin against this weft's headers, or update weft");
}

TEST_F(Loader, RefusesAPluginOfUnknownInterfacesAlone) {
  EXPECT_THAT(refusal("unknown-interface"),
              StartsWith(file("unknown-interface") +
                         " offers acme.magic/1, none of which this weft knows; try: one of "
                         "weft.transport/1-draft.8, weft.net/1-draft.8, "));
}

TEST_F(Loader, PassesOverAnUnknownInterfaceBesideKnownOnes) {
  folder_.add("extra-interface");
  EXPECT_TRUE(context_.host(folder_)->load("extra-interface"));
}

TEST_F(Loader, GivesTheDynamicLoadersOwnWords) {
  EXPECT_THAT(
      refusal("undefined-symbol"),
      StartsWith(file("undefined-symbol") + " cannot be loaded: " + file("undefined-symbol") +
                 ": undefined symbol: fixture_function_that_nobody_has; try: install what "
                 "it needs: "));
}

TEST_F(Loader, RefusesWhatIsNoLibrary) {
  folder_.write("text", "this is not a library\n");
  EXPECT_EQ(error_text(context_.host(folder_)->load("text")),
            file("text") + ": is not a shared library (no ELF header)");
  folder_.write("empty", "");
  EXPECT_EQ(error_text(context_.host(folder_)->load("empty")),
            file("empty") + ": is not a shared library (no ELF header)");
  const std::string whole = test::read_whole(folder_.add("sample"));
  folder_.write("cut", whole.substr(0, 5000));
  EXPECT_THAT(error_text(context_.host(folder_)->load("cut")),
              StartsWith(file("cut") + ": is no usable shared library: it is cut off (segment "));
  std::filesystem::create_directory(file("folder"));
  std::filesystem::permissions(file("folder"), std::filesystem::perms::owner_all);
  EXPECT_EQ(error_text(context_.host(folder_)->load("folder")),
            file("folder") + ": is not a regular file");
}

TEST_F(Loader, NoticesAFileThatWasReplacedAfterItWasLoaded) {
  std::string content = test::read_whole(folder_.add("sample"));
  ASSERT_TRUE(context_.host(folder_)->load("sample"));
  // The loader goes by name and gives the library that it has; the file now claims another size.
  const std::size_t size = content.find("WEFTPLUG") + 8;
  content[size] = static_cast<char>(content[size] + 8);
  std::filesystem::rename(folder_.write("newer", content), file("sample"));
  EXPECT_EQ(error_text(context_.host(folder_)->load("sample")),
            file("sample") +
                " changed while it was loaded, or was replaced after an earlier "
                "version had been loaded; try: start the process anew");
}

TEST_F(Loader, RefusesAFileThatOthersCanWrite) {
  using std::filesystem::perms;
  const std::string path = folder_.add("sample");
  const std::string user = std::to_string(::geteuid());
  for (const auto& [mode, text] : {std::pair(perms::owner_all | perms::others_write, "0702"),
                                   std::pair(perms::owner_all | perms::group_write, "0720")}) {
    std::filesystem::permissions(path, mode);
    EXPECT_EQ(error_text(context_.host(folder_)->load("sample")),
              "others than root and user " + user + " can write the file " + path + " (mode " +
                  text + "): plugins are not loaded from there; try: chmod go-w " + path);
  }
  std::filesystem::permissions(path, perms::owner_all);
  EXPECT_TRUE(context_.host(folder_)->load("sample"));
}

TEST_F(Loader, RefusesAFolderThatOthersCanWrite) {
  using std::filesystem::perms;
  folder_.add("sample");
  std::filesystem::permissions(folder_.path(), perms::all | perms::sticky_bit);
  EXPECT_EQ(error_text(context_.host(folder_)->load("sample")),
            "others than root and user " + std::to_string(::geteuid()) + " can write the folder " +
                folder_.path() +
                " (mode 1777): plugins are not loaded from there; try: chmod go-w " +
                folder_.path());
}

TEST_F(Loader, LooksAtTheFolderThatALinkLeadsTo) {
  using std::filesystem::perms;
  PluginFolder open;
  std::filesystem::create_symlink(open.add("sample"), file("sample"));
  EXPECT_TRUE(context_.host(folder_)->load("sample"));
  std::filesystem::permissions(open.path(), perms::all);
  EXPECT_THAT(error_text(context_.host(folder_)->load("sample")),
              testing::HasSubstr("can write the folder " + open.path() + " (mode 0777)"));
}

TEST_F(Loader, RefusesAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string path = folder_.add("sample");
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(error_text(context_.host(folder_)->load("sample")),
            "the file " + path +
                " belongs to user 12345, neither root nor the user 0 of this process: plugins are "
                "not loaded from there; try: chown 0 " +
                path);
}

TEST_F(Loader, ReadsTheTablesOfAllThatCouldBeLoaded) {
  folder_.add("sample");
  folder_.add("sample-two");
  folder_.add("other-draft");
  const PluginTables tables = read_plugin_tables({folder_.path()});
  EXPECT_EQ(tables.parameters.size(), 12U);
  ASSERT_EQ(tables.unread.size(), 1U);
  EXPECT_EQ(tables.unread[0].name, "other-draft");
  EXPECT_THAT(
      tables.unread[0].why,
      testing::StartsWith(folder_.path() + "/weft-other-draft.so was built for draft 9 of"));
  EXPECT_EQ(tables.parameters[0].name(), "sample.streams");
  EXPECT_EQ(tables.parameters[0].environment_name(), "WEFT_SAMPLE_STREAMS");
  EXPECT_EQ(tables.parameters[0].minimum, 1);
  EXPECT_EQ(tables.parameters[0].maximum, 64);
  EXPECT_EQ(tables.parameters[6].environment_name(), "WEFT_SAMPLE_TWO_STREAMS");
}

TEST_F(Loader, ErrorsWithoutAReasonSaySo) {
  folder_.add("sample");
  const auto host = context_.host(folder_);
  const auto plugin = host->load("sample");
  ASSERT_TRUE(plugin);
  EXPECT_EQ((*plugin)->error(WEFT_ERROR_NETWORK, "isend").to_string(),
            "plugin sample: isend failed with WEFT_ERROR_NETWORK and gave no reason");
  EXPECT_EQ((*plugin)->error(WEFT_IN_PROGRESS, "isend").to_string(),
            "plugin sample: isend answered WEFT_IN_PROGRESS, which it must not; try: update the "
            "plugin");
}

}  // namespace
}  // namespace weft
