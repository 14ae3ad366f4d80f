// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What plans of all algorithms have in common.
#include "core/schedule/ways.h"

#include "core/model/tree_links.h"

namespace weft {
namespace {

/// Elements between two places where a range may be cut.
std::uint64_t grain_of(std::uint64_t element_bytes) {
  if (element_bytes == 0) return 1;  // Of a type that check_task refuses.
  return std::max<std::uint64_t>(1, kChunkGrainBytes / element_bytes);
}

}  // namespace

std::vector<ChannelPlan> cut_into_channels(const Task& task, std::uint32_t wanted) {
  const std::uint64_t grain = grain_of(element_size(task.type));
  const std::uint64_t grains = divide_up(task.count, grain);
  const auto channels = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, grains));
  std::vector<ChannelPlan> cut;
  std::uint64_t offset = 0;
  for (std::uint32_t index = 0; index < channels; ++index) {
    const std::uint64_t share = grains / channels + (index < grains % channels ? 1 : 0);
    const std::uint64_t count = std::min(share * grain, task.count - offset);
    cut.push_back({.index = index, .offset = offset, .count = count});
    offset += count;
  }
  return cut;
}

std::uint32_t most_channels(Algorithm algorithm, const PlanLimits& limits) {
  if (has_edges(algorithm)) return std::min(limits.max_channels, kMostTreeChannels);
  return algorithm == Algorithm::kRing ? limits.max_channels : 1;
}

}  // namespace weft
