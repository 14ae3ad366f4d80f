// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Finds, checks and loads the plugins of one context.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/config/parameter.h"
#include "core/config/resolve.h"
#include "core/plugin/plugin.h"
#include "core/plugin/plugin_info.h"

namespace weft {

/// All that is asked of a plugin file before any of its code runs: who may write it, draft and
/// version, its name, its interfaces, its parameter table.
[[nodiscard]] Result<PluginInfo> examine_plugin(const std::string& file);

/// The plugin's parameter table as configuration takes it: section = the plugin's id.
/// WEFT_ERROR_PLUGIN names the file and what is wrong with the table.
[[nodiscard]] Result<std::vector<Parameter>> parameters_of(const PluginInfo& info);

/// The parameter tables of all plugins in the folders that could be loaded, and the sections of
/// those that could not.
struct PluginTables {
  std::vector<Parameter> parameters;
  std::vector<UnreadSection> unread;
};
[[nodiscard]] PluginTables read_plugin_tables(const std::vector<std::string>& directories);

/// What a parameter of a plugin finally is. `parameter.section` is the plugin's id.
using ParameterReader = std::function<Result<Value>(const Parameter& parameter)>;

struct PluginHostOptions {
  /// Absolute, first match first; nothing else is searched. See plugin_directories().
  std::vector<std::string> directories;
  /// Called once for each parameter while a plugin is loaded; empty: every default.
  ParameterReader parameters;
  /// Where CUDA memory for plugins comes from; empty: nowhere.
  DeviceFinder cuda_devices{};
};

/// A context's plugins. Logger, reactor and runtime outlive it. Threads: every member may be called
/// from any thread; load may block on the file system and on the plugin's init.
class PluginHost {
 public:
  PluginHost(PluginHostOptions options, Logger& logger, Reactor& reactor,
             DeviceRuntime& host_runtime);
  /// Ends all instances, last loaded first. Libraries stay loaded.
  ~PluginHost();
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  /// The plugin's instance for this context; made on the first call, the same one afterwards, and
  /// alive as long as this host. Errors name the plugin's file, what was found, and what to try.
  Result<const Plugin*> load(std::string_view id);

  /// Those loaded so far, in order.
  [[nodiscard]] std::vector<const Plugin*> loaded() const;

  [[nodiscard]] const std::vector<std::string>& directories() const { return options_.directories; }

 private:
  Result<std::unique_ptr<Plugin>> start(std::string_view id);
  Result<PluginSettings> settings_of(const PluginInfo& info) const;

  PluginHostOptions options_;
  Logger& logger_;
  Reactor& reactor_;
  DeviceRuntime& host_runtime_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Plugin>> plugins_;
};

}  // namespace weft
