// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The services of FakeHost as functions of the plugin ABI.
#include "tests/support/fake_host.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
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
  services_.counter = [](weft_host_instance* host, const char* name, const char*,
                         weft_counter** out) {
    *out = self(host).find_counter(name);
    return weft_result{WEFT_OK};
  };
  services_.count = [](weft_counter* counter, std::uint64_t amount) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(counter)->fetch_add(amount,
                                                                      std::memory_order_relaxed);
  };
  services_.now_ns = [](weft_host_instance*) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  };
  services_.get_extension = [](weft_host_instance*, const char*) -> const void* { return nullptr; };
}

ParameterValue parse_parameter(weft_parameter_type type, const std::string& text) {
  ParameterValue value;
  value.type = type;
  if (type == WEFT_PARAMETER_TEXT) {
    value.text = text;
    return value;
  }
  if (type == WEFT_PARAMETER_LIST) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      value.items.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return value;
  }
  static const std::map<std::string, std::int64_t> factors = {
      {"", 1},   {"B", 1},     {"KiB", 1024},     {"MiB", 1 << 20},     {"GiB", 1 << 30},
      {"ns", 1}, {"us", 1000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"min", 60'000'000'000}};
  if (text == "off" || text == "true" || text == "false") {
    value.number = text == "true" ? 1 : text == "off" ? -1 : 0;
    return value;
  }
  std::size_t used = 0;
  const std::int64_t number = std::stoll(text, &used);
  const auto factor = factors.find(text.substr(used));
  if (factor == factors.end()) throw std::invalid_argument("no value of a parameter: " + text);
  value.number = number * factor->second;
  return value;
}

void FakeHost::store(const std::string& name, ParameterValue value) {
  const std::scoped_lock lock(mutex_);
  Stored& stored = parameters_[name];
  stored.value = std::move(value);
  stored.pointers.clear();
  for (const std::string& item : stored.value.items)
    stored.pointers.push_back(item.c_str());
}

void FakeHost::set_number(const std::string& name, weft_parameter_type type, std::int64_t value) {
  ParameterValue parameter;
  parameter.type = type;
  parameter.number = value;
  store(name, std::move(parameter));
}

void FakeHost::set_text(const std::string& name, const std::string& value) {
  ParameterValue parameter;
  parameter.type = WEFT_PARAMETER_TEXT;
  parameter.text = value;
  store(name, std::move(parameter));
}

void FakeHost::set_list(const std::string& name, const std::vector<std::string>& items) {
  ParameterValue parameter;
  parameter.type = WEFT_PARAMETER_LIST;
  parameter.items = items;
  store(name, std::move(parameter));
}

void FakeHost::use_defaults(const weft_plugin_descriptor& plugin) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(plugin.parameters);
  for (std::uint32_t i = 0; i < plugin.parameter_count; ++i) {
    const auto* parameter =
        reinterpret_cast<const weft_parameter*>(bytes + std::size_t{i} * plugin.parameter_stride);
    {
      const std::scoped_lock lock(mutex_);
      if (parameters_.contains(parameter->name)) continue;
    }
    store(parameter->name, parse_parameter(parameter->type, parameter->default_value));
  }
}

std::uint64_t FakeHost::counter(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = counters_.find(name);
  return found == counters_.end() ? 0 : found->second.load(std::memory_order_relaxed);
}

weft_counter* FakeHost::find_counter(const char* name) {
  const std::scoped_lock lock(mutex_);
  return reinterpret_cast<weft_counter*>(&counters_[name]);
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
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) return WEFT_ERROR_INVALID_ARGUMENT;
  const Stored& stored = found->second;
  out->type = stored.value.type;
  out->number = stored.value.number;
  out->text = stored.value.type == WEFT_PARAMETER_TEXT ? stored.value.text.c_str() : nullptr;
  out->items = stored.pointers.data();
  out->item_count = stored.pointers.size();
  return WEFT_OK;
}

}  // namespace weft::test
