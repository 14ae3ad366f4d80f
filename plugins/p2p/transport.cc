// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The functions of weft.transport, and what those of ranks on CPUs do; those of ranks on CUDA
// devices connect in device_connections.cc.
#include "plugins/p2p/transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <ranges>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "plugins/common/available_memory.h"
#include "plugins/p2p/device_connections.h"

namespace {

auto find_arena(weft_transport& transport, const weft::plugins::Nonce& memory) {
  return std::ranges::find(transport.arenas, memory, [](const auto& one) { return one->name(); });
}

auto find_exported(weft_transport& transport, const weft::plugins::Nonce& memory) {
  return std::ranges::find(transport.exported, memory,
                           [](const auto* one) { return one->blob.place.memory; });
}

}  // namespace

int weft_transport::find(const weft::plugins::Nonce& memory, std::uint32_t peer) {
  const auto arena = find_arena(*this, memory);
  if (arena != arenas.end()) return (*arena)->awaits(peer) ? (*arena)->descriptor() : -1;
  const auto buffer = find_exported(*this, memory);
  return buffer != exported.end() && (*buffer)->awaits(peer) ? (*buffer)->descriptor.get() : -1;
}

void weft_transport::given(const weft::plugins::Nonce& memory, std::uint32_t peer,
                           weft::plugins::OwnedFd line) {
  if (line) lines.try_emplace(peer, std::move(line));  // one of each peer is enough
  if (const auto arena = find_arena(*this, memory); arena != arenas.end()) {
    (*arena)->taken_by(peer);
  } else if (const auto buffer = find_exported(*this, memory); buffer != exported.end()) {
    (*buffer)->takers.insert(peer);
    if ((*buffer)->takers.size() + 1 == ranks) (*buffer)->descriptor.reset();
  }
}

bool weft_plugin::Ends::is_over() const {
  if (open != 0) return false;
  if (kept.empty() || closed == ranks) return true;
  return std::ranges::all_of(kept, [](const auto& arena) { return arena->by_descriptor(); }) &&
         std::ranges::all_of(
             lines, [](const auto& line) { return weft::plugins::Giver::has_ended(line.get()); });
}

std::vector<std::shared_ptr<weft::p2p::Arena>> weft_plugin::reclaim() {
  std::vector<std::shared_ptr<weft::p2p::Arena>> over;
  for (auto at = ends.begin(); at != ends.end();) {
    if (!at->second.is_over()) {
      ++at;
      continue;
    }
    std::ranges::move(at->second.kept, std::back_inserter(over));
    at = ends.erase(at);
  }
  return over;
}

weft_result weft_transport::hand_out() {
  const weft_result result = giver.serve(key, *this);
  if (result != WEFT_OK) return result;
  const auto waited_for = [](const auto& arena) { return arena->descriptor() >= 0; };
  const auto shared = [this](const auto* buffer) {
    return buffer->descriptor && buffer->takers.size() + 1 < ranks;
  };
  if (std::ranges::none_of(arenas, waited_for) && std::ranges::none_of(exported, shared)) {
    giver.close();
  }
  return WEFT_OK;
}

