// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The functions of weft.transport for ranks of one host.
#include "plugins/shm/transport.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "plugins/shm/memory.h"

int weft_transport::find(const weft::plugins::Nonce& memory, std::uint32_t peer) {
  const auto found = offered.find(memory);
  if (found == offered.end() || found->second->peer != peer) return -1;
  return found->second->descriptor.get();
}

void weft_transport::given(const weft::plugins::Nonce& memory, std::uint32_t /*peer*/,
                           weft::plugins::OwnedFd /*line*/) {
  weft_connection* connection = offered.at(memory);
  connection->taken = true;
  connection->descriptor.reset();
  offered.erase(memory);
}

void weft_transport::withdraw(const weft_connection& connection) {
  if (offered.erase(connection.blob.segment) != 0 && offered.empty()) giver.close();
}

namespace weft::shm {
namespace {

using plugins::guarded;
using plugins::Host;

constexpr std::uint64_t kMinKeyBytes = 32;

weft_result open(weft_plugin* plugin, const weft_transport_open_info* info, weft_transport** out) {
  return guarded(plugin->host, [&] {
    if (!WEFT_HAS(info, weft_transport_open_info, host_id) || info->rank >= info->ranks ||
        info->key == nullptr || info->key_size < kMinKeyBytes || info->host_id == nullptr) {
      return plugin->host.fail(WEFT_ERROR_INVALID_ARGUMENT, "shm: incomplete open information");
    }
    auto transport = std::make_unique<weft_transport>(plugin);
    transport->rank = info->rank;
    transport->ranks = info->ranks;
    transport->communicator = info->communicator;
    transport->key = Key({info->key, info->key_size});
    transport->probe = plugins::random_nonce();
    transport->info = describe_self(*transport, info->host_id);
    *out = transport.release();
    return weft_result{WEFT_OK};
  });
}

void close(weft_transport* transport) {
  const std::unique_ptr<weft_transport> owner(transport);
}

weft_result peer_info(weft_transport* transport, weft_blob* out) {
  *out = {&transport->info, sizeof(transport->info)};
  return WEFT_OK;
}

weft_result can_connect(weft_transport* transport, const weft_peer* peer, weft_can_connect* out) {
  const Host& host = transport->plugin->host;
  return guarded(host, [&] {
    if (!WEFT_HAS(peer, weft_peer, info)) {
      return host.fail(WEFT_ERROR_INVALID_ARGUMENT, "shm: a peer's description is too short");
    }
    return judge_peer(*transport, *peer, out);
  });
}

weft_result prepare_one(weft_transport* transport, const weft_connection_request* wanted,
                        std::unique_ptr<weft_connection>* out) {
  weft_plugin& plugin = *transport->plugin;
  plugins::SegmentLayout layout;
  weft_result result = plugins::make_layout(plugin.host, wanted, transport->ranks, &layout);
  if (result != WEFT_OK) return result;
  auto connection = std::make_unique<weft_connection>(transport, *wanted, std::move(layout));
  Blob& blob = connection->blob;
  blob.magic = kBlobMagic;
  blob.communicator = transport->communicator;
  blob.number = wanted->number;
  blob.rank = transport->rank;
  blob.peer = wanted->peer;
  blob.direction = static_cast<std::uint32_t>(wanted->direction);
  blob.protocols = connection->layout.specs();
  blob.process = transport->info.process;
  if (wanted->direction == WEFT_DIRECTION_RECV) {
    result = transport->giver.open(&blob.socket);
    if (result != WEFT_OK) return result;
    SharedMemory memory;
    result = create_memory(plugin.host, connection->layout.size, plugin.huge_pages, wanted->peer,
                           &memory);
    if (result != WEFT_OK) return result;
    if (memory.no_huge_pages != 0 && !plugin.told_of_pages.exchange(true)) {
      plugin.host.info("ordinary pages: the pool of huge pages gave none: " +
                       plugins::errno_text(memory.no_huge_pages) +
                       "; see /proc/sys/vm/nr_hugepages");
    }
    blob.segment = plugins::random_nonce();
    connection->descriptor = std::move(memory.descriptor);
    connection->mapping = std::move(memory.mapping);
    connection->held = {transport->bytes_held, connection->mapping.size()};
    connection->segment().initialise(blob.segment);
  }
  blob.mac = transport->key.sign({signed_part(blob)});
  *out = std::move(connection);
  return WEFT_OK;
}

weft_result prepare_all(weft_transport* transport, const weft_connection_request* requests,
                        std::uint64_t stride, std::uint64_t count, weft_connection** out) {
  std::vector<std::unique_ptr<weft_connection>> made(count);
  std::map<plugins::Nonce, weft_connection*> offers;
  for (std::uint64_t i = 0; i < count; ++i) {
    const weft_result result =
        prepare_one(transport, plugins::element(requests, stride, i), &made[i]);
    if (result != WEFT_OK) return result;
    if (made[i]->direction == WEFT_DIRECTION_RECV) {
      offers.emplace(made[i]->blob.segment, made[i].get());
    }
  }
  {
    // So that registering a connection later cannot fail.
    const std::scoped_lock lock(transport->mutex);
    transport->connections.reserve(transport->connections.size() + count);
  }
  transport->offered.merge(offers);
  std::ranges::transform(made, out, [](auto& connection) { return connection.release(); });
  return WEFT_OK;
}

weft_result prepare(weft_transport* transport, const weft_connection_request* requests,
                    std::uint64_t stride, std::uint64_t count, weft_connection** out) {
  const weft_result result = guarded(transport->plugin->host, [&] {
    return prepare_all(transport, requests, stride, count, out);
  });
  if (transport->offered.empty()) transport->giver.close();
  return result;
}

weft_result connection_blob(weft_connection* connection, weft_blob* out) {
  *out = {&connection->blob, sizeof(connection->blob)};
  return WEFT_OK;
}

weft_result connect(weft_transport* transport, weft_connection* const* connections,
                    const weft_blob* peer_blobs, std::uint64_t count) {
  return guarded(transport->plugin->host,
                 [&] { return connect_all(transport, connections, peer_blobs, count); });
}

weft_result describe(weft_connection* connection, weft_protocol protocol, weft_protocol_view* out) {
  const Host& host = connection->transport->plugin->host;
  return guarded(host, [&] {
    if (!connection->connected) {
      return host.fail(WEFT_ERROR_INVALID_USAGE, "shm: describe before connect has finished");
    }
    if (!connection->segment().describe(protocol, connection->direction, out)) {
      return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                       "shm: protocol " + std::to_string(protocol) + " was not asked for");
    }
    return weft_result{WEFT_OK};
  });
}

void close_connection(weft_connection* connection) {
  const std::unique_ptr<weft_connection> owner(connection);
  weft_transport* transport = connection->transport;
  transport->withdraw(*connection);
  connection->talk(false);
  transport->watches.erase(connection->peer);  // Made again if others still connect.
  const std::scoped_lock lock(transport->mutex);
  std::erase(transport->connections, connection);
}

void abort(weft_transport* transport, std::uint32_t reason) {
  const std::scoped_lock lock(transport->mutex);
  for (const weft_connection* connection : transport->connections) {
    connection->segment().give_up(connection->direction, reason);
  }
}

weft_result read_peer(weft_connection* connection, void* destination, std::uint64_t address,
                      std::uint64_t size) {
  const Host& host = connection->transport->plugin->host;
  return guarded(host, [&] {
    if (!connection->connected) {
      return host.fail(WEFT_ERROR_INVALID_USAGE, "shm: read_peer before connect has finished");
    }
    return connection->reader.read(host, connection->process, connection->peer, destination,
                                   address, size);
  });
}

weft_result bytes_held(weft_transport* transport, std::uint64_t* out) {
  *out = transport->bytes_held.load();
  return WEFT_OK;
}

}  // namespace

const weft_transport_interface kInterface = {
    .struct_size = sizeof(weft_transport_interface),
    .reserved = 0,
    .open = open,
    .close = close,
    .peer_info = peer_info,
    .can_connect = can_connect,
    .prepare = prepare,
    .connection_blob = connection_blob,
    .connect = connect,
    .describe = describe,
    .close_connection = close_connection,
    .progress = nullptr,
    .arm = nullptr,
    .abort = abort,
    .drain = nullptr,
    .read_peer = read_peer,
    .export_buffer = nullptr,
    .import_buffer = nullptr,
    .release_buffer = nullptr,
    .bytes_held = bytes_held,
};

}  // namespace weft::shm
