// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <memory>
#include <utility>

#include "core/schedule/planner.h"

namespace weft {

std::size_t PlanCache::TaskHash::operator()(const Task& task) const {
  // Fibonacci hashing of each field in turn: tasks differ mostly in `count`.
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  std::uint64_t hash = task.count * kMultiplier;
  for (const std::uint64_t field :
       {static_cast<std::uint64_t>(task.operation), static_cast<std::uint64_t>(task.type),
        static_cast<std::uint64_t>(task.reduction), static_cast<std::uint64_t>(task.root)}) {
    hash = ((hash ^ field) * kMultiplier) ^ (hash >> 32);
  }
  return static_cast<std::size_t>(hash);
}

std::shared_ptr<const Plan> PlanCache::find(const Task& task) {
  const auto found = index_.find(task);
  if (found == index_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, found->second);
  return *found->second;
}

std::shared_ptr<const Plan> PlanCache::insert(Plan plan) {
  auto kept = std::make_shared<const Plan>(std::move(plan));
  if (capacity_ == 0) return kept;
  if (const auto found = index_.find(kept->task); found != index_.end()) {
    plans_.erase(found->second);
    index_.erase(found);
  } else if (plans_.size() == capacity_) {
    index_.erase(plans_.back()->task);
    plans_.pop_back();
  }
  plans_.push_front(kept);
  index_.emplace(kept->task, plans_.begin());
  return kept;
}

void PlanCache::clear() {
  index_.clear();
  plans_.clear();
}

}  // namespace weft
