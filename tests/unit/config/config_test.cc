// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/config.h"

#include "core/config/core_parameters.h"
#include "tests/unit/config/support.h"

namespace weft {
namespace {

Config made(const std::string& text) {
  auto config = resolve_text(text);
  EXPECT_TRUE(config) << (config ? "" : config.error().to_string());
  return std::move(*config);
}

TEST(Config, LogOptions) {
  const LogOptions plain = made("version: 1\n").log_options();
  EXPECT_EQ(plain.level, WEFT_LOG_WARN);
  EXPECT_EQ(plain.format, LogFormat::kText);
  for (const auto& topic : plain.topics)
    EXPECT_EQ(topic, std::nullopt);

  const LogOptions set =
      made("version: 1\nlog: {level: error, topics: {net: debug}, format: json}\n").log_options();
  EXPECT_EQ(set.level, WEFT_LOG_ERROR);
  EXPECT_EQ(set.format, LogFormat::kJson);
  EXPECT_EQ(set.topics[static_cast<std::size_t>(Topic::kNet)], WEFT_LOG_DEBUG);
  EXPECT_EQ(set.topics[static_cast<std::size_t>(Topic::kComm)], std::nullopt);
}

TEST(Config, EveryTopicHasAParameter) {
  const Config config = made("version: 1\n");
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    const std::string name = "log.topics." + std::string(topic_name(static_cast<Topic>(i)));
    EXPECT_NE(config.find(name), nullptr) << name;
  }
}

TEST(Config, HandsOutSections) {
  const Config config = made("version: 1\nnet-socket: {streams: 4}\n");
  const auto section = config.section("net-socket");
  ASSERT_EQ(section.size(), 2U);
  EXPECT_EQ(section[0]->parameter.key, "interfaces");
  EXPECT_EQ(section[1]->text(), "4");
  EXPECT_TRUE(section[1]->is_set());
  EXPECT_TRUE(config.section("net-none").empty());
}

TEST(Config, OverridesOfACommunicator) {
  const Config config = made("version: 1\nbuffers: {step: 64KiB}\n");
  const auto changed =
      config.with_overrides({{"buffers.step", "1MiB"}, {"transports.order", "shm,net"}});
  ASSERT_TRUE(changed) << changed.error().to_string();
  EXPECT_EQ(changed->bytes("buffers.step"), 1U << 20);
  EXPECT_EQ(changed->find("buffers.step")->origin().to_string(), "communicator");
  EXPECT_EQ(changed->find("buffers.step")->layers.size(), 3U);
  EXPECT_EQ(config.bytes("buffers.step"), 64U << 10) << "the original keeps its value";

  const auto refused =
      config.with_overrides({{"buffers.stp", "1MiB"}, {"channels.max", "99"}, {"zzzzzzzzzz", "1"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().to_string(),
            "communicator: unknown key \"buffers.stp\"; did you mean \"buffers.step\"?\n"
            "communicator: channels.max: 99 is out of range; it must be between 0 and 64\n"
            "communicator: unknown key \"zzzzzzzzzz\"");
}

// Such a value would change nothing, without a word.
TEST(Config, WhatCountsForAContextNoCommunicatorOverrides) {
  const Config config = made("version: 1\nlog: {level: info}\n");
  EXPECT_TRUE(config.with_overrides({{"log.level", "info"}})) << "no other value";
  const auto refused = config.with_overrides({{"log.level", "debug"}, {"plugins.path", "/tmp"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().to_string(),
            "communicator: log.level counts for a whole context, not for one communicator; set it "
            "in the configuration file or by WEFT_LOG_LEVEL\n"
            "communicator: plugins.path counts for a whole context, not for one communicator; set "
            "it in the configuration file or by WEFT_PLUGINS_PATH");
}

TEST(Config, AgreedTextHoldsWhatMustBeAlike) {
  EXPECT_EQ(
      made("version: 1\ntransports: {rules: [{use: [shm], between: same-host}]}\n").agreed_text(),
      "buffers.both_ends_from=0B by default\n"
      "buffers.direct=16KiB by default\n"
      "buffers.multicast=0B\n"
      "buffers.outputs_from=0B\n"
      "buffers.outputs_mapped=4GiB\n"
      "buffers.step=128KiB by default\n"
      "channels.least_bytes=64KiB by default\n"
      "channels.max=0\n"
      "collectives.all_gather.algorithm=ring,pat,direct,multicast\n"
      "collectives.all_gather.protocol=simple,ll,ll128\n"
      "collectives.all_reduce.algorithm=ring,tree,pat,chain,direct,two-shot,multicast\n"
      "collectives.all_reduce.protocol=simple,ll,ll128\n"
      "collectives.all_to_all.protocol=ll,ll128\n"
      "collectives.broadcast.algorithm=ring,tree,direct\n"
      "collectives.broadcast.protocol=simple,ll,ll128\n"
      "collectives.deterministic=false\n"
      "collectives.reduce.algorithm=ring,tree,chain,direct\n"
      "collectives.reduce.protocol=simple,ll,ll128\n"
      "collectives.reduce_scatter.algorithm=ring,pat,chain,direct,multicast\n"
      "collectives.reduce_scatter.protocol=simple,ll,ll128\n"
      "transports.net=net-ib,net-ofi,net-socket\n"
      "transports.net_stripes=0\n"
      "transports.order=p2p,shm,net\n"
      "transports.rules=[{between: same-host, use: [shm]}]\n"
      "transports.single_copy=64KiB\n"
      "tuner.plugin=tuner\n"
      "windows.copy_from=32MiB\n"
      "windows.reduce_from=0B\n"
      "windows.staging=64MiB\n");
}

TEST(Config, AgreedTextHoldsValuesAndNotHowTheyWereWritten) {
  const std::string text = made("version: 1\n").agreed_text();
  EXPECT_EQ(made("version: 1\nbuffers: {outputs_mapped: 4294967296}\n").agreed_text(), text);
  EXPECT_EQ(made("version: 1\nlog: {level: info}\n").agreed_text(), text);
  EXPECT_NE(made("version: 1\nbuffers: {step: 64KiB}\n").agreed_text(), text);
}

// GPUs take other steps and inboxes than the default where nobody has set it.
TEST(Config, AgreedTextTellsWhetherAValueThatVariesWasSet) {
  const Config unset = made("version: 1\n");
  const Config set = made("version: 1\nbuffers: {step: 128KiB}\n");
  EXPECT_FALSE(unset.is_set("buffers.step"));
  EXPECT_TRUE(set.is_set("buffers.step"));
  EXPECT_FALSE(set.is_set("no.such"));
  EXPECT_EQ(describe_difference(set.agreed_text(), unset.agreed_text()),
            "buffers.step is \"128KiB\" here and \"128KiB by default\" there");
}

TEST(Config, DifferencesAreNamed) {
  const std::string here = made("version: 1\n").agreed_text();
  const std::string there = made("version: 1\nbuffers: {step: 64KiB}\n").agreed_text();
  EXPECT_EQ(describe_difference(here, here), "");
  EXPECT_EQ(describe_difference(here, there),
            "buffers.step is \"128KiB by default\" here and \"64KiB\" there");
  EXPECT_EQ(describe_difference("a=1\nb=2\n", "a=1\n"), "b is \"2\" here and unknown there");
  EXPECT_EQ(describe_difference("a=1\n", "a=1\nb=2\n"), "\"b\" is unknown here and \"2\" there");
  EXPECT_EQ(describe_difference("a=1\n", "\x01\n\n=="), "a is \"1\" here and unknown there");
}

TEST(ConfigDeathTest, AsksForNamesThatExist) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Config config = made("version: 1\n");
  EXPECT_DEATH((void)config.integer("no.such"), "\"no.such\", which is in no table");
  EXPECT_DEATH((void)config.integer("log.level"), "\"log.level\", which is of another type");
}

TEST(CoreParameters, AreSound) {
  for (const Parameter& parameter : core_parameters()) {
    const auto status = validate_parameter(parameter);
    EXPECT_TRUE(status) << status.error().to_string();
    EXPECT_TRUE(parameter.help.ends_with('.')) << parameter.name();
  }
}

TEST(Parameter, DescribesItsValues) {
  const auto find = [](std::string_view name) {
    for (const Parameter& parameter : core_parameters()) {
      if (parameter.name() == name) return parameter.describe_values();
    }
    return std::string("no such parameter");
  };
  EXPECT_EQ(find("buffers.step"), "bytes, between 4KiB and 4MiB, a power of two");
  EXPECT_EQ(find("timeouts.report"), "duration, between 1ms and 168h, or off");
  EXPECT_EQ(find("channels.max"), "integer (channels), between 0 and 64");
  EXPECT_EQ(find("collectives.broadcast.protocol"), "list of simple, ll or ll128");
  EXPECT_EQ(find("log.format"), "text or json");
}

}  // namespace
}  // namespace weft
