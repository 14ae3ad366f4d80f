// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The composition root: reads the configuration, loads plugins, makes devices and their engines.
// Everything else is given what it needs from here; there are no globals.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fork_guard.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/bootstrap/local_letters.h"
#include "core/bootstrap/root.h"
#include "core/comm/group.h"
#include "core/comm/made_reductions.h"
#include "core/config/config.h"
#include "core/config/environment.h"
#include "core/device/host/host_device.h"
#include "core/plugin/loader.h"
#include "core/topology/topology.h"
#include "core/transport/choice.h"
#include "core/transport/progress_engine.h"

namespace weft {

/// Threads: all members from any thread.
class Context {
 public:
  /// `config_file` empty: the file that the rules find. `environment` is read, never the process's.
  /// `host_device` stands for the host device of its own, and where it has an index for that CUDA
  /// device, as tests want it; null: that.
  static Result<std::unique_ptr<Context>> create(
      const std::string& config_file, Environment environment,
      std::unique_ptr<DeviceRuntime> host_device = nullptr);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// INVALID_USAGE in a child that forked from the context's process.
  [[nodiscard]] Status check_process() const {
    if (!fork_guard_->in_child()) [[likely]]
      return {};
    return why_not_here();
  }

  [[nodiscard]] const Config& config() const { return *config_; }
  [[nodiscard]] const Environment& environment() const { return environment_; }
  [[nodiscard]] Logger& logger() { return logger_; }
  [[nodiscard]] Reactor& reactor() { return *reactor_; }
  /// The host device.
  [[nodiscard]] DeviceRuntime& runtime() { return *runtime_; }
  /// A CUDA device, opened when first asked for. DEVICE where there is no driver, no such device or
  /// no libweft-cuda.so beside this library.
  Result<DeviceRuntime*> cuda_device(std::int32_t index);
  /// What is held of a CUDA device; nothing of one that is not open.
  [[nodiscard]] HeldMemory held_memory(std::int32_t index);
  /// Memory of a device for a program to share, and its end; all that is left goes with the
  /// context.
  Result<void*> allocate_for_program(DeviceRuntime& device, std::size_t bytes);
  Status release_for_program(void* memory);
  /// What moves messages of ports of this number, of all ranks on `device`; lives as long as the
  /// context. Its thread starts when it is first asked for.
  Result<ProgressEngine*> engine(const DeviceRuntime& device, std::uint32_t port);
  [[nodiscard]] PluginHost& plugins() { return *plugins_; }
  [[nodiscard]] const HostInfo& host() const { return host_; }

  /// What this process's next rank says of itself.
  Result<RankInfo> next_rank_info(std::uint32_t rank, const DeviceRuntime& runtime);
  /// Starts to serve the rendezvous of a new communicator, until it is over or the context ends.
  Result<UniqueId> serve_rendezvous(const Config& config);
  /// The same at the address that a launcher named: may wait for the port, until `cancel_fd` is
  /// readable (ABORTED).
  Status serve_rendezvous_at(const UniqueId& id, const Config& config, int cancel_fd = -1);
  /// Ends one that no rank has come to, or will; nothing where this context does not serve it.
  void end_rendezvous(const UniqueId& id);
  /// Number of the next communicator made from the launcher's environment.
  std::uint64_t next_job_instance() { return job_instance_.fetch_add(1); }

  /// How many communicators of several ranks a device has besides that of this number, which it has
  /// from now on, once for each rank that says so here, until as many have left.
  std::uint32_t enter_device(const DeviceRuntime& device, std::uint64_t communicator);
  void leave_device(const DeviceRuntime& device, std::uint64_t communicator);

  /// True on the first call: to say once that there is no tuner.
  bool first_without_tuner() { return !said_no_tuner_.exchange(true); }

  /// The group of the calling thread, if it is open; else null.
  Group* open_group() { return groups_.open_one(); }
  Groups& groups() { return groups_; }

  /// Keeps the calling thread's last error and answers its code.
  weft_result remember(const Error& error);
  /// The same of one that finds no memory for its words, and takes none.
  weft_result remember_no_memory() noexcept;
  /// What `read` makes of the text of the calling thread's last error, empty if there was none;
  /// under a lock.
  template <typename Read>
  auto read_last_error(Read read) const {
    const std::scoped_lock lock(errors_mutex_);
    const auto found = errors_.find(number_of_this_thread());
    return read(found == errors_.end() ? std::string_view() : std::string_view(found->second));
  }
  /// A copy of that.
  [[nodiscard]] std::string last_error() const {
    return read_last_error([](std::string_view text) { return std::string(text); });
  }

  LocalLetters& local_letters() { return local_letters_; }
  ReductionNumbers& reduction_numbers() { return reduction_numbers_; }

  /// Communicators and streams that are alive.
  std::atomic<std::uint32_t>& users() { return users_; }

 private:
  explicit Context(Environment environment);
  /// A CUDA device that is open; null: it is not.
  DeviceRuntime* open_device(std::int32_t index);
  [[nodiscard]] static Status why_not_here();
  [[nodiscard]] static std::uint64_t number_of_this_thread();

  Environment environment_;
  std::unique_ptr<ForkGuard> fork_guard_;
  Logger logger_;
  std::unique_ptr<Config> config_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<DeviceRuntime> runtime_;
  std::mutex devices_mutex_;
  std::map<std::int32_t, std::unique_ptr<DeviceRuntime>>
      cuda_devices_;                                // guarded by devices_mutex_
  std::map<void*, DeviceRuntime*> program_memory_;  // guarded by devices_mutex_
  std::multiset<std::pair<const DeviceRuntime*, std::uint64_t>>
      communicators_;  // by number, for each rank; guarded by devices_mutex_
  std::mutex engines_mutex_;
  std::map<std::pair<const DeviceRuntime*, std::uint32_t>, std::unique_ptr<ProgressEngine>>
      engines_;  // guarded by engines_mutex_
  std::unique_ptr<PluginHost> plugins_;
  HostInfo host_;

  std::atomic<std::uint32_t> local_index_{0};
  std::atomic<std::uint64_t> job_instance_{0};
  std::atomic<std::uint32_t> users_{0};
  LocalLetters local_letters_;
  ReductionNumbers reduction_numbers_;
  std::atomic<bool> said_no_tuner_{false};
  std::mutex roots_mutex_;
  std::vector<std::unique_ptr<BootstrapRoot>> roots_;  // guarded by roots_mutex_
  mutable std::mutex errors_mutex_;
  // Guarded by errors_mutex_: of each thread the last one. A thread's number is no other's, as its
  // id is once it has ended.
  std::map<std::uint64_t, std::string> errors_;
  Groups groups_;
};

/// What a bootstrap needs from the configuration.
[[nodiscard]] BootstrapOptions bootstrap_options(const Config& config, const HostInfo& host);

}  // namespace weft
