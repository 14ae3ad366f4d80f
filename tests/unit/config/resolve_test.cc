// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/resolve.h"

#include "tests/unit/config/support.h"

namespace weft {
namespace {

std::string origin(const Config& config, std::string_view name) {
  return config.find(name)->origin().to_string();
}

TEST(Resolve, DefaultsAlone) {
  const auto source = ConfigSource::without_file(bare_environment());
  const auto config = resolve(source, {});
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->file(), "");
  EXPECT_EQ(config->list("transports.order"), (std::vector<std::string>{"p2p", "shm", "net"}));
  EXPECT_EQ(config->bytes("buffers.step"), 128U << 10);
  EXPECT_EQ(config->duration("timeouts.bootstrap"), std::chrono::seconds(60));
  EXPECT_EQ(config->duration("timeouts.operation"), std::nullopt);
  EXPECT_TRUE(config->rules().empty());
  for (const ConfigEntry& entry : config->entries()) {
    EXPECT_EQ(entry.text(), entry.parameter.default_text) << entry.parameter.name();
    EXPECT_EQ(entry.origin().to_string(), "default");
    EXPECT_FALSE(entry.is_set());
  }
}

TEST(Resolve, EnvironmentOverFileOverDefault) {
  const auto config = resolve_text(
      "version: 1\n"
      "transports: {order: [shm, net]}\n"
      "buffers: {step: 64KiB}\n"
      "log: {topics: {net: debug}}\n"
      "net-socket: {streams: 4}\n",
      {{"WEFT_TRANSPORTS_ORDER", " p2p , net "},
       {"WEFT_NET_SOCKET_INTERFACES", "eth0,^docker"},
       {"WEFT_LOG_TOPICS_COMM", "trace"},
       {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"},
       {"WEFT_BUFFERS_STEP", ""},
       {"WEFT_RANK", "3"}});
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->list("transports.order"), (std::vector<std::string>{"p2p", "net"}));
  EXPECT_EQ(origin(*config, "transports.order"), "WEFT_TRANSPORTS_ORDER");
  EXPECT_EQ(config->bytes("buffers.step"), 64U << 10) << "an empty variable counts as unset";
  EXPECT_EQ(origin(*config, "buffers.step"), "f.yaml:3:17");
  EXPECT_EQ(config->integer("net-socket.streams"), 4);
  EXPECT_EQ(config->list("net-socket.interfaces"), (std::vector<std::string>{"eth0", "^docker"}));
  EXPECT_EQ(config->text("log.topics.net"), "debug");
  EXPECT_EQ(config->text("log.topics.comm"), "trace");
  EXPECT_EQ(origin(*config, "collectives.all_reduce.algorithm"),
            "WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM");
  EXPECT_FALSE(config->flag("shm.huge"));

  const auto& layers = config->find("transports.order")->layers;
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].origin.to_string(), "default");
  EXPECT_EQ(layers[1].origin.to_string(), "f.yaml:2:21");
  EXPECT_EQ(print_value(config->find("transports.order")->parameter, layers[1].value), "shm,net");
}

TEST(Resolve, EmptySectionsAreFine) {
  EXPECT_EQ(refusal("version: 1\nlog:\nnet-socket:\ntransports: {}\n"), "accepted");
}

TEST(Resolve, ADotIsNoWayIntoAMap) {
  EXPECT_EQ(refusal("version: 1\nlog.topics: {net: debug}\n"),
            "f.yaml:2:1: unknown section \"log.topics\"; write log: {topics: ...}");
  EXPECT_EQ(refusal("version: 1\nlog: {topics: {net: debug}}\n"), "accepted");
}

TEST(Resolve, CoreStepSeesTheCoreAlone) {
  const auto source = ConfigSource::parse(
      "version: 1\nplugins: {path: [/opt/weft]}\nnet-socket: {streams: many}\nunknown: 1\n",
      "f.yaml", bare_environment({{"WEFT_NET_SOCKET_STREAMS", "many"}}));
  ASSERT_TRUE(source);
  const auto core = resolve_core(*source);
  ASSERT_TRUE(core) << core.error().to_string();
  EXPECT_EQ(core->list("plugins.path"), (std::vector<std::string>{"/opt/weft"}));
  EXPECT_EQ(core->find("net-socket.streams"), nullptr);

  const auto wrong =
      ConfigSource::parse("version: 1\nplugins: {paht: []}\n", "f.yaml", bare_environment());
  ASSERT_TRUE(wrong);
  EXPECT_EQ(resolve_core(*wrong).error().to_string(),
            "f.yaml:2:11: unknown key \"paht\"; did you mean \"path\"?");
}

