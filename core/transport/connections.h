// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank's connections: opens the transports that were chosen, makes the ends that a
// PairConnector joins, and hands out views. Owns everything that a view points to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/memory_account.h"
#include "core/bootstrap/bootstrap.h"
#include "core/model/connection_view.h"
#include "core/model/direct_peers.h"
#include "core/model/pair_transfer.h"
#include "core/plugin/loader.h"
#include "core/plugin/net_plugin.h"
#include "core/plugin/transport_plugin.h"
#include "core/topology/topology.h"
#include "core/transport/choice.h"
#include "core/transport/net_devices.h"
#include "core/transport/net_port.h"
#include "core/transport/offer_codec.h"
#include "core/transport/progress_engine.h"
#include "core/transport/run_ahead.h"
#include "core/transport/shared_buffer.h"

namespace weft {

/// The memory of the process at the other end of a connection, where its transport reads that.
struct PeerMemory {
  const TransportPlugin* plugin = nullptr;  ///< Null: it does not.
  weft_connection* connection = nullptr;
};

/// One end of one direction. Where a net carries it, `port` moves its messages.
struct ConnectionEnd {
  ConnectionView view;
  NetPort* port = nullptr;
  std::uint32_t port_connection = 0;
  /// Of two ranks that send to each other. Set at both ends or at neither.
  PeerMemory peer_memory;
  /// Of two ranks that send to each other: PairTransfer::place.
  std::uint16_t place = kNoPlace;
  /// The same steps by lines of LL, where the port moves those, too. Not connected: it does not.
  ConnectionView line_view{};
  std::uint16_t line_place = kNoPlace;
};

/// What connections between this rank and others will be like.
struct ConnectionNeeds {
  std::uint32_t net_ports = 1;  ///< Of this rank to each net; that of others may be another.
  /// Where slots are made that lie in host memory: near this rank's device. Empty: wherever.
  std::vector<CpuRange> near_cpus{};
  std::uint64_t direct_bytes = 0;  ///< The largest call written straight to all others; 0: none.
  std::uint32_t direct_parts = kMostDirectParts;  ///< That such a call is cut into, at most.
  std::uint64_t wide_bytes = 0;  ///< The same by lines of 128 bytes; needs direct_bytes.
  /// What each rank's device keeps together in the memory of the others: the least of their
  /// DeviceRuntime::line_bytes.
  std::uint32_t line_bytes = 8;
  /// Bytes that a rank writes to another at once by two-shot, where that has halves of its own in
  /// each inbox; 0: it has those of direct calls.
  std::uint64_t two_shot_range = 0;
};

/// Who this rank is and what it was given to work with; all references outlive Connections.
struct TransportContext {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t communicator = 0;  ///< Alike on all ranks.
  Secret secret{};                 ///< Of the communicator, alike on all ranks.
  std::string host_id;
  DeviceRuntime* runtime = nullptr;
  /// The engine of this rank's device for its ports of this number; asked by open_paths().
  std::function<Result<ProgressEngine*>(std::uint32_t port)> engine_of;
  Logger* logger = nullptr;
  /// The devices of a net that carry an edge, as choose_devices() answers; asked by the reactor.
  std::function<DevicePair(const std::string& plugin, const NetEdge& edge)> devices_of;
  /// Told of a data path that broke; from any thread.
  std::function<void(Error)> path_failed;
};

/// Threads: set up and destroyed by one thread, which alone shares buffers, while the reactor may
/// connect pairs (a transport's `calls` keeps the two apart); abort by any thread at any time
/// (`mutex_` guards the maps for it); drive, leave and busy by any thread once its paths are open.
class Connections {
 public:
  explicit Connections(TransportContext context);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Opens one plugin for this communicator: as a transport or as a net, whichever it is. Answers
  /// what to tell the peers about it; a plugin that cannot be opened is an offer with a reason.
  PluginOffer open(const Plugin& plugin, std::vector<std::byte>& peer_info);
  /// What the opened transport `id` says of each rank; `infos[r]` is rank r's peer info, none
  /// where that rank cannot use it.
  ReachAnswers ask(const std::string& id, const Topology& topology,
                   std::span<const std::optional<std::vector<std::byte>>> infos);

  /// Opens ports to the nets that `choice_of(peer)` names for some peer, and closes what nobody
  /// chose. From then on a PairConnector connects what calls need.
  Status open_paths(const ConnectionNeeds& needs,
                    const std::function<PairChoice(std::uint32_t peer)>& choice_of);

  /// Makes a buffer of each rank, all of `bytes`, reachable for all others. After open_paths().
  /// Collective over the bootstrap; blocks. That some rank cannot reach another is no error, but
  /// told by what it answers, alike on all ranks. MISMATCH where the sizes differ, on all ranks.
  /// The answer must go before this does.
  Result<std::unique_ptr<SharedBuffer>> share(
      void* memory, std::uint64_t bytes,
      const std::function<PairChoice(std::uint32_t peer)>& choice_of, Bootstrap& bootstrap,
      Deadline deadline);

