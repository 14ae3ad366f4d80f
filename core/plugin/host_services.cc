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

struct weft_counter {
  std::atomic<std::uint64_t> value{0};
  std::string help;
};

namespace weft {
namespace {

constexpr std::size_t kMaxErrorText = 4096;
constexpr std::size_t kMaxLogText = 16384;
constexpr std::size_t kMaxCounters = 1024;
constexpr std::size_t kMaxCounterName = 64;
/// Threads with an error that nobody asked for; beyond it the oldest state is of no use to anyone.
constexpr std::size_t kMaxPendingFailures = 1024;
constexpr std::uint64_t kMemoryAlignment = 4096;
constexpr std::uint64_t kExportGrain = std::uint64_t{2} << 20;

/// One line of text that cannot disturb a terminal or a log, whoever wrote it.
std::string one_line(const char* text, std::size_t limit) {
  if (text == nullptr) return {};
  std::string line(text, ::strnlen(text, limit));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

struct Setting {
  weft_parameter_type type = WEFT_PARAMETER_TEXT;
  std::int64_t number = 0;
  std::string text;
  std::vector<std::string> items;
  std::vector<const char*> item_pointers;
};

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

struct Allocation {
  void* raw = nullptr;
  std::uint64_t size = 0;
  std::uint64_t id = 0;
  DeviceRuntime* runtime = nullptr;
  std::int32_t device = -1;

  [[nodiscard]] weft_memory describe(const void* address) const {
    weft_memory memory{};
    memory.kind = device < 0 ? WEFT_MEMORY_HOST : WEFT_MEMORY_CUDA;
    memory.device = device;
    memory.sharing = device < 0 ? WEFT_SHARING_NONE : WEFT_SHARING_IPC;
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

}  // namespace
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
namespace {

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
  host->keep({code, source, native, one_line(what, kMaxErrorText), one_line(hint, kMaxErrorText)});
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

/// Keeps an allocation and describes it to the plugin; gives it back where that cannot be done.
weft_result hand_out(weft_host_instance* host, void* address, Allocation allocation,
                     weft_memory* out) {
  {
    const std::lock_guard lock(host->mutex);
    allocation.id = host->next_allocation++;
    host->allocations[static_cast<const char*>(address)] = allocation;
  }
  if (fill_output(out, allocation.describe(address))) return WEFT_OK;
  {
    const std::lock_guard lock(host->mutex);
    host->allocations.erase(static_cast<const char*>(address));
  }
  allocation.runtime->release(allocation.raw);
  return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "the output has no struct_size");
}

weft_result device_failure(weft_host_instance* host, DeviceRuntime& runtime, weft_result result,
                           const std::string& what) {
  std::int64_t native = 0;
  const std::string_view said = runtime.last_failure(&native);
  return host->keep({result < 0 ? result : WEFT_ERROR_OUT_OF_MEMORY,
                     said.empty() ? WEFT_SOURCE_PLUGIN : WEFT_SOURCE_CUDA,
                     native,
                     said.empty() ? what : fmt::format("{}: {}", what, said),
                     {}});
}

weft_result allocate_host(weft_host_instance* host, std::uint64_t size, std::uint32_t sharing,
                          weft_memory* out) {
  if (sharing != WEFT_SHARING_NONE) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "ordinary host memory cannot be handed to another process",
                        "make a memfd and map it");
  }
  void* raw = nullptr;
  const weft_result result = host->runtime.allocate(size + kMemoryAlignment, &raw);
  if (result != WEFT_OK || raw == nullptr) {
    return host->refuse(result < 0 ? result : WEFT_ERROR_OUT_OF_MEMORY,
                        fmt::format("cannot allocate {} bytes of host memory", size));
  }
  void* aligned = raw;
  std::size_t room = size + kMemoryAlignment;
  std::align(kMemoryAlignment, size, aligned, room);
  return hand_out(host, aligned, {.raw = raw, .size = size, .runtime = &host->runtime}, out);
}

weft_result allocate_cuda(weft_host_instance* host, DeviceRuntime& runtime, std::uint64_t size,
                          std::uint32_t sharing, weft_memory* out) {
  if ((sharing & ~static_cast<std::uint32_t>(WEFT_SHARING_IPC)) != 0) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "CUDA memory is handed to other processes by WEFT_SHARING_IPC alone");
  }
  // Whole pages of the driver: a ticket opens the page, and nothing of others shall lie in it.
  const std::uint64_t grain = sharing == WEFT_SHARING_NONE ? kMemoryAlignment : kExportGrain;
  const std::uint64_t rounded = (size + grain - 1) / grain * grain;
  void* raw = nullptr;
  const weft_result result = runtime.allocate(rounded, &raw);
  if (result != WEFT_OK) {
    return device_failure(
        host, runtime, result,
        fmt::format("cannot allocate {} bytes on CUDA device {}", rounded, runtime.index()));
  }
  return hand_out(host, raw,
                  {.raw = raw, .size = rounded, .runtime = &runtime, .device = runtime.index()},
                  out);
}

