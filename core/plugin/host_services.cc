// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/host_services.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/base/deadline.h"
#include "core/base/version.h"
#include "core/config/problems.h"
#include "core/plugin/host_instance.h"

namespace weft {
namespace {

constexpr std::size_t kMaxErrorText = 4096;
constexpr std::size_t kMaxLogText = 16384;
constexpr std::size_t kMaxCounters = 1024;
constexpr std::size_t kMaxCounterName = 64;

/// One line of text that cannot disturb a terminal or a log, whoever wrote it.
std::string one_line(const char* text, std::size_t limit) {
  if (text == nullptr) return {};
  std::string line(text, ::strnlen(text, limit));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

Setting make_setting(const Parameter& parameter, const Value& value) {
  Setting setting;
  switch (parameter.type) {
    case ParameterType::kFlag:
      setting.type = WEFT_PARAMETER_FLAG;
      setting.number = std::get<bool>(value) ? 1 : 0;
      break;
    case ParameterType::kInteger:
    case ParameterType::kBytes:
      setting.type =
          parameter.type == ParameterType::kBytes ? WEFT_PARAMETER_BYTES : WEFT_PARAMETER_INTEGER;
      setting.number = std::get<std::int64_t>(value);
      break;
    case ParameterType::kDuration: {
      setting.type = WEFT_PARAMETER_DURATION;
      const auto& span = std::get<std::optional<std::chrono::nanoseconds>>(value);
      setting.number = span ? span->count() : -1;
      break;
    }
    case ParameterType::kList:
      setting.type = WEFT_PARAMETER_LIST;
      setting.items = std::get<std::vector<std::string>>(value);
      break;
    case ParameterType::kText:
    case ParameterType::kChoice:
    case ParameterType::kRules:
      setting.text = print_value(parameter, value);
      break;
  }
  return setting;
}

std::int32_t log_enabled(weft_host_instance* host, weft_log_level level) {
  return host->logger.enabled(Topic::kPlugin, level) ? 1 : 0;
}

void write_log(weft_host_instance* host, weft_log_level level, const char* file, std::uint32_t line,
               const char* text) {
  const weft_log_level known = std::clamp(level, WEFT_LOG_TRACE + 0, WEFT_LOG_ERROR + 0);
  if (!host->logger.enabled(Topic::kPlugin, known)) return;
  std::string message = host->id + ": " + one_line(text, kMaxLogText);
  if (file != nullptr && known <= WEFT_LOG_DEBUG) {
    message += fmt::format(" [{}:{}]", one_line(file, kMaxErrorText), line);
  }
  host->logger.write(Topic::kPlugin, known, message);
}

void set_error(weft_host_instance* host, weft_result code, weft_error_source source,
               std::int64_t native, const char* what, const char* hint) {
  try {
    host->keep(
        {code, source, native, one_line(what, kMaxErrorText), one_line(hint, kMaxErrorText)});
  } catch (const std::bad_alloc&) {
    // Nothing may be thrown into a plugin; and no words are better than those of an earlier error.
    const std::lock_guard lock(host->mutex);
    host->failures.erase(std::this_thread::get_id());
  }
}

weft_result get_parameter(weft_host_instance* host, const char* name, weft_parameter_value* out) {
  if (name == nullptr) return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "get_parameter(NULL)");
  const auto found = host->settings.find(std::string_view(name));
  if (found == host->settings.end()) {
    return host->refuse(
        WEFT_ERROR_INVALID_ARGUMENT,
        fmt::format("get_parameter({}): not in the plugin's table", in_quotes(name)));
  }
  const Setting& setting = found->second;
  weft_parameter_value value{};
  value.type = setting.type;
  value.number = setting.number;
  if (setting.type == WEFT_PARAMETER_TEXT) value.text = setting.text.c_str();
  if (setting.type == WEFT_PARAMETER_LIST) {
    value.items = setting.item_pointers.data();
    value.item_count = setting.item_pointers.size();
  }
  if (!fill_output(out, value)) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        "get_parameter: the output has no struct_size");
  }
  return WEFT_OK;
}

weft_result watch(weft_host_instance* host, std::int32_t descriptor, std::uint32_t events,
                  void (*ready)(void* user, std::uint32_t events), void* user, weft_watch* out) {
  if (ready == nullptr || out == nullptr) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "watch without a function or an output");
  }
  const auto id = host->reactor.add(descriptor, events,
                                    [ready, user](std::uint32_t what) { ready(user, what); });
  if (!id) {
    const Error& error = id.error();
    const bool system = error.source() == ErrorSource::kErrno;
    return host->keep({error.code(), system ? WEFT_SOURCE_ERRNO : WEFT_SOURCE_PLUGIN,
                       error.native(), error.what(), error.hint()});
  }
  const std::lock_guard lock(host->mutex);
  host->watches.insert(*id);
  *out = *id;
  return WEFT_OK;
}

