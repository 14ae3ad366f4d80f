// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Model of which stripes a call has: tests/models/inbox_stripes.pml
#include "core/comm/inbox_ports.h"

#include <algorithm>

#include "core/model/inbox_message.h"
#include "core/model/operation.h"
#include "core/transport/channels.h"

namespace weft {

InboxPorts::InboxPorts(std::uint32_t ranks, std::uint32_t rank, std::span<const PairLink> links,
                       const std::function<const PairConnections&(const PairLink& link)>& pair,
                       std::uint32_t period)
    : ranks_(ranks), rank_(rank), period_(period) {
  for (const PairLink& link : links) {
    const PairConnections& ends = pair(link);
    if (ends.to.port == nullptr) continue;
    const std::uint32_t stripe = inbox_stripe(link.channel);
    const auto stripes =
        static_cast<std::uint32_t>(std::ranges::count(links, link.peer, &PairLink::peer));
    add(ends.to, {.from = rank, .to = link.peer, .stripe = stripe, .stripes = stripes});
    add(ends.from, {.from = link.peer, .to = rank, .stripe = stripe, .stripes = stripes});
  }
}

void InboxPorts::add(const ConnectionEnd& end, Way way) {
  way.connection = end.port_connection;
  work_of(end.port).ways.push_back(way);
}

InboxPorts::PortWork& InboxPorts::work_of(NetPort* port) {
  const auto found = std::ranges::find(work_, port, &PortWork::port);
  if (found != work_.end()) return *found;
  return work_.emplace_back(PortWork{.port = port, .ways = {}, .operations = {}});
}

void InboxPorts::enqueue(const WorkItem& item, std::uint32_t parts) {
  const std::uint64_t bytes = item.count * element_size(item.type);
  const std::uint32_t root = (rank_ + ranks_ - item.ring_position) % ranks_;
  const std::uint64_t call = calls_++;
  // Halves are wiped by whoever has taken all that was stored there (LineMessages).
  const bool is_wiped = call % period_ + 2 >= period_;
  for (PortWork& work : work_) {
    work.operations.clear();
    for (const Way& way : work.ways) {
      const InboxMessage whole =
          inbox_message(item.operation, bytes, parts, way.from == root, way.to == root);
      const InboxMessage message = stripe_of(whole, way.stripe, is_wiped ? 1 : way.stripes);
      if (message.lines() == 0) continue;
      work.operations.push_back({.connection = way.connection,
                                 .reserved = 0,
                                 .steps = 1,
                                 .message = message,
                                 .tag = item.tag,
                                 .call = call});
    }
    if (!work.operations.empty()) work.port->enqueue(work.operations);
  }
}

}  // namespace weft
