// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What stands behind the services that a plugin gets: one instance a plugin and context. Internal
// to the services' own sources.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <plugin_api/plugin.h>

#include "core/base/device_runtime.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/plugin/host_services.h"

struct weft_counter {
  std::atomic<std::uint64_t> value{0};
  std::string help;
};

namespace weft {

/// Threads with an error that nobody asked for; beyond it the oldest state is of no use to anyone.
inline constexpr std::size_t kMaxPendingFailures = 1024;

struct Setting {
  weft_parameter_type type = WEFT_PARAMETER_TEXT;
  std::int64_t number = 0;
  std::string text;
  std::vector<std::string> items;
  std::vector<const char*> item_pointers;
};
struct Allocation {
  void* raw = nullptr;
  std::uint64_t size = 0;
  std::uint64_t id = 0;
  DeviceRuntime* runtime = nullptr;
  std::int32_t device = -1;
  weft_memory_sharing sharing = WEFT_SHARING_NONE;

  [[nodiscard]] weft_memory describe(const void* address) const {
    weft_memory memory{};
    memory.kind = device < 0 ? WEFT_MEMORY_HOST : WEFT_MEMORY_CUDA;
    memory.device = device;
    memory.sharing = sharing;
    memory.address = const_cast<void*>(address);
    memory.size = size;
    memory.allocation_id = id;
    memory.generation = 1;
    memory.handle = raw;
    return memory;
  }
};

/// Writes `full` to `out`, but no more than the caller has room for, and not the size itself.
template <typename T>
bool fill_output(T* out, const T& full) {
  if (out == nullptr || out->struct_size <= sizeof(full.struct_size)) return false;
  const std::size_t size = std::min<std::size_t>(out->struct_size, sizeof(T));
  constexpr std::size_t kSkip = sizeof(full.struct_size);
  std::memcpy(reinterpret_cast<char*>(out) + kSkip, reinterpret_cast<const char*>(&full) + kSkip,
              size - kSkip);
  return true;
}

}  // namespace weft

// Ownership: everything below `mutex` is guarded by it; settings and tables are constant once made.
// What a plugin says with set_error is kept by thread in a map of the instance and not in a
// thread_local variable: that would be a global that two instances share. Errors are rare, so the
// lock costs nothing that matters.
struct weft_host_instance {
  weft_host_instance(std::string plugin_id, weft::Logger& log, weft::Reactor& loop,
                     weft::DeviceRuntime& memory_runtime, weft::DeviceFinder devices)
      : id(std::move(plugin_id)),
        logger(log),
        reactor(loop),
        runtime(memory_runtime),
        cuda_devices(std::move(devices)) {}

  std::string id;
  weft::Logger& logger;
  weft::Reactor& reactor;
  weft::DeviceRuntime& runtime;
  const weft::DeviceFinder cuda_devices;
  weft_host host{};
  weft_host_memory memory{};
  std::map<std::string, weft::Setting, std::less<>> settings;

  std::mutex mutex;
  std::map<std::thread::id, weft::PluginFailure> failures;
  std::map<std::string, std::unique_ptr<weft_counter>, std::less<>> counters;
  std::set<weft::Reactor::WatchId> watches;
  std::map<const char*, weft::Allocation> allocations;
  std::multimap<void*, weft::DeviceRuntime*> imports;
  std::uint64_t next_allocation = 0;

  weft_result refuse(weft_result code, std::string what, std::string hint = {}) {
    return keep({code, WEFT_SOURCE_PLUGIN, 0, std::move(what), std::move(hint)});
  }

  weft_result keep(weft::PluginFailure failure) {
    const weft_result code = failure.code;
    const std::lock_guard lock(mutex);
    if (failures.size() >= weft::kMaxPendingFailures) failures.clear();
    failures[std::this_thread::get_id()] = std::move(failure);
    return code;
  }
};

namespace weft {

/// Fills the table of memory services; they use the instance that they are called with.
void provide_memory(weft_host_memory& table);

}  // namespace weft
