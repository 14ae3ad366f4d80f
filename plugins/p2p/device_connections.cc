// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "plugins/p2p/device_connections.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

namespace weft::p2p {
namespace {

using plugins::Host;

std::string mode_name(Mode mode) {
  return mode == Mode::kRead ? "read" : "write";
}

// The way that arenas for that peer travel; before there is one, those to try. A blob says once how
// all that its reader gets travels.
weft_memory_sharing ways_to(const weft_transport& transport, std::uint32_t peer) {
  if (transport.without_descriptors.contains(peer)) {
    return transport.device_sharing & WEFT_SHARING_IPC;
  }
  if (transport.arenas_go != WEFT_SHARING_NONE) return transport.arenas_go;
  // A sender may be gone before its receiver has read, and only of memory that travels by a
  // descriptor it learns when that was.
  const bool reads = transport.plugin->mode == Mode::kRead;
  return reads ? transport.device_sharing & WEFT_SHARING_DESCRIPTOR : transport.device_sharing;
}

weft_result make_arena(weft_transport& transport, std::uint32_t peer, std::uint64_t bytes) {
  const Host& host = transport.plugin->host;
  const bool reads = transport.plugin->mode == Mode::kRead;
  const weft_memory_sharing sharing = ways_to(transport, peer);
  std::shared_ptr<Arena> arena;
  const weft_result result = Arena::make(host, transport.device, bytes, sharing, &arena);
  if (result == WEFT_ERROR_UNSUPPORTED && reads) {
    return host.fail(result,
                     "p2p: CUDA device " + std::to_string(transport.device) +
                         " has no memory that travels by a descriptor, which p2p.mode read needs",
                     "set p2p.mode to write");
  }
  if (result != WEFT_OK) return result;
  host.debug("arena of " + std::to_string(arena->size()) + " bytes on CUDA device " +
             std::to_string(transport.device) +
             (arena->by_descriptor() ? ", by descriptor" : ", by CUDA IPC"));
  transport.bytes_held.fetch_add(arena->size());  // for as long as the transport is open
  if (!transport.without_descriptors.contains(peer)) transport.arenas_go = arena->ticket().sharing;
  transport.arenas.push_back(std::move(arena));
  return WEFT_OK;
}

// Memory that travels comes in whole pages of the driver, of which a connection needs a part: the
// host gives a new arena so many as that takes, and who comes next gets what is left.
weft_result cut(weft_transport& transport, std::uint32_t peer, std::uint64_t bytes, Part* out) {
  const weft_memory_sharing ways = ways_to(transport, peer);
  const auto fits = [&](const auto& arena) {
    return arena->ticket().sharing == ways && arena->cut(bytes, &out->offset);
  };
  auto found = std::ranges::find_if(transport.arenas, fits);
  if (found == transport.arenas.end()) {
    const weft_result result = make_arena(transport, peer, bytes);
    if (result != WEFT_OK) return result;
    found = std::prev(transport.arenas.end());
    (*found)->cut(bytes, &out->offset);
  }
  out->arena = *found;
  return WEFT_OK;
}

// Who has an arena has all of its parts.
weft_result promise(weft_transport& transport, std::uint32_t peer, const Part& part,
                    PartPlace* out) {
  Arena& arena = *part.arena;
  out->offset = part.offset;
  out->arena.memory = arena.name();
  weft_result result = arena.promise(peer);
  if (result == WEFT_OK && arena.awaits(peer)) result = transport.giver.open(&out->arena.socket);
  std::ranges::copy(arena.ticket().bytes, out->ticket.begin());
  return result;
}

}  // namespace

weft_result prepare_on_device(weft_transport* transport, const weft_connection_request* requests,
                              std::uint64_t stride,
                              std::vector<std::unique_ptr<weft_connection>>& made) {
  const weft_plugin& plugin = *transport->plugin;
  for (std::uint64_t i = 0; i < made.size(); ++i) {
    const weft_connection_request& request = *plugins::element(requests, stride, i);
    plugins::SegmentLayout checked;
    weft_result result = plugins::make_layout(plugin.host, &request, transport->ranks, &checked);
    if (result != WEFT_OK) return result;
    made[i] = std::make_unique<weft_connection>(transport, request, std::move(checked));
    auto end = std::make_unique<DeviceEnd>();
    std::vector<plugins::ProtocolSpec> specs;
    for (const auto& protocol : made[i]->layout.protocols)
      specs.push_back(protocol.spec);
    end->mine = lay_out(request.direction, plugin.mode, specs);
    end->theirs = lay_out(
        request.direction == WEFT_DIRECTION_SEND ? WEFT_DIRECTION_RECV : WEFT_DIRECTION_SEND,
        plugin.mode, specs);
    // Buffers first, so that words come to lie behind what is left of them.
    if (end->mine.buffer_bytes != 0) {
      result = cut(*transport, request.peer, end->mine.buffer_bytes, &end->buffers);
    }
    if (result == WEFT_OK)
      result = cut(*transport, request.peer, end->mine.word_bytes, &end->words);
    if (result != WEFT_OK) return result;
    made[i]->device_end = std::move(end);
  }
  for (const auto& connection : made) {
    DeviceEnd& end = *connection->device_end;
    end.blob.magic = kMagic;
    end.blob.communicator = transport->communicator;
    end.blob.number = connection->number;
    end.blob.rank = transport->rank;
    end.blob.peer = connection->peer;
    end.blob.direction = static_cast<std::uint32_t>(connection->direction);
    end.blob.protocols = connection->layout.specs();
    end.blob.mode = plugin.mode;
    end.blob.sharing = end.words.arena->ticket().sharing;
    weft_result result = promise(*transport, connection->peer, end.words, &end.blob.words);
    if (result == WEFT_OK && end.buffers.arena != nullptr) {
      result = promise(*transport, connection->peer, end.buffers, &end.blob.buffers);
    }
    if (result != WEFT_OK) return result;
  }
  return WEFT_OK;
}

weft_result connect_on_device(weft_connection* connection, const weft_blob& bytes) {
  const Host& host = connection->transport->plugin->host;
  DeviceEnd& end = *connection->device_end;
  const std::string whose = "p2p: the blob of " + rank_text(connection->peer);
  DeviceBlob blob;
  if (bytes.size != sizeof(blob) || bytes.data == nullptr) {
    return host.fail_peer(whose + " has " + std::to_string(bytes.size) + " bytes instead of " +
                          std::to_string(sizeof(blob)));
  }
  std::memcpy(static_cast<void*>(&blob), bytes.data, sizeof(blob));
  const DeviceBlob& own = end.blob;
  if (blob.magic != kMagic || blob.communicator != own.communicator || blob.number != own.number ||
      blob.rank != own.peer || blob.peer != own.rank || blob.direction == own.direction ||
      blob.direction > WEFT_DIRECTION_RECV || blob.mode > Mode::kRead) {
    return host.fail_peer(whose + " is damaged or belongs to another connection");
  }
  if (blob.mode != own.mode) {
    return host.fail(WEFT_ERROR_MISMATCH,
                     "p2p: p2p.mode is " + mode_name(own.mode) + " here and " +
                         mode_name(blob.mode) + " at " + rank_text(connection->peer),
                     "give all ranks the same configuration");
  }
  if (blob.protocols != own.protocols) {
    return host.fail(
        WEFT_ERROR_MISMATCH,
        "p2p: this rank and " + rank_text(connection->peer) + " ask for buffers of different sizes",
        "give all ranks the same configuration");
  }
  weft_transport& transport = *connection->transport;
  const auto reach = [&](const PartPlace& place, std::uint64_t bytes, std::byte** out) {
    weft_memory memory{};
    const weft_result result = transport.imports->open(transport.key, blob, place, &memory);
    if (result != WEFT_OK) return result;
    if (place.offset > memory.size || bytes > memory.size - place.offset ||
        place.offset % 128 != 0) {
      return host.fail_peer(whose + " names memory beyond what it shares");
    }
    *out = static_cast<std::byte*>(memory.address) + place.offset;
    return weft_result{WEFT_OK};
  };
  const weft_result words = reach(blob.words, end.theirs.word_bytes, &end.peer_words);
  if (words < 0) return words;
  const weft_result buffers = end.theirs.buffer_bytes == 0
                                  ? weft_result{WEFT_OK}
                                  : reach(blob.buffers, end.theirs.buffer_bytes, &end.peer_buffers);
  if (buffers < 0) return buffers;
  if (words == WEFT_IN_PROGRESS || buffers == WEFT_IN_PROGRESS ||
      end.words.awaits(connection->peer) || end.buffers.awaits(connection->peer)) {
    return WEFT_IN_PROGRESS;
  }
  connection->connected = true;
  return WEFT_OK;
}

}  // namespace weft::p2p
