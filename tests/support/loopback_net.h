// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A net without a wire, for tests of what drives nets: messages between nets of one process, with
// completions in any order, refusals at random, and errors and slowness on demand. Data is copied
// when it is delivered, not when it is sent: who reuses a slot too early sends something else.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <plugin_api/net.h>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/device/host/host_device.h"
#include "core/plugin/net_plugin.h"

namespace weft::test {

struct LoopbackOptions {
  std::uint32_t seed = 1;
  /// Of a hundred isend and irecv, those that answer WEFT_AGAIN.
  std::uint32_t again_percent = 0;
  std::uint32_t max_requests = 64;  ///< Of one connection under way at once.
  bool shuffle = false;             ///< Completions come in any order, and a few at a time.
  bool can_sleep = true;            ///< Whether arm works.
  bool unregistered = false;        ///< isend and irecv take NULL for a registration.
  /// True: a thread of the net delivers, after naps of up to this. Otherwise poll does.
  bool wire_thread = false;
  std::chrono::microseconds longest_nap{0};
};

/// The plugin, and all nets opened from it; outlives them. Threads: any.
class LoopbackNet {
 public:
  explicit LoopbackNet(LoopbackOptions options = {});
  ~LoopbackNet();
  LoopbackNet(const LoopbackNet&) = delete;
  LoopbackNet& operator=(const LoopbackNet&) = delete;

  [[nodiscard]] const NetPlugin& plugin() const { return *plugin_; }
  [[nodiscard]] DeviceRuntime& runtime() { return runtime_; }
  [[nodiscard]] Logger& logger() { return logger_; }

  weft_net* open();
  /// A connected pair: its sending end on `from`, its receiving end on `to`.
  struct Pair {
    weft_net_connection* sender = nullptr;
    weft_net_connection* receiver = nullptr;
  };
  Pair connect(weft_net* from, weft_net* to);

  /// After this many more messages, all requests of both ends fail with WEFT_ERROR_PEER.
  void break_after(const Pair& pair, std::uint64_t messages);
  /// From now on each call of isend, irecv or poll, whichever it names, fails with
  /// WEFT_ERROR_SYSTEM and "FUNCTION was refused", of which connections know nothing.
  void refuse(std::string function);
  /// Reports an end of `connection`, whether or not there was such a request: a net's mistake.
  void report_end(weft_net* net, weft_net_connection* connection, std::uint64_t user);
  /// Nothing is delivered meanwhile.
  void pause(bool paused);
  /// Calls of poll on all nets so far.
  [[nodiscard]] std::uint64_t polls() const { return polls_.load(); }
  /// Messages that isend took so far, and how many of them were said to be followed by another.
  [[nodiscard]] std::uint64_t sends() const { return sends_.load(); }
  [[nodiscard]] std::uint64_t followed_sends() const { return followed_sends_.load(); }
  /// Objects that were not closed: nets, connections, registrations.
  [[nodiscard]] int open_objects() const { return objects_.load(); }

  struct Pipe;

 private:
  friend struct LoopbackTable;
  bool deliver(Pipe& pipe);
  void complete(weft_net& net, weft_net_connection* connection, std::uint64_t user,
                std::uint64_t size, std::uint64_t value, weft_result status);
  void break_pipe(Pipe& pipe);
  bool again();
  bool refuses(const char* function);
  void run_wire();

  const LoopbackOptions options_;
  Logger logger_;
  std::unique_ptr<Reactor> reactor_;
  device::HostDevice runtime_;
  std::unique_ptr<Plugin> instance_;
  std::unique_ptr<NetPlugin> plugin_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand random_;  // guarded by mutex_, as all below
  std::vector<std::shared_ptr<Pipe>> pipes_;
  bool paused_ = false;
  bool stop_ = false;
  std::string refused_;  // a function, or none
  std::atomic<std::uint64_t> polls_{0};
  std::atomic<std::uint64_t> sends_{0};
  std::atomic<std::uint64_t> followed_sends_{0};
  std::atomic<int> objects_{0};
  std::thread wire_;
};

}  // namespace weft::test
