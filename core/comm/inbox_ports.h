// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls over inboxes some of which a net joins: what its ports have to move for each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/model/direct_peers.h"
#include "core/model/progress_op.h"
#include "core/model/work_item.h"
#include "core/transport/net_port.h"
#include "core/transport/pair_connections.h"

namespace weft {

/// Threads: used by one at a time.
class InboxPorts {
 public:
  /// `links` are those of inbox_links(), `pair` finds the connections of them, all of which are
  /// there. Ports outlive it. `period` is that of DirectPeers.
  InboxPorts(std::uint32_t ranks, std::uint32_t rank, std::span<const PairLink> links,
             const std::function<const PairConnections&(const PairLink& link)>& pair,
             std::uint32_t period = kFlagPeriod);

  /// Tells each port what to move for the call of `item`, which goes over inboxes of LL lines and
  /// is cut into `parts` parts. Calls come in the order of their kernels.
  void enqueue(const WorkItem& item, std::uint32_t parts);

 private:
  struct Way {
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t stripe;
    std::uint32_t stripes;         // that this way has
    std::uint32_t connection = 0;  // of its port
  };
  struct PortWork {
    NetPort* port;
    std::vector<Way> ways;
    std::vector<ProgressOp> operations;  // of the latest call
  };
  void add(const ConnectionEnd& end, Way way);
  PortWork& work_of(NetPort* port);

  const std::uint32_t ranks_;
  const std::uint32_t rank_;
  const std::uint32_t period_;
  std::uint64_t calls_ = 0;
  std::vector<PortWork> work_;
};

}  // namespace weft
