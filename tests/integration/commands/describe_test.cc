// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft info`, `topo`, `plugin` and `config`: their exit statuses and the lines that people and
// scripts look for.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/integration/commands/commands.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::string after(const std::string& text, const std::string& beginning) {
  const std::vector<std::string> found = lines_with(text, beginning);
  return found.size() == 1 ? found[0].substr(beginning.size()) : "";
}

TEST(Info, TellsVersionConfigurationAndHost) {
  const ScratchFolder folder;
  const std::string file = folder.write("weft.yaml", "version: 1\n");
  const Outcome outcome = weft({"info"}, {{"WEFT_CONFIG", file}, {"WEFT_HOST_ID", "mine"}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_EQ(after(outcome.out, "weft         "), WEFT_VERSION_TEXT);
  EXPECT_EQ(after(outcome.out, "config file  "), file);
  EXPECT_EQ(after(outcome.out, "host id      "), "mine (from WEFT_HOST_ID)");
  EXPECT_THAT(lines_with(outcome.out, "plugins in   "), SizeIs(4)) << "those of the build tree";
  EXPECT_THAT(lines_with(outcome.out, "processors   "), SizeIs(1));
  EXPECT_EQ(weft({"--version"}).out, std::string(WEFT_VERSION_TEXT) + "\n");
}

TEST(Info, SaysWhatItCanThoughTheConfigurationIsBroken) {
  const ScratchFolder folder;
  const std::string file = folder.write("weft.yaml", "version: 1\nlog: {level: loud}\n");
  const Outcome outcome = weft({"info"}, {{"WEFT_CONFIG", file}});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(lines_with(outcome.out, "host         "), SizeIs(1));
  EXPECT_THAT(outcome.err, HasSubstr(file + ":2:14: "));
}

TEST(Topo, ShowsThisHost) {
  const Outcome text = weft({"topo", "-n", "3"}, {{"WEFT_HOST_ID", "mine"}});
  EXPECT_EQ(text.exit_status, 0) << text.describe();
  EXPECT_THAT(lines_with(text.out, "host "), ElementsAre(HasSubstr(" (mine): ")));
  EXPECT_THAT(lines_with(text.out, "  rank "), SizeIs(3));
  EXPECT_THAT(lines_with(text.out, "  every channel: "), ElementsAre(EndsWith("0 -> 1 -> 2")));
  EXPECT_EQ(weft({"topo", "--text", "-n", "3"}, {{"WEFT_HOST_ID", "mine"}}).out, text.out);
  const Outcome yaml = weft({"topo", "--yaml"}, {{"WEFT_HOST_ID", "mine"}});
  EXPECT_EQ(yaml.exit_status, 0);
  EXPECT_THAT(yaml.out, AllOf(StartsWith("hosts:\n"), HasSubstr("host_id: \"mine\"")));
  const Variables in_fabric = {{"WEFT_FABRIC_ID", "rack-7"}};
  EXPECT_THAT(lines_with(weft({"topo"}, in_fabric).out, "  rank "),
              ElementsAre(HasSubstr(", memory fabric rack-7, ")));
  EXPECT_THAT(weft({"topo", "--yaml"}, in_fabric).out, HasSubstr("memory_fabric: \"rack-7\""));
  EXPECT_THAT(weft({"info"}, in_fabric).out,
              HasSubstr("fabric id    rack-7 (from WEFT_FABRIC_ID)"));
  const Outcome dot = weft({"topo", "--dot"});
  EXPECT_EQ(dot.exit_status, 0);
  EXPECT_THAT(dot.out, StartsWith("digraph "));
  EXPECT_NE(weft({"topo", "--dot", "--yaml"}).exit_status, 0);
  EXPECT_NE(weft({"topo", "--hosts", "2"}).exit_status, 0) << "hosts of this kind, of a file only";
}

TEST(Topo, ShowsTheHostsOfAJobOnce) {
  const Outcome outcome = weft_in_job(3, {"topo"}, {{"WEFT_HOST_ID", "mine"}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_with(outcome.out, "host "), ElementsAre(HasSubstr(" (mine): ")));
  EXPECT_THAT(lines_with(outcome.out, "  rank "), SizeIs(3));
  EXPECT_EQ(outcome.err, "");
}

TEST(Topo, ShowsWhatOneFabricJoinsAndRulesKnowIt) {
  const ScratchFolder folder;
  const std::string config = folder.write("weft.yaml",
                                          "version: 1\ntransports:\n  rules:\n"
                                          "    - {between: same-fabric, use: [net-socket]}\n"
                                          "    - {between: any, use: [shm]}\n");
  const auto on_two_hosts = [&](const std::string& fabrics, const std::string& command) {
    return run(job_of(2,
                      "export WEFT_HOST_ID=host-$WEFT_RANK WEFT_FABRIC_ID=" + fabrics + "; exec " +
                          WEFT_COMMAND + " " + command,
                      {{"WEFT_CONFIG", config}}));
  };
  EXPECT_THAT(lines_with(on_two_hosts("rack-$WEFT_RANK", "topo").out, "[0]   rank "),
              ElementsAre(HasSubstr(", memory fabric rack-0, "), HasSubstr("fabric rack-1, ")));
  const Outcome joined = on_two_hosts("rack-7", "bench all_reduce --max 8 --iters 1");
  EXPECT_EQ(joined.exit_status, 0) << joined.describe();
  EXPECT_THAT(joined.out, HasSubstr("of rule {between: same-fabric, use: [net-socket]}"));
  const Outcome apart = on_two_hosts("rack-$WEFT_RANK", "bench all_reduce --max 8 --iters 1");
  EXPECT_NE(apart.exit_status, 0);
  EXPECT_THAT(apart.err, HasSubstr("rule {between: any, use: [shm]}"));
}

TEST(Topo, ShowsAMachineOfAFile) {
  const std::string file = std::string(TOPOLOGY_FIXTURES) + "/hgx.xml";
  const Outcome text = weft({"topo", "--import", file, "-n", "8", "--hosts", "2"});
  EXPECT_EQ(text.exit_status, 0) << text.describe();
  EXPECT_THAT(lines_with(text.out, "host hgx ("), SizeIs(2));
  EXPECT_THAT(lines_with(text.out, "        GPU "), SizeIs(16));
  EXPECT_THAT(lines_with(text.out, "        NIC 0000:1a:00.0 rail0, 400 Gbit/s, up"), SizeIs(2));
  EXPECT_THAT(lines_with(text.out, "  channel "), SizeIs(4));
  const Outcome yaml = weft({"topo", "--import", file, "--yaml"});
  EXPECT_THAT(yaml.out, HasSubstr("- switch: \"0000:16:00.0\""));
  const Outcome dot = weft({"topo", "--import", file, "--dot", "-n", "8", "--hosts", "2"});
  EXPECT_THAT(dot.out, AllOf(HasSubstr("gpu\\n0000:18:00.0"), HasSubstr("rank0 -> rank9 [")));
}

TEST(Topo, ExportsAndImportsThisMachine) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/machine.xml";
  const Outcome written = weft({"topo", "--export", file});
  EXPECT_EQ(written.exit_status, 0) << written.describe();
  EXPECT_EQ(written.out, "");
  const Outcome read = weft({"topo", "--import", file});
  EXPECT_EQ(read.exit_status, 0) << read.describe();
  const std::vector<std::string> here = lines_of(weft({"topo"}).out);
  ASSERT_GE(here.size(), 2U);
  EXPECT_THAT(lines_of(read.out), Contains(here[1])) << "its first NUMA node";
  EXPECT_EQ(weft({"topo", "--export", folder.path() + "/no/machine.xml"}).exit_status, 1);
}

TEST(Topo, NamesAFileThatIsNoMachine) {
  const ScratchFolder folder;
  const std::string file = folder.write("machine.xml", "<topology>\n<object>\n</topology>\n");
  const Outcome broken = weft({"topo", "--import", file});
  EXPECT_EQ(broken.exit_status, 1);
  EXPECT_THAT(broken.err, AllOf(HasSubstr(file + ": line 3: "), HasSubstr("--export or lstopo")));
  const Outcome missing = weft({"topo", "--import", folder.path() + "/none.xml"});
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("/none.xml: "), HasSubstr("No such file")));
}

