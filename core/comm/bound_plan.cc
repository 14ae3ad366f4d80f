// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/bound_plan.h"

#include <algorithm>
#include <utility>

#include "core/transport/net_port.h"

namespace weft {

BoundPlan::BoundPlan(std::shared_ptr<const Plan> plan, std::uint32_t rank,
                     std::span<const RingConnections> rings, const DirectPeers* direct)
    : plan_(std::move(plan)) {
  const auto add_message = [&](const RingEnd& end, std::uint64_t steps) {
    if (end.port == nullptr || steps == 0) return;
    auto found = std::ranges::find(messages_, end.port, &PortWork::port);
    if (found == messages_.end()) {
      messages_.push_back({.port = end.port, .operations = {}});
      found = messages_.end() - 1;
    }
    found->operations.push_back({.connection = end.port_connection, .reserved = 0, .steps = steps});
  };
  for (std::size_t i = 0; i < plan_->channels.size(); ++i) {
    const ChannelPlan& channel = plan_->channels[i];
    WorkItem item;
    item.operation = plan_->task.operation;
    item.algorithm = plan_->algorithm;
    item.protocol = plan_->protocol;
    item.type = plan_->task.type;
    item.reduction = plan_->task.reduction;
    item.count = channel.count;
    item.chunk = channel.chunk;
    item.ranks = plan_->ranks;
    item.ring_position = ring_place(*plan_, i, rank).position;
    if (has_blocks(plan_->task.operation)) {
      item.stride = plan_->task.count;
      item.ring = channel.ring.data();
    }
    if (plan_->algorithm == Algorithm::kDirect) {
      item.direct = direct;
    } else if (plan_->ranks > 1) {
      const RingConnections& ring = rings[channel.index];
      item.from_previous = ring.from_previous.view;
      item.to_next = ring.to_next.view;
      add_message(ring.to_next, steps_sent(*plan_, i, rank));
      add_message(ring.from_previous, steps_received(*plan_, i, rank));
    }
    items_.push_back(item);
  }
}

void BoundPlan::work_items(const void* send, void* recv, OperationTag tag,
                           std::vector<WorkItem>& out) const {
  out.assign(items_.begin(), items_.end());
  const std::size_t element = element_size(plan_->task.type);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t offset = plan_->channels[i].offset * element;
    // A rank that only receives, or only sends, may pass no buffer for the other.
    out[i].send = send == nullptr ? nullptr : static_cast<const std::byte*>(send) + offset;
    out[i].recv = recv == nullptr ? nullptr : static_cast<std::byte*>(recv) + offset;
    out[i].tag = tag;
  }
}

void BoundPlan::enqueue_messages() const {
  for (const PortWork& work : messages_)
    work.port->enqueue(work.operations);
}

}  // namespace weft
