// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Wrong settings and wrong plugins: the whole message, on every rank, at once, and nothing left.

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/job.h"
#include "tests/integration/bad_days/plugin_folder.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// That a job failed with status 1, that every rank wrote `parts`, and that nothing of it lives.
void expect_all_say(const Command& command, int ranks, const std::vector<std::string>& parts) {
  const Ended outcome = run_to_end(command);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
  EXPECT_EQ(outcome.left, "");
  EXPECT_EQ(outcome.out, "");
  // Each rank finds it itself: none answers it as the failure of another.
  EXPECT_EQ(outcome.err.find(" failed ("), std::string::npos) << outcome.describe();
  for (const auto& part : parts) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string prefix = "[" + std::to_string(rank) + "] ";
      std::string lines;
      for (auto at = outcome.err.find(prefix); at != std::string::npos;
           at = outcome.err.find(prefix, at + 1)) {
        if (at != 0 && outcome.err[at - 1] != '\n') continue;
        const auto from = at + prefix.size();
        lines += outcome.err.substr(from, outcome.err.find('\n', from) - from) + "\n";
      }
      EXPECT_NE(lines.find(part), std::string::npos)
          << "rank " << rank << " does not say: " << part << "\n"
          << outcome.describe();
    }
  }
}

struct BadFile {
  const char* name;
  const char* text;
  const char* message;  // after "FILE:"
};

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreNamedByLineAndColumn) {
  const ScratchFolder folder;
  const std::string file = folder.write("weft.yaml", GetParam().text);
  const std::string message = file + ":" + GetParam().message;

  const Outcome checked = run(weft({"config", "check", file}));
  EXPECT_EQ(checked.exit_status, 1) << checked.describe();
  EXPECT_EQ(checked.err, message + "\n");

  expect_all_say(bench(2, {"all_reduce", "--max", "8"}, {{"WEFT_CONFIG", file}}), 2,
                 {"weft bench: cannot start weft: ", message});
}

