// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A net plugin behind a full table: cold calls answer values and errors, and what the plugin gave
// is looked at before anyone uses it; isend, irecv, poll and their like go straight through
// table().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/plugin/plugin.h"
#include "core/plugin/table.h"
#include "plugin_api/net.h"

namespace weft {

/// A device of a net; see weft_net_device.
struct NetDevice {
  std::string name;
  std::string pci_path;  ///< Empty where unknown.
  weft_net_capabilities capabilities = 0;
  std::uint64_t guid = 0;
  std::uint64_t speed_mbps = 0;
  std::uint64_t latency_ns = 0;
  std::uint64_t fabric_id = 0;
  std::int32_t port = 0;
  std::int32_t rail = -1;
  std::int32_t plane = -1;
  std::int32_t numa_node = -1;
  std::uint32_t max_receives = 1;
  std::uint32_t max_requests = 1;
  std::uint64_t max_message = 0;
  std::uint64_t max_connections = 0;
  std::vector<std::uint32_t> members;
};

/// A listener and the handle that its sender needs.
struct NetListening {
  weft_net_listener* listener = nullptr;
  std::vector<std::byte> handle;
};

/// An asynchronous event.
struct NetEvent {
  std::int32_t kind = 0;
  std::uint32_t device = 0;
  std::string text;
};

/// Does not own the plugin, which outlives it. Threads as net.h says of each function.
class NetPlugin {
 public:
  /// Largest handle of a listener that is taken.
  static constexpr std::uint64_t kMaxHandle = 4096;

  /// WEFT_ERROR_PLUGIN if the plugin offers no such interface, or lacks required functions.
  static Result<NetPlugin> wrap(const Plugin& plugin);

  [[nodiscard]] const Plugin& plugin() const { return *plugin_; }
  [[nodiscard]] const std::string& id() const { return plugin_->id(); }
  /// No entry is NULL: missing ones answer WEFT_ERROR_UNSUPPORTED.
  [[nodiscard]] const weft_net_interface& table() const { return table_; }
  /// Whether the plugin has the optional function of this name.
  [[nodiscard]] bool has(std::string_view function) const { return !missing_.contains(function); }
  /// The error of a call through table() that answered `code` on this thread.
  [[nodiscard]] Error error(weft_result code, std::string_view function) const;
  /// The error of a request that poll reported with `status`: the connection says why.
  [[nodiscard]] Error request_error(weft_net_connection* connection, weft_result status) const;
  /// The error of a call through table() that answered `code` on this thread, about `connection`
  /// or, if that is null, about all: what the connection says, else what the call said.
  [[nodiscard]] Error call_error(weft_net_connection* connection, weft_result code,
                                 std::string_view function) const;

  [[nodiscard]] Result<weft_net*> open(const weft_net_open_info& info) const;
  void close(weft_net* net) const { table_.close(net); }

  /// At least one.
  [[nodiscard]] Result<std::vector<NetDevice>> devices(weft_net* net) const;

  [[nodiscard]] Result<NetListening> listen(weft_net* net, std::uint32_t device) const;
  void close_listener(weft_net_listener* listener) const { table_.close_listener(listener); }

  /// A connection that may not be usable before ready() says so.
  [[nodiscard]] Result<weft_net_connection*> connect(weft_net* net, std::uint32_t device,
                                                     std::span<const std::byte> handle) const;
  /// Null until the sender has come.
  [[nodiscard]] Result<weft_net_connection*> accept(weft_net_listener* listener) const;
  /// True once both ends can move data.
  [[nodiscard]] Result<bool> ready(weft_net_connection* connection) const;
  void close_connection(weft_net_connection* connection) const {
    table_.close_connection(connection);
  }

  [[nodiscard]] Result<weft_net_registration*> register_memory(
      weft_net_connection* connection, const weft_net_register_info& info) const;
  void deregister_memory(weft_net_registration* registration) const {
    table_.deregister_memory(registration);
  }

  /// A descriptor to sleep on, or nothing when there is something to do right now.
  [[nodiscard]] Result<std::optional<int>> arm(weft_net* net) const;
  /// Ends every request; any thread.
  void abort(weft_net* net) const { table_.abort(net); }
  /// True once all that was sent has left; true where the plugin has no drain.
  [[nodiscard]] Result<bool> drain(weft_net* net) const;
  /// The next event, if there is one; none where the plugin reports none.
  [[nodiscard]] Result<std::optional<NetEvent>> next_event(weft_net* net) const;

 private:
  NetPlugin(const Plugin& plugin, const weft_net_interface& table, MissingFunctions missing);
  [[nodiscard]] std::string text_of(weft_net_connection* connection) const;
  Result<NetDevice> read_device(const weft_net_device& raw, std::uint64_t index,
                                std::uint64_t count) const;

  const Plugin* plugin_;
  weft_net_interface table_;
  MissingFunctions missing_;
};

}  // namespace weft
