// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/connections.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/base/wait.h"
#include "core/model/two_shot.h"
#include "core/topology/thread_place.h"
#include "core/transport/connection_edge.h"
#include "core/transport/net_devices.h"
#include "core/transport/offer_codec.h"
#include "core/transport/view_order.h"

namespace weft {
namespace {

// Names one direction of one edge at both ends; ranks are below 2^20.
std::uint64_t connection_number(std::uint32_t channel, std::uint32_t from, std::uint32_t to) {
  return (static_cast<std::uint64_t>(channel) << 40) | (static_cast<std::uint64_t>(from) << 20) |
         to;
}

// Bytes of a half of an inbox for lines. Ranks meet there as well.
std::uint64_t line_half_of(const ConnectionNeeds& needs) {
  return std::max(direct_half_bytes(needs.direct_bytes), kLeastDirectHalfBytes);
}

// Of a plain half beside those.
std::uint64_t plain_half_of(const ConnectionNeeds& needs) {
  return needs.two_shot_range == 0 ? 0 : plain_half_bytes(needs.two_shot_range, needs.direct_parts);
}

// The same of one for wide lines.
std::uint64_t wide_half_of(const ConnectionNeeds& needs) {
  return needs.wide_bytes == 0 ? 0 : wide_half_bytes(needs.wide_bytes);
}

}  // namespace

Connections::Connections(TransportContext context) : context_(std::move(context)) {}
Connections::~Connections() {
  for (void* memory : registered_)
    context_.runtime->unregister_host(memory);
  memory_.release_shared(own_errors_);
  memory_.release(positions_);
}

PluginOffer Connections::open(const Plugin& plugin, std::vector<std::byte>& peer_info) {
  const bool is_net = plugin.offers(WEFT_NET_INTERFACE);
  PluginOffer offer{.id = plugin.id(),
                    .version = plugin.info().version,
                    .kind = is_net ? PluginKind::kNet : PluginKind::kTransport,
                    .unusable = {}};
  // Each plugin has a key of its own, so that one cannot be mistaken for another.
  const auto key = derive_secret(context_.secret, plugin.id(), 0);
  if (!key) {
    offer.unusable = key.error().to_string();
    return offer;
  }
  const auto try_open = [&]() -> Status {
    if (is_net) {
      WEFT_TRY_ASSIGN(auto wrapped, NetPlugin::wrap(plugin));
      auto opened = std::make_unique<OpenedNet>(std::move(wrapped));
      WEFT_TRY_ASSIGN(auto port, open_port(opened->plugin));
      WEFT_TRY_ASSIGN(const auto devices, opened->plugin.devices(port->net));
      opened->unregistered = std::ranges::all_of(devices, [](const NetDevice& device) {
        return (device.capabilities & WEFT_NET_UNREGISTERED) != 0;
      });
      for (const NetDevice& device : devices) {
        offer.devices.push_back({.name = device.name, .fabric_id = device.fabric_id});
        port->devices.push_back(static_cast<std::uint32_t>(opened->devices.size()));
        opened->devices.push_back(device.name);
      }
      opened->ports.push_back(std::move(port));
      const std::scoped_lock lock(mutex_);
      nets_.emplace(plugin.id(), std::move(opened));
      return {};
    }
    WEFT_TRY_ASSIGN(auto wrapped, TransportPlugin::wrap(plugin));
    auto opened = std::make_unique<OpenedTransport>(std::move(wrapped));
    weft_transport_open_info info{};
    info.struct_size = sizeof(info);
    info.rank = context_.rank;
    info.ranks = context_.ranks;
    info.device = context_.runtime->index();
    info.communicator = context_.communicator;
    info.key = reinterpret_cast<const std::uint8_t*>(key->data());
    info.key_size = key->size();
    info.host_id = context_.host_id.c_str();
    WEFT_TRY_ASSIGN(opened->transport, opened->plugin.open(info));
    WEFT_TRY_ASSIGN(const auto told, opened->plugin.peer_info(opened->transport));
    peer_info.assign(told.begin(), told.end());
    const std::scoped_lock lock(mutex_);
    transports_.emplace(plugin.id(), std::move(opened));
    return {};
  };
  if (const Status opened = try_open(); !opened) offer.unusable = opened.error().to_string();
  return offer;
}

namespace {

/// Whether each rank of the process has a core of its own. A call whose buffers are read ends when
/// its reader has come to run, and where ranks take turns that is late: slots would have taken all.
bool ranks_have_cores(const Topology& topology, std::uint32_t rank) {
  std::uint32_t ranks = 0;
  std::uint32_t cores = UINT32_MAX;
  for (const RankInfo& other : topology.ranks) {
    if (!topology.same_process(rank, other.rank)) continue;
    ++ranks;
    cores = std::min(cores, other.cores);
  }
  return ranks <= cores;
}

}  // namespace

ReachAnswers Connections::ask(const std::string& id, const Topology& topology,
                              std::span<const std::optional<std::vector<std::byte>>> infos) {
  OpenedTransport& opened = *transports_.find(id)->second;
  reads_buffers_of_.resize(context_.ranks);
  const bool side_by_side = ranks_have_cores(topology, context_.rank);
  const auto answer_on = [&](std::uint32_t peer) -> ReachAnswer {
    if (peer == context_.rank) return {};
    if (!infos[peer]) return {.reason = fmt::format("rank {} cannot use it", peer)};
    weft_peer end{};
    end.struct_size = sizeof(end);
    end.rank = peer;
    end.same_process = topology.same_process(context_.rank, peer) ? 1 : 0;
    // Kernels of CPUs; both ends find the same.
    reads_buffers_of_[peer] =
        context_.runtime->reports_ends() && end.same_process != 0 && side_by_side;
    end.same_host = topology.same_host(context_.rank, peer) ? 1 : 0;
    end.info = {.data = infos[peer]->data(), .size = infos[peer]->size()};
    const auto said = opened.plugin.can_connect(opened.transport, end);
    if (!said) return {.reason = said.error().to_string()};
    // Plugins do not know it, and would find out when it is too late for another transport.
    const std::string& device = topology.ranks[peer].device_pci;
    const std::string& instance = topology.ranks[peer].device_id;
    const std::string_view own_instance = context_.runtime->device_id();
    const bool are_known = !instance.empty() && !own_instance.empty();
    if (said->can_connect() && said->device_memory() && are_known && instance != own_instance &&
        device == context_.runtime->pci_address()) {
      return {.reason = fmt::format("its device is another instance of {} (MIG), whose memory this "
                                    "one does not reach",
                                    device)};
    }
    if (said->can_connect() && said->device_memory() && !device.empty() &&
        context_.runtime->is_out_of_reach(device)) {
      return {.reason = fmt::format("its device {} does not reach {}: says the driver",
                                    context_.runtime->pci_address(), device)};
    }
    // Kernels that run apart from the host cannot have it read for them.
    const bool reads = context_.runtime->reports_ends() && opened.plugin.has("read_peer");
    return {.reachable = said->can_connect(),
            .device_memory = said->device_memory(),
            .single_copy = said->single_copy() && reads,
            .bandwidth_mbps = said->bandwidth_mbps,
            .latency_ns = said->latency_ns,
            .reason = said->reason};
  };
  ReachAnswers answers;
  for (std::uint32_t peer = 0; peer < context_.ranks; ++peer)
    answers.push_back(answer_on(peer));
  return answers;
}

Connections::Edge Connections::edge_to(
    std::uint32_t peer, std::uint32_t channel, weft_direction direction,
    const std::function<PairChoice(std::uint32_t peer)>& choice_of) {
  Edge edge;
  edge.channel = channel;
  edge.peer = peer;
  edge.direction = direction;
  edge.number = edge.sends() ? connection_number(channel, context_.rank, peer)
                             : connection_number(channel, peer, context_.rank);
  edge.choice = choice_of(peer);
  if (edge.choice.kind == PluginKind::kNet) {
    edge.net = nets_.find(edge.choice.plugin)->second.get();
    const std::uint32_t from = edge.sends() ? context_.rank : peer;
    const std::uint32_t to = edge.sends() ? peer : context_.rank;
    const DevicePair devices =
        context_.devices_of(edge.choice.plugin, {.channel = channel, .from = from, .to = to});
    const auto& ports = edge.net->ports;
    edge.via = ports[port_of_channel(channel, peer, direction, ports.size())].get();
    const std::uint32_t offered = edge.sends() ? devices.from : devices.to;
    edge.device = offered < edge.via->devices.size() ? edge.via->devices[offered] : offered;
  } else {
    edge.transport = transports_.find(edge.choice.plugin)->second.get();
  }
  return edge;
}

Result<ConnectionBlobs> Connections::prepare(std::span<Edge> edges) {
  const ThreadPlace near(near_cpus_);
  ConnectionBlobs blobs;
  for (auto& [id, opened] : transports_) {
    std::vector<weft_connection_request> requests;
    std::vector<Edge*> asking;
    for (Edge& edge : edges) {
      if (edge.transport != opened.get()) continue;
      weft_connection_request request{};
      request.struct_size = sizeof(request);
      request.direction = edge.direction;
      request.peer = edge.peer;
      request.channel = edge.channel;
      request.number = edge.number;
      request.protocols = edge.protocols.data();
      request.protocol_count = edge.has_lines() ? 2 : 1;
      request.protocol_stride = sizeof(edge.protocols[0]);
      requests.push_back(request);
      asking.push_back(&edge);
    }
    if (requests.empty()) continue;
    const std::scoped_lock lock(opened->calls);
    WEFT_TRY_ASSIGN(auto prepared, opened->plugin.prepare(opened->transport, requests));
    opened->connections.insert(opened->connections.end(), prepared.begin(), prepared.end());
    for (std::size_t i = 0; i < asking.size(); ++i) {
      asking[i]->connection = prepared[i];
      WEFT_TRY_ASSIGN(const auto blob, opened->plugin.connection_blob(prepared[i]));
      blobs[asking[i]->number].assign(blob.begin(), blob.end());
    }
  }
  for (Edge& edge : edges) {
    if (edge.net == nullptr || edge.direction != WEFT_DIRECTION_RECV) continue;
    const auto lock = edge.via->port->lock();
    WEFT_TRY_ASSIGN(auto listening, edge.net->plugin.listen(edge.via->net, edge.device));
    edge.listener = listening.listener;
    blobs[edge.number] = std::move(listening.handle);
  }
  return blobs;
}

Status Connections::begin_net(Edge& edge, std::span<const std::byte> peer_blob) {
  if (edge.direction != WEFT_DIRECTION_SEND) return {};
  WEFT_TRY_ASSIGN(edge.net_connection,
                  edge.net->plugin.connect(edge.via->net, edge.device, peer_blob));
  return {};
}

Result<bool> Connections::join_net(Edge& edge) {
  if (edge.net_connection == nullptr) {
    WEFT_TRY_ASSIGN(edge.net_connection, edge.net->plugin.accept(edge.listener));
    if (edge.net_connection == nullptr) return false;
  }
  return edge.net->plugin.ready(edge.net_connection);
}

Result<ConnectionView> Connections::view_of_net(Edge& edge, ConnectionEnd& end) {
  const ThreadPlace near(near_cpus_);
  NetPort& port = *edge.via->port;
  const SlotGeometry geometry{.steps = edge.protocols[0].steps,
                              .step_bytes = edge.protocols[0].step_bytes,
                              .line_payload = edge.line_payload};
  WEFT_TRY_ASSIGN(end.port_connection, port.add(std::exchange(edge.net_connection, nullptr),
                                                edge.direction, edge.peer, geometry));
  end.port = &port;
  end.line_view = port.line_view(end.port_connection);
  return port.view(end.port_connection);
}

// The same of an inbox.
Result<ConnectionView> Connections::lines_of_net(Edge& edge, ConnectionEnd& end) {
  const ThreadPlace near(near_cpus_);
  NetPort& port = *edge.via->port;
  WEFT_TRY_ASSIGN(const InboxHalves halves, halves_of(edge));
  WEFT_TRY_ASSIGN(end.port_connection, port.add_lines(std::exchange(edge.net_connection, nullptr),
                                                      edge.direction, edge.peer, halves));
  end.port = &port;
  ConnectionView view = port.view(end.port_connection);
  WEFT_TRY_ASSIGN(view.error, own_error_of(edge.peer));
  view.peer_error = view.error;
  return view;
}

// Those of all stripes between two ranks.
Result<InboxHalves> Connections::halves_of(const Edge& edge) {
  const std::uint32_t half_bytes = edge.protocols[0].step_bytes;
  auto& halves = inbox_halves_[{edge.peer, edge.direction}];
  if (halves == nullptr) {
    const std::size_t bytes = std::size_t{kDirectHalves} * half_bytes;
    void* memory = nullptr;
    if (memory_.allocate_shared(bytes, &memory) != WEFT_OK) {
      return fail(device_error(memory_.runtime(), WEFT_ERROR_OUT_OF_MEMORY,
                               fmt::format("no {} bytes for lines {} rank {}", bytes,
                                           edge.sends() ? "to" : "from", edge.peer),
                               "make buffers.direct smaller"));
    }
    std::memset(memory, 0, bytes);
    halves = {static_cast<std::byte*>(memory), Release{&memory_}};
  }
  return InboxHalves{.begin = halves.get(), .half_bytes = half_bytes};
}

// No net brings a word to another rank, but a kernel has to tell its own lanes, too, that it gives
// up: they may wait for what a call that differs does not send. The other rank sees by itself that
// it differs.
Result<std::uint32_t*> Connections::own_error_of(std::uint32_t peer) {
  if (own_errors_ == nullptr) {
    void* words = nullptr;
    constexpr std::size_t kBytes = kMostDirectRanks * sizeof(std::uint32_t);
    if (memory_.allocate_shared(kBytes, &words) != WEFT_OK) {
      return fail(device_error(memory_.runtime(), WEFT_ERROR_OUT_OF_MEMORY,
                               "no memory for words by which kernels give up",
                               "free memory of the host, or set buffers.direct to 0"));
    }
    std::memset(words, 0, kBytes);
    own_errors_ = static_cast<std::uint32_t*>(words);
  }
  return own_errors_ + peer;
}

Result<ConnectionView> Connections::view_of(const Edge& edge) {
  const std::scoped_lock lock(edge.transport->calls);
  WEFT_TRY_ASSIGN(const weft_protocol_view described,
                  edge.transport->plugin.describe(edge.connection, edge.protocols[0]));
  static_assert(sizeof(SlotMeta) == sizeof(weft_slot_meta));
  ConnectionView view;
  view.buffer = static_cast<std::byte*>(described.buffer);
  view.head = described.head;
  view.tail = described.tail;
  view.head_waiters = described.head_waiters;
  view.tail_waiters = described.tail_waiters;
  view.slots = reinterpret_cast<SlotMeta*>(described.slots);
  view.error = described.error;
  view.steps = described.steps;
  view.step_bytes = described.step_bytes;
  view.order_bytes = order_of(described, line_bytes_);
  view.peer_error = described.peer_error;
  view.peer = edge.peer;
  if (edge.has_lines()) {
    WEFT_TRY_ASSIGN(const weft_protocol_view lines,
                    edge.transport->plugin.describe(edge.connection, edge.protocols[1]));
    view.buffer = static_cast<std::byte*>(lines.buffer);
    view.steps = lines.steps;
    view.step_bytes = lines.step_bytes;
    view.order_bytes = order_of(lines, line_bytes_);
  }
  if (reads_buffers_of_[edge.peer]) {
    view.reads_lent = true;
    view.borrows = edge.sends();
  }
  view.in_host_memory = described.memory == WEFT_MEMORY_HOST;
  if (!view.in_host_memory) in_host_memory_ = false;
  if (view.in_host_memory) WEFT_TRY(let_device_reach(view));
  return view;
}

void Connections::describe_direct(const Edge& edge, const ConnectionView& view) {
  const std::scoped_lock lock(mutex_);
  if (edge.sends()) {
    direct_.outbox[edge.peer] = view.buffer;
    direct_.peer_error[edge.peer] = view.peer_error;
  } else {
    direct_.inbox[edge.peer] = view.buffer;
    direct_.error[edge.peer] = view.error;
  }
}

// Halves of lines first, then of wide lines, then plain ones. Of positions numbers of 8 bytes come
// first. Where plain halves are not apart, on CPUs, their calls are counted with
// those by lines.
Status Connections::describe_inboxes(const ConnectionNeeds& needs) {
  const std::size_t plain = needs.two_shot_range == 0 ? 0 : needs.direct_parts;
  const std::size_t wide = needs.wide_bytes == 0 ? 0 : kMostDirectParts;
  WEFT_TRY(allocate_positions(
      (plain + wide) * sizeof(std::uint64_t) + kMostDirectParts * sizeof(std::uint32_t),
      &positions_));
  auto* const counters = static_cast<std::uint64_t*>(positions_);
  inbox_slots_ = {.steps = kDirectHalves,
                  .step_bytes = static_cast<std::uint32_t>(
                      line_half_of(needs) + wide_half_of(needs) + plain_half_of(needs))};
  direct_.ranks = context_.ranks;
  direct_.rank = context_.rank;
  direct_.half_bytes = static_cast<std::uint32_t>(line_half_of(needs));
  direct_.most_parts = needs.direct_parts;
  direct_.plain_positions = counters;
  direct_.positions = reinterpret_cast<std::uint32_t*>(counters + plain + wide);
  direct_.plain_half_bytes = direct_.half_bytes;
  std::uint32_t begin = kDirectHalves * direct_.half_bytes;
  if (wide != 0) {
    direct_.wide_begin = begin;
    direct_.wide_half_bytes = static_cast<std::uint32_t>(wide_half_of(needs));
    direct_.wide_positions = counters + plain;
    begin += kDirectHalves * direct_.wide_half_bytes;
  }
  if (plain != 0) {
    direct_.plain_begin = begin;
    direct_.plain_half_bytes = static_cast<std::uint32_t>(plain_half_of(needs));
    direct_.plain_headers = needs.direct_parts;
  }
  return {};
}

Status Connections::allocate_positions(std::size_t bytes, void** memory) {
  if (memory_.allocate(bytes, memory) == WEFT_OK) return {};
  return fail(device_error(memory_.runtime(), WEFT_ERROR_OUT_OF_MEMORY,
                           "no memory for the positions of connections"));
}

// A GPU reaches host memory of a transport once it is registered with the driver, in whole pages.
// Sleepers' words are of no use to it: it neither sleeps nor wakes.
Status Connections::let_device_reach(ConnectionView& view) {
  if (context_.runtime->reports_ends()) return {};
  constexpr std::size_t kPage = 4096;
  const ThreadPlace near(near_cpus_);  // what nobody has touched yet is made now
  const auto reach = [&](std::byte* first, std::size_t bytes) -> Status {
    const std::size_t before = reinterpret_cast<std::uintptr_t>(first) % kPage;
    const std::size_t whole = (before + bytes + kPage - 1) / kPage * kPage;
    std::byte* const memory = first - before;
    if (registered_.contains(memory)) return {};
    if (const weft_result result = context_.runtime->register_host(memory, whole);
        result != WEFT_OK) {
      return fail(
          device_error(*context_.runtime, result,
                       fmt::format("{} bytes of host memory cannot be reached by device {} {}",
                                   whole, context_.runtime->name(), context_.runtime->index())));
    }
    registered_.insert(memory);
    return {};
  };
  view.head_waiters = nullptr;
  view.tail_waiters = nullptr;
  // Counters, metadata and the error word lie before the slots, on pages of their own; some may be
  // none.
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  const auto cover = [&](void* at, std::size_t bytes) {
    if (at == nullptr) return;
    auto* const first = static_cast<std::byte*>(at);
    begin = begin == nullptr ? first : std::min(begin, first);
    end = std::max(end, first + bytes);
  };
  cover(view.head, sizeof(*view.head));
  cover(view.tail, sizeof(*view.tail));
  cover(view.error, sizeof(*view.error));
  cover(view.slots, view.steps * sizeof(*view.slots));
  if (begin != nullptr) WEFT_TRY(reach(begin, static_cast<std::size_t>(end - begin)));
  return reach(view.buffer, static_cast<std::size_t>(view.steps) * view.step_bytes);
}

// Any two ranks may send to each other later: what a pair of this rank chose stays.
void Connections::close_unused(const std::function<PairChoice(std::uint32_t peer)>& choice_of) {
  std::set<std::string> used;
  for (std::uint32_t peer = 0; peer < context_.ranks; ++peer) {
    if (peer != context_.rank) used.insert(choice_of(peer).plugin);
  }
  const std::scoped_lock lock(mutex_);
  std::erase_if(transports_, [&](const auto& entry) { return !used.contains(entry.first); });
  std::erase_if(nets_, [&](const auto& entry) { return !used.contains(entry.first); });
}

Status Connections::open_paths(const ConnectionNeeds& needs,
                               const std::function<PairChoice(std::uint32_t peer)>& choice_of) {
  line_bytes_ = needs.line_bytes;
  near_cpus_ = needs.near_cpus;
  close_unused(choice_of);
  WEFT_TRY(open_ports(needs.net_ports));
  return needs.direct_bytes == 0 ? Status{} : describe_inboxes(needs);
}

std::uint64_t Connections::bytes_held() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t bytes = memory_.bytes_held();
  for (const auto& [id, opened] : transports_)
    bytes += opened->plugin.bytes_held(opened->transport);
  return bytes;
}

