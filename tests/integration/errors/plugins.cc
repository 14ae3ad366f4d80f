// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Plugins that are missing, that were built for something else, or that break their contract.

#include <algorithm>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/plugin_folder.h"
#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// Two ranks that are to use plugin `id` of a folder.
void join_with(const std::string& folder, const std::string& id, std::vector<Said>& said,
               const Environment& more = {}) {
  Environment environment{{"WEFT_PLUGINS_PATH", folder},
                          {"WEFT_TRANSPORTS_ORDER", id == "shm" ? id : id + ",shm"},
                          {"WEFT_TUNER_PLUGIN", "none"}};
  environment.insert(more.begin(), more.end());
  Job job(2, environment);
  join_all(job, said);
}

/// One of tests/support/bad_plugins: what ranks say that are to use it, and `weft plugin inspect`
/// of its file, with the same words.
void add_bad(Scenarios& all, std::string name, std::string message, const std::string& id,
             const std::string& as) {
  all.push_back({.name = std::move(name),
                 .messages = {message},
                 .play = [message, id, as](std::vector<Said>& said) {
                   const PluginFolder folder;
                   folder.add_bad(id, as);
                   join_with(folder.path(), as, said);
                   const Outcome outcome = run(weft({"plugin", "inspect", folder.file_of(as)}));
                   EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
                   const std::string why = outcome.err.substr(
                       0, std::min(outcome.err.find("; try: "), outcome.err.find('\n')));
                   EXPECT_NE(said.front().text.find(why), std::string::npos)
                       << why << said.front().text;
                 }});
}

/// One that passes for a plugin until its code runs.
void add_running(Scenarios& all, std::string name, std::string message, const std::string& id,
                 const std::string& misbehave = {}) {
  all.push_back(
      {.name = std::move(name),
       .messages = {std::move(message)},
       .play = [id, misbehave](std::vector<Said>& said) {
         const PluginFolder folder;
         folder.add_bad(id, id);
         Environment more;
         if (!misbehave.empty()) {
           // Of whichever of the sound ones it is.
           more[id == "sample" ? "WEFT_SAMPLE_MISBEHAVE" : "WEFT_SAMPLE_TRANSPORT_MISBEHAVE"] =
               misbehave;
         }
         join_with(folder.path(), id, said, more);
       }});
}

void add_found_plugins(Scenarios& all) {
  all.push_back(
      {.name = "NoneOfThatName",
       .messages = {"transports.order (<where>) names plugin \"<plugin>\", which rank <rank> on "
                    "<host> cannot use: <why>",
                    "there is no plugin <plugin>: no <file> in <folders>"},
       .play = [](std::vector<Said>& said) {
         const PluginFolder folder;
         join_with(folder.path(), "warpdrive", said);
       }});
  all.push_back({.name = "NoNameOfAPlugin",
                 .messages = {"\"<plugin>\" is no name of a plugin"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   join_with(folder.path(), "Net_IB", said);
                 }});
  all.push_back({.name = "RelativeFolder",
                 .messages = {"the plugin folder \"<folder>\" is not an absolute path"},
                 .play = [](std::vector<Said>& said) { join_with("plugins", "shm", said); }});
  all.push_back({.name = "WhatOthersCanWrite",
                 .messages = {"others than root and user <user> can write the <kind> <path> (mode "
                              "<mode>): plugins are not loaded from there"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   fs::permissions(folder.file_of("shm"), fs::perms(0777));
                   join_with(folder.path(), "shm", said);
                 }});
  all.push_back({.name = "WhatBelongsToOthers",
                 .messages = {"the <kind> <path> belongs to user <user>, neither root nor the user "
                              "<user> of this process: plugins are not loaded from there"},
                 .play = [](std::vector<Said>& said) {
                   if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
                   const PluginFolder folder;
                   ASSERT_EQ(chown(folder.file_of("shm").c_str(), 12345, 12345), 0);
                   join_with(folder.path(), "shm", said);
                 }});
  all.push_back({.name = "PassedOver",
                 .messages = {"plugin <plugin> is passed over: <why>"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   Job job(2, {{"WEFT_PLUGINS_PATH", folder.path()}, {"WEFT_LOG_LEVEL", "info"}});
                   join_all(job, said);
                   said.push_back({.code = {}, .text = job[0].process().err()});
                 }});
  all.push_back({.name = "ParameterOfAPluginThatCannotBeRead",
                 .messages = {"<where>: section \"<name>\" cannot be checked: <why>"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   folder.add_bad("old-draft", "old-draft");
                   const ScratchFolder other;
                   const std::string file =
                       other.write("weft.yaml", "version: 1\nplugins: {path: [" + folder.path() +
                                                    "]}\nold-draft: {streams: 4}\n");
                   said.push_back(printed_by(run(weft({"config", "check", file}))));
                 }});
}

