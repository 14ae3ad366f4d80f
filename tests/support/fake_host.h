// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A host for plugins under test: keeps the errors and log lines that a plugin reports, hands out
// parameters from a map (or the defaults of the plugin's own table), counts, and offers no memory,
// unless a test has some to offer, and no watching of descriptors.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <plugin_api/plugin.h>

namespace weft::test {

/// What a plugin said about a failure.
struct ReportedError {
  weft_result code = WEFT_OK;
  weft_error_source source = WEFT_SOURCE_PLUGIN;
  std::int64_t native = 0;
  std::string what;
  std::string hint;
};

/// What one value of a parameter table is at run time.
struct ParameterValue {
  weft_parameter_type type = WEFT_PARAMETER_INTEGER;
  std::int64_t number = 0;
  std::string text;
  std::vector<std::string> items;
};

/// Reads a value as it would be written in the configuration file: `4`, `64KiB`, `250ms`, `off`,
/// `true`, `a,b`. Throws std::invalid_argument for anything else.
ParameterValue parse_parameter(weft_parameter_type type, const std::string& text);

/// The services for one plugin instance; outlives it. [any-thread]
class FakeHost {
 public:
  FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  [[nodiscard]] const weft_host* services() const { return &services_; }

  /// A parameter of type FLAG, INTEGER, BYTES or DURATION. Set before init.
  void set_number(const std::string& name, weft_parameter_type type, std::int64_t value);
  /// A parameter of type TEXT or LIST. Set before init.
  void set_text(const std::string& name, const std::string& value);
  void set_list(const std::string& name, const std::vector<std::string>& items);
  /// Gives each parameter of the plugin's table its default, unless it has been set already.
  void use_defaults(const weft_plugin_descriptor& plugin);
  /// What the plugin has counted under this name; 0 if it never asked for the counter.
  [[nodiscard]] std::uint64_t counter(const std::string& name) const;
  /// The newest error and how many there were.
  [[nodiscard]] ReportedError last_error() const;
  [[nodiscard]] std::uint64_t error_count() const;
  [[nodiscard]] std::vector<std::string> log_lines() const;

  /// Gives plugins this memory service instead of none; before init.
  void offer_memory(const weft_host_memory& table) { memory_ = table; }

  // What the services do.
  void record_error(ReportedError error);
  void record_line(const char* text);
  weft_result find_parameter(const char* name, weft_parameter_value* out) const;
  weft_counter* find_counter(const char* name);

 private:
  /// A value with the pointers that the ABI hands out.
  struct Stored {
    ParameterValue value;
    std::vector<const char*> pointers;
  };
  void store(const std::string& name, ParameterValue value);

  weft_host services_{};
  weft_host_memory memory_{};
  mutable std::mutex mutex_;
  std::map<std::string, Stored> parameters_;
  std::map<std::string, std::atomic<std::uint64_t>> counters_;
  ReportedError last_error_;
  std::uint64_t error_count_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace weft::test
