// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The services of FakeHost as functions of the plugin ABI.
#include "tests/support/fake_host.h"

#include <chrono>
#include <utility>

namespace weft::test {
namespace {

FakeHost& self(weft_host_instance* instance) {
  return *reinterpret_cast<FakeHost*>(instance);
}

weft_result refuse_allocate(weft_host_instance* /*host*/, weft_memory_kind /*kind*/,
                            std::int32_t /*device*/, std::uint64_t /*size*/,
                            std::uint32_t /*sharing*/, weft_memory* /*out*/) {
  return WEFT_ERROR_UNSUPPORTED;
}

weft_result refuse_watch(weft_host_instance* /*host*/, std::int32_t /*descriptor*/,
                         std::uint32_t /*events*/, void (* /*ready*/)(void*, std::uint32_t),
                         void* /*user*/, weft_watch* /*out*/) {
  return WEFT_ERROR_UNSUPPORTED;
}

}  // namespace

FakeHost::FakeHost() {
  memory_.struct_size = sizeof(memory_);
  memory_.allocate = refuse_allocate;
  memory_.free = [](weft_host_instance*, weft_memory*) {};

  services_.struct_size = sizeof(services_);
  services_.abi_version = WEFT_PLUGIN_ABI_VERSION;
  services_.draft = WEFT_PLUGIN_DRAFT;
  services_.host_version = "0.0.0-test";
  services_.instance = reinterpret_cast<weft_host_instance*>(this);
  services_.memory = &memory_;
  services_.log_enabled = [](weft_host_instance*, weft_log_level) -> std::int32_t { return 1; };
  services_.log = [](weft_host_instance* host, weft_log_level, const char*, std::uint32_t,
                     const char* text) { self(host).record_line(text); };
  services_.set_error = [](weft_host_instance* host, weft_result code, weft_error_source source,
                           std::int64_t native, const char* what, const char* hint) {
    self(host).record_error({code, source, native, what, hint == nullptr ? "" : hint});
  };
  services_.get_parameter = [](weft_host_instance* host, const char* name,
                               weft_parameter_value* out) {
    return self(host).find_parameter(name, out);
  };
  services_.watch = refuse_watch;
  services_.unwatch = [](weft_host_instance*, weft_watch) {};
  services_.counter = [](weft_host_instance*, const char*, const char*, weft_counter**) {
    return weft_result{WEFT_ERROR_UNSUPPORTED};
  };
  services_.count = [](weft_counter*, std::uint64_t) {};
  services_.now_ns = [](weft_host_instance*) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  };
  services_.get_extension = [](weft_host_instance*, const char*) -> const void* { return nullptr; };
}

void FakeHost::set_number(const std::string& name, weft_parameter_type type, std::int64_t value) {
  const std::scoped_lock lock(mutex_);
  numbers_[name] = {type, value};
}

ReportedError FakeHost::last_error() const {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

std::uint64_t FakeHost::error_count() const {
  const std::scoped_lock lock(mutex_);
  return error_count_;
}

std::vector<std::string> FakeHost::log_lines() const {
  const std::scoped_lock lock(mutex_);
  return lines_;
}

void FakeHost::record_error(ReportedError error) {
  const std::scoped_lock lock(mutex_);
  last_error_ = std::move(error);
  ++error_count_;
}

void FakeHost::record_line(const char* text) {
  const std::scoped_lock lock(mutex_);
  lines_.emplace_back(text);
}

weft_result FakeHost::find_parameter(const char* name, weft_parameter_value* out) const {
  const std::scoped_lock lock(mutex_);
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return WEFT_ERROR_INVALID_ARGUMENT;
  out->type = found->second.type;
  out->number = found->second.value;
  return WEFT_OK;
}

}  // namespace weft::test
