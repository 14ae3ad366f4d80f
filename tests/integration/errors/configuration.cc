// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Configuration files and variables that cannot be.

#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

/// What a program hears that makes a context in this environment.
Said start_in(const Environment& environment) {
  Rank rank(environment);
  return said_in(rank.ask("id"));
}

/// A file that is refused, by `weft config check` as by a program that is started with it.
void add_file(Scenarios& all, std::string name, std::string message, std::string text) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [text = std::move(text)](std::vector<Said>& said) {
                   const ScratchFolder folder;
                   const std::string file = folder.write("weft.yaml", text);
                   const Outcome checked = run(weft({"config", "check", file}));
                   EXPECT_EQ(checked.exit_status, 1) << checked.describe();
                   said.push_back(printed_by(checked));
                   said.push_back(start_in({{"WEFT_CONFIG", file}}));
                   EXPECT_NE(said.back().text.find(said.front().text.substr(
                                 0, said.front().text.find_last_not_of('\n') + 1)),
                             std::string::npos)
                       << said.front().text << said.back().text;
                 }});
}

void add_variable(Scenarios& all, std::string name, std::string message, Environment environment) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [environment = std::move(environment)](std::vector<Said>& said) {
                   said.push_back(start_in(environment));
                 }});
}

void add_values(Scenarios& all) {
  add_file(all, "UnknownKey", "<where>: unknown key \"<key>\"; did you mean \"<key>\"?",
           "version: 1\ntransports: {ordr: [shm]}\n");
  add_file(all, "UnknownKeyNearNone", "<where>: unknown key \"<key>\"; use <keys>",
           "version: 1\ntransports: {zzzzzzzz: [shm]}\n");
  add_file(all, "UnknownSection", "<where>: unknown section \"<name>\"; did you mean \"<name>\"?",
           "version: 1\nbufers: {step: 64KiB}\n");
  add_file(all, "SectionOfNoPlugin",
           "<where>: unknown section \"<name>\"; no plugin of that name was found",
           "version: 1\nwarpdrive: {speed: 9}\n");
  add_file(all, "SectionWithADot",
           "<where>: unknown section \"<name>\"; write <section>: {<key>: ...}",
           "version: 1\nlog.topics: {net: debug}\n");
  add_file(all, "DuplicateKey", "<where>: duplicate key \"<key>\"; the first is on line <line>",
           "version: 1\nlog: {level: warn}\nlog: {level: info}\n");
  add_file(all, "SectionWithoutKeys", "<where>: <section> takes a map of keys; found <what>",
           "version: 1\nlog: warn\n");
  add_file(all, "NoWholeNumber", "<where>: <key>: \"<text>\" is no whole number",
           "version: 1\nchannels: {max: many}\n");
  add_file(all, "UnknownUnit",
           "<where>: <key>: \"<text>\" has the unknown unit \"<unit>\"; use <units>",
           "version: 1\nbuffers: {step: 4 furlongs}\n");
  add_file(all, "NoUnit", "<where>: <key>: \"<text>\" has no unit; use <units>",
           "version: 1\ntimeouts: {bootstrap: 60}\n");
  add_file(all, "OutOfRange", "<where>: <key>: <value> is out of range; it must be <range>",
           "version: 1\nbuffers: {step: 1GiB}\n");
  add_file(all, "NoPowerOfTwo", "<where>: <key>: <value> is not a power of two",
           "version: 1\nbuffers: {step: 48KiB}\n");
  add_file(all, "MisspeltChoice",
           "<where>: <key>: unknown choice \"<word>\"; did you mean \"<choice>\"?",
           "version: 1\nlog: {level: inof}\n");
  add_file(all, "UnknownChoice", "<where>: <key>: unknown choice \"<word>\"; use <choices>",
           "version: 1\nlog: {level: loud-and-clear}\n");
  add_file(all, "NoFlag", "<where>: <key>: takes true or false; found \"<text>\"",
           "version: 1\np2p: {huge_pages: perhaps}\n");
  add_file(all, "NoList", "<where>: <key> takes a list, as [a, b]; found <what>",
           "version: 1\ntransports: {order: shm}\n");
  add_file(all, "NamedTwice", "<where>: <key>: names \"<name>\" twice",
           "version: 1\ntransports: {order: [shm, shm]}\n");
}

void add_rules(Scenarios& all) {
  const auto rules = [](const std::string& text) {
    return "version: 1\ntransports:\n  rules:\n" + text;
  };
  add_file(all, "RuleThatNeverMatches",
           "<where>: this rule (between: <ends>) can never match: <rule> (between: <ends>) decides "
           "all of its pairs",
           rules("    - {between: any, use: [shm]}\n    - {between: same-host, use: [p2p]}\n"));
  add_file(all, "HalfARule", "<where>: the rule has no \"<key>\"",
           rules("    - {between: same-host}\n"));
  add_file(all, "MisspeltScope", "<where>: unknown scope \"<word>\"; did you mean \"<scope>\"?",
           rules("    - {between: same-hots, use: [shm]}\n"));
  add_file(all, "NoEnd",
           "<where>: \"<word>\" is no host name, network, same-process, same-host, same-fabric or "
           "any",
           rules("    - {between: \"a host\", use: [shm]}\n"));
  add_file(all, "ScopeAsOneEnd",
           "<where>: \"<scope>\" speaks of a whole pair; it cannot be one end of two",
           rules("    - {between: [any, same-host], use: [shm]}\n"));
}

