// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A plan bound to one rank's connections: work items for the device and operations for the nets,
// complete but for the caller's buffers and the call's tag.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/model/progress_op.h"
#include "core/model/work_item.h"
#include "core/schedule/plan.h"
#include "core/transport/connections.h"

namespace weft {

/// A value; views point into connections, which must outlive it.
class BoundPlan {
 public:
  /// `rings` holds this rank's ends of each channel's ring; `direct` may be null where the plan is
  /// not a direct one, and outlives this.
  BoundPlan(std::shared_ptr<const Plan> plan, std::uint32_t rank,
            std::span<const RingConnections> rings, const DirectPeers* direct);

  [[nodiscard]] const Plan& plan() const { return *plan_; }

  /// Writes the work items of one call into `out`.
  void work_items(const void* send, void* recv, OperationTag tag, std::vector<WorkItem>& out) const;

  /// Whether a net carries some of it.
  [[nodiscard]] bool needs_cpu() const { return !messages_.empty(); }
  /// Tells each net what to move for one call.
  void enqueue_messages() const;

 private:
  struct PortWork {
    NetPort* port;
    std::vector<ProgressOp> operations;
  };
  std::shared_ptr<const Plan> plan_;
  std::vector<WorkItem> items_;
  std::vector<PortWork> messages_;
};

}  // namespace weft
