// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connecting: the receiving ends hand out their memory, the sending ends fetch and map it.
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "plugins/shm/memory.h"
#include "plugins/shm/transport.h"

namespace weft::shm {
namespace {

/// Sending ends that hold a socket at once: a large job must not need a descriptor for each.
constexpr std::size_t kMaxTalks = 16;

weft_result read_blob(const weft_connection& connection, const weft_blob& bytes, Blob* out) {
  const plugins::Host& host = connection.transport->plugin->host;
  const std::string whose = "shm: the blob of rank " + std::to_string(connection.peer);
  if (bytes.size != sizeof(Blob) || bytes.data == nullptr) {
    return host.fail_peer(whose + " has " + std::to_string(bytes.size) + " bytes instead of " +
                          std::to_string(sizeof(Blob)));
  }
  Blob blob;
  std::memcpy(static_cast<void*>(&blob), bytes.data, sizeof(blob));
  if (blob.magic != kBlobMagic ||
      !connection.transport->key.verify(blob.mac, {signed_part(blob)})) {
    return host.fail_peer(whose + " is damaged or made with another secret");
  }
  const Blob& own = connection.blob;
  if (blob.communicator != own.communicator || blob.number != own.number || blob.rank != own.peer ||
      blob.peer != own.rank || blob.direction == own.direction) {
    return host.fail_peer(whose + " belongs to another connection");
  }
  if (blob.protocols != own.protocols) {
    return host.fail(WEFT_ERROR_MISMATCH,
                     "shm: this rank and rank " + std::to_string(connection.peer) +
                         " ask for buffers of different sizes",
                     "give all ranks the same configuration");
  }
  *out = blob;
  return WEFT_OK;
}

/// Whether the process of `blob` has ended; looks it up once for each peer.
bool peer_ended(weft_transport* transport, const Blob& blob) {
  const auto found = transport->watches.find(blob.rank);
  if (found != transport->watches.end()) return plugins::has_ended(found->second);
  bool ended = false;
  plugins::OwnedFd watch = plugins::watch_process(blob.process, &ended);
  if (!ended) transport->watches.emplace(blob.rank, std::move(watch));
  return ended;
}

weft_result fetch(weft_connection* connection, const Blob& peer) {
  weft_transport* transport = connection->transport;
  const plugins::Host& host = transport->plugin->host;
  plugins::OwnedFd descriptor;
  weft_result result = connection->taker.step(
      host, transport->key, {.plugin = "shm", .rank = transport->rank, .peer = peer.rank},
      {.socket = peer.socket, .memory = peer.segment}, &descriptor);
  if (result != WEFT_OK) return result;
  plugins::Mapping mapping;
  result = map_memory(host, descriptor, connection->layout.size,
                      transport->plugin->huge_pages != HugePages::kOff, connection->peer, &mapping);
  if (result != WEFT_OK) return result;
  if (!plugins::Segment(mapping.data(), &connection->layout).matches(peer.segment)) {
    return host.fail_peer("shm: the memory passed by rank " + std::to_string(connection->peer) +
                          " is not that of this connection");
  }
  connection->mapping = std::move(mapping);
  return WEFT_OK;
}

weft_result connect_one(weft_connection* connection, const weft_blob& bytes) {
  if (connection->connected) return WEFT_OK;
  weft_transport* transport = connection->transport;
  Blob peer;
  weft_result result = read_blob(*connection, bytes, &peer);
  if (result != WEFT_OK) return result;
  if (connection->direction == WEFT_DIRECTION_RECV) {
    result = connection->taken ? WEFT_OK : WEFT_IN_PROGRESS;
  } else if (connection->talks || transport->talks < kMaxTalks) {
    result = fetch(connection, peer);
    connection->talk(result == WEFT_IN_PROGRESS && connection->taker.started());
    if (!connection->talks) connection->taker.stop();
  } else {
    result = WEFT_IN_PROGRESS;
  }
  if (result == WEFT_IN_PROGRESS && peer_ended(transport, peer)) {
    return transport->plugin->host.fail_peer("shm: rank " + std::to_string(connection->peer) +
                                                 " (pid " + std::to_string(peer.process.pid) +
                                                 ") ended while connecting",
                                             "look for the first error of that rank");
  }
  if (result != WEFT_OK) return result;
  connection->process = peer.process;
  const std::scoped_lock lock(transport->mutex);
  transport->connections.push_back(connection);
  connection->connected = true;
  return WEFT_OK;
}

}  // namespace

weft_result connect_all(weft_transport* transport, weft_connection* const* connections,
                        const weft_blob* peer_blobs, std::uint64_t count) {
  weft_result answer = transport->giver.serve(transport->key, *transport);
  for (std::uint64_t i = 0; i < count && answer >= 0; ++i) {
    const weft_result result = connect_one(connections[i], peer_blobs[i]);
    if (result != WEFT_OK && answer >= 0) answer = result;
  }
  if (transport->offered.empty()) transport->giver.close();
  if (answer != WEFT_IN_PROGRESS) transport->watches.clear();
  return answer;
}

}  // namespace weft::shm