void add_plugin_files(Scenarios& all) {
  add_bad(all, "OfAnEarlierDraft",
          "<file> was built for draft <draft> of the plugin ABI, this weft speaks draft <draft>",
          "old-draft", "old-draft");
  add_bad(all, "WithoutEntry",
          "<file>: it exports no symbol weft_plugin_entry, so it is no weft plugin", "no-entry",
          "no-entry");
  add_bad(all, "OfAnotherMagic",
          "<file>: its weft_plugin_entry begins with <number>, not with the magic number <number>",
          "bad-magic", "bad-magic");
  add_bad(all, "WithAShortEntry",
          "<file>: its weft_plugin_entry claims <bytes> bytes, and has at least <bytes>",
          "short-entry", "short-entry");
  add_bad(all, "WithoutAFunction", "<file>: its <function> is NULL", "null-deinit", "null-deinit");
  add_bad(all, "OfAnotherName", "<file> holds the plugin \"<plugin>\"", "wrong-id", "net-ib");
  add_bad(all, "OfAnotherInterface",
          "<file> offers the interface <interface>, this weft speaks <interface>",
          "other-interface", "other-interface");
  add_bad(all, "OfUnknownInterfaces", "<file> offers <interfaces>, none of which this weft knows",
          "unknown-interface", "unknown-interface");
  all.push_back({.name = "ForANewerAbi",
                 .messages = {"<file> needs version <version> of the plugin ABI or newer, this "
                              "weft speaks version <version>"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   folder.add_bad("newer-abi", "newer-abi");
                   join_with(folder.path(), "newer-abi", said);
                 }});
  all.push_back({.name = "NoLibrary",
                 .messages = {"<file>: is not a shared library (no ELF header)"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   const ScratchFolder other;
                   folder.copy(other.write("text", std::string(4096, 'x')), "weft-text.so");
                   join_with(folder.path(), "text", said);
                 }});
  add_bad(all, "WithABadDefault",
          "<file>: its parameter table is not sound: <parameter>: its default \"<text>\" is "
          "refused: <why>",
          "bad-default", "bad-default");
}

// A process loads a library once: after an update of the file it would be another one that runs.
void join_after_an_update(std::vector<Said>& said) {
  const PluginFolder folder;
  folder.add_bad("sample", "sample");
  // Both are loaded, and shm joins the ranks.
  Job job(2, {{"WEFT_PLUGINS_PATH", folder.path()},
              {"WEFT_TRANSPORTS_ORDER", "shm,sample"},
              {"WEFT_TUNER_PLUGIN", "none"}});
  ASSERT_EQ(job.join(), "");
  for (const std::string& answer : job.ask_all("leave"))
    EXPECT_TRUE(answer.starts_with("leave: ok")) << answer;
  // Its entry says to be longer, as one of a later version does.
  std::string content = read_text(folder.file_of("sample"));
  const std::size_t magic = content.find("WEFTPLUG");
  ASSERT_NE(magic, std::string::npos);
  const std::size_t size = magic + 8;
  content[size] = static_cast<char>(content[size] + 8);
  const ScratchFolder other;
  folder.copy(other.write("updated", content), "updated");
  fs::rename(folder.path() + "/updated", folder.file_of("sample"));
  join_all(job, said);
}

void add_plugin_code(Scenarios& all) {
  all.push_back({.name = "ReplacedAfterItWasLoaded",
                 .messages = {"<file> changed while it was loaded, or was replaced after an "
                              "earlier version had been loaded"},
                 .play = join_after_an_update});
  add_running(all, "WithAnUndefinedSymbol", "<file> cannot be loaded: <why>", "undefined-symbol");
  add_running(all, "ThatFailsToStart", "plugin <plugin>: <what> (errno <number>, <text>)",
              "init-fails");
  add_running(all, "ThatFailsWithoutAReason",
              "plugin <plugin>: <function> failed with <code> and gave no reason", "init-silent");
  add_running(all, "ThatThrows", "plugin <plugin>: <function> threw an exception: <what>",
              "init-throws");
  add_running(all, "WithoutAnInstance", "plugin <plugin>: init gave no instance", "init-empty");
  add_running(all, "ThatAnswersWhatItMustNot",
              "plugin <plugin>: <function> answered <code>, which it must not", "sample-transport",
              "open-positive");
  add_running(all, "ThatAnswersNoResult",
              "plugin <plugin>: <function> answered <number>, which is no result",
              "sample-transport", "open-unknown");
  add_running(
      all, "WithoutATable",
      "plugin <plugin>: get_interface gave no table for <interface>, which the plugin lists",
      "sample", "no-table");
  add_running(all, "WithDevicesThatAreNone", "plugin <plugin>: <function> gave <what>", "sample",
              "device-nameless");
  add_running(all, "WithHalfATable",
              "plugin <plugin>: <file>: its table for <interface> lacks <function>", "null-poll");
}

}  // namespace

void add_plugins(Scenarios& all) {
  add_found_plugins(all);
  add_plugin_files(all);
  add_plugin_code(all);
}

}  // namespace weft::test
