// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/channel_kinds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "core/schedule/work_items.h"

namespace weft::checker {
namespace {

bool is_like(const ChannelPlan& one, const ChannelPlan& other) {
  return one.count == other.count && one.chunk == other.chunk && one.ring == other.ring &&
         one.parents == other.parents;
}

/// Whether a kernel is told the same on both: all that work_item() fills in.
bool is_told_alike(const Plan& plan, std::uint32_t one, std::uint32_t other, std::uint32_t rank) {
  const WorkItem a = work_item(plan, one, rank);
  const WorkItem b = work_item(plan, other, rank);
  const auto order = [&](const WorkItem& item) {
    return std::span(item.ring, item.ring == nullptr ? 0 : plan.ranks);
  };
  return a.operation == b.operation && a.algorithm == b.algorithm && a.protocol == b.protocol &&
         a.type == b.type && a.reduction == b.reduction && a.count == b.count &&
         a.chunk == b.chunk && a.stride == b.stride && a.ranks == b.ranks &&
         a.ring_position == b.ring_position && std::ranges::equal(order(a), order(b));
}

/// Whether the rank has the same neighbours on both, and as much to do with them.
bool has_like_place(const Plan& plan, std::uint32_t one, std::uint32_t other, std::uint32_t rank) {
  const bool like_neighbours = plan.algorithm == Algorithm::kTree
                                   ? tree_place(plan, one, rank) == tree_place(plan, other, rank)
                               : plan.algorithm == Algorithm::kPat
                                   ? pat_place(plan, one, rank) == pat_place(plan, other, rank)
                                   : ring_place(plan, one, rank) == ring_place(plan, other, rank);
  return like_neighbours && steps_sent(plan, one, rank) == steps_sent(plan, other, rank) &&
         steps_received(plan, one, rank) == steps_received(plan, other, rank) &&
         bytes_sent(plan, one, rank) == bytes_sent(plan, other, rank);
}

}  // namespace

ChannelKinds all_channels(const Plan& plan) {
  ChannelKinds kinds;
  for (std::uint32_t channel = 0; channel < plan.channels.size(); ++channel)
    kinds.first.push_back(channel);
  kinds.members.assign(plan.channels.size(), 1);
  return kinds;
}

ChannelKinds kinds_of_channels(const Plan& plan, Report& report) {
  if (!plan.blocks.empty()) throw std::invalid_argument("blocks that differ have no kinds");
  ChannelKinds kinds;
  // Of a kind's second channel all is compared; further ones, since equal channels of one plan
  // tell equal things, by two ranks.
  for (std::uint32_t channel = 0; channel < plan.channels.size(); ++channel) {
    const auto known = std::ranges::find_if(kinds.first, [&](std::uint32_t first) {
      return is_like(plan.channels[first], plan.channels[channel]);
    });
    if (known == kinds.first.end()) {
      kinds.first.push_back(channel);
      kinds.members.push_back(1);
      continue;
    }
    std::uint32_t& members = kinds.members[std::distance(kinds.first.begin(), known)];
    const std::uint32_t stride = ++members == 2 ? 1 : std::max(plan.ranks - 1, 1U);
    for (std::uint32_t rank = 0; rank < plan.ranks; rank += stride) {
      if (is_told_alike(plan, *known, channel, rank) &&
          has_like_place(plan, *known, channel, rank)) {
        continue;
      }
      report.add(Rule::kAgreement,
                 fmt::format("rank {} is told something else on channel {} than on channel {}, "
                             "which looks the same",
                             rank, channel, *known));
      return kinds;
    }
  }
  return kinds;
}

void check_cut(const Plan& plan, Report& report) {
  std::uint64_t end = 0;
  for (const ChannelPlan& channel : plan.channels) {
    if (channel.offset != end) {
      report.add(channel.offset < end ? Rule::kTwice : Rule::kNotWritten,
                 fmt::format("channel {} begins at element {}, the one before ends at {}",
                             channel.index, channel.offset, end));
      return;
    }
    end += channel.count;
  }
  if (end == plan.task.count) return;
  report.add(end > plan.task.count ? Rule::kTwice : Rule::kNotWritten,
             fmt::format("the channels have {} elements of {}", end, plan.task.count));
}

}  // namespace weft::checker