namespace weft::p2p {
namespace {

using plugins::guarded;
using plugins::Host;

constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

weft_result open(weft_plugin* plugin, const weft_transport_open_info* info, weft_transport** out) {
  return guarded(plugin->host, [&] {
    if (!WEFT_HAS(info, weft_transport_open_info, host_id) || info->rank >= info->ranks) {
      return plugin->host.fail(WEFT_ERROR_INVALID_ARGUMENT, "p2p: incomplete open information");
    }
    auto transport = std::make_unique<weft_transport>(plugin);
    transport->rank = info->rank;
    transport->ranks = info->ranks;
    transport->communicator = info->communicator;
    transport->device = info->device;
    transport->info = {.magic = kMagic,
                       .rank = info->rank,
                       .device = info->device,
                       .process = plugins::this_process()};
    if (info->device >= 0) {
      if (info->key == nullptr) {
        return plugin->host.fail(WEFT_ERROR_INVALID_ARGUMENT, "p2p: incomplete open information");
      }
      transport->key = plugins::Key({info->key, info->key_size});
      transport->info.network_namespace = plugins::namespace_inode("net");
      transport->info.user = ::geteuid();
      transport->device_sharing = plugin->device_sharing;
      transport->imports = std::make_unique<Imports>(plugin->host, info->device);
      std::vector<std::shared_ptr<Arena>> over;  // goes without the lock
      const std::scoped_lock lock(plugin->mutex);
      over = plugin->reclaim();
      weft_plugin::Ends& ends = plugin->ends[info->communicator];
      ends.ranks = info->ranks;
      ++ends.open;
    }
    *out = transport.release();
    return weft_result{WEFT_OK};
  });
}

void close(weft_transport* transport) {
  std::unique_ptr<weft_transport> owner(transport);
  if (transport->device < 0) return;
  weft_plugin& plugin = *transport->plugin;
  {
    const std::scoped_lock lock(plugin.mutex);
    weft_plugin::Ends& ends = plugin.ends.at(transport->communicator);
    --ends.open;
    ++ends.closed;
    for (const auto& arena : transport->arenas) {
      // Of what travels by CUDA IPC nobody tells when peers have let go: it stays for as long as
      // the instance, which is worth it after an abort alone.
      if (transport->aborted.load() || arena->by_descriptor()) ends.kept.push_back(arena);
    }
    std::ranges::move(transport->lines | std::views::values, std::back_inserter(ends.lines));
  }
  owner.reset();  // what it imported goes, and others of this process learn of it
  std::vector<std::shared_ptr<Arena>> over;
  const std::scoped_lock lock(plugin.mutex);
  over = plugin.reclaim();
}

weft_result peer_info(weft_transport* transport, weft_blob* out) {
  *out = {&transport->info, sizeof(transport->info)};
  return WEFT_OK;
}

weft_result can_connect(weft_transport* transport, const weft_peer* peer, weft_can_connect* out) {
  const Host& host = transport->plugin->host;
  return guarded(host, [&] {
    if (!WEFT_HAS(peer, weft_peer, info)) {
      return host.fail(WEFT_ERROR_INVALID_ARGUMENT, "p2p: a peer's description is too short");
    }
    PeerInfo theirs;
    const bool on_device = transport->device >= 0;
    std::string reason = "same process";
    bool can = false;
    if (on_device ? peer->same_host == 0 : peer->same_process == 0) {
      reason = on_device ? "other host" : "other process";
    } else if (peer->info.size != sizeof(theirs) || peer->info.data == nullptr) {
      reason = "peer information of " + rank_text(peer->rank) + " has " +
               std::to_string(peer->info.size) + " bytes instead of " +
               std::to_string(sizeof(theirs)) + ": another version of this plugin?";
    } else {
      std::memcpy(static_cast<void*>(&theirs), peer->info.data, sizeof(theirs));
      const bool cpu_says_more =
          theirs.device < 0 && (theirs.network_namespace != 0 || theirs.user != 0);
      if (theirs.magic != kMagic || theirs.rank != peer->rank || theirs.device < -1 ||
          cpu_says_more) {
        reason = "peer information of " + rank_text(peer->rank) + " is not understood";
      } else if (on_device != (theirs.device >= 0)) {
        reason = on_device ? "the peer runs on the CPU" : "the peer runs on a CUDA device";
      } else if (on_device) {
        // Unix sockets do not join others: what travels as bytes still does.
        const bool takes_descriptors =
            theirs.network_namespace == transport->info.network_namespace &&
            theirs.user == transport->info.user;
        const bool reads = transport->plugin->mode == Mode::kRead;
        const bool goes_otherwise =
            !reads && (transport->device_sharing & WEFT_SHARING_IPC) != WEFT_SHARING_NONE;
        can = takes_descriptors || goes_otherwise;
        if (!can) {
          reason = reads ? "p2p.mode read" : "p2p.device_sharing descriptor";
          reason +=
              " needs memory that travels by a descriptor, which a peer in another network "
              "namespace, or of another user, cannot take";
        } else {
          reason = theirs.process == transport->info.process ? "CUDA devices of one process"
                                                             : "CUDA devices of one host";
          reason += reads ? ", by reads" : ", by writes";
        }
        if (can && !takes_descriptors) transport->without_descriptors.insert(peer->rank);
      } else if (theirs.process != transport->info.process) {
        reason = "other process (pid " + std::to_string(theirs.process.pid) + ")";
      } else {
        can = true;
      }
    }
    weft_can_connect answer{};
    answer.capabilities = can ? WEFT_TRANSPORT_CAN_CONNECT : 0;
    if (can && on_device) {
      answer.capabilities |=
          WEFT_TRANSPORT_DEVICE_MEMORY | WEFT_TRANSPORT_MAPS_BUFFERS | WEFT_TRANSPORT_COPY_ENGINE;
    }
    answer.locality = on_device ? WEFT_LOCALITY_HOST : WEFT_LOCALITY_PROCESS;
    reason.copy(answer.reason, sizeof(answer.reason) - 1);
    plugins::write_out(answer, out);
    return weft_result{WEFT_OK};
  });
}

weft_result allocate(const weft_plugin& plugin, const weft_connection& connection,
                     std::shared_ptr<Block>* out) {
  auto block = std::make_shared<Block>();
  const std::uint64_t size = connection.layout.size;
  void* address = MAP_FAILED;
  if (size > plugins::available_memory()) {
    errno = ENOMEM;
  } else {
    address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (address == MAP_FAILED) {
    return plugin.host.fail_errno(
        errno,
        "p2p: cannot allocate " + std::to_string(size) + " bytes for the connection from " +
            rank_text(connection.peer),
        "free memory, raise the limit of address space (ulimit -v), or use fewer channels");
  }
  block->mapping = plugins::Mapping(address, size);
  // Both are hints: a kernel that refuses them costs speed or a little memory.
  // The many small ones of ranks that exchange with all others lie side by side: a huge page would
  // fill the buffers of all of them.
  if (plugin.huge_pages && size >= kHugePageBytes) ::madvise(address, size, MADV_HUGEPAGE);
  ::madvise(address, size, MADV_DONTFORK);
  block->layout = connection.layout;
  block->nonce = plugins::random_nonce();
  plugins::Segment(block->mapping.data(), &block->layout).initialise(block->nonce);
  *out = std::move(block);
  return WEFT_OK;
}

weft_result prepare_one(weft_transport* transport, const weft_connection_request* wanted,
                        std::unique_ptr<weft_connection>* out) {
  const Host& host = transport->plugin->host;
  plugins::SegmentLayout layout;
  weft_result result = plugins::make_layout(host, wanted, transport->ranks, &layout);
  if (result != WEFT_OK) return result;
  const weft_connection_request& request = *wanted;
  auto connection = std::make_unique<weft_connection>(transport, request, std::move(layout));
  Blob& blob = connection->blob;
  blob.magic = kMagic;
  blob.communicator = transport->communicator;
  blob.number = request.number;
  blob.rank = transport->rank;
  blob.peer = request.peer;
  blob.direction = static_cast<std::uint32_t>(request.direction);
  blob.protocols = connection->layout.specs();
  blob.process = transport->info.process;
  if (request.direction == WEFT_DIRECTION_RECV) {
    result = allocate(*transport->plugin, *connection, &connection->block);
    if (result != WEFT_OK) return result;
    connection->held = {transport->bytes_held, connection->block->mapping.size()};
    result = connection->offer.make(host, transport->offers, connection->block, &blob.token);
    if (result != WEFT_OK) return result;
  }
  *out = std::move(connection);
  return WEFT_OK;
}

weft_result prepare(weft_transport* transport, const weft_connection_request* requests,
                    std::uint64_t stride, std::uint64_t count, weft_connection** out) {
  return guarded(transport->plugin->host, [&] {
    std::vector<std::unique_ptr<weft_connection>> made(count);
    if (transport->device >= 0) {
      const weft_result result = prepare_on_device(transport, requests, stride, made);
      if (result != WEFT_OK) return result;
      std::ranges::transform(made, out, [](auto& connection) { return connection.release(); });
      return weft_result{WEFT_OK};
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const weft_result result =
          prepare_one(transport, plugins::element(requests, stride, i), &made[i]);
      if (result != WEFT_OK) return result;
    }
    {
      // So that registering a connection later cannot fail.
      const std::scoped_lock lock(transport->mutex);
      transport->connections.reserve(transport->connections.size() + count);
    }
    std::ranges::transform(made, out, [](auto& connection) { return connection.release(); });
    return weft_result{WEFT_OK};
  });
}

weft_result connection_blob(weft_connection* connection, weft_blob* out) {
  if (connection->device_end != nullptr) {
    *out = {&connection->device_end->blob, sizeof(connection->device_end->blob)};
  } else {
    *out = {&connection->blob, sizeof(connection->blob)};
  }
  return WEFT_OK;
}

/// Whether `bytes` are the blob of the other end of `connection`.
weft_result read_blob(const weft_connection& connection, const weft_blob& bytes, Blob* out) {
  const Host& host = connection.transport->plugin->host;
  const std::string whose = "p2p: the blob of " + rank_text(connection.peer);
  if (bytes.size != sizeof(Blob) || bytes.data == nullptr) {
    return host.fail_peer(whose + " has " + std::to_string(bytes.size) + " bytes instead of " +
                          std::to_string(sizeof(Blob)));
  }
  Blob blob;
  std::memcpy(static_cast<void*>(&blob), bytes.data, sizeof(blob));
  const Blob& own = connection.blob;
  if (blob.magic != kMagic || blob.communicator != own.communicator || blob.number != own.number ||
      blob.rank != own.peer || blob.peer != own.rank || blob.direction == own.direction ||
      blob.direction > WEFT_DIRECTION_RECV) {
    return host.fail_peer(whose + " is damaged or belongs to another connection");
  }
  if (blob.process != own.process) {
    return host.fail_peer(whose + " comes from another process");
  }
  if (blob.protocols != own.protocols) {
    return host.fail(
        WEFT_ERROR_MISMATCH,
        "p2p: this rank and " + rank_text(connection.peer) + " ask for buffers of different sizes",
        "give all ranks the same configuration");
  }
  *out = blob;
  return WEFT_OK;
}

void set_connected(weft_connection* connection) {
  const std::scoped_lock lock(connection->transport->mutex);
  connection->transport->connections.push_back(connection);
  connection->connected = true;
}

weft_result connect_one(weft_connection* connection, const weft_blob& bytes) {
  if (connection->connected) return WEFT_OK;
  if (connection->device_end != nullptr) return connect_on_device(connection, bytes);
  const Host& host = connection->transport->plugin->host;
  Blob blob;
  weft_result result = read_blob(*connection, bytes, &blob);
  if (result != WEFT_OK) return result;
  if (connection->direction == WEFT_DIRECTION_RECV) {
    if (!connection->block->attached.load()) return WEFT_IN_PROGRESS;
    connection->offer.withdraw();
  } else {
    std::shared_ptr<Block> block;
    result = take_share(host, blob.token, connection->peer, &block);
    if (result != WEFT_OK) return result;  // or another sender is at it
    if (block->mapping.size() != connection->layout.size ||
        !plugins::Segment(block->mapping.data(), &connection->layout).matches(block->nonce)) {
      return host.fail_peer("p2p: the memory offered by " + rank_text(connection->peer) +
                            " is not that of this connection");
    }
    connection->block = std::move(block);
    connection->block->attached.store(true);
  }
  set_connected(connection);
  return WEFT_OK;
}

weft_result connect(weft_transport* transport, weft_connection* const* connections,
                    const weft_blob* peer_blobs, std::uint64_t count) {
  return guarded(transport->plugin->host, [&] {
    weft_result answer = transport->device >= 0 ? transport->hand_out() : WEFT_OK;
    if (answer != WEFT_OK) return answer;
    for (std::uint64_t i = 0; i < count; ++i) {
      const weft_result result = connect_one(connections[i], peer_blobs[i]);
      if (result < 0) return result;
      if (result == WEFT_IN_PROGRESS) answer = WEFT_IN_PROGRESS;
    }
    return answer;
  });
}

weft_result describe(weft_connection* connection, weft_protocol protocol, weft_protocol_view* out) {
  const Host& host = connection->transport->plugin->host;
  return guarded(host, [&] {
    if (!connection->connected) {
      return host.fail(WEFT_ERROR_INVALID_USAGE, "p2p: describe before connect has finished");
    }
    const bool described =
        connection->device_end != nullptr
            ? connection->device_end->describe(protocol, connection->direction,
                                               connection->transport->device, out)
            : connection->segment().describe(protocol, connection->direction, out);
    if (!described) {
      return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                       "p2p: protocol " + std::to_string(protocol) + " was not asked for");
    }
    return weft_result{WEFT_OK};
  });
}

void close_connection(weft_connection* connection) {
  const std::unique_ptr<weft_connection> owner(connection);
  const std::scoped_lock lock(connection->transport->mutex);
  std::erase(connection->transport->connections, connection);
}

// What runs on a CUDA device learns it from its own host: no CPU stores to device memory.
void abort(weft_transport* transport, std::uint32_t reason) {
  transport->aborted.store(true);
  const std::scoped_lock lock(transport->mutex);
  for (const weft_connection* connection : transport->connections) {
    connection->segment().give_up(connection->direction, reason);
  }
}

weft_result bytes_held(weft_transport* transport, std::uint64_t* out) {
  *out = transport->bytes_held.load();
  return WEFT_OK;
}

weft_result export_buffer(weft_transport* transport, void* address, std::uint64_t size,
                          weft_buffer_export* out, weft_shared_buffer** buffer) {
  const Host& host = transport->plugin->host;
  return guarded(host, [&] {
    if (transport->device < 0) {
      return host.fail(WEFT_ERROR_UNSUPPORTED, "p2p: buffers of CPU ranks are not shared");
    }
    auto shared = std::make_unique<weft_shared_buffer>(host);
    weft_result result = shared->share(address, size, transport->sharing_with_all());
    if (result != WEFT_OK) return result;
    BufferBlob& blob = shared->blob;
    blob.magic = kMagic;
    blob.communicator = transport->communicator;
    blob.rank = transport->rank;
    if (shared->descriptor) {
      result = transport->giver.open(&blob.place.socket);
      if (result != WEFT_OK) return result;
    }
    transport->exported.push_back(shared.get());
    plugins::write_out(shared->described, out);
    *buffer = shared.release();
    return weft_result{WEFT_OK};
  });
}

weft_result import_buffer(weft_transport* transport, std::uint32_t peer,
                          const weft_shared_buffer* mine, const weft_buffer_export* from,
                          void** address, weft_shared_buffer** buffer) {
  const Host& host = transport->plugin->host;
  return guarded(host, [&] {
    const std::string whose = "p2p: what " + rank_text(peer) + " says of its buffer";
    BufferBlob blob;
    if (!WEFT_HAS(from, weft_buffer_export, blob) || from->blob.size != sizeof(blob) ||
        from->blob.data == nullptr) {
      return host.fail_peer(whose + " has another size than this version's");
    }
    std::memcpy(static_cast<void*>(&blob), from->blob.data, sizeof(blob));
    if (blob.magic != kMagic || blob.communicator != transport->communicator || blob.rank != peer ||
        blob.size != from->size) {
      return host.fail_peer(whose + " is damaged or belongs to another communicator");
    }
    weft_result result = transport->hand_out();
    if (result != WEFT_OK) return result;
    if (*buffer == nullptr) *buffer = new weft_shared_buffer(host);
    result = (*buffer)->fetch(blob, transport->rank, transport->key);
    if (result < 0) return result;
    // Though the peer's cannot be mapped it needs this rank's, which nobody else hands out.
    if (mine != nullptr && mine->awaits(peer)) return weft_result{WEFT_IN_PROGRESS};
    return result == WEFT_OK ? (*buffer)->reach(blob, transport->device, address) : result;
  });
}

void release_buffer(weft_transport* transport, weft_shared_buffer* buffer) {
  const std::unique_ptr<weft_shared_buffer> owner(buffer);
  std::erase(transport->exported, buffer);
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
    .read_peer = nullptr,
    .export_buffer = export_buffer,
    .import_buffer = import_buffer,
    .release_buffer = release_buffer,
    .bytes_held = bytes_held,
};

}  // namespace weft::p2p