/// The runtime of a CUDA device of this context; says why not where there is none.
DeviceRuntime* find_device(weft_host_instance* host, std::int32_t device) {
  DeviceRuntime* runtime = host->cuda_devices ? host->cuda_devices(device) : nullptr;
  if (runtime == nullptr) {
    host->refuse(WEFT_ERROR_UNSUPPORTED,
                 fmt::format("no rank of this context runs on CUDA device {}", device));
  }
  return runtime;
}

weft_result allocate(weft_host_instance* host, weft_memory_kind kind, std::int32_t device,
                     std::uint64_t size, std::uint32_t sharing, weft_memory* out) {
  constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 47;
  if (size == 0 || size > kMaxSize || out == nullptr) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        fmt::format("{} bytes of memory asked for", size));
  }
  if (kind == WEFT_MEMORY_HOST && device == -1) return allocate_host(host, size, sharing, out);
  if (kind == WEFT_MEMORY_CUDA && device >= 0) {
    DeviceRuntime* runtime = find_device(host, device);
    return runtime == nullptr ? WEFT_ERROR_UNSUPPORTED
                              : allocate_cuda(host, *runtime, size, sharing, out);
  }
  return host->refuse(WEFT_ERROR_UNSUPPORTED,
                      fmt::format("memory of kind {} on device {} cannot be allocated: there is "
                                  "host memory (kind {}, device -1) and CUDA memory (kind {})",
                                  kind, device, WEFT_MEMORY_HOST + 0, WEFT_MEMORY_CUDA + 0));
}

void free_memory(weft_host_instance* host, weft_memory* memory) {
  if (memory == nullptr || !WEFT_HAS(memory, weft_memory, address)) return;
  std::optional<Allocation> given_back;
  {
    const std::lock_guard lock(host->mutex);
    // An import has no handle: it may be another rank's allocation of this very instance.
    const auto import =
        memory->handle == nullptr ? host->imports.find(memory->address) : host->imports.end();
    if (import != host->imports.end()) {
      import->second->close_import(import->first);
      host->imports.erase(import);
      return;
    }
    const auto found = host->allocations.find(static_cast<const char*>(memory->address));
    if (found != host->allocations.end()) {
      given_back = found->second;
      host->allocations.erase(found);
    }
  }
  if (!given_back) {
    host->logger.error(Topic::kPlugin,
                       "{}: gave back memory at {} that it does not hold; nothing was freed",
                       host->id, fmt::ptr(memory->address));
    return;
  }
  given_back->runtime->release(given_back->raw);
}

weft_result export_memory(weft_host_instance* host, const weft_memory* memory,
                          std::uint32_t sharing, weft_memory_export* out) {
  if (!WEFT_HAS(memory, weft_memory, address) || !WEFT_HAS(out, weft_memory_export, bytes)) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "export_memory: incomplete arguments");
  }
  std::optional<Allocation> allocation;
  {
    const std::lock_guard lock(host->mutex);
    const auto found = host->allocations.find(static_cast<const char*>(memory->address));
    if (found != host->allocations.end()) allocation = found->second;
  }
  if (!allocation) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        "export_memory: this instance did not allocate that memory");
  }
  if (allocation->device < 0 || sharing != WEFT_SHARING_IPC) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        allocation->device < 0
                            ? "ordinary host memory cannot be handed to another process"
                            : "CUDA memory travels by WEFT_SHARING_IPC alone",
                        allocation->device < 0 ? "make a memfd and map it" : "");
  }
  MemoryTicket ticket;
  const weft_result result = allocation->runtime->export_memory(allocation->raw, &ticket);
  if (result != WEFT_OK) {
    return device_failure(host, *allocation->runtime, result, "cannot export CUDA memory");
  }
  weft_memory_export form{};
  form.sharing = WEFT_SHARING_IPC;
  form.descriptor = -1;
  form.bytes_used = sizeof(ticket.bytes);
  static_assert(sizeof(form.bytes) == sizeof(ticket.bytes));
  std::memcpy(form.bytes, ticket.bytes.data(), sizeof(form.bytes));
  fill_output(out, form);
  return WEFT_OK;
}

