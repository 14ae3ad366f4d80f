// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What connections are made of while they are set up. Internal to connections.cc and
// pair_connections.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/net_plugin.h"
#include "core/plugin/transport_plugin.h"
#include "core/transport/choice.h"
#include "core/transport/connections.h"
#include "core/transport/net_devices.h"
#include "core/transport/net_port.h"
#include "core/transport/progress_engine.h"

namespace weft {

struct Connections::OpenedTransport {
  TransportPlugin plugin;
  weft_transport* transport = nullptr;
  std::mutex calls;  ///< Held in all calls that take one thread at a time.
  std::vector<weft_connection*> connections;

  explicit OpenedTransport(TransportPlugin wrapped) : plugin(std::move(wrapped)) {}
  OpenedTransport(const OpenedTransport&) = delete;
  OpenedTransport& operator=(const OpenedTransport&) = delete;
  ~OpenedTransport() {
    for (weft_connection* connection : connections)
      plugin.close_connection(connection);
    if (transport != nullptr) plugin.close(transport);
  }
};

// One weft_net of a plugin, and what moves its messages. Ports share nothing, so that as many
// threads may move messages side by side.
struct Connections::OpenedPort {
  const NetPlugin& plugin;
  weft_net* net = nullptr;
  std::vector<std::uint32_t> devices{};  ///< By the index in the offer: that of this weft_net.
  ProgressEngine* engine = nullptr;
  std::unique_ptr<NetPort> port;

  explicit OpenedPort(const NetPlugin& of) : plugin(of) {}
  OpenedPort(const OpenedPort&) = delete;
  OpenedPort& operator=(const OpenedPort&) = delete;
  ~OpenedPort() {
    if (port != nullptr && engine != nullptr) engine->remove(*port);
    port.reset();
    if (net != nullptr) plugin.close(net);
  }
};

struct Connections::OpenedNet {
  NetPlugin plugin;
  std::vector<std::string> devices;  ///< As they were offered.
  bool unregistered = false;         ///< Sends memory that was not registered.
  /// The first is made with this; the others once the net was chosen. Never fewer.
  std::vector<std::unique_ptr<OpenedPort>> ports;

  explicit OpenedNet(NetPlugin wrapped) : plugin(std::move(wrapped)) {}
  OpenedNet(const OpenedNet&) = delete;
  OpenedNet& operator=(const OpenedNet&) = delete;
};

// One end of one direction on one channel, on its way to becoming a ConnectionEnd.
struct Connections::Edge {
  std::uint32_t channel = 0;
  std::uint32_t peer = 0;
  weft_direction direction = WEFT_DIRECTION_SEND;
  std::uint64_t number = 0;
  // The second: for LL, whose buffer takes the place of the first one's; or none.
  std::array<weft_protocol_request, 2> protocols{};
  std::uint32_t line_payload = 0;  // of a net's, as of SlotGeometry
  PairChoice choice;

  OpenedTransport* transport = nullptr;
  weft_connection* connection = nullptr;

  OpenedNet* net = nullptr;
  OpenedPort* via = nullptr;  // of the net's
  std::uint32_t device = 0;   // of the port, at this end
  weft_net_listener* listener = nullptr;
  weft_net_connection* net_connection = nullptr;
  bool joined = false;

  Edge() = default;
  Edge(Edge&& other) noexcept { *this = std::move(other); }
  Edge& operator=(Edge&& other) noexcept {
    release();
    channel = other.channel;
    peer = other.peer;
    direction = other.direction;
    number = other.number;
    protocols = other.protocols;
    line_payload = other.line_payload;
    choice = std::move(other.choice);
    transport = other.transport;
    connection = other.connection;
    net = other.net;
    via = other.via;
    device = other.device;
    listener = std::exchange(other.listener, nullptr);
    net_connection = std::exchange(other.net_connection, nullptr);
    joined = other.joined;
    return *this;
  }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;
  [[nodiscard]] bool sends() const { return direction == WEFT_DIRECTION_SEND; }
  [[nodiscard]] bool has_lines() const { return protocols[1].struct_size != 0; }
  [[nodiscard]] bool direct() const { return channel == kDirectChannel; }
  // What a failed set-up leaves; a port has taken the connection over otherwise.
  void release() {
    if (net_connection != nullptr) net->plugin.close_connection(net_connection);
    if (listener != nullptr) net->plugin.close_listener(listener);
    net_connection = nullptr;
    listener = nullptr;
  }
  ~Edge() { release(); }
};

}  // namespace weft