INSTANTIATE_TEST_SUITE_P(
    Settings, BadFiles,
    testing::Values(
        BadFile{"MisspeltKey", "version: 1\ntransports: {ordr: [shm]}\n",
                "2:14: unknown key \"ordr\"; did you mean \"order\"?"},
        BadFile{"MisspeltSection", "version: 1\nbufers: {step: 64KiB}\n",
                "2:1: unknown section \"bufers\"; did you mean \"buffers\"?"},
        BadFile{"DuplicateKey", "version: 1\nlog: {level: warn}\nlog: {level: info}\n",
                "3:1: duplicate key \"log\"; the first is on line 2"},
        BadFile{"MistypedValue", "version: 1\nchannels: {max: many}\n",
                "2:17: channels.max: \"many\" is no whole number"},
        BadFile{"UnknownUnit", "version: 1\nbuffers: {step: 4 furlongs}\n",
                "2:17: buffers.step: \"4 furlongs\" has the unknown unit \"furlongs\"; use B, KiB, "
                "MiB or GiB"},
        BadFile{"MissingUnit", "version: 1\ntimeouts: {bootstrap: 60}\n",
                "2:23: timeouts.bootstrap: \"60\" has no unit; use ns, us, ms, s, min or h"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Settings, UnknownVariableIsNamed) {
  expect_all_say(bench(2, {"all_reduce", "--max", "8"}, {{"WEFT_LOG_LEVL", "info"}}), 2,
                 {"weft bench: cannot start weft: unknown environment variable \"WEFT_LOG_LEVL\"; "
                  "did you mean \"WEFT_LOG_LEVEL\"?"});
}

TEST(Settings, RanksThatDifferTellBothValues) {
  Command command = weft({"run", "-n", "3", "--", "/bin/sh", "-c",
                          ("[ $WEFT_RANK = 2 ] && export WEFT_BUFFERS_STEP=64KiB; exec "
                           "\"$0\" bench all_reduce --max 8"),
                          WEFT_COMMAND});
  expect_all_say(
      command, 3,
      {"ranks are configured differently, with rank 0 as here and rank 2 as there: "
       "buffers.step is \"128KiB by default\" here and \"64KiB\" there; try: give every rank the "
       "same configuration file and WEFT_ variables"});
}

// Lists that are named are strict, defaults are not, and no rank may find an error that others do
// not.
TEST(Settings, OneRankMayNameTheDefaultList) {
  const Command command =
      weft({"run", "-n", "2", "--", "/bin/sh", "-c",
            ("[ $WEFT_RANK = 1 ] && export WEFT_TRANSPORTS_NET=net-ib,net-ofi,net-socket; exec "
             "\"$0\" bench all_reduce --max 8"),
            WEFT_COMMAND});
  const Ended outcome = run_to_end(command);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_EQ(outcome.left, "");
}

TEST(Settings, InterfacesThatMatchNothingListWhatThereIs) {
  expect_all_say(bench(2, {"all_reduce", "--max", "8"},
                       {{"WEFT_TRANSPORTS_ORDER", "net"},
                        {"WEFT_TRANSPORTS_NET", "net-socket"},
                        {"WEFT_NET_SOCKET_INTERFACES", "nosuch0"}}),
                 2,
                 {"transports.net (WEFT_TRANSPORTS_NET) names plugin \"net-socket\", which rank ",
                  "net-socket.interfaces [nosuch0] matches no interface that is up; there are: ",
                  "lo (127.0.0.1", "correct net-socket.interfaces, or leave it out"});
  expect_all_say(bench(2, {"all_reduce", "--max", "8"},
                       {{"WEFT_TRANSPORTS_ORDER", "net"},
                        {"WEFT_TRANSPORTS_NET", "net-socket"},
                        {"WEFT_NET_SOCKET_INTERFACES", "^lo,^e,^w,^d,^v,^b"}}),
                 2, {"matches no interface that is up"});
}

TEST(Settings, RuleThatNothingSatisfiesListsItsCandidates) {
  const ScratchFolder folder;
  const std::string file = folder.write(
      "weft.yaml", "version: 1\ntransports:\n  rules:\n    - {between: same-host, use: [p2p]}\n");
  const Command command = bench(3, {"all_reduce", "--max", "8"}, {{"WEFT_CONFIG", file}});
  expect_all_say(command, 3,
                 {"cannot be joined: rule {between: same-host, use: [p2p]} (" + file +
                  ":4:7) allows none that can:"});
  const Outcome outcome = run(command);
  for (const char* part : {"  p2p: rank 0 says: other process; try: add a plugin that can to the "
                           "rule's list, or remove the rule"}) {
    EXPECT_EQ(count_of(outcome.err, part), 3) << outcome.describe();
  }
}

TEST(Settings, MorePluginsThanPossibleNameTheBound) {
  std::string order = "shm";
  for (int i = 1; i <= 64; ++i)
    order += ",net-" + std::to_string(i);
  expect_all_say(bench(2, {"all_reduce", "--max", "8"}, {{"WEFT_TRANSPORTS_ORDER", order}}), 2,
                 {"transports.order (WEFT_TRANSPORTS_ORDER), transports.net (default) and "
                  "transports.rules name 65 plugins, more than the 64 that are possible"});
}

class Plugins : public testing::Test {
 protected:
  [[nodiscard]] std::string file_of(const std::string& id) const { return folder_.file_of(id); }
  [[nodiscard]] Command job(const std::string& order) const {
    // The folder has no tuner, of which a warning would tell.
    Environment environment{{"WEFT_PLUGINS_PATH", folder_.path()}, {"WEFT_TUNER_PLUGIN", "none"}};
    if (!order.empty()) environment["WEFT_TRANSPORTS_ORDER"] = order;
    return bench(2, {"all_reduce", "--max", "8"}, environment);
  }
  void expect_refused(const std::string& id, const std::string& why) {
    folder_.add_bad(id, id);
    expect_all_say(
        job(id + ",shm"), 2,
        {"transports.order (WEFT_TRANSPORTS_ORDER) names plugin \"" + id + "\", which rank ", why,
         "make the plugin usable there, or take it out of the list"});
  }

  PluginFolder folder_;
};

TEST_F(Plugins, MissingOneIsLookedForInAllFolders) {
  const ScratchFolder second;
  Command command = job("shm,warpdrive");
  command.environment["WEFT_PLUGINS_PATH"] = folder_.path() + "," + second.path();
  expect_all_say(
      command, 2,
      {"transports.order (WEFT_TRANSPORTS_ORDER) names plugin \"warpdrive\", which rank ",
       "there is no plugin warpdrive: no weft-warpdrive.so in " + folder_.path() + ", " +
           second.path() + "; try: one of net-socket, p2p, shm"});
}

TEST_F(Plugins, OtherDraftIsNamedWithBothDrafts) {
  expect_refused("other-draft", file_of("other-draft") +
                                    " was built for draft 9 of the plugin ABI, this weft speaks "
                                    "draft ");
}

TEST_F(Plugins, OneThatExportsNothingIsNoPlugin) {
  expect_refused("no-entry", file_of("no-entry") +
                                 ": it exports no symbol weft_plugin_entry, so it is no weft "
                                 "plugin; try: define it with WEFT_PLUGIN_EXPORT");
}

TEST_F(Plugins, FailureInInitIsPassedOn) {
  expect_refused("init-fails",
                 "plugin init-fails: cannot open /dev/nothing (errno 2, No such file "
                 "or directory); try: load the driver");
}

TEST_F(Plugins, ExceptionInInitIsAnError) {
  expect_refused("init-throws", "plugin init-throws: init threw an exception: no license found");
}

TEST_F(Plugins, FileThatOthersCanWriteIsRefused) {
  folder_.add_bad("sample", "sample");
  fs::permissions(file_of("sample"), fs::perms(0777));
  expect_all_say(job("sample,shm"), 2,
                 {"can write the file " + file_of("sample"), "try: chmod go-w "});
}

// Of the built-in default, what cannot be used is passed over, and a line at info says so.
TEST_F(Plugins, OnesThatStandOnlyInTheDefaultArePassedOver) {
  folder_.add_bad("wrong-id", "net-ib");
  Command command = job("");
  command.environment["WEFT_LOG_LEVEL"] = "info";
  Process process(command);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_EQ(count_of(outcome.err,
                     "WEFT info transport: plugin net-ib is passed over: " + file_of("net-ib")),
            2)
      << outcome.describe();
  EXPECT_EQ(count_of(outcome.err,
                     "WEFT info transport: plugin net-ofi is passed over: there is no plugin "
                     "net-ofi: no weft-net-ofi.so in " +
                         folder_.path()),
            2)
      << outcome.describe();
  EXPECT_TRUE(process.wait_for_relatives().empty());
  // And without that level nothing is said.
  const Outcome quiet = run(job(""));
  EXPECT_EQ(quiet.exit_status, 0) << quiet.describe();
  EXPECT_EQ(quiet.err, "");
}

// Who waits for ranks to join can ask for what.
TEST_F(Plugins, EachRankTellsWhatItsJoiningTook) {
  Command command = job("shm");
  command.environment["WEFT_LOG_TOPICS_INIT"] = "info";
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  const std::string number = "[0-9]+\\.[0-9]";
  for (const char* const rank : {"0", "1"}) {
    const std::regex line("WEFT info init: rank " + std::string(rank) + " of 2 joined in " +
                          number + " ms: to meet " + number + ", topology " + number +
                          ", transports " + number + ", paths " + number + ", pairs " + number +
                          ", tuner " + number + "\n");
    EXPECT_TRUE(std::regex_search(outcome.err, line)) << outcome.describe();
  }
}

}  // namespace
}  // namespace weft::test
