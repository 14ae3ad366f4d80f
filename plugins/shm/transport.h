// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The transport between ranks of one host: memory that both processes map. The receiving end of a
// connection makes it and passes it to the sending end.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <plugin_api/transport.h>

#include "plugins/common/hand_over.h"
#include "plugins/common/host.h"
#include "plugins/common/owned.h"
#include "plugins/common/process_identity.h"
#include "plugins/common/segment.h"
#include "plugins/shm/memory.h"
#include "plugins/shm/peer_process.h"
#include "plugins/shm/wire.h"

/// One instance of the plugin; the ABI's opaque type.
struct weft_plugin {
  explicit weft_plugin(const weft_host* services) : host(services) {}

  weft::plugins::Host host;
  weft::shm::HugePages huge_pages = weft::shm::HugePages::kOff;
  std::atomic<bool> told_of_pages{false};  ///< That huge pages were tried in vain.
};

/// One end of one direction.
struct weft_connection {
  weft_connection(weft_transport* owner, const weft_connection_request& request,
                  weft::plugins::SegmentLayout wanted)
      : transport(owner),
        peer(request.peer),
        direction(request.direction),
        layout(std::move(wanted)) {}

  weft_transport* transport;
  std::uint32_t peer;
  weft_direction direction;
  weft::plugins::SegmentLayout layout;
  weft::shm::Blob blob;                    ///< What this end tells the other.
  weft::plugins::ProcessIdentity process;  ///< Of the peer, from its blob.
  weft::plugins::OwnedFd descriptor;       ///< The receiver's until the sender has it.
  weft::plugins::Mapping mapping;          ///< The receiver's from prepare on.
  weft::plugins::HeldBytes held;           ///< The receiver's.
  weft::plugins::Taker taker;              ///< The sender's until it has the memory.
  weft::shm::PeerReader reader;
  bool talks = false;  ///< The sender's: has a socket, counted by the transport.
  bool taken = false;  ///< The receiver's: the sender has the descriptor.
  bool connected = false;

  [[nodiscard]] weft::plugins::Segment segment() const { return {mapping.data(), &layout}; }
  void talk(bool does);
};

/// The transport of one communicator.
struct weft_transport final : weft::plugins::Giver::Store {
  explicit weft_transport(weft_plugin* owner) : plugin(owner), giver(owner->host, "shm") {}

  int find(const weft::plugins::Nonce& memory, std::uint32_t peer) override;
  void given(const weft::plugins::Nonce& memory, std::uint32_t peer,
             weft::plugins::OwnedFd line) override;
  /// Forgets an end whose memory was passed or that is closed; stops listening after the last.
  void withdraw(const weft_connection& connection);

  weft_plugin* plugin;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint64_t communicator = 0;
  weft::shm::Key key;
  weft::plugins::Nonce probe{};  ///< Read by peers to see whether they can.
  weft::shm::PeerInfo info;

  weft::plugins::Giver giver;
  std::map<weft::plugins::Nonce, weft_connection*> offered;  ///< Ends whose memory waits.
  std::map<std::uint32_t, weft::plugins::OwnedFd> watches;   ///< Peers while connecting.
  std::uint32_t talks = 0;  ///< Sending ends that have a socket, of whichever pairs.

  std::atomic<std::uint64_t> bytes_held = 0;  ///< Memory that this end allocated.
  std::mutex mutex;  ///< Guards `connections`, since abort comes from any thread.
  std::vector<weft_connection*> connections;  ///< Connected ones.
};

inline void weft_connection::talk(bool does) {
  if (talks == does) return;
  talks = does;
  transport->talks += does ? 1 : -1;
}

namespace weft::shm {

extern const weft_transport_interface kInterface;

/// What this end of the pair says (can_connect of the ABI).
weft_result judge_peer(const weft_transport& transport, const weft_peer& peer,
                       weft_can_connect* out);
/// What this rank tells all others, signed.
PeerInfo describe_self(const weft_transport& transport, const char* host_id);

/// Brings `count` ends forward (connect of the ABI).
weft_result connect_all(weft_transport* transport, weft_connection* const* connections,
                        const weft_blob* peer_blobs, std::uint64_t count);

}  // namespace weft::shm