void add_shapes(Scenarios& all) {
  add_file(all, "TooLarge", "<where>: larger than 1 MiB",
           "version: 1\n" + std::string(1 << 20, '#'));
  add_file(all, "NoVersion", "<where>: the file has no version; begin it with \"version: 1\"",
           "log: {level: info}\n");
  add_file(all, "UnknownVersion",
           "<where>: version <version> is not known to this Weft, which reads version 1",
           "version: 2\n");
  add_file(all, "NoYaml", "<where>: not valid YAML: <why>", "version: 1\nlog: {level\n");
  add_file(all, "Anchors", "<where>: anchors and aliases are not accepted; write the value out",
           "version: 1\nlog: &a {level: info}\n");
  add_file(all, "TwoDocuments", "<where>: holds more than one YAML document",
           "version: 1\n---\nversion: 1\n");
  add_file(all, "NoSections", "<where>: the file holds no map of sections", "- version\n");
}

void add_files(Scenarios& all) {
  add_variable(all, "NoSuchFile", "WEFT_CONFIG: <file>: no such file",
               {{"WEFT_CONFIG", "/nonexistent/weft.yaml"}});
  add_variable(all, "NoRegularFile", "<file>: not a regular file", {{"WEFT_CONFIG", "/dev/null"}});
  all.push_back({.name = "FileThatCannotBeOpened",
                 .messages = {"<file>: cannot open the configuration (errno <number>, <text>)"},
                 .play = [](std::vector<Said>& said) {
                   const ScratchFolder folder;
                   const std::string file = folder.path() + "/weft.yaml";
                   std::filesystem::create_symlink("weft.yaml", file);  // leads to itself
                   said.push_back(start_in({{"WEFT_CONFIG", file}}));
                 }});
  add_variable(all, "UnknownVariable",
               "unknown environment variable \"<name>\"; did you mean \"<name>\"?",
               {{"WEFT_LOG_LEVL", "info"}});
  add_variable(all, "VariableNearNone",
               "unknown environment variable \"<name>\"; weft config show lists what can be set",
               {{"WEFT_FLUX_CAPACITOR", "on"}});
  add_variable(all, "NoHostId", "WEFT_HOST_ID is \"<text>\"", {{"WEFT_HOST_ID", "two words"}});
  add_variable(all, "NoFabricId", "WEFT_FABRIC_ID is \"<text>\"",
               {{"WEFT_FABRIC_ID", "two words"}});
}

}  // namespace

void add_configuration(Scenarios& all) {
  add_values(all);
  add_rules(all);
  add_shapes(all);
  add_files(all);
  all.push_back(
      {.name = "RanksThatDiffer",
       .messages = {"ranks are configured differently, with rank 0 as here and rank <rank> as "
                    "there: <key> is \"<value>\" here and \"<value>\" there"},
       .play = [](std::vector<Said>& said) {
         // Every rank of the job has an environment of its own.
         const Environment shared{{"WEFT_WORLD_SIZE", "2"},
                                  {"WEFT_SECRET", std::string(64, 'a')},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"}};
         Environment first = shared;
         first["OMPI_COMM_WORLD_RANK"] = "0";
         Environment second = shared;
         second["OMPI_COMM_WORLD_RANK"] = "1";
         second["WEFT_BUFFERS_STEP"] = "64KiB";
         Rank ranks[] = {Rank(first), Rank(second)};
         for (Rank& rank : ranks)
           rank.tell("join env");
         for (Rank& rank : ranks)
           said.push_back(said_in(rank.answer()));
         for (const Said& one : said)
           EXPECT_EQ(one.code, "WEFT_ERROR_CONFIG") << one.text;
       }});
  all.push_back({.name = "MorePluginsThanPossible",
                 .messages = {"transports.order (<where>), transports.net (<where>) and "
                              "transports.rules name <number> plugins, more than the <number> that "
                              "are possible"},
                 .play = [](std::vector<Said>& said) {
                   std::string order = "shm";
                   for (int i = 1; i <= 64; ++i)
                     order += ",net-" + std::to_string(i);
                   Job job(2, {{"WEFT_TRANSPORTS_ORDER", order}});
                   join_all(job, said);
                 }});
  all.push_back({.name = "BootstrapInterfaces",
                 .messages = {"bootstrap.interfaces [<list>] matches no interface that is up; "
                              "this host has: <interfaces>"},
                 .play = [](std::vector<Said>& said) {
                   said.push_back(start_in({{"WEFT_BOOTSTRAP_INTERFACES", "nosuch0"}}));
                 }});
  add_variable(all, "EmptyInterface", "bootstrap.interfaces: \"<text>\" names no interface",
               {{"WEFT_BOOTSTRAP_INTERFACES", "^"}});
}

}  // namespace weft::test
