// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The transport between ranks of one process, which share the address space, so that a connection
// is a piece of memory that both ends point to; and between ranks on CUDA devices of one host.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <plugin_api/transport.h>

#include "plugins/common/hand_over.h"
#include "plugins/common/host.h"
#include "plugins/common/key.h"
#include "plugins/common/process_identity.h"
#include "plugins/common/segment.h"
#include "plugins/p2p/block.h"
#include "plugins/p2p/device_end.h"
#include "plugins/p2p/shared_buffer.h"

/// One instance of the plugin; the ABI's opaque type.
struct weft_plugin {
  explicit weft_plugin(const weft_host* services) : host(services) {}

  weft::plugins::Host host;
  bool huge_pages = true;
  weft_memory_sharing device_sharing = WEFT_SHARING_DESCRIPTOR | WEFT_SHARING_IPC;
  weft::p2p::Mode mode = weft::p2p::Mode::kWrite;  ///< Between ranks on CUDA devices.
  /// The transports of this process' ranks on CUDA devices of one communicator.
  struct Ends {
    std::uint32_t ranks = 0;  ///< Of the communicator.
    std::uint32_t open = 0;
    std::uint32_t closed = 0;
    /// Of those that have closed: memory that kernels of peers may still use, and lines to the
    /// ranks that have imported it. Who only sends is done before its receivers, which return its
    /// slots, or even read them from here; and nobody waits for others after an abort.
    std::vector<std::shared_ptr<weft::p2p::Arena>> kept;
    std::vector<weft::plugins::OwnedFd> lines;

    /// Whether nobody uses it any more: all ranks have closed, whose kernels end before, or
    /// each that had imported something has closed, or its process has ended. What travelled by
    /// CUDA IPC has no lines: of ranks in other processes nothing is known then.
    [[nodiscard]] bool is_over() const;
  };
  std::mutex mutex;
  std::map<std::uint64_t, Ends> ends;  ///< By communicator, guarded by mutex.
  /// Takes what is over out of `ends`, to be destroyed without the mutex. With it.
  [[nodiscard]] std::vector<std::shared_ptr<weft::p2p::Arena>> reclaim();
};

namespace weft::p2p {

/// What a rank tells all others. Travels, not trusted.
struct PeerInfo {
  std::uint64_t magic = 0;
  std::uint32_t rank = 0;
  std::int32_t device = -1;  ///< Number of its CUDA device in its process, -1 for a CPU rank.
  plugins::ProcessIdentity process;
  std::uint64_t network_namespace = 0;  ///< What Unix sockets do not cross; 0 for a CPU rank.
  std::uint64_t user = 0;               ///< 0 for a CPU rank, too.
};

/// What one end tells the other. Travels, not trusted.
struct Blob {
  std::uint64_t magic = 0;
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;
  std::uint32_t direction = 0;
  std::array<plugins::ProtocolSpec, plugins::kMaxProtocols> protocols{};
  plugins::ProcessIdentity process;
  TokenPlace token;  ///< Of the receiving end.
};
static_assert(std::has_unique_object_representations_v<PeerInfo>);
static_assert(std::has_unique_object_representations_v<Blob>);

/// What blobs and peer information begin with.
inline constexpr std::uint64_t kMagic = UINT64_C(0x3150325054464557);  // "WEFTP2P1" in memory

inline std::string rank_text(std::uint32_t rank) {
  return "rank " + std::to_string(rank);
}

extern const weft_transport_interface kInterface;

}  // namespace weft::p2p

/// One end of one direction.
struct weft_connection {
  weft_connection(weft_transport* owner, const weft_connection_request& request,
                  weft::plugins::SegmentLayout wanted)
      : transport(owner),
        peer(request.peer),
        direction(request.direction),
        number(request.number),
        layout(std::move(wanted)) {}

  weft_transport* transport;
  std::uint32_t peer;
  weft_direction direction;
  std::uint64_t number;
  weft::plugins::SegmentLayout layout;
  weft::p2p::Blob blob;
  std::shared_ptr<weft::p2p::Block> block;  ///< The receiver's from prepare on.
  weft::plugins::HeldBytes held;            ///< The receiver's.
  weft::p2p::Offer offer;                   ///< The receiver's until the sender has its share.
  std::unique_ptr<weft::p2p::DeviceEnd> device_end;  ///< Of ranks on CUDA devices, instead.
  bool connected = false;

  [[nodiscard]] weft::plugins::Segment segment() const { return {block->mapping.data(), &layout}; }
};

/// The transport of one communicator.
struct weft_transport final : weft::plugins::Giver::Store {
  explicit weft_transport(weft_plugin* owner) : plugin(owner), giver(owner->host, "p2p") {}

  int find(const weft::plugins::Nonce& memory, std::uint32_t peer) override;
  void given(const weft::plugins::Nonce& memory, std::uint32_t peer,
             weft::plugins::OwnedFd line) override;
  /// The ways in which all peers that it can connect to can take memory.
  [[nodiscard]] weft_memory_sharing sharing_with_all() const {
    return without_descriptors.empty() ? device_sharing : device_sharing & WEFT_SHARING_IPC;
  }
  /// Hands out what peers ask for; listens no more once nobody can.
  weft_result hand_out();

  weft_plugin* plugin;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::int32_t device = -1;
  std::uint64_t communicator = 0;
  weft::p2p::PeerInfo info;
  std::unique_ptr<weft::p2p::Imports> imports;  ///< Of a rank on a CUDA device.
  std::vector<std::shared_ptr<weft::p2p::Arena>> arenas;
  std::vector<weft_shared_buffer*> exported;  ///< Buffers whose descriptors may be taken.
  weft_memory_sharing device_sharing = WEFT_SHARING_NONE;  ///< The ways that the plugin may go.
  /// Peers that it can connect to, though by CUDA IPC alone.
  std::set<std::uint32_t> without_descriptors;
  /// How arenas for the others travel, once there is one: what the device has.
  weft_memory_sharing arenas_go = WEFT_SHARING_NONE;
  weft::plugins::Key key;
  weft::plugins::Giver giver;  ///< Of arenas whose descriptors somebody waits for.
  /// Of ranks that have imported arenas, by rank.
  std::map<std::uint32_t, weft::plugins::OwnedFd> lines;
  weft::p2p::Offers offers;  ///< Of ranks on CPUs: what connections of them wait for.
  std::atomic<bool> aborted = false;
  std::atomic<std::uint64_t> bytes_held = 0;  ///< Memory that this end allocated.
  std::mutex mutex;  ///< Guards `connections`, since abort comes from any thread.
  std::vector<weft_connection*> connections;  ///< Connected ones.
};
