// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A plan bound to one rank's connections: work items for the device and operations for the nets,
// complete but for the caller's buffers and the call's tag.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/comm/link_tables.h"
#include "core/comm/plan_tables.h"
#include "core/model/packed_items.h"
#include "core/model/progress_op.h"
#include "core/model/work_item.h"
#include "core/schedule/plan.h"
#include "core/transport/connections.h"
#include "core/transport/net_devices.h"
#include "core/transport/pair_connections.h"

namespace weft {

/// The connections that `rank` needs for a plan, each once for each channel; `inboxes` are its
/// inbox_links().
[[nodiscard]] std::vector<PairLink> links_of(const Plan& plan, std::uint32_t rank,
                                             std::span<const PairLink> inboxes);
/// Those of inboxes, in which ranks write to each other directly, and whose messages with rank r
/// may have `stripes[r]` stripes, at least one.
[[nodiscard]] std::vector<PairLink> inbox_links(std::span<const std::uint32_t> stripes,
                                                std::uint32_t rank);

/// From which rank to which a plan's data goes, and by which connections: once for each channel, or
/// each of the `stripes` in which messages between inboxes go.
[[nodiscard]] std::vector<NetEdge> hops_of(const Plan& plan, std::uint32_t stripes);
/// The pairs of ranks that hops join, the lower rank first.
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> joined_pairs(
    std::span<const NetEdge> hops);

/// This rank's ends on each channel, of a plan by rings of several ranks; else none.
[[nodiscard]] std::vector<RingLinks> ring_links(
    const Plan& plan, std::uint32_t rank,
    const std::function<const PairConnections&(const PairLink& link)>& pair);

/// Stays where it is made. Views point into connections, which must outlive it.
class BoundPlan {
 public:
  /// This rank's ends, all of which outlive it.
  struct Ends {
    const DirectPeers* direct = nullptr;  ///< Of plans that go directly.
    /// For each of links_of() but those of inboxes.
    std::function<const PairConnections&(const PairLink& link)> pair;
    /// Of devices that do not read tables where the plan has them; else null.
    std::shared_ptr<PlanTables> tables = nullptr;
    /// Of devices that are given items packed, where the plan has more than kMostWholeItems;
    /// `links` are those of ring_links(), null where there are none.
    bool packs_items = false;
    LinkTable* links = nullptr;
  };
  BoundPlan(std::shared_ptr<const Plan> plan, std::uint32_t rank, const Ends& ends);

  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  [[nodiscard]] const Plan& plan() const { return *plan_; }
  /// Of its plan's task, as of call 0.
  [[nodiscard]] OperationTag tag() const { return tag_; }
  /// That items point into; may be null.
  [[nodiscard]] const std::shared_ptr<PlanTables>& tables() const { return tables_; }

  /// Launch::packed; null where items are not packed.
  [[nodiscard]] const PackedItems* packed() const { return packed_.get(); }
  /// Launch::links; null where packed items have none.
  [[nodiscard]] const RingLinks* links() const {
    return links_ == nullptr ? nullptr : links_->known();
  }
  /// Before a launch of its items on `stream`.
  Status bring_links(DeviceStream* stream) const {
    return links_ == nullptr ? Status{} : links_->bring(items_.size(), stream);
  }

  /// Writes the work items of its calls, complete but for what set_call() sets.
  void make_items(std::vector<WorkItem>& items) const { items = items_; }
  /// Makes such items, which an earlier call may have had, those of one call.
  void set_call(const void* send, void* recv, const Factor& factor, OperationTag tag,
                std::span<WorkItem> items) const;

  /// Whether a net carries some of it.
  [[nodiscard]] bool needs_cpu() const { return !messages_.empty(); }
  /// Tells each net what to move for one call, of which these are the items.
  void enqueue_messages(std::span<const WorkItem> items);

 private:
  void add_message(const ConnectionEnd& end, std::uint64_t steps, const LandingWalk& landing,
                   std::size_t channel);
  template <class Links>
  const Links* keep(std::size_t channel, const Links& links, std::vector<Links>& own);
  void add_tree(std::size_t channel, std::uint32_t rank, const Ends& ends, WorkItem& item);
  void add_chain(std::size_t channel, std::uint32_t rank, const Ends& ends, WorkItem& item);
  void add_pat(std::size_t channel, std::uint32_t rank, const Ends& ends, WorkItem& item);
  void add_ring(std::size_t channel, std::uint32_t rank, const Ends& ends, WorkItem& item);
  struct PortWork {
    NetPort* port;
    std::vector<ProgressOp> operations;
    std::vector<std::size_t> channels;  // of each operation
  };
  std::shared_ptr<const Plan> plan_;
  OperationTag tag_;
  std::shared_ptr<PlanTables> tables_;
  std::vector<WorkItem> items_;
  std::vector<TreeLinks> trees_;             // that items_ point to, without tables_
  std::vector<ChainLinks> chains_;           // the same
  std::vector<PatLinks> pats_;               // the same
  std::vector<std::vector<Extent>> blocks_;  // the same, of a channel
  std::vector<PortWork> messages_;
  LinkTable* links_;
  std::unique_ptr<PackedItems> packed_;
};

}  // namespace weft
