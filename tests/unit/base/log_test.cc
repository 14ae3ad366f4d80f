// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The log: which lines pass, what a line looks like as text and as JSON, levels changed while
// other threads write.
#include "core/base/log.h"

#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;

template <typename Write>
std::string captured(Write write) {
  testing::internal::CaptureStderr();
  write();
  return testing::internal::GetCapturedStderr();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

TEST(LogNames, TopicsAndLevelsSurviveTheRoundTrip) {
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    const auto topic = static_cast<Topic>(i);
    EXPECT_EQ(parse_topic(topic_name(topic)), topic);
  }
  for (weft_log_level level = WEFT_LOG_TRACE; level <= WEFT_LOG_ERROR; ++level) {
    EXPECT_EQ(parse_log_level(log_level_name(level)), level);
  }
  EXPECT_EQ(topic_name(Topic::kComm), "comm");
  EXPECT_EQ(log_level_name(WEFT_LOG_WARN), "warn");
}

TEST(LogNames, UnknownOnesAreRefused) {
  EXPECT_FALSE(parse_topic("everything"));
  EXPECT_FALSE(parse_log_level("loud"));
  EXPECT_FALSE(parse_log_level("WARN"));
  EXPECT_EQ(log_level_name(-1), "unknown");
  EXPECT_EQ(log_level_name(5), "unknown");
}

TEST(Logger, ALineNamesHostProcessLevelAndTopic) {
  const auto text = captured([] {
    Logger logger;
    logger.warn(Topic::kNet, "rank {} is {}", 3, "late");
  });
  EXPECT_THAT(text, MatchesRegex("[^:\n]+:[0-9]+:[0-9]+ WEFT warn net: rank 3 is late\n"));
  EXPECT_THAT(text, HasSubstr(":" + std::to_string(getpid()) + ":"));
}

TEST(Logger, WarnIsTheFirstLevelThatPassesByDefault) {
  EXPECT_THAT(captured([] {
                Logger logger;
                logger.info(Topic::kInit, "quiet");
                logger.debug(Topic::kInit, "quieter");
              }),
              IsEmpty());
  const Logger logger;
  EXPECT_TRUE(logger.enabled(Topic::kInit, WEFT_LOG_WARN));
  EXPECT_FALSE(logger.enabled(Topic::kInit, WEFT_LOG_INFO));
}

TEST(Logger, ATopicHasALevelOfItsOwn) {
  LogOptions options;
  options.level = WEFT_LOG_ERROR;
  options.topics[static_cast<std::size_t>(Topic::kNet)] = WEFT_LOG_DEBUG;
  const auto text = captured([&] {
    Logger logger(options);
    logger.debug(Topic::kNet, "seen");
    logger.warn(Topic::kComm, "hidden");
    logger.error(Topic::kComm, "also seen");
  });
  EXPECT_THAT(lines_of(text), SizeIs(2));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
}

TEST(Logger, ConfigureReplacesLevelsAndFormat) {
  const auto text = captured([] {
    Logger logger;
    LogOptions options;
    options.level = WEFT_LOG_INFO;
    options.format = LogFormat::kJson;
    logger.configure(options);
    logger.info(Topic::kPlugin, "now");
    logger.configure(LogOptions{});
    logger.info(Topic::kPlugin, "no longer");
  });
  ASSERT_THAT(lines_of(text), SizeIs(1));
  EXPECT_EQ(nlohmann::json::parse(text).at("message"), "now");
}

TEST(Logger, JsonHoldsAnyMessage) {
  const std::string message = "a \"quoted\" back\\slash,\na line\tand \x01 control";
  LogOptions options;
  options.format = LogFormat::kJson;
  const auto text = captured([&] {
    Logger logger(options);
    logger.error(Topic::kBootstrap, "{}", message);
  });
  ASSERT_THAT(lines_of(text), SizeIs(1)) << "a newline must not break the line";
  const auto line = nlohmann::json::parse(text);
  EXPECT_EQ(line.at("message"), message);
  EXPECT_EQ(line.at("level"), "error");
  EXPECT_EQ(line.at("topic"), "bootstrap");
  EXPECT_EQ(line.at("pid"), getpid());
}

// Names of files may be any bytes.
TEST(Logger, JsonIsUtf8WhateverALineHolds) {
  LogOptions options;
  options.level = WEFT_LOG_INFO;
  options.format = LogFormat::kJson;
  const std::string text = captured([&] {
    Logger logger(options);
    logger.info(Topic::kPlugin, "/p\xff/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\x80\xc3");
  });
  EXPECT_EQ(nlohmann::json::parse(text).at("message"),
            "/p\uFFFD/\u00e4\u20ac\U0001F600\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Logger, LinesOfManyThreadsStayWhole) {
  constexpr int kThreads = 4;
  constexpr int kLines = 50;
  const auto text = captured([] {
    Logger logger;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&logger] {
        for (int line = 0; line < kLines; ++line) {
          logger.warn(Topic::kComm, "{}", std::string(200, 'x'));
          logger.configure(LogOptions{});
        }
      });
    }
    for (auto& thread : threads)
      thread.join();
  });
  const auto lines = lines_of(text);
  EXPECT_THAT(lines, SizeIs(kThreads * kLines));
  for (const auto& line : lines)
    EXPECT_THAT(line, testing::EndsWith("comm: " + std::string(200, 'x')));
}

TEST(Logger, TwoLoggersShareNothing) {
  Logger loud(LogOptions{.level = WEFT_LOG_TRACE, .topics = {}, .format = LogFormat::kText});
  const Logger quiet(LogOptions{.level = WEFT_LOG_ERROR, .topics = {}, .format = LogFormat::kText});
  EXPECT_TRUE(loud.enabled(Topic::kInit, WEFT_LOG_TRACE));
  EXPECT_FALSE(quiet.enabled(Topic::kInit, WEFT_LOG_WARN));
  loud.configure(LogOptions{});
  EXPECT_FALSE(quiet.enabled(Topic::kInit, WEFT_LOG_WARN));
}

}  // namespace
}  // namespace weft
