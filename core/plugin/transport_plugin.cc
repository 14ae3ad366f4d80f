// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/transport_plugin.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/plugin/answers.h"

namespace weft {
namespace {

bool is_memory_kind(weft_memory_kind kind) {
  return kind >= WEFT_MEMORY_HOST && kind <= WEFT_MEMORY_DMABUF;
}

bool is_agent(weft_agent agent) {
  return agent >= WEFT_AGENT_CPU && agent <= WEFT_AGENT_NIC;
}

/// What is wrong with a view, or nothing.
std::string wrong_with(const weft_protocol_view& view, const weft_protocol_request& asked) {
  if (view.protocol != asked.protocol) {
    return fmt::format("described protocol {} instead of {}", view.protocol, asked.protocol);
  }
  if (view.steps != asked.steps || view.step_bytes != asked.step_bytes) {
    return fmt::format("described {} slots of {} bytes, and {} of {} were asked for", view.steps,
                       view.step_bytes, asked.steps, asked.step_bytes);
  }
  if (view.buffer == nullptr) return "gave no buffer";
  if (asked.protocol != WEFT_PROTOCOL_LL) {  // of which the buffer alone is used
    if (view.head == nullptr || view.tail == nullptr) return "gave no head or no tail";
    if (view.slots == nullptr) return "gave no slot metadata";
  }
  if (view.order_bytes != 8 && view.order_bytes != 16 && view.order_bytes != 128) {
    return fmt::format("promised an order of {} bytes, which is none of 8, 16 and 128",
                       view.order_bytes);
  }
  if (!is_memory_kind(view.memory) || !is_memory_kind(view.head_memory) ||
      !is_memory_kind(view.tail_memory)) {
    return fmt::format("gave an unknown kind of memory ({}, {}, {})", view.memory, view.head_memory,
                       view.tail_memory);
  }
  if (!is_agent(view.head_writer) || !is_agent(view.tail_writer)) {
    return fmt::format("gave an unknown writer ({}, {})", view.head_writer, view.tail_writer);
  }
  if (reinterpret_cast<std::uintptr_t>(view.head) % alignof(std::uint64_t) != 0 ||
      reinterpret_cast<std::uintptr_t>(view.tail) % alignof(std::uint64_t) != 0) {
    return "gave a head or tail that is not aligned to 8 bytes";
  }
  return {};
}

}  // namespace

TransportPlugin::TransportPlugin(const Plugin& plugin, const weft_transport_interface& table,
                                 MissingFunctions missing)
    : plugin_(&plugin), table_(table), missing_(std::move(missing)) {}

Result<TransportPlugin> TransportPlugin::wrap(const Plugin& plugin) {
  using Table = weft_transport_interface;
  TableReader<Table> reader(plugin, WEFT_TRANSPORT_INTERFACE);
  WEFT_TRY(reader.read());
  reader.require(&Table::open, "open")
      .require(&Table::close, "close")
      .require(&Table::peer_info, "peer_info")
      .require(&Table::can_connect, "can_connect")
      .require(&Table::prepare, "prepare")
      .require(&Table::connection_blob, "connection_blob")
      .require(&Table::connect, "connect")
      .require(&Table::describe, "describe")
      .require(&Table::close_connection, "close_connection")
      .require(&Table::abort, "abort");
  // Whoever makes shared buffers must be able to end them.
  if (reader.table().export_buffer != nullptr || reader.table().import_buffer != nullptr) {
    reader.require(&Table::release_buffer, "release_buffer");
  }
  WEFT_TRY(reader.check());
  reader.allow(&Table::progress, "progress")
      .allow(&Table::arm, "arm")
      .allow(&Table::drain, "drain")
      .allow(&Table::read_peer, "read_peer")
      .allow(&Table::export_buffer, "export_buffer")
      .allow(&Table::import_buffer, "import_buffer")
      .allow(&Table::release_buffer, "release_buffer")
      .allow(&Table::bytes_held, "bytes_held");
  return TransportPlugin(plugin, reader.table(), reader.missing());
}

Error TransportPlugin::error(weft_result code, std::string_view function) const {
  return table_error(*plugin_, missing_, WEFT_TRANSPORT_INTERFACE, code, function);
}

Result<weft_transport*> TransportPlugin::open(const weft_transport_open_info& info) const {
  plugin_->clear_error();
  weft_transport* transport = nullptr;
  const weft_result result = table_.open(plugin_->instance(), &info, &transport);
  if (result != WEFT_OK) return fail(error(result, "open"));
  if (transport == nullptr) return fail(plugin_->defect("open", "gave no transport"));
  return transport;
}

Result<std::span<const std::byte>> TransportPlugin::peer_info(weft_transport* transport) const {
  plugin_->clear_error();
  weft_blob blob{};
  const weft_result result = table_.peer_info(transport, &blob);
  if (result != WEFT_OK) return fail(error(result, "peer_info"));
  return checked_blob(*plugin_, "peer_info", blob, kMaxPeerInfo);
}

Result<PairAnswer> TransportPlugin::can_connect(weft_transport* transport,
                                                const weft_peer& peer) const {
  plugin_->clear_error();
  weft_can_connect out{};
  out.struct_size = sizeof(out);
  out.locality = WEFT_LOCALITY_ANY;
  const weft_result result = table_.can_connect(transport, &peer, &out);
  if (result != WEFT_OK) return fail(error(result, "can_connect"));
  if (out.locality < WEFT_LOCALITY_PROCESS || out.locality > WEFT_LOCALITY_ANY) {
    return fail(plugin_->defect("can_connect",
                                fmt::format("gave the locality {}, which is none", out.locality)));
  }
  PairAnswer answer;
  answer.capabilities = out.capabilities;
  answer.locality = out.locality;
  answer.bandwidth_mbps = out.bandwidth_mbps;
  answer.latency_ns = out.latency_ns;
  WEFT_TRY_ASSIGN(answer.reason, checked_text(*plugin_, "can_connect", "reason", out.reason));
  if (!answer.can_connect()) answer.capabilities = 0;
  if (!answer.can_connect() && answer.reason.empty()) {
    return fail(plugin_->defect("can_connect", "said no and gave no reason"));
  }
  return answer;
}

Result<std::vector<weft_connection*>> TransportPlugin::prepare(
    weft_transport* transport, std::span<const weft_connection_request> requests) const {
  plugin_->clear_error();
  std::vector<weft_connection*> connections(requests.size(), nullptr);
  const weft_result result = table_.prepare(transport, requests.data(), sizeof(requests[0]),
                                            requests.size(), connections.data());
  if (result != WEFT_OK) return fail(error(result, "prepare"));
  const auto given = [](const weft_connection* connection) { return connection != nullptr; };
  if (std::ranges::all_of(connections, given)) return connections;
  for (weft_connection* connection : connections) {
    if (connection != nullptr) table_.close_connection(connection);
  }
  return fail(plugin_->defect("prepare", fmt::format("gave fewer than the {} connections that were "
                                                     "asked for",
                                                     requests.size())));
}

Result<std::span<const std::byte>> TransportPlugin::connection_blob(
    weft_connection* connection) const {
  plugin_->clear_error();
  weft_blob blob{};
  const weft_result result = table_.connection_blob(connection, &blob);
  if (result != WEFT_OK) return fail(error(result, "connection_blob"));
  return checked_blob(*plugin_, "connection_blob", blob, kMaxConnectionBlob);
}

Result<bool> TransportPlugin::connect(weft_transport* transport,
                                      std::span<weft_connection* const> connections,
                                      std::span<const weft_blob> peer_blobs) const {
  if (connections.size() != peer_blobs.size()) {
    return fail(WEFT_ERROR_INTERNAL, fmt::format("{} connections and {} blobs of their peers",
                                                 connections.size(), peer_blobs.size()));
  }
  plugin_->clear_error();
  const weft_result result =
      table_.connect(transport, connections.data(), peer_blobs.data(), connections.size());
  if (result == WEFT_OK) return true;
  if (result == WEFT_IN_PROGRESS) return false;
  return fail(error(result, "connect"));
}

Result<weft_protocol_view> TransportPlugin::describe(weft_connection* connection,
                                                     const weft_protocol_request& asked) const {
  plugin_->clear_error();
  weft_protocol_view view{};
  view.struct_size = sizeof(view);
  const weft_result result = table_.describe(connection, asked.protocol, &view);
  if (result != WEFT_OK) return fail(error(result, "describe"));
  view.struct_size = sizeof(view);
  const std::string wrong = wrong_with(view, asked);
  if (!wrong.empty()) return fail(plugin_->defect("describe", wrong));
  return view;
}

Result<TransportPlugin::Exported> TransportPlugin::export_buffer(weft_transport* transport,
                                                                 void* address,
                                                                 std::uint64_t size) const {
  plugin_->clear_error();
  Exported exported;
  exported.described.struct_size = sizeof(exported.described);
  const weft_result result =
      table_.export_buffer(transport, address, size, &exported.described, &exported.buffer);
  if (result != WEFT_OK) return fail(error(result, "export_buffer"));
  if (exported.buffer == nullptr || exported.described.size != size) {
    if (exported.buffer != nullptr) table_.release_buffer(transport, exported.buffer);
    return fail(plugin_->defect("export_buffer", "gave no buffer, or one of another size"));
  }
  auto blob = checked_blob(*plugin_, "export_buffer", exported.described.blob, kMaxPeerInfo);
  if (!blob) {
    table_.release_buffer(transport, exported.buffer);
    return fail(std::move(blob.error()));
  }
  exported.blob = *blob;
  return exported;
}

Result<bool> TransportPlugin::import_buffer(weft_transport* transport, std::uint32_t peer,
                                            const weft_shared_buffer* mine,
                                            const weft_buffer_export& from, void** address,
                                            weft_shared_buffer** buffer) const {
  plugin_->clear_error();
  const weft_result result = table_.import_buffer(transport, peer, mine, &from, address, buffer);
  if (result == WEFT_IN_PROGRESS) return false;
  if (result != WEFT_OK) return fail(error(result, "import_buffer"));
  if (*address == nullptr || *buffer == nullptr) {
    return fail(plugin_->defect("import_buffer", "gave no address, or no buffer"));
  }
  return true;
}

Result<bool> TransportPlugin::drain(weft_transport* transport) const {
  if (!has("drain")) return true;
  plugin_->clear_error();
  const weft_result result = table_.drain(transport);
  if (result == WEFT_OK) return true;
  if (result == WEFT_IN_PROGRESS) return false;
  return fail(error(result, "drain"));
}

Status TransportPlugin::read_peer(weft_connection* connection, std::span<std::byte> destination,
                                  std::uint64_t address) const {
  plugin_->clear_error();
  const weft_result result =
      table_.read_peer(connection, destination.data(), address, destination.size());
  if (result != WEFT_OK) return fail(error(result, "read_peer"));
  return {};
}

}  // namespace weft
