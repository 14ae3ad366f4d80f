// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/plan_tables.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/model/work_item.h"
#include "core/schedule/work_items.h"

namespace weft {

bool PlanTables::needed(const Plan& plan) {
  return has_blocks(plan.task.operation) && plan.ranks > kMostCarriedRanks &&
         !plan.channels.empty();
}

Result<std::shared_ptr<PlanTables>> PlanTables::create(MemoryAccount& memory, const Plan& plan) {
  const std::size_t entries = plan.channels.size() * plan.ranks;
  const std::size_t bytes =
      entries * (sizeof(std::uint32_t) + (plan.blocks.empty() ? 0 : sizeof(Extent)));
  void* block = nullptr;
  if (const weft_result result = memory.allocate_shared(bytes, &block); result != WEFT_OK) {
    return fail(result,
                fmt::format("cannot allocate {} bytes that kernels read a plan from", bytes));
  }
  return std::shared_ptr<PlanTables>(new PlanTables(memory, block, plan));
}

PlanTables::PlanTables(MemoryAccount& memory, void* block, const Plan& plan)
    : memory_(memory), block_(block), ranks_(plan.ranks) {
  // Extents first: they have the larger alignment.
  auto* const extents = static_cast<Extent*>(block);
  const std::size_t entries = plan.blocks.empty() ? 0 : plan.channels.size() * ranks_;
  auto* const rings = reinterpret_cast<std::uint32_t*>(extents + entries);
  for (std::size_t i = 0; i < plan.channels.size(); ++i) {
    std::ranges::copy(plan.channels[i].ring, rings + i * ranks_);
    if (entries != 0) std::ranges::copy(channel_blocks(plan, i), extents + i * ranks_);
  }
  blocks_ = entries != 0 ? extents : nullptr;
  rings_ = rings;
}

void RetiredTables::sweep() {
  std::erase_if(retired_, [](const auto& tables) { return !tables->captured(); });
  kept_ = retired_.size();
}

}  // namespace weft