TEST(Resolve, PluginPathIsReadThoughTheRestIsWrong) {
  const auto source = ConfigSource::parse(
      "version: 1\nplugins: {path: [/opt/weft]}\ntransports: {ordr: [shm]}\nlog: {level: loud}\n",
      "f.yaml", bare_environment({{"WEFT_CHANNELS_MAX", "many"}}));
  ASSERT_TRUE(source);
  ASSERT_FALSE(resolve_core(*source));
  EXPECT_EQ(resolve_plugin_path(*source).value(), (std::vector<std::string>{"/opt/weft"}));
  const auto wrong =
      ConfigSource::parse("version: 1\nplugins: {path: /opt}\n", "f.yaml", bare_environment());
  ASSERT_TRUE(wrong);
  EXPECT_FALSE(resolve_plugin_path(*wrong));
}

TEST(Resolve, UnreadSectionsPassWithANotice) {
  const auto source = ConfigSource::parse("version: 1\nnet-ib: {speed: 3}\n", "f.yaml",
                                          bare_environment({{"WEFT_NET_IB_SPEED", "3"}}));
  ASSERT_TRUE(source);
  const std::vector<UnreadSection> unread = {
      {.name = "net-ib", .why = "/p/weft-net-ib.so is empty"},
      {.name = "shm-two", .why = "never mentioned"}};
  const auto config = resolve(*source, plugin_table(), unread);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->notices(),
            (std::vector<std::string>{"f.yaml:2:1: section \"net-ib\" cannot be checked: "
                                      "/p/weft-net-ib.so is empty",
                                      "WEFT_NET_IB_SPEED cannot be checked: /p/weft-net-ib.so is "
                                      "empty"}));
  EXPECT_EQ(
      resolve(*source, {}).error().to_string(),
      "f.yaml:2:1: unknown section \"net-ib\"; no plugin of that name was found\n"
      "unknown environment variable \"WEFT_NET_IB_SPEED\"; weft config show lists what can be "
      "set");
}

TEST(Resolve, UnknownNamesComeWithTheNearest) {
  EXPECT_EQ(refusal("version: 1\ntransports:\n  ordr: [shm]\n"),
            "f.yaml:3:3: unknown key \"ordr\"; did you mean \"order\"?");
  EXPECT_EQ(refusal("version: 1\ntransprots: {}\n"),
            "f.yaml:2:1: unknown section \"transprots\"; did you mean \"transports\"?");
  EXPECT_EQ(refusal("version: 1\nlog: {topics: {nett: info}}\n"),
            "f.yaml:2:16: unknown key \"nett\"; did you mean \"net\"?");
  EXPECT_EQ(refusal("version: 1\nnet-socket: {stream: 2}\n"),
            "f.yaml:2:14: unknown key \"stream\"; did you mean \"streams\"?");
  EXPECT_EQ(refusal("version: 1\ntransports: {zzzzzz: 2}\n"),
            "f.yaml:2:14: unknown key \"zzzzzz\"; use net, net_ports, net_stripes, order, rules or "
            "single_copy");
  EXPECT_EQ(refusal("version: 1\n\"a\\tb\": {}\n"),
            "f.yaml:2:1: unknown section \"a\\x09b\"; no plugin of that name was found");
  EXPECT_EQ(refusal("version: 1\nlog: {topics.net: info}\n"),
            "f.yaml:2:7: unknown key \"topics.net\"; use format, level or topics");
  EXPECT_EQ(refusal("version: 1\n", {{"WEFT_LOG_LVL", "info"}}),
            "unknown environment variable \"WEFT_LOG_LVL\"; did you mean \"WEFT_LOG_LEVEL\"?");
  EXPECT_EQ(refusal("version: 1\n", {{"WEFT_CONFG", ""}}),
            "unknown environment variable \"WEFT_CONFG\"; did you mean \"WEFT_CONFIG\"?");
}

