// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls over inboxes some of which a net joins: what its ports have to move for each.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/progress_op.h"
#include "core/model/work_item.h"
#include "core/transport/net_port.h"
#include "core/transport/pair_connections.h"

namespace weft {

/// Threads: used by one at a time.
class InboxPorts {
 public:
  /// `pair` finds the connections of inbox_links(), all of which are there. Ports outlive it.
  InboxPorts(std::uint32_t ranks, std::uint32_t rank,
             const std::function<const PairConnections&(const PairLink& link)>& pair);

  /// Tells each port what to move for the call of `item`, which goes over inboxes of LL lines and
  /// is cut into `parts` parts. Calls come in the order of their kernels.
  void enqueue(const WorkItem& item, std::uint32_t parts);

 private:
  struct Way {  // of an operation
    std::uint32_t from;
    std::uint32_t to;
  };
  struct PortWork {
    NetPort* port;
    std::vector<ProgressOp> operations;
    std::vector<Way> ways;  // of each operation
  };
  void add(const ConnectionEnd& end, const Way& way);
  PortWork& work_of(NetPort* port);

  const std::uint32_t ranks_;
  const std::uint32_t rank_;
  std::vector<PortWork> work_;
};

}  // namespace weft