// Of calls that go through inboxes, whose counters those of the rings know nothing of: which ranks
// keep this one waiting; empty where none does. What this rank posted last tells where it is:
// positions are the kernel's own, and written when a call ends.
std::string Connections::describe_waiting_inboxes() {
  std::string text;
  // Kernels of GPUs keep lines there, of which each has a flag.
  if (!context_.runtime->reports_ends()) return text;
  const std::scoped_lock lock(mutex_);
  const auto call_in = [this](std::byte* box, std::uint64_t half) {
    auto* const header = reinterpret_cast<DirectHeader*>(box + half * direct_.half_bytes);
    return load_counter(&header->call);
  };
  std::uint64_t posted = 0;
  for (std::byte* const box : direct_.outbox) {
    for (std::uint64_t half = 0; box != nullptr && half < kDirectHalves; ++half)
      posted = std::max(posted, call_in(box, half));
  }
  for (std::uint32_t rank = 0; rank < direct_.ranks; ++rank) {
    std::byte* const box = direct_.inbox[rank];
    if (box == nullptr || call_in(box, posted % kDirectHalves) >= posted) continue;
    text += fmt::format("\n  rank {} has yet to send what this call waits for", rank);
  }
  return text;
}

std::string Connections::describe_waiting_ports() {
  std::string text;
  for (const OpenedPort* opened : ports_)
    text += opened->port->describe_waiting();
  return text;
}

}  // namespace weft
