// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/schedule/work_items.h"

#include <algorithm>

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
  item.gathers_inputs = plan.gathers_inputs;
  if (plan.both_ends) item.both_ends = both_ends_of(channel);
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

void pack_items(const Plan& plan, std::span<const WorkItem> items, const RingLinks* links,
                PackedItems& to) {
  to.links = links;
  const bool is_carried = plan.ranks <= kMostCarriedRanks;
  if (is_carried) std::ranges::copy(plan.blocks, to.blocks);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const WorkItem& item = items[i];
    PackedItem& packed = to.items[i];
    packed.offset = plan.channels[i].offset;
    packed.count = item.count;
    packed.chunk = item.chunk;
    packed.ring_position = item.ring_position;
    packed.both_ends = item.both_ends;
    for (std::uint32_t place = 0; is_carried && item.ring != nullptr && place < item.ranks; ++place)
      packed.ring[place] = static_cast<std::uint8_t>(item.ring[place]);
  }
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
