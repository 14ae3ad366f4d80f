// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/source.h"

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/config/support.h"

namespace weft {
namespace {

std::string file_of(const Result<ConfigSource>& source) {
  return source ? source->file() : source.error().to_string();
}

class Source : public testing::Test {
 protected:
  [[nodiscard]] Environment environment(std::map<std::string, std::string> variables) const {
    return {.variables = std::move(variables),
            .raised_privileges = false,
            .system_folder = folder_ / "etc"};
  }
  TemporaryFolder folder_;
};

TEST_F(Source, FirstFileFoundCounts) {
  const std::map<std::string, std::string> all = {{"WEFT_CONFIG", folder_ / "own.yaml"},
                                                  {"XDG_CONFIG_HOME", folder_ / "xdg"},
                                                  {"HOME", folder_ / "home"}};
  std::map<std::string, std::string> without_config = all;
  without_config.erase("WEFT_CONFIG");
  std::map<std::string, std::string> home_alone = without_config;
  home_alone.erase("XDG_CONFIG_HOME");

  EXPECT_EQ(file_of(ConfigSource::read(environment(without_config))), "");
  const std::string etc = folder_.write("etc/weft.yaml", "version: 1\n");
  EXPECT_EQ(file_of(ConfigSource::read(environment(without_config))), etc);
  const std::string home = folder_.write("home/.config/weft/weft.yaml", "version: 1\n");
  EXPECT_EQ(file_of(ConfigSource::read(environment(home_alone))), home);
  EXPECT_EQ(file_of(ConfigSource::read(environment(without_config))), etc)
      << "XDG_CONFIG_HOME stands for ~/.config, it is not added to it";
  const std::string xdg = folder_.write("xdg/weft/weft.yaml", "version: 1\n");
  EXPECT_EQ(file_of(ConfigSource::read(environment(without_config))), xdg);
  EXPECT_EQ(file_of(ConfigSource::read(environment(all))),
            "WEFT_CONFIG: " + (folder_ / "own.yaml") +
                ": no such file; try: correct the name, or put the file there");
  const std::string own = folder_.write("own.yaml", "version: 1\n");
  EXPECT_EQ(file_of(ConfigSource::read(environment(all))), own);
}

TEST_F(Source, WorkingDirectoryIsNeverSearched) {
  // A relative folder would be taken from there.
  for (const char* file : {"weft.yaml", "weft/weft.yaml", ".config/weft/weft.yaml",
                           "relative/weft/weft.yaml", "relative/.config/weft/weft.yaml"})
    folder_.write(file, "version: 1\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / ".");
  for (const std::string folder : {"", ".", "relative"}) {
    EXPECT_EQ(
        file_of(ConfigSource::read(environment({{"XDG_CONFIG_HOME", folder}, {"HOME", folder}}))),
        "");
  }
  std::filesystem::current_path(before);
}

TEST_F(Source, RaisedPrivilegesIgnoreTheUser) {
  folder_.write("own.yaml", "version: 1\n");
  folder_.write("home/.config/weft/weft.yaml", "version: 1\n");
  const std::string etc = folder_.write("etc/weft.yaml", "version: 1\n");
  Environment raised =
      environment({{"WEFT_CONFIG", folder_ / "own.yaml"}, {"HOME", folder_ / "home"}});
  raised.raised_privileges = true;
  const auto source = ConfigSource::read(raised);
  EXPECT_EQ(file_of(source), etc);
  EXPECT_EQ(source->notices(),
            (std::vector<std::string>{
                "WEFT_CONFIG is ignored: the process runs with raised privileges"}));
}

TEST_F(Source, RefusesWhatIsNoFile) {
  EXPECT_EQ(file_of(ConfigSource::read_file(folder_ / "", bare_environment())),
            (folder_ / "") + ": not a regular file; try: name a file, not a folder or device");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(file_of(ConfigSource::read_file(pipe, bare_environment())),
            pipe + ": not a regular file; try: name a file, not a folder or device");
  EXPECT_EQ(file_of(ConfigSource::read_file(folder_ / "none", bare_environment())),
            (folder_ / "none") + ": no such file; try: correct the name, or put the file there");
  const std::string large = folder_.write("large.yaml", std::string((1 << 20) + 1, '#'));
  EXPECT_EQ(file_of(ConfigSource::read_file(large, bare_environment())),
            large + ":1:1: larger than 1 MiB");
}

TEST_F(Source, NamesAFileThatCannotBeRead) {
  // Not by permissions: root reads everything.
  const std::string file = folder_ / "own.yaml";
  ASSERT_EQ(symlink(file.c_str(), file.c_str()), 0);
  EXPECT_EQ(file_of(ConfigSource::read_file(file, bare_environment())),
            file +
                ": cannot open the configuration (errno 40, Too many levels of symbolic links); "
                "try: correct the file, or set WEFT_CONFIG to another file");
}

TEST(Structure, VersionIsNeeded) {
  EXPECT_EQ(refusal(""), "f.yaml:1:1: the file has no version; begin it with \"version: 1\"");
  EXPECT_EQ(refusal("log: {level: info}\n"),
            "f.yaml:1:1: the file has no version; begin it with \"version: 1\"");
  EXPECT_EQ(refusal("version: 2\n"),
            "f.yaml:1:10: version \"2\" is not known to this Weft, which reads version 1");
  EXPECT_EQ(refusal("version: \"1\"\n"),
            "f.yaml:1:10: version \"1\" is not known to this Weft, which reads version 1");
  EXPECT_EQ(refusal("version: []\n"),
            "f.yaml:1:10: version a list is not known to this Weft, which reads version 1");
  EXPECT_EQ(refusal("- version: 1\n"), "f.yaml:1:1: the file holds no map of sections");
  EXPECT_EQ(refusal("version: 1\n"), "accepted");
}

TEST(CaptureEnvironment, TakesWhatConcernsWeft) {
  ASSERT_EQ(setenv("WEFT_RANK", "7", 1), 0);
  ASSERT_EQ(setenv("NOT_WEFT", "7", 1), 0);
  const Environment environment = capture_environment();
  EXPECT_EQ(environment.get("WEFT_RANK"), "7");
  EXPECT_EQ(environment.get("NOT_WEFT"), "");
  EXPECT_FALSE(environment.raised_privileges);
  EXPECT_EQ(environment.system_folder, "/etc/weft");
  unsetenv("WEFT_RANK");
  unsetenv("NOT_WEFT");
}

}  // namespace
}  // namespace weft