weft_result import_memory(weft_host_instance* host, const weft_memory_export* from,
                          std::int32_t device, void* fixed_address, weft_memory* out) {
  // The descriptor is the host's from the call on, whatever the answer.
  if (WEFT_HAS(from, weft_memory_export, descriptor) && from->descriptor >= 0 &&
      from->sharing == WEFT_SHARING_DESCRIPTOR) {
    ::close(from->descriptor);
  }
  if (!WEFT_HAS(from, weft_memory_export, bytes) || from->sharing != WEFT_SHARING_IPC ||
      from->bytes_used != sizeof(MemoryTicket::bytes) || fixed_address != nullptr) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "only CUDA memory that travels by WEFT_SHARING_IPC can be imported, "
                        "wherever the driver puts it");
  }
  DeviceRuntime* runtime = find_device(host, device);
  if (runtime == nullptr) return WEFT_ERROR_UNSUPPORTED;
  MemoryTicket ticket;
  std::memcpy(ticket.bytes.data(), from->bytes, sizeof(ticket.bytes));
  void* address = nullptr;
  std::size_t size = 0;
  const weft_result result = runtime->import_memory(ticket, &address, &size);
  if (result != WEFT_OK) {
    return device_failure(
        host, *runtime, result,
        fmt::format("CUDA device {} cannot reach a peer's memory", runtime->index()));
  }
  weft_memory memory{};
  memory.kind = WEFT_MEMORY_CUDA;
  memory.device = device;
  memory.address = address;
  memory.size = size;
  if (!fill_output(out, memory)) {
    runtime->close_import(address);
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        "import_memory: the output has no struct_size");
  }
  const std::lock_guard lock(host->mutex);
  host->imports.emplace(address, runtime);
  return WEFT_OK;
}

weft_result query(weft_host_instance* host, const void* address, weft_memory* out) {
  weft_memory memory{};
  {
    const std::lock_guard lock(host->mutex);
    const auto* wanted = static_cast<const char*>(address);
    auto after = host->allocations.upper_bound(wanted);
    if (after != host->allocations.begin()) {
      const auto& [start, allocation] = *std::prev(after);
      if (static_cast<std::uint64_t>(wanted - start) < allocation.size) {
        memory = allocation.describe(start);
      }
    }
  }
  if (memory.address == nullptr) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        fmt::format("no allocation of this host lies at {}: ordinary host memory "
                                    "has no allocation id",
                                    fmt::ptr(address)));
  }
  if (fill_output(out, memory)) return WEFT_OK;
  return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "query: the output has no struct_size");
}

weft_result segments(weft_host_instance* host, const weft_memory* /*memory*/,
                     weft_memory_segment* /*out*/, std::uint64_t /*stride*/,
                     std::uint64_t /*capacity*/, std::uint64_t* /*count*/) {
  return host->refuse(WEFT_ERROR_UNSUPPORTED, "ordinary host memory is not made of segments");
}

weft_result on_revoke(weft_host_instance* host, std::uint64_t /*allocation_id*/,
                      void (* /*revoked*/)(void* user, std::uint64_t allocation_id),
                      void* /*user*/) {
  return host->refuse(WEFT_ERROR_UNSUPPORTED,
                      "ordinary host memory goes only when the plugin itself gives it back");
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
  weft_host_memory& memory = instance_->memory;
  memory.struct_size = sizeof(memory);
  memory.allocate = &allocate;
  memory.free = &free_memory;
  memory.export_memory = &export_memory;
  memory.import_memory = &import_memory;
  memory.query = &query;
  memory.segments = &segments;
  memory.on_revoke = &on_revoke;
  weft_host& host = instance_->host;
  host.struct_size = sizeof(host);
  host.abi_version = WEFT_PLUGIN_ABI_VERSION;
  host.draft = WEFT_PLUGIN_DRAFT;
  host.host_version = version_text();
  host.instance = instance_.get();
  host.memory = &memory;
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
