// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/loader.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>  // library_info.hpp of Boost 1.74 forgets it

#include <boost/dll/shared_library.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plugin/inspect.h"
#include "core/plugin/search.h"

namespace weft {
namespace {

/// Loads the library for good and gives its entry.
Result<const weft_plugin_descriptor*> load_library(const PluginInfo& info) {
  namespace dll = boost::dll;
  // Never unloaded: its threads, thread-local destructors and tables may be in use until the very
  // end of the process. With RTLD_NODELETE the loader keeps it though the handle is dropped here.
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): a set of bits, as dlopen takes it
  const auto mode = static_cast<dll::load_mode::type>(
      static_cast<unsigned>(dll::load_mode::rtld_now) |
      static_cast<unsigned>(dll::load_mode::rtld_local) | static_cast<unsigned>(RTLD_NODELETE));
  dll::shared_library library;
  std::error_code code;
  dlerror();
  library.load(dll::fs::path(info.file), mode, code);
  if (code) {
    const char* text = dlerror();
    return fail(
        WEFT_ERROR_PLUGIN,
        fmt::format("{} cannot be loaded: {}", info.file, text != nullptr ? text : code.message()),
        info.needed.empty()
            ? std::string()
            : fmt::format("install what it needs: {}", fmt::join(info.needed, ", ")));
  }
  if (!library.has(kPluginEntrySymbol)) {
    return fail(WEFT_ERROR_PLUGIN,
                fmt::format("{} exports no symbol {}", info.file, kPluginEntrySymbol));
  }
  const auto& entry = library.get<const weft_plugin_descriptor>(kPluginEntrySymbol);
  // What was checked is the file; what runs must be the same.
  if (entry.magic != WEFT_PLUGIN_MAGIC || entry.draft != info.draft ||
      entry.struct_size != info.struct_size ||
      std::strncmp(entry.id, info.id.c_str(), sizeof(entry.id)) != 0 || entry.init == nullptr ||
      entry.deinit == nullptr || entry.get_interface == nullptr) {
    return fail(WEFT_ERROR_PLUGIN,
                fmt::format("{} changed while it was loaded, or was replaced after an earlier "
                            "version had been loaded",
                            info.file),
                "start the process anew");
  }
  return &entry;
}

}  // namespace

Result<PluginInfo> examine_plugin(const std::string& file) {
  WEFT_TRY(check_trusted(file));
  WEFT_TRY_ASSIGN(PluginInfo info, inspect_plugin(file));
  WEFT_TRY(check_versions(info));
  WEFT_TRY(check_file_name(info));
  WEFT_TRY(check_interfaces(info));
  WEFT_TRY(parameters_of(info));
  return info;
}

PluginTables read_plugin_tables(const std::vector<std::string>& directories) {
  PluginTables tables;
  for (const FoundPlugin& found : find_plugins(directories)) {
    if (!found.hidden_by.empty()) continue;
    auto info = examine_plugin(found.file);
    auto parameters = info ? parameters_of(*info) : std::unexpected(info.error());
    if (!parameters) {
      tables.unread.push_back({.name = found.id, .why = parameters.error().to_string()});
      continue;
    }
    std::ranges::move(*parameters, std::back_inserter(tables.parameters));
  }
  return tables;
}

PluginHost::PluginHost(PluginHostOptions options, Logger& logger, Reactor& reactor,
                       DeviceRuntime& host_runtime)
    : options_(std::move(options)),
      logger_(logger),
      reactor_(reactor),
      host_runtime_(host_runtime) {}

PluginHost::~PluginHost() {
  while (!plugins_.empty())
    plugins_.pop_back();
}

Result<PluginSettings> PluginHost::settings_of(const PluginInfo& info) const {
  WEFT_TRY_ASSIGN(const std::vector<Parameter> parameters, parameters_of(info));
  PluginSettings settings;
  for (const Parameter& parameter : parameters) {
    WEFT_TRY_ASSIGN(Value value, options_.parameters
                                     ? options_.parameters(parameter)
                                     : parse_value(parameter, parameter.default_text));
    settings.emplace_back(parameter, std::move(value));
  }
  return settings;
}

Result<std::unique_ptr<Plugin>> PluginHost::start(std::string_view id) {
  WEFT_TRY_ASSIGN(const std::string file, find_plugin(options_.directories, id));
  WEFT_TRY_ASSIGN(PluginInfo info, examine_plugin(file));
  WEFT_TRY_ASSIGN(const PluginSettings settings, settings_of(info));
  WEFT_TRY_ASSIGN(const weft_plugin_descriptor* entry, load_library(info));
  auto services = std::make_unique<HostServices>(info.id, logger_, reactor_, host_runtime_,
                                                 settings, options_.cuda_devices);
  auto plugin = Plugin::start(std::move(info), *entry, std::move(services));
  if (!plugin) return fail(std::move(plugin).error().with_context(file));
  return plugin;
}

Result<const Plugin*> PluginHost::load(std::string_view id) {
  const std::lock_guard lock(mutex_);
  for (const auto& plugin : plugins_) {
    if (plugin->id() == id) return plugin.get();
  }
  WEFT_TRY_ASSIGN(std::unique_ptr<Plugin> plugin, start(id));
  const PluginInfo& info = plugin->info();
  logger_.info(Topic::kPlugin, "loaded {} {} ({}) from {}: {}", info.id, info.version, info.vendor,
               info.file, fmt::join(info.interfaces, ", "));
  plugins_.push_back(std::move(plugin));
  return plugins_.back().get();
}

std::vector<const Plugin*> PluginHost::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Plugin*> all;
  all.reserve(plugins_.size());
  for (const auto& plugin : plugins_)
    all.push_back(plugin.get());
  return all;
}

}  // namespace weft
