// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A transport plugin behind a full table: cold calls answer values and errors, and what the plugin
// gave is looked at before anyone uses it; hot calls go straight through table().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/plugin/plugin.h"
#include "core/plugin/table.h"
#include "plugin_api/transport.h"

namespace weft {

/// Answer of one end to can_connect.
struct PairAnswer {
  weft_transport_capabilities capabilities = 0;  ///< 0: cannot connect.
  weft_locality locality = WEFT_LOCALITY_ANY;
  std::uint64_t bandwidth_mbps = 0;  ///< 0: unknown.
  std::uint64_t latency_ns = 0;      ///< 0: unknown.
  std::string reason;

  [[nodiscard]] bool can_connect() const {
    return (capabilities & WEFT_TRANSPORT_CAN_CONNECT) != 0;
  }
  [[nodiscard]] bool device_memory() const {
    return (capabilities & WEFT_TRANSPORT_DEVICE_MEMORY) != 0;
  }
  [[nodiscard]] bool single_copy() const {
    return (capabilities & WEFT_TRANSPORT_SINGLE_COPY) != 0;
  }
};

/// Does not own the plugin, which outlives it. Threads as transport.h says of each function; spans
/// and handles live as long as transport.h says.
class TransportPlugin {
 public:
  /// Largest peer info and connection blob that are taken. Two ranks may tell each other the blobs
  /// of both their connections by one letter (kMaxLetterBytes).
  static constexpr std::uint64_t kMaxPeerInfo = std::uint64_t{64} * 1024;
  static constexpr std::uint64_t kMaxConnectionBlob = std::uint64_t{24} * 1024;

  /// WEFT_ERROR_PLUGIN if the plugin offers no such interface, or lacks required functions.
  static Result<TransportPlugin> wrap(const Plugin& plugin);

  [[nodiscard]] const Plugin& plugin() const { return *plugin_; }
  [[nodiscard]] const std::string& id() const { return plugin_->id(); }
  /// No entry is NULL: missing ones answer WEFT_ERROR_UNSUPPORTED.
  [[nodiscard]] const weft_transport_interface& table() const { return table_; }
  /// Whether the plugin has the optional function of this name.
  [[nodiscard]] bool has(std::string_view function) const { return !missing_.contains(function); }
  /// The error of a call through table() that answered `code` on this thread.
  [[nodiscard]] Error error(weft_result code, std::string_view function) const;

  [[nodiscard]] Result<weft_transport*> open(const weft_transport_open_info& info) const;
  void close(weft_transport* transport) const { table_.close(transport); }

  [[nodiscard]] Result<std::span<const std::byte>> peer_info(weft_transport* transport) const;
  [[nodiscard]] Result<PairAnswer> can_connect(weft_transport* transport,
                                               const weft_peer& peer) const;

  /// One connection for each request, all or none.
  [[nodiscard]] Result<std::vector<weft_connection*>> prepare(
      weft_transport* transport, std::span<const weft_connection_request> requests) const;
  [[nodiscard]] Result<std::span<const std::byte>> connection_blob(
      weft_connection* connection) const;
  /// True once all are connected; to be called again until then.
  [[nodiscard]] Result<bool> connect(weft_transport* transport,
                                     std::span<weft_connection* const> connections,
                                     std::span<const weft_blob> peer_blobs) const;
  /// The end's view for the protocol that was asked for; sizes are those of `asked`.
  [[nodiscard]] Result<weft_protocol_view> describe(weft_connection* connection,
                                                    const weft_protocol_request& asked) const;
  void close_connection(weft_connection* connection) const { table_.close_connection(connection); }

  /// A program's memory made reachable for peers; the blob lives as long as the buffer.
  struct Exported {
    weft_shared_buffer* buffer = nullptr;
    weft_buffer_export described{};
    std::span<const std::byte> blob;
  };
  [[nodiscard]] Result<Exported> export_buffer(weft_transport* transport, void* address,
                                               std::uint64_t size) const;
  /// True once it is reached, and the peer can reach `mine`; to be called again until then.
  /// `*buffer`, null at first, is to be released whatever came of it.
  [[nodiscard]] Result<bool> import_buffer(weft_transport* transport, std::uint32_t peer,
                                           const weft_shared_buffer* mine,
                                           const weft_buffer_export& from, void** address,
                                           weft_shared_buffer** buffer) const;
  void release_buffer(weft_transport* transport, weft_shared_buffer* buffer) const {
    table_.release_buffer(transport, buffer);
  }

  /// Raises the error words of all connected peers; any thread.
  void abort(weft_transport* transport, std::uint32_t reason) const {
    table_.abort(transport, reason);
  }
  /// Bytes of memory that it allocated and holds; 0 where the plugin does not say. Any thread.
  [[nodiscard]] std::uint64_t bytes_held(weft_transport* transport) const {
    std::uint64_t bytes = 0;
    return table_.bytes_held(transport, &bytes) == WEFT_OK ? bytes : 0;
  }
  /// True once nothing is under way; true where the plugin has no drain.
  [[nodiscard]] Result<bool> drain(weft_transport* transport) const;

  [[nodiscard]] Status read_peer(weft_connection* connection, std::span<std::byte> destination,
                                 std::uint64_t address) const;

 private:
  TransportPlugin(const Plugin& plugin, const weft_transport_interface& table,
                  MissingFunctions missing);

  const Plugin* plugin_;
  weft_transport_interface table_;
  MissingFunctions missing_;
};

}  // namespace weft
