// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/log.h"

#include <climits>
#include <unistd.h>

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

/// Bytes of the UTF-8 sequence at the start of `text`; 0 where there is none.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  // Longer than need be, surrogates, and beyond the last character.
  const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                     (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : length;
}

/// Names of files and hosts may be any bytes, JSON is UTF-8: what is none becomes U+FFFD.
std::string json_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_sequence(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
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
                   R"({{"host":"{}","pid":{},"tid":{},"level":"{}","topic":"{}","message":"{}"}})",
                   json_escaped(sink_->host), getpid(), gettid(), log_level_name(level),
                   topic_name(topic), json_escaped(message));
    return;
  }
  sink_->out.log(severity, "{}:{}:{} WEFT {} {}: {}", sink_->host, getpid(), gettid(),
                 log_level_name(level), topic_name(topic), message);
}

}  // namespace weft