  /// Of inboxes: two halves of each; none where ranks do not write to each other directly.
  [[nodiscard]] SlotGeometry inbox_slots() const { return inbox_slots_; }
  /// What direct() tells from now on; outlives all calls.
  void set_multicast(const MulticastView* view) { direct_.multicast = view; }
  /// Null where ranks do not write to each other directly. Inboxes are there once their links are
  /// connected.
  [[nodiscard]] const DirectPeers* direct() const {
    return direct_.positions != nullptr ? &direct_ : nullptr;
  }

  /// Moves messages of the nets if nobody else does; for waiting workers. True if any moved. A
  /// worker that is about to sleep leaves the nets to the engine.
  bool drive(bool about_to_sleep);
  /// For workers that end with messages still under way: starts what is ready, or keeps it for a
  /// moment where the rank runs ahead, and leaves the rest to the engine.
  void leave();
  [[nodiscard]] bool busy() const;

  /// Bytes of memory for connections that this rank allocated, itself and by its transports. Any
  /// thread.
  [[nodiscard]] std::uint64_t bytes_held() const;

  /// Makes everything give up; `reason` (not 0) lands in the peers' error words.
  void abort(std::uint32_t reason);

 private:
  friend class PairConnector;
  struct OpenedTransport;
  struct OpenedPort;
  struct OpenedNet;
  struct Edge;
  struct SharedEnd;

  BufferOffers export_buffer(void* memory, std::uint64_t bytes,
                             const std::function<PairChoice(std::uint32_t peer)>& choice_of,
                             SharedBuffer& shared,
                             std::map<std::string, weft_shared_buffer*>& exported);
  Result<std::vector<SharedEnd>> ends_of(
      const std::vector<BufferOffers>& offers,
      const std::map<std::string, weft_shared_buffer*>& exported,
      const std::function<PairChoice(std::uint32_t peer)>& choice_of);
  Result<BufferOffers> import_buffers(std::span<SharedEnd> ends, std::uint64_t bytes,
                                      SharedBuffer& shared, const Bootstrap& bootstrap,
                                      Deadline deadline);
  void hand_over();
  bool keep(RunAhead::Time until);
  // Which ranks keep a call by inboxes waiting, and how far messages have got, for reports.
  [[nodiscard]] std::string describe_waiting_inboxes();
  [[nodiscard]] std::string describe_waiting_ports();
  Edge edge_to(std::uint32_t peer, std::uint32_t channel, weft_direction direction,
               const std::function<PairChoice(std::uint32_t peer)>& choice_of);
  Result<std::map<std::uint64_t, std::vector<std::byte>>> prepare(std::span<Edge> edges);
  Status begin_net(Edge& edge, std::span<const std::byte> peer_blob);
  Result<bool> join_net(Edge& edge);
  Result<ConnectionView> view_of(const Edge& edge);
  Result<ConnectionView> view_of_net(Edge& edge, ConnectionEnd& end);
  Result<ConnectionView> lines_of_net(Edge& edge, ConnectionEnd& end);
  Result<InboxHalves> halves_of(const Edge& edge);
  Result<std::uint32_t*> own_error_of(std::uint32_t peer);
  void describe_direct(const Edge& edge, const ConnectionView& view);
  Status describe_inboxes(const ConnectionNeeds& needs);
  Status allocate_positions(std::size_t bytes, void** memory);
  Status let_device_reach(ConnectionView& view);
  void close_unused(const std::function<PairChoice(std::uint32_t peer)>& choice_of);
  Result<std::unique_ptr<OpenedPort>> open_port(const NetPlugin& plugin);
  Status open_ports(std::uint32_t count);

  TransportContext context_;
  MemoryAccount memory_{*context_.runtime};
  struct Release {
    MemoryAccount* account = nullptr;
    void operator()(std::byte* memory) const { account->release_shared(memory); }
  };
  /// Of inboxes that a net joins, by rank and direction; ports use them.
  std::map<std::pair<std::uint32_t, weft_direction>, std::unique_ptr<std::byte, Release>>
      inbox_halves_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<OpenedTransport>, std::less<>> transports_;
  std::map<std::string, std::unique_ptr<OpenedNet>, std::less<>> nets_;
  std::vector<OpenedPort*> ports_;       // of all nets_; stays as it is once paths are open
  void* positions_ = nullptr;            // of direct_, in the device's memory
  std::uint32_t* own_errors_ = nullptr;  // by rank, of inboxes that a net joins
  std::set<void*> registered_;           // host memory that the device was allowed to reach
  RunAhead run_ahead_;
  std::vector<bool> reads_buffers_of_;  // by rank; as ask() found, before anything is connected
  std::vector<CpuRange> near_cpus_;
  std::uint32_t line_bytes_ = 8;            // as of ConnectionNeeds
  std::atomic<bool> in_host_memory_{true};  // all that is described so far
  SlotGeometry inbox_slots_;
  DirectPeers direct_;  // its inboxes and outboxes guarded by mutex_ until they are connected
};

}  // namespace weft