TEST(Resolve, WrongTypesAreNamed) {
  EXPECT_EQ(refusal("version: 1\ntransports: {order: shm}\n"),
            "f.yaml:2:21: transports.order takes a list, as [a, b]; found \"shm\"");
  EXPECT_EQ(refusal("version: 1\ntransports: {order: [shm, [net]]}\n"),
            "f.yaml:2:27: transports.order takes text as elements; found a list");
  EXPECT_EQ(refusal("version: 1\ntransports: {order: {a: b}}\n"),
            "f.yaml:2:21: transports.order takes a list, as [a, b]; found a map");
  EXPECT_EQ(refusal("version: 1\nlog: [info]\n"),
            "f.yaml:2:6: log takes a map of keys; found a list");
  EXPECT_EQ(refusal("version: 1\nlog: {level: [info]}\n"),
            "f.yaml:2:14: log.level takes trace, debug, info, warn or error; found a list");
  EXPECT_EQ(refusal("version: 1\nlog: {level: }\n"),
            "f.yaml:2:14: log.level takes trace, debug, info, warn or error; found nothing");
  EXPECT_EQ(refusal("version: 1\nchannels: {max: many}\n"),
            "f.yaml:2:17: channels.max: \"many\" is no whole number");
  EXPECT_EQ(refusal("version: 1\nchannels: {max: \"4\"}\n"),
            "f.yaml:2:17: channels.max takes a whole number; found \"4\" in quotes");
  EXPECT_EQ(refusal("version: 1\nshm: {huge: 1}\n"),
            "f.yaml:2:13: shm.huge: takes true or false; found \"1\"");
  EXPECT_EQ(refusal("version: 1\nshm: {huge: \"true\"}\n"),
            "f.yaml:2:13: shm.huge takes true or false; found \"true\" in quotes");
  EXPECT_EQ(refusal("version: 1\n", {{"WEFT_SHM_HUGE", "yes"}}),
            "WEFT_SHM_HUGE: shm.huge: takes true or false; found \"yes\"");
}

TEST(Resolve, WrongUnitsRangesAndChoicesAreNamed) {
  EXPECT_EQ(refusal("version: 1\ntimeouts: {bootstrap: 60 parsecs}\n"),
            "f.yaml:2:23: timeouts.bootstrap: \"60 parsecs\" has the unknown unit \"parsecs\"; use "
            "ns, us, ms, s, min or h");
  EXPECT_EQ(refusal("version: 1\ntimeouts: {bootstrap: 60}\n"),
            "f.yaml:2:23: timeouts.bootstrap: \"60\" has no unit; use ns, us, ms, s, min or h");
  EXPECT_EQ(refusal("version: 1\ntimeouts: {bootstrap: 0s}\n"),
            "f.yaml:2:23: timeouts.bootstrap: 0s is out of range; it must be between 1ms and 168h");
  EXPECT_EQ(refusal("version: 1\nchannels: {max: 65}\n"),
            "f.yaml:2:17: channels.max: 65 is out of range; it must be between 0 and 64");
  EXPECT_EQ(refusal("version: 1\nbuffers: {step: 8MiB}\n"),
            "f.yaml:2:17: buffers.step: 8MiB is out of range; it must be between 4KiB and 4MiB");
  EXPECT_EQ(refusal("version: 1\nbuffers: {step: 5KiB}\n"),
            "f.yaml:2:17: buffers.step: 5KiB is not a power of two");
  EXPECT_EQ(refusal("version: 1\nlog: {level: wran}\n"),
            "f.yaml:2:14: log.level: unknown choice \"wran\"; did you mean \"warn\"?");
  EXPECT_EQ(refusal("version: 1\nlog: {format: xml}\n"),
            "f.yaml:2:15: log.format: unknown choice \"xml\"; use text or json");
  EXPECT_EQ(refusal("version: 1\ncollectives: {all_reduce: {algorithm: [rnig]}}\n"),
            "f.yaml:2:39: collectives.all_reduce.algorithm: unknown choice \"rnig\"; did you mean "
            "\"ring\"?");
  EXPECT_EQ(refusal("version: 1\n", {{"WEFT_BUFFERS_STEP", "8MiB"}}),
            "WEFT_BUFFERS_STEP: buffers.step: 8MiB is out of range; it must be between 4KiB and "
            "4MiB");
}

TEST(Resolve, WrongListsAreNamed) {
  EXPECT_EQ(refusal("version: 1\ntransports: {order: [shm, shm]}\n"),
            "f.yaml:2:21: transports.order: names \"shm\" twice");
  EXPECT_EQ(refusal("version: 1\ntransports: {order: []}\n"),
            "f.yaml:2:21: transports.order: has 0 elements; it must have at least 1");
  EXPECT_EQ(refusal("version: 1\ntransports: {net: [\"a,b\"]}\n"),
            "f.yaml:2:19: transports.net: the element \"a,b\" holds a comma or blanks at an end");
  EXPECT_EQ(refusal("version: 1\ntransports: {net: [\"\"]}\n"),
            "f.yaml:2:19: transports.net: has an empty element");
  EXPECT_EQ(refusal("version: 1\ntransports: {net: [\"a\\nb\"]}\n"),
            "f.yaml:2:19: transports.net: \"a\\x0ab\" holds a control character");
  EXPECT_EQ(refusal("version: 1\n", {{"WEFT_TRANSPORTS_ORDER", "shm,,net"}}),
            "WEFT_TRANSPORTS_ORDER: transports.order: has an empty element");
  EXPECT_EQ(refusal("version: 1\ntransports: {net: []}\n"), "accepted");
}

