// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/plugin.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/deadline.h"

namespace weft {
namespace {

// For what peers may still wait for. Nobody is told anything of a plugin by then but in the log.
constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kBetweenLooks = std::chrono::milliseconds(1);

ErrorSource source_of(weft_error_source source) {
  switch (source) {
    case WEFT_SOURCE_ERRNO:
      return ErrorSource::kErrno;
    case WEFT_SOURCE_CUDA:
      return ErrorSource::kCuda;
    case WEFT_SOURCE_VERBS:
      return ErrorSource::kVerbs;
    case WEFT_SOURCE_FABRIC:
      return ErrorSource::kFabric;
    default:  // Among them a peer's own code, which the core would take for a rank.
      return ErrorSource::kPlugin;
  }
}

}  // namespace

std::string plugin_context(std::string_view id) {
  return fmt::format("plugin {}", id);
}

Plugin::Plugin(PluginInfo info, const weft_plugin_descriptor& entry,
               std::unique_ptr<HostServices> services)
    : info_(std::move(info)), entry_(entry), services_(std::move(services)) {}

Result<std::unique_ptr<Plugin>> Plugin::start(PluginInfo info, const weft_plugin_descriptor& entry,
                                              std::unique_ptr<HostServices> services) {
  std::unique_ptr<Plugin> plugin(new Plugin(std::move(info), entry, std::move(services)));
  plugin->clear_error();
  weft_plugin* instance = nullptr;
  weft_result result = WEFT_OK;
  try {
    result = entry.init(plugin->services_->table(), &instance);
  } catch (const std::exception& exception) {
    return fail(plugin->defect("init", fmt::format("threw an exception: {}", exception.what())));
  } catch (...) {
    return fail(plugin->defect("init", "threw an exception"));
  }
  if (result != WEFT_OK) return fail(plugin->error(result, "init"));
  if (instance == nullptr) return fail(plugin->defect("init", "gave no instance"));
  plugin->instance_ = instance;
  return plugin;
}

Plugin::~Plugin() {
  if (instance_ == nullptr) return;
  if (entry_.quiesce != nullptr) come_to_rest();
  entry_.deinit(instance_);
}

void Plugin::come_to_rest() const {
  const Deadline limit = Deadline::after(kPatience);
  while (true) {
    clear_error();
    const weft_result result = entry_.quiesce(instance_);
    if (result == WEFT_OK) return;
    if (result != WEFT_IN_PROGRESS) return services_->warn(error(result, "quiesce").to_string());
    if (limit.passed()) return services_->warn("has not come to rest, and is ended all the same");
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

bool Plugin::offers(std::string_view interface_id) const {
  return std::ranges::find(info_.interfaces, interface_id) != info_.interfaces.end();
}

Result<const void*> Plugin::find_interface(const char* interface_id) const {
  if (!offers(interface_id)) {
    return fail(Error(WEFT_ERROR_PLUGIN, fmt::format("does not offer {}", interface_id),
                      "another plugin; weft plugin list shows what each offers")
                    .with_context(plugin_context(id())));
  }
  const void* table = entry_.get_interface(instance_, interface_id);
  if (table == nullptr) {
    return fail(defect("get_interface",
                       fmt::format("gave no table for {}, which the plugin lists", interface_id)));
  }
  return table;
}

const void* Plugin::get_extension(void* object, const char* extension_id) const {
  if (entry_.get_extension == nullptr) return nullptr;
  return entry_.get_extension(instance_, object, extension_id);
}

Error Plugin::error(weft_result code, std::string_view function) const {
  auto failure = services_->take_failure();
  if (code >= 0) {
    return defect(function, fmt::format("answered {}, which it must not", result_name(code)));
  }
  if (code < WEFT_ERROR_INTERNAL) {
    return defect(function, fmt::format("answered {}, which is no result", code));
  }
  if (!failure || failure->what.empty()) {
    return Error(code,
                 fmt::format("{} failed with {} and gave no reason", function, result_name(code)))
        .with_context(plugin_context(id()));
  }
  Error error(code, std::move(failure->what), std::move(failure->hint));
  if (failure->native != 0) error.with_native(source_of(failure->source), failure->native);
  return std::move(error).with_context(plugin_context(id()));
}

Error Plugin::defect(std::string_view function, std::string_view what) const {
  return Error(WEFT_ERROR_PLUGIN, fmt::format("{} {}", function, what), "update the plugin")
      .with_context(plugin_context(id()));
}

}  // namespace weft
