// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The log of one context: topics with a level each, one finished line per call. Passed by
// reference, never a global. Nothing on a data path logs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <weft/types.h>

namespace weft {

/// What a log line is about; each has a level of its own (`log.topics` in the configuration).
enum class Topic : std::uint8_t {
  kInit,
  kConfig,
  kPlugin,
  kBootstrap,
  kTopology,
  kTransport,
  kNet,
  kSchedule,
  kDevice,
  kComm,
};
inline constexpr std::size_t kTopicCount = 10;

[[nodiscard]] std::string_view topic_name(Topic topic);
[[nodiscard]] std::optional<Topic> parse_topic(std::string_view name);
[[nodiscard]] std::string_view log_level_name(weft_log_level level);
[[nodiscard]] std::optional<weft_log_level> parse_log_level(std::string_view name);

enum class LogFormat : std::uint8_t { kText, kJson };

struct LogOptions {
  weft_log_level level = WEFT_LOG_WARN;
  std::array<std::optional<weft_log_level>, kTopicCount> topics{};
  LogFormat format = LogFormat::kText;
};

/// Thread-safe; lines go to standard error as `host:pid:tid WEFT LEVEL topic: message`.
class Logger {
 public:
  Logger();
  explicit Logger(const LogOptions& options);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  /// Replaces levels and format; lines of other threads see the change at once.
  void configure(const LogOptions& options);

  [[nodiscard]] bool enabled(Topic topic, weft_log_level level) const {
    return level >= levels_[static_cast<std::size_t>(topic)].load(std::memory_order_relaxed);
  }

  /// Writes one finished line.
  void write(Topic topic, weft_log_level level, std::string_view message);

  template <typename... Args>
  void log(Topic topic, weft_log_level level, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(topic, level)) {
      write(topic, level, fmt::format(format, std::forward<Args>(args)...));
    }
  }
  template <typename... Args>
  void debug(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
    log(topic, WEFT_LOG_DEBUG, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void info(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
    log(topic, WEFT_LOG_INFO, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void warn(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
    log(topic, WEFT_LOG_WARN, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void error(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
    log(topic, WEFT_LOG_ERROR, format, std::forward<Args>(args)...);
  }

 private:
  struct Sink;
  std::array<std::atomic<weft_log_level>, kTopicCount> levels_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace weft
