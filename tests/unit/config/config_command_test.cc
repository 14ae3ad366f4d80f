// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft config` through the same entry that the program uses.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/config/support.h"
#include "tools/weft/commands.h"
#include "tools/weft/plugin_parameters.h"

namespace weft::tool {

/// Stands for the search of plugins: two are always there, and a third that cannot be read.
PluginTables discovered_plugin_tables(const ConfigSource& /*source*/) {
  return {.parameters = plugin_table(),
          .unread = {{.name = "net-ib", .why = "/p/weft-net-ib.so is empty; try: build it"}}};
}

namespace {

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

class ConfigCommand : public testing::Test {
 protected:
  void SetUp() override {
    // What the tester's own shell sets must not count.
    std::vector<std::string> names = {"HOME", "XDG_CONFIG_HOME"};
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text(*entry);
      if (text.starts_with("WEFT_")) names.push_back(text.substr(0, text.find('=')));
    }
    for (const std::string& name : names) {
      const char* const value = getenv(name.c_str());
      if (value != nullptr) saved_[name] = value;
      unsetenv(name.c_str());
    }
  }
  void TearDown() override {
    for (const std::string& name : set_)
      unsetenv(name.c_str());
    for (const auto& [name, value] : saved_)
      setenv(name.c_str(), value.c_str(), 1);
  }

  void set(const std::string& name, const std::string& value) {
    set_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
  }

  static Outcome run(const std::string& line) {
    CLI::App app;
    Outcome outcome;
    add_config_command(app, outcome.status);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      app.parse(line);
    } catch (const CLI::ParseError& error) {
      outcome.status = app.exit(error);
    }
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> saved_;
  std::vector<std::string> set_;
};

TEST_F(ConfigCommand, Show) {
  const std::string file = folder_.write("weft.yaml", "version: 1\nchannels: {max: 4}\n");
  set("WEFT_CONFIG", file);
  set("WEFT_LOG_LEVEL", "info");
  const Outcome shown = run("config show");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out.find("# file: " + file + "\n"), 0U) << shown.out;
  EXPECT_NE(
      shown.out.find(
          "\nchannels.max                          4                                         " +
          file + ":2:17\n"),
      std::string::npos)
      << shown.out;
  EXPECT_NE(shown.out.find(
                "\nlog.level                             info                                      "
                "WEFT_LOG_LEVEL\n"),
            std::string::npos)
      << shown.out;
  EXPECT_NE(shown.out.find(
                "\nlog.format                            text                                      "
                "default\n"),
            std::string::npos)
      << shown.out;
}

TEST_F(ConfigCommand, ShowJson) {
  set("WEFT_CONFIG", folder_.write("weft.yaml",
                                   "version: 1\nchannels: {max: 4}\n"
                                   "transports: {rules: [{between: same-host, use: [shm]}]}\n"));
  const Outcome shown = run("config show --json");
  EXPECT_EQ(shown.status, 0) << shown.err;
  const auto json = nlohmann::json::parse(shown.out);
  EXPECT_EQ(json["file"], folder_ / "weft.yaml");
  std::map<std::string, nlohmann::json> parameters;
  for (const auto& parameter : json["parameters"])
    parameters[parameter["key"]] = parameter;
  EXPECT_EQ(parameters["channels.max"]["value"], 4);
  EXPECT_EQ(parameters["channels.max"]["origin"], (folder_ / "weft.yaml") + ":2:17");
  EXPECT_EQ(parameters["buffers.step"]["value"], 131072);
  EXPECT_EQ(parameters["buffers.step"]["text"], "128KiB");
  EXPECT_EQ(parameters["transports.order"]["value"], nlohmann::json({"p2p", "shm", "net"}));
  EXPECT_EQ(parameters["transports.rules"]["value"][0]["between"], "same-host");
}

TEST_F(ConfigCommand, ShowComplains) {
  set("WEFT_LOG_LVL", "info");
  const Outcome shown = run("config show");
  EXPECT_EQ(shown.status, 1);
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(shown.err,
            "unknown environment variable \"WEFT_LOG_LVL\"; did you mean \"WEFT_LOG_LEVEL\"?\n");
}

