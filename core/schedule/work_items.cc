// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/schedule/work_items.h"

namespace weft {

WorkItem work_item(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const ChannelPlan& share = plan.channels[channel];
  WorkItem item;
  item.operation = plan.task.operation;
  item.algorithm = plan.algorithm;
  item.protocol = plan.protocol;
  item.type = plan.task.type;
  item.reduction = plan.task.reduction;
  item.rounds_each = plan.by_rank;
  item.count = share.count;
  item.chunk = share.chunk;
  item.ranks = plan.ranks;
  if (plan.task.options.max_channels != 0) item.most_parts = plan.task.options.max_channels;
  item.ring_position = ring_place(plan, channel, rank).position;
  if (has_blocks(plan.task.operation)) {
    item.stride = plan.task.count;
    item.ring = share.ring.data();
  }
  return item;
}

LandingWalk landing_of(const WorkItem& item) {
  if (item.operation != Operation::kAllReduce) return {};
  return {.count = item.count,
          .chunk = item.chunk,
          .ranks = item.ranks,
          .position = item.ring_position,
          .element_bytes = static_cast<std::uint32_t>(element_size(item.type)),
          .step_bytes = item.from_previous.step_bytes};
}

std::vector<Extent> channel_blocks(const Plan& plan, std::size_t channel) {
  std::vector<Extent> blocks;
  blocks.reserve(plan.blocks.size());
  for (std::uint32_t rank = 0; rank < plan.blocks.size(); ++rank)
    blocks.push_back(block_on(plan, channel, rank));
  return blocks;
}

}  // namespace weft
