// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/inbox_ports.h"

#include <algorithm>

#include "core/comm/bound_plan.h"
#include "core/model/inbox_message.h"
#include "core/model/operation.h"

namespace weft {

InboxPorts::InboxPorts(std::uint32_t ranks, std::uint32_t rank,
                       const std::function<const PairConnections&(const PairLink& link)>& pair)
    : ranks_(ranks), rank_(rank) {
  for (const PairLink& link : inbox_links(ranks, rank)) {
    const PairConnections& ends = pair(link);
    if (ends.to.port == nullptr) continue;
    PortWork& work = work_of(ends.to.port);
    for (const ConnectionEnd* end : {&ends.to, &ends.from}) {
      work.operations.push_back({.connection = end->port_connection, .reserved = 0, .steps = 1});
      work.peers.push_back(link.peer);
    }
  }
}

InboxPorts::PortWork& InboxPorts::work_of(NetPort* port) {
  const auto found = std::ranges::find(work_, port, &PortWork::port);
  if (found != work_.end()) return *found;
  return work_.emplace_back(PortWork{.port = port, .operations = {}, .peers = {}});
}

void InboxPorts::enqueue(const WorkItem& item, std::uint32_t parts) {
  const std::uint64_t bytes = item.count * element_size(item.type);
  const std::uint32_t root = (rank_ + ranks_ - item.ring_position) % ranks_;
  const auto message = [&](std::uint32_t from, std::uint32_t to) {
    return inbox_message(item.operation, bytes, parts, from == root, to == root);
  };
  for (PortWork& work : work_) {
    for (std::size_t i = 0; i < work.operations.size(); ++i) {
      const std::uint32_t peer = work.peers[i];
      work.operations[i].message = i % 2 == 0 ? message(rank_, peer) : message(peer, rank_);
      work.operations[i].tag = item.tag;
    }
    work.port->enqueue(work.operations);
  }
}

}  // namespace weft
