// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A host for plugins under test: keeps the errors and log lines that a plugin reports, hands out
// parameters from a map, and offers no memory and no watching of descriptors.
#pragma once

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

/// The services for one plugin instance; outlives it. [any-thread]
class FakeHost {
 public:
  FakeHost();
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  [[nodiscard]] const weft_host* services() const { return &services_; }

  /// A parameter of type FLAG, INTEGER, BYTES or DURATION. Set before init.
  void set_number(const std::string& name, weft_parameter_type type, std::int64_t value);
  /// The newest error and how many there were.
  [[nodiscard]] ReportedError last_error() const;
  [[nodiscard]] std::uint64_t error_count() const;
  [[nodiscard]] std::vector<std::string> log_lines() const;

  // What the services do.
  void record_error(ReportedError error);
  void record_line(const char* text);
  weft_result find_parameter(const char* name, weft_parameter_value* out) const;

 private:
  struct Number {
    weft_parameter_type type;
    std::int64_t value;
  };

  weft_host services_{};
  weft_host_memory memory_{};
  mutable std::mutex mutex_;
  std::map<std::string, Number> numbers_;
  ReportedError last_error_;
  std::uint64_t error_count_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace weft::test
