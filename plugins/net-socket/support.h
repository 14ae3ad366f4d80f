// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What every part of the net-socket plugin stands on: its error value and
// the host's services behind one small object. The plugin sees only the plugin ABI, so these are
// its own.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <utility>

#include <plugin_api/plugin.h>

#include "plugins/common/owned.h"

namespace weft::net_socket {

/// Why something failed, in the terms of the host's set_error.
struct Failure {
  weft_result code = WEFT_ERROR_INTERNAL;
  weft_error_source source = WEFT_SOURCE_PLUGIN;
  int64_t native = 0;
  std::string what;
  std::string hint;
};

template <class T>
using Result = std::expected<T, Failure>;
using Status = Result<void>;

/// A failed system call: `what` gets the text of `error` appended; a limit reached gets its hint.
Failure system_failure(std::string what, int error, weft_result code = WEFT_ERROR_SYSTEM);

/// A failure that is about the other end of a connection or the path to it.
Failure network_failure(std::string what, int error);

using Fd = plugins::OwnedFd;

/// The host's services, for as long as the plugin instance lives. Copies refer to the same host.
class Host {
 public:
  explicit Host(const weft_host* host) : host_(host) {}

  [[nodiscard]] bool logs(weft_log_level level) const {
    return host_->log_enabled(host_->instance, level) != 0;
  }
  void log(weft_log_level level, const std::string& text, const char* file = __builtin_FILE(),
           uint32_t line = __builtin_LINE()) const {
    if (logs(level)) host_->log(host_->instance, level, file, line, text.c_str());
  }
  void set_error(const Failure& failure) const {
    host_->set_error(host_->instance, failure.code, failure.source, failure.native,
                     failure.what.c_str(), failure.hint.empty() ? nullptr : failure.hint.c_str());
  }
  /// The counter `name`, or NULL where the host keeps none.
  [[nodiscard]] weft_counter* counter(const char* name, const char* help) const {
    weft_counter* counter = nullptr;
    return host_->counter(host_->instance, name, help, &counter) == WEFT_OK ? counter : nullptr;
  }
  void count(weft_counter* counter, uint64_t amount) const {
    if (counter != nullptr) host_->count(counter, amount);
  }
  [[nodiscard]] const weft_host* raw() const { return host_; }

 private:
  const weft_host* host_;
};

}  // namespace weft::net_socket