TEST(Explain, TakesNoDeviceThatItDoesNotKnow) {
  for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:1234"}) {
    const Outcome outcome = weft({"explain", "all_to_all", "1MiB", "--device", device});
    EXPECT_NE(outcome.exit_status, 0) << device;
    EXPECT_THAT(outcome.err, HasSubstr("\"" + std::string(device) +
                                       "\" is no device; there are host, cuda and cuda:N"));
  }
}

TEST(Plugin, ListsThoseOfTheBuildTree) {
  const Outcome outcome = weft({"plugin", "list"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  for (const char* id : {"net-socket ", "p2p ", "shm ", "tuner "})
    EXPECT_THAT(lines_with(outcome.out, id), Contains(EndsWith(".so"))) << outcome.out;
  EXPECT_EQ(lines_of(outcome.out).size(), 5U);
}

TEST(Plugin, SaysThatThereAreNone) {
  const ScratchFolder folder;
  const Outcome outcome = weft({"plugin", "list"}, {{"WEFT_PLUGINS_PATH", folder.path()}});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.err, "there are no plugins in " + folder.path() +
                             "; try: set plugins.path to the folder that holds them\n");
}

// Jobs do not load from there.
TEST(Plugin, SaysThatARelativeFolderIsOfNoUse) {
  const Outcome outcome = run({.arguments = {"sh", "-c",
                                             "cd \"$(dirname \"$1\")/..\" && "
                                             "WEFT_PLUGINS_PATH=shm exec \"$0\" plugin list",
                                             WEFT_COMMAND, SHM_PLUGIN},
                               .environment = {},
                               .input = {}});
  EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
  EXPECT_THAT(
      lines_with(outcome.out, "shm "),
      ElementsAre(HasSubstr("unusable: the plugin folder \"shm\" is not an absolute path")));
}

TEST(Plugin, InspectsAFile) {
  const Outcome outcome = weft({"plugin", "inspect", SHM_PLUGIN});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_EQ(after(outcome.out, "id           "), "shm");
  EXPECT_THAT(after(outcome.out, "interfaces   "), StartsWith("weft.transport/1-draft."));
  const ScratchFolder folder;
  const Outcome text = weft({"plugin", "inspect", folder.write("weft-text.so", "no ELF")});
  EXPECT_EQ(text.exit_status, 1);
  EXPECT_THAT(text.err, HasSubstr("weft-text.so"));
  const Outcome missing = weft({"plugin", "inspect", folder.path() + "/weft-none.so"});
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_THAT(missing.err, HasSubstr("weft-none.so"));
}

// A mistake in Weft's own part is no reason to disown what belongs to plugins.
TEST(Config, KnowsPluginsThoughTheCoreIsWrong) {
  const ScratchFolder folder;
  const std::string file = folder.write(
      "weft.yaml", "version: 1\ntransports: {ordr: [shm]}\nnet-socket: {streams: 99}\n");
  const Outcome checked = weft({"config", "check", file});
  EXPECT_EQ(checked.exit_status, 1);
  EXPECT_THAT(lines_of(checked.err),
              ElementsAre(HasSubstr(":2:14: unknown key \"ordr\""),
                          HasSubstr(":3:23: net-socket.streams: 99 is out of range")));
  const Variables variables = {{"WEFT_LOG_LEVEL", "loud"}, {"WEFT_NET_SOCKET_STREAMS", "2"}};
  EXPECT_THAT(lines_of(weft({"config", "show"}, variables).err),
              ElementsAre(HasSubstr("WEFT_LOG_LEVEL: ")));
  EXPECT_THAT(weft({"config", "schema"}, variables).out, HasSubstr("\"net-socket\""));
}

TEST(Config, ShowsValuesAndTheirOrigins) {
  const ScratchFolder folder;
  const std::string file =
      folder.write("weft.yaml", "version: 1\nchannels: {max: 3}\ntimeouts: {report: 5s}\n");
  const Variables variables = {{"WEFT_CONFIG", file}, {"WEFT_TIMEOUTS_REPORT", "7s"}};
  const Outcome outcome = weft({"config", "show", "--json"}, variables);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  const nlohmann::json shown = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(shown.at("file"), file);
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const nlohmann::json& one : shown.at("parameters"))
    values[one.at("key")] = {one.at("text"), one.at("origin")};
  EXPECT_EQ(values["channels.max"], (std::pair<std::string, std::string>("3", file + ":2:17")));
  EXPECT_EQ(values["timeouts.report"],
            (std::pair<std::string, std::string>("7s", "WEFT_TIMEOUTS_REPORT")));
  EXPECT_EQ(values["buffers.step"].second, "default");
  EXPECT_TRUE(values.contains("net-socket.streams")) << "parameters of plugins";
  EXPECT_EQ(weft({"config", "show"}, variables).exit_status, 0);
}

