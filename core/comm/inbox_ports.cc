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
    add(ends.to, {.from = rank, .to = link.peer});
    add(ends.from, {.from = link.peer, .to = rank});
  }
}

void InboxPorts::add(const ConnectionEnd& end, const Way& way) {
  PortWork& work = work_of(end.port);
  work.operations.push_back({.connection = end.port_connection, .reserved = 0, .steps = 1});
  work.ways.push_back(way);
}

InboxPorts::PortWork& InboxPorts::work_of(NetPort* port) {
  const auto found = std::ranges::find(work_, port, &PortWork::port);
  if (found != work_.end()) return *found;
  return work_.emplace_back(PortWork{.port = port, .operations = {}, .ways = {}});
}

void InboxPorts::enqueue(const WorkItem& item, std::uint32_t parts) {
  const std::uint64_t bytes = item.count * element_size(item.type);
  const std::uint32_t root = (rank_ + ranks_ - item.ring_position) % ranks_;
  for (PortWork& work : work_) {
    for (std::size_t i = 0; i < work.operations.size(); ++i) {
      const Way& way = work.ways[i];
      work.operations[i].message =
          inbox_message(item.operation, bytes, parts, way.from == root, way.to == root);
      work.operations[i].tag = item.tag;
    }
    work.port->enqueue(work.operations);
  }
}

}  // namespace weft