void unwatch(weft_host_instance* host, weft_watch id) {
  // Anyone may call it for a watch that is being removed, and must then wait as well: whether it
  // is the instance's own is all that is asked under the lock.
  {
    const std::lock_guard lock(host->mutex);
    if (!host->watches.contains(id)) return;
  }
  host->reactor.remove(id);
  const std::lock_guard lock(host->mutex);
  host->watches.erase(id);
}

weft_result counter(weft_host_instance* host, const char* name, const char* help,
                    weft_counter** out) {
  const std::string key = one_line(name, kMaxCounterName + 1);
  const bool fits =
      !key.empty() && key.size() <= kMaxCounterName && std::ranges::all_of(key, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  if (!fits || out == nullptr) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        fmt::format("{} is no name for a counter", in_quotes(key)),
                        "lower-case letters, digits and '_', at most 64");
  }
  const std::unique_lock lock(host->mutex);
  const auto found = host->counters.find(key);
  if (found != host->counters.end()) {
    *out = found->second.get();
    return WEFT_OK;
  }
  if (host->counters.size() < kMaxCounters) {
    auto made = std::make_unique<weft_counter>();
    made->help = one_line(help, kMaxErrorText);
    *out = made.get();
    host->counters.emplace(key, std::move(made));
    return WEFT_OK;
  }
  host->failures[std::this_thread::get_id()] = {WEFT_ERROR_OUT_OF_RESOURCES,
                                                WEFT_SOURCE_PLUGIN,
                                                0,
                                                fmt::format("more than {} counters", kMaxCounters),
                                                {}};
  return WEFT_ERROR_OUT_OF_RESOURCES;
}

void count(weft_counter* counter, std::uint64_t amount) {
  counter->value.fetch_add(amount, std::memory_order_relaxed);
}

std::uint64_t now_ns(weft_host_instance* /*host*/) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

const void* get_extension(weft_host_instance* /*host*/, const char* /*id*/) {
  return nullptr;
}

/// Where the ids of an instance's allocations begin: they must differ from those of every other
/// context in the process, which this one knows nothing of.
std::uint64_t first_allocation_id() {
  std::random_device random;
  const std::uint64_t high = random() & 0x7fffffffU;
  return (high << 32U) | 1U;
}

}  // namespace

HostServices::HostServices(std::string plugin_id, Logger& logger, Reactor& reactor,
                           DeviceRuntime& host_runtime, const PluginSettings& settings,
                           DeviceFinder cuda_devices)
    : instance_(std::make_unique<weft_host_instance>(std::move(plugin_id), logger, reactor,
                                                     host_runtime, std::move(cuda_devices))) {
  instance_->next_allocation = first_allocation_id();
  for (const auto& [parameter, value] : settings) {
    Setting& kept = instance_->settings[parameter.key];
    kept = make_setting(parameter, value);
    for (const std::string& item : kept.items)
      kept.item_pointers.push_back(item.c_str());
  }
  provide_memory(instance_->memory);
  weft_host& host = instance_->host;
  host.struct_size = sizeof(host);
  host.abi_version = WEFT_PLUGIN_ABI_VERSION;
  host.draft = WEFT_PLUGIN_DRAFT;
  host.host_version = version_text();
  host.instance = instance_.get();
  host.memory = &instance_->memory;
  host.log_enabled = &log_enabled;
  host.log = &write_log;
  host.set_error = &set_error;
  host.get_parameter = &get_parameter;
  host.watch = &watch;
  host.unwatch = &unwatch;
  host.counter = &counter;
  host.count = &count;
  host.now_ns = &now_ns;
  host.get_extension = &get_extension;
}

HostServices::~HostServices() {
  weft_host_instance& host = *instance_;
  if (!host.watches.empty()) {
    host.logger.warn(Topic::kPlugin, "{}: left {} watched descriptors behind", host.id,
                     host.watches.size());
  }
  for (const auto id : host.watches)
    host.reactor.remove(id);
  if (!host.allocations.empty()) {
    host.logger.warn(Topic::kPlugin, "{}: left {} pieces of memory behind", host.id,
                     host.allocations.size());
  }
  for (const auto& [address, allocation] : host.allocations)
    allocation.runtime->release(allocation.raw);
}

void HostServices::warn(std::string_view what) const {
  instance_->logger.warn(Topic::kPlugin, "{}: {}", instance_->id, what);
}

const weft_host* HostServices::table() const {
  return &instance_->host;
}

std::optional<PluginFailure> HostServices::take_failure() {
  const std::lock_guard lock(instance_->mutex);
  auto node = instance_->failures.extract(std::this_thread::get_id());
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void HostServices::clear_failure() {
  const std::lock_guard lock(instance_->mutex);
  instance_->failures.erase(std::this_thread::get_id());
}

std::vector<CounterReading> HostServices::counters() const {
  const std::lock_guard lock(instance_->mutex);
  std::vector<CounterReading> readings;
  readings.reserve(instance_->counters.size());
  for (const auto& [name, counter] : instance_->counters) {
    readings.push_back({name, counter->help, counter->value.load(std::memory_order_relaxed)});
  }
  return readings;
}

}  // namespace weft
