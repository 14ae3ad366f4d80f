// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The net-backed connections of one communicator over one net: it turns messages into the slots,
// heads and tails that kernels know.
//
// Models: tests/models/engine_duty.pml, tests/models/abort.pml
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plugin_api/net.h>
#include <plugin_api/transport.h>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/model/connection_view.h"
#include "core/model/direct_peers.h"
#include "core/model/progress_op.h"
#include "core/plugin/net_plugin.h"
#include "core/transport/net_connection.h"

namespace weft {

/// Ownership: owns the staging memory, the registrations and the weft_net_connections given to it;
/// the weft_net itself belongs to its opener and outlives the port.
///
/// Threads: `mutex_` guards the net and all connection state, so the plugin sees one thread at a
/// time. Whoever holds it may be a kernel's worker (try_progress) or the engine (progress). The
/// slots, heads and tails are shared with kernels in the order that connection_view.h states.
/// An engine that polls for a GPU leaves `mutex_` for moments only, and who waits for it sleeps: so
/// calls leave their operations in `incoming_`, and whoever moves messages next takes them in.
class NetPort {
 public:
  /// What it refers to outlives the port; staging memory is on the account `memory`. `failed` is
  /// called once, without the lock, by whichever thread saw it first. `unregistered`: the net's
  /// WEFT_NET_UNREGISTERED.
  NetPort(const NetPlugin& plugin, weft_net* net, DeviceRuntime& runtime, MemoryAccount& memory,
          std::function<void(Error)> failed, bool unregistered = false);
  ~NetPort();
  NetPort(const NetPort&) = delete;
  NetPort& operator=(const NetPort&) = delete;

  /// The lock under which the net is used: for whoever sets up connections of it, once operations
  /// may be under way.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  /// Adds a connected end (ready() answered OK) and takes it over. Without the lock. Where its
  /// steps may go by lines an operation says whether they do; what kernels do at one end the other
  /// need not know.
  Result<std::uint32_t> add(weft_net_connection* connection, weft_direction direction,
                            std::uint32_t peer, const SlotGeometry& geometry);
  /// The same of an end of inboxes by LL, in whose halves, which outlive the port, the kernel
  /// stores lines or looks for them: its view has them for slots. An operation is one call, whose
  /// message it says. Of devices that do not report ends.
  Result<std::uint32_t> add_lines(weft_net_connection* connection, weft_direction direction,
                                  std::uint32_t peer, const InboxHalves& halves);
  /// What the kernel at this end sees; lives as long as the port.
  [[nodiscard]] ConnectionView view(std::uint32_t connection);
  /// The same of steps by lines; not connected where there are none.
  [[nodiscard]] ConnectionView line_view(std::uint32_t connection);

  /// Takes note of what operations move. Where an engine need not poll, it starts what can start
  /// unless another thread is at it: that one does. Never blocks on a peer.
  void enqueue(std::span<const ProgressOp> operations);

  /// Moves what can be moved; true if anything did.
  bool progress();
  /// The same, unless another thread is at it. What is kept stays so while other messages come.
  bool try_progress();

  using Time = std::chrono::steady_clock::time_point;

  /// For whoever leaves: keeps the messages that are ready, so that they are sent together with
  /// what becomes ready by `until`. False if there are none, or they had better be sent now: there
  /// are so many or so large ones, one is still its owner's, the port must be polled, or another
  /// thread is at it. Who is told true has the engine look after the port
  /// (ProgressEngine::look_in).
  bool keep(Time until);
  /// Until when messages are kept; long ago if none are.
  [[nodiscard]] Time keeps_until() const {
    return Time(Time::duration(keeps_until_.load(std::memory_order_relaxed)));
  }

  /// True while an operation's messages are under way.
  [[nodiscard]] bool busy() const {
    return outstanding_.load(std::memory_order_seq_cst) != 0 &&
           !broken_.load(std::memory_order_relaxed);
  }

  /// Nothing wakes a sleeper when a slot is filled or freed: a GPU does that.
  [[nodiscard]] bool must_be_polled() const { return !runtime_.reports_ends(); }

  /// For the engine: prepares to sleep. WEFT_AGAIN: there is something to do right now;
  /// UNSUPPORTED: this net cannot wake a sleeper.
  weft_result arm(int* descriptor);

  /// Makes the net give up, and the port rest; from any thread, at any time. Not a failure: what
  /// breaks from now on is not reported.
  void abort();

  /// One line for each connection that waits for something, for reports.
  [[nodiscard]] std::string describe_waiting();

 private:
  friend class ProgressEngine;
  static constexpr std::size_t kCompletionBatch = 32;

  Result<std::byte*> allocate(NetConnection& connection, std::size_t bytes, const char* advice);
  Result<std::uint32_t> take_over(std::unique_ptr<NetConnection> connection,
                                  const NetConnection::Messages& messages);
  void take_in_locked();
  [[nodiscard]] std::vector<NetConnection*>& with_more(weft_direction direction) {
    return with_more_[direction == WEFT_DIRECTION_SEND ? 0 : 1];
  }
  bool progress_locked(bool sends_first);
  void advance(weft_direction direction, bool& moved);
  void poll(bool& moved);
  void advance_sender(NetConnection& connection, bool& moved);
  void advance_receiver(NetConnection& connection, bool& moved);
  void complete(const weft_net_completion& completion);
  void fail_locked(NetConnection& connection, weft_result code);
  void fail_locked(NetConnection& connection, Error error);
  void fail_call_locked(const NetConnection* connection, weft_result code,
                        std::string_view function);
  void fail_moving_locked(const NetConnection* connection, Error error);
  void report_failure();

  const NetPlugin& plugin_;
  weft_net* const net_;
  DeviceRuntime& runtime_;
  MemoryAccount& memory_;
  const std::function<void(Error)> failed_;
  /// Payloads may be sent from where they lie, and received where they belong: the net reaches any
  /// memory of this process, and the kernels are of CPUs.
  const bool borrows_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<NetConnection>> connections_;
  /// Of those, by direction: with steps that the net was not given yet, and perhaps others.
  std::array<std::vector<NetConnection*>, 2> with_more_;
  std::array<weft_net_completion, kCompletionBatch> completions_{};
  std::optional<Error> failure_;      // guarded by mutex_
  std::mutex incoming_mutex_;         // taken last, and for moments
  std::vector<ProgressOp> incoming_;  // guarded by incoming_mutex_, in the order of calls
  std::atomic<bool> has_incoming_{false};
  std::atomic<bool> failure_pending_{false};
  std::atomic<bool> broken_{false};
  std::atomic<std::uint64_t> outstanding_{0};  // steps of operations not yet moved
  std::atomic<bool> on_duty_{false};           // written by the engine and take_over
  std::atomic<bool> looked_after_{false};      // written by the engine and look_in
  std::atomic<Time::rep> keeps_until_{0};      // written by the holder of mutex_; 0: keeps nothing
};

}  // namespace weft
