// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/log.h"

#include <climits>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace weft {
namespace {

constexpr std::array<std::string_view, kTopicCount> kTopicNames = {
    "init",      "config", "plugin",   "bootstrap", "topology",
    "transport", "net",    "schedule", "device",    "comm"};
constexpr std::array<std::string_view, 5> kLevelNames = {"trace", "debug", "info", "warn", "error"};

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  return name.data();
}

spdlog::level::level_enum to_spdlog(weft_log_level level) {
  switch (level) {
    case WEFT_LOG_TRACE:
      return spdlog::level::trace;
    case WEFT_LOG_DEBUG:
      return spdlog::level::debug;
    case WEFT_LOG_INFO:
      return spdlog::level::info;
    case WEFT_LOG_WARN:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

/// With its quotes. Names of files and hosts may be any bytes, JSON is UTF-8: what is none becomes
/// U+FFFD.
std::string in_json(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string_view topic_name(Topic topic) {
  return kTopicNames[static_cast<std::size_t>(topic)];
}

std::optional<Topic> parse_topic(std::string_view name) {
  for (std::size_t i = 0; i < kTopicNames.size(); ++i) {
    if (kTopicNames[i] == name) return static_cast<Topic>(i);
  }
  return std::nullopt;
}

std::string_view log_level_name(weft_log_level level) {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

std::optional<weft_log_level> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<weft_log_level>(i);
  }
  return std::nullopt;
}

struct Logger::Sink {
  std::string host = host_name();
  std::atomic<LogFormat> format{LogFormat::kText};
  spdlog::logger out{"weft", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
};

Logger::Logger() : Logger(LogOptions{}) {}

Logger::Logger(const LogOptions& options) : sink_(std::make_unique<Sink>()) {
  sink_->out.set_level(spdlog::level::trace);
  sink_->out.set_pattern("%v");
  configure(options);
}

Logger::~Logger() = default;

void Logger::configure(const LogOptions& options) {
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    levels_[i].store(options.topics[i].value_or(options.level), std::memory_order_relaxed);
  }
  sink_->format.store(options.format, std::memory_order_relaxed);
}

void Logger::write(Topic topic, weft_log_level level, std::string_view message) {
  const auto severity = to_spdlog(level);
  if (sink_->format.load(std::memory_order_relaxed) == LogFormat::kJson) {
    sink_->out.log(severity,
                   R"({{"host":{},"pid":{},"tid":{},"level":"{}","topic":"{}","message":{}}})",
                   in_json(sink_->host), getpid(), gettid(), log_level_name(level),
                   topic_name(topic), in_json(message));
    return;
  }
  sink_->out.log(severity, "{}:{}:{} WEFT {} {}: {}", sink_->host, getpid(), gettid(),
                 log_level_name(level), topic_name(topic), message);
}

}  // namespace weft