TEST_F(ConfigCommand, Explain) {
  const std::string file = folder_.write("weft.yaml", "version: 1\ntimeouts:\n  operation: 5s\n");
  set("WEFT_CONFIG", file);
  set("WEFT_TIMEOUTS_OPERATION", "90s");
  const std::string expected =
      "timeouts.operation\n"
      "  How long one operation may take before it fails.\n"
      "  type      duration\n"
      "  value     duration, between 1ms and 168h, or off\n"
      "  default   off\n"
      "  variable  WEFT_TIMEOUTS_OPERATION\n"
      "  agreed    no\n"
      "  counts    for a context or a communicator\n"
      "  now       90s\n"
      "set by, the last one counts:\n"
      "  default: off\n"
      "  " +
      file +
      ":3:14: 5s\n"
      "  WEFT_TIMEOUTS_OPERATION: 90s\n";
  EXPECT_EQ(run("config explain timeouts.operation").out, expected);
  EXPECT_EQ(run("config explain WEFT_TIMEOUTS_OPERATION").out, expected);
  const Outcome unknown = run("config explain timeouts.operations");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.err,
            "unknown key \"timeouts.operations\"; did you mean \"timeouts.operation\"?\n");
  EXPECT_EQ(run("config explain zzzzzzzzzz").err,
            "unknown key \"zzzzzzzzzz\"; weft config show lists all\n");
}

TEST_F(ConfigCommand, Check) {
  // The environment is no fault of the file.
  set("WEFT_NO_SUCH_THING", "1");
  const std::string good = folder_.write("good.yaml", "version: 1\nchannels: {max: 4}\n");
  const Outcome fine = run("config check " + good);
  EXPECT_EQ(fine.status, 0);
  EXPECT_EQ(fine.out, good + ": ok\n");
  const std::string wrong =
      folder_.write("wrong.yaml", "version: 1\ntransports: {ordr: [shm]}\nlog: {level: 3}\n");
  const Outcome bad = run("config check " + wrong);
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.err, wrong + ":2:14: unknown key \"ordr\"; did you mean \"order\"?\n" + wrong +
                         ":3:14: log.level: unknown choice \"3\"; use trace, debug, info, warn or "
                         "error\n");
  const Outcome missing = run("config check " + (folder_ / "none"));
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err,
            (folder_ / "none") + ": no such file; try: correct the name, or put the file there\n");
}

TEST_F(ConfigCommand, SaysWhyThePluginOfASectionIsUnread) {
  const std::string file =
      folder_.write("weft.yaml", "version: 1\nchannels: {max: 4}\nnet-ib: {speed: 3}\n");
  const std::string why = file +
                          ":3:1: section \"net-ib\" cannot be checked: /p/weft-net-ib.so is empty; "
                          "try: build it\n";
  const Outcome checked = run("config check " + file);
  EXPECT_EQ(checked.status, 1);
  EXPECT_EQ(checked.out, "");
  EXPECT_EQ(checked.err, why);
  set("WEFT_CONFIG", file);
  // Programs start with it, and this is what they get.
  const Outcome shown = run("config show");
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out.find("# file: " + file + "\n# " + why), 0U) << shown.out;
  const Outcome explained = run("config explain net-ib.speed");
  EXPECT_EQ(explained.status, 1);
  EXPECT_EQ(explained.err,
            "\"net-ib.speed\" cannot be explained: /p/weft-net-ib.so is empty; try: build it\n");
  EXPECT_EQ(run("config explain WEFT_NET_IB_SPEED").err,
            "\"WEFT_NET_IB_SPEED\" cannot be explained: /p/weft-net-ib.so is empty; try: build "
            "it\n");
}

TEST_F(ConfigCommand, Schema) {
  const auto schema = nlohmann::json::parse(run("config schema").out);
  EXPECT_TRUE(schema["properties"].contains("transports"));
  EXPECT_TRUE(schema["properties"].contains("net-socket"));
  const std::string core = run("config schema --markdown --core").out;
  EXPECT_EQ(core.find("# Configuration reference\n"), 0U);
  EXPECT_EQ(core.find("## net-socket"), std::string::npos);
  EXPECT_NE(run("config schema --markdown").out.find("## net-socket"), std::string::npos);
  // Whoever has a broken file needs the schema most.
  set("WEFT_CONFIG", folder_ / "none");
  EXPECT_EQ(run("config schema").status, 0);
}

TEST_F(ConfigCommand, NeedsASubcommand) {
  EXPECT_NE(run("config").status, 0);
}

}  // namespace
}  // namespace weft::tool
