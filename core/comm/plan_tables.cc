// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/plan_tables.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/model/work_item.h"
#include "core/schedule/work_items.h"

namespace weft {
namespace {

/// Bytes of what an item of the plan points to beside tables.
std::size_t links_size(const Plan& plan) {
  if (plan.ranks < 2) return 0;
  switch (plan.algorithm) {
    case Algorithm::kTree:
      return sizeof(TreeLinks);
    case Algorithm::kChain:
      return sizeof(ChainLinks);
    case Algorithm::kPat:
      return sizeof(PatLinks);
    default:
      return 0;
  }
}

// What lies first in the block leaves the rest aligned.
static_assert(sizeof(TreeLinks) % alignof(Extent) == 0);
static_assert(sizeof(ChainLinks) % alignof(Extent) == 0);
static_assert(sizeof(PatLinks) % alignof(Extent) == 0);

struct TableSizes {
  std::size_t links;
  std::size_t extents;
  std::size_t rings;
  [[nodiscard]] std::size_t all() const { return links + extents + rings; }
};

TableSizes sizes_of(const Plan& plan) {
  const std::size_t channels = plan.channels.size();
  const std::size_t entries = has_blocks(plan.task.operation) ? channels * plan.ranks : 0;
  return {.links = channels * links_size(plan),
          .extents = plan.blocks.empty() ? 0 : entries * sizeof(Extent),
          .rings = entries * sizeof(std::uint32_t)};
}

}  // namespace

bool PlanTables::needed(const Plan& plan) {
  if (plan.channels.empty()) return false;
  return links_size(plan) != 0 ||
         (has_blocks(plan.task.operation) && plan.ranks > kMostCarriedRanks);
}

Result<std::shared_ptr<PlanTables>> PlanTables::create(MemoryAccount& memory, const Plan& plan) {
  const std::size_t bytes = sizes_of(plan).all();
  void* block = nullptr;
  if (const weft_result result = memory.allocate_shared(bytes, &block); result != WEFT_OK) {
    return fail(
        device_error(memory.runtime(), result,
                     fmt::format("cannot allocate {} bytes that kernels read a plan from", bytes)));
  }
  return std::shared_ptr<PlanTables>(new PlanTables(memory, block, plan));
}

PlanTables::PlanTables(MemoryAccount& memory, void* block, const Plan& plan)
    : memory_(memory), block_(block), ranks_(plan.ranks), links_(static_cast<std::byte*>(block)) {
  const TableSizes sizes = sizes_of(plan);
  auto* const extents = reinterpret_cast<Extent*>(links_ + sizes.links);
  auto* const rings = reinterpret_cast<std::uint32_t*>(links_ + sizes.links + sizes.extents);
  for (std::size_t i = 0; i < plan.channels.size() && sizes.rings != 0; ++i) {
    std::ranges::copy(plan.channels[i].ring, rings + i * ranks_);
    if (sizes.extents != 0) std::ranges::copy(channel_blocks(plan, i), extents + i * ranks_);
  }
  if (sizes.extents != 0) blocks_ = extents;
  if (sizes.rings != 0) rings_ = rings;
}

void RetiredTables::sweep() {
  std::erase_if(retired_, [](const auto& tables) { return !tables->captured(); });
  kept_ = retired_.size();
}

}  // namespace weft
