// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One instance of a plugin, made for one context: what it says of itself, its interfaces, and its
// errors as values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/plugin/host_services.h"
#include "core/plugin/plugin_info.h"
#include "plugin_api/plugin.h"

namespace weft {

/// Threads: every member may be called from any thread. Errors of a plugin belong to the thread
/// that called it: ask on the same thread.
class Plugin {
 public:
  /// Calls the plugin's init; PluginHost does this. `entry` lives as long as the library, which is
  /// never unloaded.
  static Result<std::unique_ptr<Plugin>> start(PluginInfo info, const weft_plugin_descriptor& entry,
                                               std::unique_ptr<HostServices> services);
  /// Lets the plugin come to rest, for two seconds at most, and calls its deinit; all objects of it
  /// are closed before.
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  [[nodiscard]] const PluginInfo& info() const { return info_; }
  [[nodiscard]] const std::string& id() const { return info_.id; }
  /// What every call of an interface's `open` takes first.
  [[nodiscard]] weft_plugin* instance() const { return instance_; }

  /// Whether the plugin's entry lists the interface.
  [[nodiscard]] bool offers(std::string_view interface_id) const;
  /// Its table, as the plugin compiled it; an error if it is not listed or not given.
  [[nodiscard]] Result<const void*> find_interface(const char* interface_id) const;
  /// An extension of an object of the plugin, or null.
  [[nodiscard]] const void* get_extension(void* object, const char* extension_id) const;

  /// Makes the error of a call to `function` that answered `code` on this thread, with what the
  /// plugin said by set_error. A code that is no error is itself the plugin's defect.
  [[nodiscard]] Error error(weft_result code, std::string_view function) const;
  /// A defect of the plugin, found by looking at what `function` gave back.
  [[nodiscard]] Error defect(std::string_view function, std::string_view what) const;
  /// Forgets what this thread's earlier calls said; before a call whose error will be asked for.
  void clear_error() const { services_->clear_failure(); }

  [[nodiscard]] std::vector<CounterReading> counters() const { return services_->counters(); }

 private:
  Plugin(PluginInfo info, const weft_plugin_descriptor& entry,
         std::unique_ptr<HostServices> services);
  void come_to_rest() const;

  PluginInfo info_;
  const weft_plugin_descriptor& entry_;
  std::unique_ptr<HostServices> services_;
  weft_plugin* instance_ = nullptr;
};

/// "plugin net-socket", as messages name it.
[[nodiscard]] std::string plugin_context(std::string_view id);

}  // namespace weft