TEST(Config, ExplainsAKey) {
  const Outcome outcome =
      weft({"config", "explain", "timeouts.bootstrap"}, {{"WEFT_TIMEOUTS_BOOTSTRAP", "9s"}});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(after(outcome.out, "  default   "), "60s");
  EXPECT_EQ(after(outcome.out, "  now       "), "9s");
  EXPECT_EQ(after(outcome.out, "  variable  "), "WEFT_TIMEOUTS_BOOTSTRAP");
  const Outcome by_variable = weft({"config", "explain", "WEFT_TIMEOUTS_BOOTSTRAP"});
  EXPECT_THAT(by_variable.out, StartsWith("timeouts.bootstrap\n"));
  const Outcome unknown = weft({"config", "explain", "timeouts.bootstrop"});
  EXPECT_EQ(unknown.exit_status, 1);
  EXPECT_EQ(unknown.err,
            "unknown key \"timeouts.bootstrop\"; did you mean \"timeouts.bootstrap\"?\n");
}

TEST(Config, ChecksAFile) {
  const ScratchFolder folder;
  const std::string good = folder.write("good.yaml", "version: 1\ntransports: {order: [shm]}\n");
  const Outcome right = weft({"config", "check", good}, {{"WEFT_NO_SUCH_KEY", "1"}});
  EXPECT_EQ(right.exit_status, 0) << right.describe();
  EXPECT_EQ(right.out, good + ": ok\n");
  const std::string bad = folder.write("bad.yaml", "version: 1\ntransports: {ordr: [shm]}\n");
  const Outcome wrong = weft({"config", "check", bad});
  EXPECT_EQ(wrong.exit_status, 1);
  EXPECT_THAT(wrong.err, HasSubstr(bad + ":2:14: unknown key \"ordr\"; did you mean \"order\"?"));
  EXPECT_EQ(weft({"config", "check", folder.path() + "/none.yaml"}).exit_status, 1);
}

TEST(Config, PrintsASchema) {
  const Outcome outcome = weft({"config", "schema"});
  ASSERT_EQ(outcome.exit_status, 0);
  const nlohmann::json schema = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(schema.at("properties").contains("transports"));
  EXPECT_TRUE(schema.at("properties").contains("net-socket"));
  const Outcome core = weft({"config", "schema", "--core"});
  EXPECT_FALSE(nlohmann::json::parse(core.out).at("properties").contains("net-socket"));
  EXPECT_THAT(weft({"config", "schema", "--markdown"}).out, HasSubstr("transports"));
}

}  // namespace
}  // namespace weft::test
