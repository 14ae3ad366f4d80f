// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The wrapper of tuners: full tables, and answers that are looked at.
#include "core/plugin/tuner_plugin.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/plugin_fixture.h"

namespace weft {
namespace {

using test::error_text;

constexpr const char* kBy = "plugin sample-tuner: ";

class Tuners : public testing::Test {
 protected:
  void SetUp() override { folder_.add("sample-tuner"); }
  void TearDown() override { close(); }
  void close() {
    if (tuner_ != nullptr) plugin_->close(tuner_);
    tuner_ = nullptr;
  }
  Result<weft_tuner*> open(std::string how) {
    close();
    host_ = context_.misbehaving(folder_, std::move(how));
    plugin_ = std::make_unique<TunerPlugin>(
        TunerPlugin::wrap(*host_->load("sample-tuner").value()).value());
    weft_tuner_open_info info{};
    info.struct_size = sizeof(info);
    info.device = "host";
    auto opened = plugin_->open(info);
    if (opened) tuner_ = *opened;
    return opened;
  }
  Result<std::vector<weft_tuner_answer>> answers(
      std::string how, weft_tuner_operation operation = WEFT_TUNER_ALL_REDUCE) {
    weft_tuner* tuner = open(std::move(how)).value();
    weft_tuner_question question{};
    question.struct_size = sizeof(question);
    question.operation = operation;
    std::vector<weft_tuner_offer> offers(2);
    for (std::uint32_t i = 0; i < offers.size(); ++i) {
      offers[i].struct_size = sizeof(weft_tuner_offer);
      offers[i].id = i;
      offers[i].min_channels = 2;
      offers[i].max_channels = 8;
      offers[i].channel_step = 2;
    }
    return plugin_->evaluate(tuner, question, offers);
  }
  std::string complaint(std::string how) { return error_text(answers(std::move(how))); }
  std::string explained(std::string how) {
    weft_tuner* tuner = open(std::move(how)).value();
    return plugin_->explain(tuner, weft_tuner_question{}, weft_tuner_offer{});
  }

  test::Context context_;
  test::PluginFolder folder_;
  std::unique_ptr<PluginHost> host_;
  std::unique_ptr<TunerPlugin> plugin_;
  weft_tuner* tuner_ = nullptr;
};

TEST_F(Tuners, GoThroughTheirLife) {
  weft_tuner* tuner = open("").value();
  const auto table = plugin_->table(tuner);
  ASSERT_TRUE(table) << table.error().to_string();
  EXPECT_EQ(table->version, 7U);
  EXPECT_EQ(table->hash, 42U);
  EXPECT_EQ(table->name, "by hand");
  EXPECT_FALSE(plugin_->has("propose"));
  const auto judged = answers("");
  ASSERT_TRUE(judged) << judged.error().to_string();
  ASSERT_EQ(judged->size(), 2U);
  EXPECT_EQ(judged->at(1).id, 1U);
  EXPECT_EQ(judged->at(1).time_ns, 2000U);
  EXPECT_EQ(explained(""), "by hand");
}

TEST_F(Tuners, MayNotKnowAnOperation) {
  const auto judged = answers("", WEFT_TUNER_SEND_RECV);
  ASSERT_TRUE(judged) << judged.error().to_string();
  EXPECT_TRUE(judged->empty());
}

TEST_F(Tuners, AreHeldToWhatWasOffered) {
  const auto defect = [](const std::string& what) {
    return kBy + ("evaluate " + what) + "; try: update the plugin";
  };
  EXPECT_EQ(complaint("channels-many"),
            defect("wants 9 channels of an offer of 2 to 8, in steps of 2"));
  EXPECT_EQ(complaint("channels-odd"),
            defect("wants 3 channels of an offer of 2 to 8, in steps of 2"));
  EXPECT_EQ(complaint("threads-many"), defect("wants 1048576 threads of an offer of 0 to 0"));
  EXPECT_EQ(complaint("chunk-huge"),
            defect("wants chunks of 18446744073709551615 bytes of an offer of 0 to 0"));
  EXPECT_EQ(complaint("answer-swapped"), defect("answered on offer 1 where offer 0 stands"));
  EXPECT_EQ(complaint("answer-missing"),
            defect("answered on offer 4294967295 where offer 1 stands"));
  EXPECT_EQ(complaint("evaluate-waits"), defect("answered WEFT_IN_PROGRESS, which it must not"));
  EXPECT_EQ(complaint("evaluate-fails"),
            std::string(kBy) + "evaluate failed with WEFT_ERROR_SYSTEM and gave no reason");
}

TEST_F(Tuners, FailuresAreNamed) {
  EXPECT_EQ(error_text(open("open-null")),
            std::string(kBy) + "open gave no tuner; try: update the plugin");
  EXPECT_EQ(error_text(open("open-fails")),
            std::string(kBy) + "the table is of another machine; try: calibrate anew");
  weft_tuner* tuner = open("name-endless").value();
  EXPECT_THAT(error_text(plugin_->table(tuner)), testing::HasSubstr("name"));
  EXPECT_EQ(explained("explain-endless"), "");
  EXPECT_EQ(explained("explain-fails"), "");
}

TEST_F(Tuners, NeedTheirFunctions) {
  folder_.add("half-tuner");
  host_ = context_.host(folder_);
  EXPECT_THAT(error_text(TunerPlugin::wrap(*host_->load("half-tuner").value())),
              testing::HasSubstr("lacks evaluate; try: update the plugin"));
}

}  // namespace
}  // namespace weft
