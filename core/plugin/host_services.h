// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The host's side of one plugin instance: the table of services of plugin_api/plugin.h and the
// state behind it. Nothing of it is shared between instances.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/config/parameter.h"
#include "plugin_api/plugin.h"

struct weft_host_instance;

namespace weft {

/// What a plugin said with set_error.
struct PluginFailure {
  weft_result code = WEFT_OK;
  weft_error_source source = WEFT_SOURCE_PLUGIN;
  std::int64_t native = 0;
  std::string what;
  std::string hint;
};

/// A counter of a plugin as it stands now.
struct CounterReading {
  std::string name;
  std::string help;
  std::uint64_t value = 0;
};

/// Parameters of a plugin with their final values.
using PluginSettings = std::vector<std::pair<Parameter, Value>>;

/// The runtime of a CUDA device, or nullptr where the context has not opened it.
using DeviceFinder = std::function<DeviceRuntime*(std::int32_t index)>;

/// Logger, reactor and runtimes outlive it. Threads: every member may be called from any thread.
///
/// Plain host memory of a process cannot be exported; segment lists and revocation answer
/// WEFT_ERROR_UNSUPPORTED with a text for all memory.
class HostServices {
 public:
  HostServices(std::string plugin_id, Logger& logger, Reactor& reactor, DeviceRuntime& host_runtime,
               const PluginSettings& settings, DeviceFinder cuda_devices = {});
  /// Takes back what the plugin left behind (watches, memory) and warns of it.
  ~HostServices();
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  /// The table that init is given; lives as long as this.
  [[nodiscard]] const weft_host* table() const;

  /// What set_error last kept for the calling thread, once.
  [[nodiscard]] std::optional<PluginFailure> take_failure();
  /// Forgets it, so that the next failure is not explained by an older one.
  void clear_failure();

  /// By name.
  [[nodiscard]] std::vector<CounterReading> counters() const;

  /// A line of the log, at warn, that begins with the plugin's id.
  void warn(std::string_view what) const;

 private:
  std::unique_ptr<weft_host_instance> instance_;
};

}  // namespace weft
