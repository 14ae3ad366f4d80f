// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/context.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/base/fd.h"
#include "core/comm/cuda_library.h"
#include "core/config/resolve.h"
#include "core/config/source.h"
#include "core/plugin/search.h"
#include "core/topology/discover.h"

namespace weft {
namespace {

// Threads come and go; the texts of those that are gone are not worth keeping.
constexpr std::size_t kMostErrors = 1024;
// Room for several communicators of GPUs. More than these many systems do not allow unless asked.
constexpr int kUsualDescriptors = 1024;

/// A file that is named in a file lies beside it.
Value placed(const ConfigEntry& entry) {
  const auto* text = std::get_if<std::string>(&entry.value());
  if (text == nullptr || text->empty() || !entry.parameter.path ||
      entry.origin().kind != OriginKind::kFile) {
    return entry.value();
  }
  return (std::filesystem::path(entry.origin().name).parent_path() / *text).string();
}

}  // namespace

BootstrapOptions bootstrap_options(const Config& config, const HostInfo& host) {
  BootstrapOptions options;
  options.timeout = config.duration("timeouts.bootstrap").value_or(std::chrono::nanoseconds(0));
  options.report_after = config.duration("timeouts.report");
  options.interfaces = config.list("bootstrap.interfaces");
  options.host_label = host.host_name;
  return options;
}

Context::Context(Environment environment) : environment_(std::move(environment)) {}

Result<std::unique_ptr<Context>> Context::create(const std::string& config_file,
                                                 Environment environment,
                                                 std::unique_ptr<DeviceRuntime> host_device) {
  std::unique_ptr<Context> context(new Context(std::move(environment)));
  make_room_for_descriptors(kUsualDescriptors);
  WEFT_TRY_ASSIGN(auto guard, ForkGuard::create());
  context->fork_guard_ = std::make_unique<ForkGuard>(std::move(guard));

  WEFT_TRY_ASSIGN(const ConfigSource source,
                  config_file.empty()
                      ? ConfigSource::read(context->environment_)
                      : ConfigSource::read_file(config_file, context->environment_));
  WEFT_TRY_ASSIGN(const Config core, resolve_core(source));
  context->logger_.configure(core.log_options());
  const auto directories = plugin_directories(core.list("plugins.path"));
  const PluginTables tables = read_plugin_tables(directories);
  WEFT_TRY_ASSIGN(auto config, resolve(source, tables.parameters, tables.unread));
  context->config_ = std::make_unique<Config>(std::move(config));
  for (const auto& notice : context->config_->notices()) {
    context->logger_.info(Topic::kConfig, "{}", notice);
  }

  WEFT_TRY_ASSIGN(context->host_, discover_host(context->environment_.get("WEFT_HOST_ID")));
  // Now, before other ranks wait for those of this process.
  if (const auto fabric_id = context->environment_.get("WEFT_FABRIC_ID"); !fabric_id.empty()) {
    WEFT_TRY(check_fabric_id(fabric_id));
  }
  WEFT_TRY_ASSIGN(context->reactor_, Reactor::create());
  if (host_device == nullptr) host_device = std::make_unique<device::HostDevice>();
  context->runtime_ = std::move(host_device);
  PluginHostOptions options;
  options.directories = directories;
  options.parameters = [config = context->config_.get()](const Parameter& parameter) {
    const ConfigEntry* entry = config->find(parameter.name());
    return entry != nullptr ? Result<Value>(placed(*entry))
                            : parse_value(parameter, parameter.default_text);
  };
  options.cuda_devices = [owner = context.get()](std::int32_t index) {
    return owner->open_device(index);
  };
  context->plugins_ = std::make_unique<PluginHost>(std::move(options), context->logger_,
                                                   *context->reactor_, *context->runtime_);
  return context;
}

Context::~Context() {
  for (const auto& [memory, device] : program_memory_)
    device->release_for_program(memory);
}

Result<void*> Context::allocate_for_program(DeviceRuntime& device, std::size_t bytes) {
  void* memory = nullptr;
  if (const weft_result result = device.allocate_for_program(bytes, &memory); result != WEFT_OK) {
    return fail(device_error(device, result,
                             fmt::format("cannot allocate {} bytes on device {} {}", bytes,
                                         device.name(), device.index()),
                             "ask for less, or free what is not needed"));
  }
  const std::scoped_lock lock(devices_mutex_);
  program_memory_.emplace(memory, &device);
  return memory;
}

Status Context::release_for_program(void* memory) {
  DeviceRuntime* device = nullptr;
  {
    const std::scoped_lock lock(devices_mutex_);
    const auto found = program_memory_.find(memory);
    if (found == program_memory_.end()) {
      return fail(
          WEFT_ERROR_INVALID_ARGUMENT,
          fmt::format("{} is no memory of weft_memory_allocate, or was freed", fmt::ptr(memory)),
          "free each piece once, on the context that allocated it");
    }
    device = found->second;
    program_memory_.erase(found);
  }
  device->release_for_program(memory);
  return {};
}

Status Context::why_not_here() {
  return fail(WEFT_ERROR_INVALID_USAGE,
              "this process was forked from the one that made the context",
              "make contexts after fork, or exec");
}

Result<DeviceRuntime*> Context::cuda_device(std::int32_t index) {
  const std::scoped_lock lock(devices_mutex_);
  auto& device = cuda_devices_[index];
  if (device == nullptr) {
    auto opened = open_cuda_device(index);
    if (!opened) {
      cuda_devices_.erase(index);
      return fail(std::move(opened.error()));
    }
    device = std::move(*opened);
    logger_.info(Topic::kComm, "CUDA device {} is open", index);
  }
  return device.get();
}

DeviceRuntime* Context::open_device(std::int32_t index) {
  if (index >= 0 && index == runtime_->index()) return runtime_.get();
  const std::scoped_lock lock(devices_mutex_);
  const auto found = cuda_devices_.find(index);
  return found == cuda_devices_.end() ? nullptr : found->second.get();
}

HeldMemory Context::held_memory(std::int32_t index) {
  DeviceRuntime* const device = open_device(index);
  return device == nullptr ? HeldMemory{} : device->held_memory();
}

Result<ProgressEngine*> Context::engine(const DeviceRuntime& device, std::uint32_t port) {
  const std::scoped_lock lock(engines_mutex_);
  auto& engine = engines_[{&device, port}];
  if (engine == nullptr) {
    WEFT_TRY_ASSIGN(engine, ProgressEngine::create(logger_));
  }
  return engine.get();
}

std::uint32_t Context::enter_device(const DeviceRuntime& device, std::uint64_t communicator) {
  const std::scoped_lock lock(devices_mutex_);
  std::set<std::uint64_t> others;
  for (const auto& [on, number] : communicators_) {
    if (on == &device && number != communicator) others.insert(number);
  }
  communicators_.emplace(&device, communicator);
  return static_cast<std::uint32_t>(others.size());
}

void Context::leave_device(const DeviceRuntime& device, std::uint64_t communicator) {
  const std::scoped_lock lock(devices_mutex_);
  const auto found = communicators_.find({&device, communicator});
  if (found != communicators_.end()) communicators_.erase(found);
}

Result<RankInfo> Context::next_rank_info(std::uint32_t rank, const DeviceRuntime& runtime) {
  WEFT_TRY_ASSIGN(RankInfo info, discover_process(host_, environment_.get("WEFT_FABRIC_ID")));
  info.device = runtime.name();
  info.device_pci = runtime.pci_address();
  info.device_id = runtime.device_id();
  if (info.memory_fabric.empty()) info.memory_fabric = runtime.memory_fabric();
  info.rank = rank;
  info.local_index = local_index_.fetch_add(1);
  return info;
}

Result<UniqueId> Context::serve_rendezvous(const Config& config) {
  WEFT_TRY_ASSIGN(auto root, BootstrapRoot::start(bootstrap_options(config, host_), logger_));
  const UniqueId id = root->id();
  const std::scoped_lock lock(roots_mutex_);
  std::erase_if(roots_, [](const auto& old) { return old->finished(); });
  roots_.push_back(std::move(root));
  return id;
}

Status Context::serve_rendezvous_at(const UniqueId& id, const Config& config, int cancel_fd) {
  BootstrapOptions options = bootstrap_options(config, host_);
  options.cancel_fd = cancel_fd;
  WEFT_TRY_ASSIGN(auto root, BootstrapRoot::start_at(id, options, logger_));
  if (root == nullptr) return {};
  const std::scoped_lock lock(roots_mutex_);
  std::erase_if(roots_, [](const auto& old) { return old->finished(); });
  roots_.push_back(std::move(root));
  return {};
}

void Context::end_rendezvous(const UniqueId& id) {
  std::unique_ptr<BootstrapRoot> ended;  // which waits for a thread, without the lock
  const std::scoped_lock lock(roots_mutex_);
  const auto found =
      std::ranges::find_if(roots_, [&](const auto& root) { return root->id() == id; });
  if (found == roots_.end()) return;
  ended = std::move(*found);
  roots_.erase(found);
}

std::uint64_t Context::number_of_this_thread() {
  static std::atomic<std::uint64_t> next{0};
  thread_local const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

weft_result Context::remember(const Error& error) {
  const std::scoped_lock lock(errors_mutex_);
  if (errors_.size() >= kMostErrors) errors_.clear();
  errors_[number_of_this_thread()] = error.to_string();
  return error.code();
}

weft_result Context::remember_no_memory() noexcept {
  try {
    static_cast<void>(remember(no_memory()));
  } catch (const std::bad_alloc&) {
    // Better no text than that of an earlier failure.
    const std::scoped_lock lock(errors_mutex_);
    errors_.erase(number_of_this_thread());
  }
  return WEFT_ERROR_OUT_OF_MEMORY;
}

}  // namespace weft