TEST(Resolve, DuplicateKeysAreNamed) {
  EXPECT_EQ(refusal("version: 1\ntransports:\n  order: [shm]\n  order: [net]\n"),
            "f.yaml:4:3: duplicate key \"order\"; the first is on line 3");
}

TEST(Resolve, TellsSeveralFindingsAtOnce) {
  EXPECT_EQ(refusal("version: 1\nlog: {level: wran}\nbufers: {}\n", {{"WEFT_CHANNELS_MAX", "-1"}}),
            "f.yaml:2:14: log.level: unknown choice \"wran\"; did you mean \"warn\"?\n"
            "f.yaml:3:1: unknown section \"bufers\"; did you mean \"buffers\"?\n"
            "WEFT_CHANNELS_MAX: channels.max: -1 is out of range; it must be between 0 and 64");
}

TEST(Resolve, RaisedPrivilegesIgnorePathsOfTheEnvironment) {
  Environment raised =
      bare_environment({{"WEFT_PLUGINS_PATH", "/tmp/evil"}, {"WEFT_LOG_LEVEL", "info"}});
  raised.raised_privileges = true;
  const auto config = resolve(ConfigSource::without_file(raised), {});
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_TRUE(config->list("plugins.path").empty());
  EXPECT_EQ(config->text("log.level"), "info");
  EXPECT_EQ(config->notices(),
            (std::vector<std::string>{
                "WEFT_PLUGINS_PATH is ignored: the process runs with raised privileges"}));
}

std::string table_refusal(std::vector<Parameter> table) {
  const auto config = resolve(ConfigSource::without_file(bare_environment()), table);
  return config ? "accepted" : config.error().to_string();
}

Parameter parameter(std::string section, std::string key) {
  return {.section = std::move(section),
          .key = std::move(key),
          .type = ParameterType::kInteger,
          .default_text = "1",
          .help = "Help."};
}

TEST(Resolve, TablesOfPluginsAreChecked) {
  EXPECT_EQ(table_refusal({parameter("x", "a")}), "accepted");
  EXPECT_EQ(table_refusal({parameter("transports", "a")}),
            "transports.a: a plugin cannot have a parameter in the section \"transports\" of Weft");
  // What the core declares itself a plugin may read as it stands there, and as nothing else.
  Parameter shared = parameter("tuner", "table");
  EXPECT_EQ(table_refusal({shared}),
            "tuner.table: a plugin cannot have a parameter in the section \"tuner\" of Weft");
  shared.type = ParameterType::kText;
  EXPECT_EQ(table_refusal({shared}), "accepted");
  EXPECT_EQ(table_refusal({parameter("net-x", "a"), parameter("net", "x-a")}),
            "net.x-a: its variable WEFT_NET_X_A is that of net-x.a already");
  EXPECT_EQ(table_refusal({parameter("host", "id")}),
            "host.id: its variable WEFT_HOST_ID is reserved");
  EXPECT_EQ(table_refusal({parameter("X", "a")}), "X.a: \"X\" is no name for a section");
  EXPECT_EQ(table_refusal({parameter("version", "a")}),
            "version.a: \"version\" is no name for a section");
  EXPECT_EQ(table_refusal({parameter("x", "a..b")}), "x.a..b: \"a..b\" is no name for a key");
  Parameter bad_default = parameter("x", "a");
  bad_default.default_text = "one";
  EXPECT_EQ(table_refusal({bad_default}),
            "x.a: its default \"one\" is refused: x.a: \"one\" is no whole number");
  Parameter no_help = parameter("x", "a");
  no_help.help.clear();
  EXPECT_EQ(table_refusal({no_help}), "x.a: has no help text");
  Parameter no_choices = parameter("x", "a");
  no_choices.type = ParameterType::kChoice;
  EXPECT_EQ(table_refusal({no_choices}), "x.a: has no choices");
  Parameter never_off = parameter("x", "a");
  never_off.type = ParameterType::kDuration;
  never_off.default_text = "off";
  EXPECT_EQ(table_refusal({never_off}), "x.a: its default \"off\" is refused: x.a: cannot be off");
}

}  // namespace
}  // namespace weft
