// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the memory transports need of the plugin ABI: error reports through the host, output structs
// written to the size that the caller knows, and a fence that keeps exceptions inside the plugin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <sys/types.h>

#include <plugin_api/plugin.h>

namespace weft::plugins {

/// "Operation not permitted (EPERM)".
std::string errno_text(int error);

/// The services of the host that one plugin instance was given. Copies share them. [any-thread]
class Host {
 public:
  explicit Host(const weft_host* services) : services_(services) {}

  /// Keeps what went wrong for the calling thread and answers `code`.
  weft_result fail(weft_result code, const std::string& what, const char* hint = nullptr) const;
  /// The same where another rank is the cause.
  weft_result fail_peer(const std::string& what, const char* hint = nullptr) const;
  /// The same with an errno, which also chooses the code: memory, resources, or system.
  weft_result fail_errno(int error, const std::string& what, const char* hint = nullptr) const;

  /// Writes one line at level debug.
  void debug(const std::string& text) const { log(WEFT_LOG_DEBUG, text); }
  /// The same at level info.
  void info(const std::string& text) const { log(WEFT_LOG_INFO, text); }
  /// Value of a parameter of type FLAG; `fallback` where the host has none.
  [[nodiscard]] bool flag(const char* name, bool fallback) const;
  /// The same of type TEXT.
  [[nodiscard]] std::string text(const char* name, const char* fallback) const;
  /// All services, for what has no wrapper here.
  [[nodiscard]] const weft_host& services() const { return *services_; }
  [[nodiscard]] std::uint64_t now_ns() const { return services_->now_ns(services_->instance); }

 private:
  void log(weft_log_level level, const std::string& text) const;

  const weft_host* services_;
};

/// Copies `from` to `out` as far as out->struct_size goes, which stays what it was.
template <class T>
void write_out(const T& from, T* out) {
  const std::uint32_t size = out->struct_size;
  std::memcpy(out, &from, std::min<std::size_t>(size, sizeof(T)));
  out->struct_size = size;
}

/// Runs `body` so that no exception leaves the plugin. Words for a lack of memory take some.
template <class Body>
weft_result guarded(const Host& host, Body&& body) noexcept {
  try {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return host.fail(WEFT_ERROR_OUT_OF_MEMORY, "out of memory for a small allocation",
                       "free memory on this host");
    } catch (const std::exception& error) {
      return host.fail(WEFT_ERROR_INTERNAL, error.what());
    }
  } catch (const std::bad_alloc&) {
    return WEFT_ERROR_OUT_OF_MEMORY;
  }
}

/// Element `index` of a list whose entries lie `stride` bytes apart.
template <class T>
const T* element(const T* first, std::uint64_t stride, std::uint64_t index) {
  return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(first) + stride * index);
}

}  // namespace weft::plugins
