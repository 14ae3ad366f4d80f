// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The tables and links that work items of a plan point to, in memory that a device's kernels reach,
// and how long they live: kernels of GPUs tell nobody when they have read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/model/ring_geometry.h"
#include "core/schedule/plan.h"

namespace weft {

/// Threads: used by one at a time.
class PlanTables {
 public:
  /// Whether items of this plan have tables or links that launch() does not copy.
  [[nodiscard]] static bool needed(const Plan& plan);
  /// `memory` outlives it.
  static Result<std::shared_ptr<PlanTables>> create(MemoryAccount& memory, const Plan& plan);
  ~PlanTables() { memory_.release_shared(block_); }
  PlanTables(const PlanTables&) = delete;
  PlanTables& operator=(const PlanTables&) = delete;

  /// WorkItem::ring and WorkItem::blocks of a channel; null where the plan has none.
  [[nodiscard]] const std::uint32_t* ring(std::size_t channel) const {
    return rings_ == nullptr ? nullptr : rings_ + channel * ranks_;
  }
  [[nodiscard]] const Extent* blocks(std::size_t channel) const {
    return blocks_ == nullptr ? nullptr : blocks_ + channel * ranks_;
  }

  /// Of a plan by tree, chain or PAT: what WorkItem::tree, chain or pat of a channel points to, put
  /// there before the first launch.
  template <class Links>
  const Links* put_links(std::size_t channel, const Links& links) {
    static_assert(std::is_trivially_copyable_v<Links>);
    auto* const at = reinterpret_cast<Links*>(links_) + channel;
    std::memcpy(static_cast<void*>(at), &links, sizeof(links));
    return at;
  }

  /// A graph holds launches of the plan, and may be replayed as long as the communicator lives.
  void note_capture() { captured_ = true; }
  [[nodiscard]] bool captured() const { return captured_; }

 private:
  PlanTables(MemoryAccount& memory, void* block, const Plan& plan);

  MemoryAccount& memory_;
  void* const block_;
  const std::size_t ranks_;
  std::byte* links_ = nullptr;
  const Extent* blocks_ = nullptr;
  const std::uint32_t* rings_ = nullptr;
  bool captured_ = false;
};

/// Tables whose plan is forgotten while kernels may still read them.
class RetiredTables {
 public:
  /// Null is ignored.
  void add(std::shared_ptr<PlanTables> tables) {
    if (tables != nullptr) retired_.push_back(std::move(tables));
  }
  /// Whether there are enough of them to be worth asking the device whether it is idle.
  [[nodiscard]] bool many() const { return retired_.size() - kept_ >= kMany; }
  /// No kernel is under way: gives back all but what a graph may launch again.
  void sweep();
  [[nodiscard]] std::size_t size() const { return retired_.size(); }

 private:
  static constexpr std::size_t kMany = 64;
  std::vector<std::shared_ptr<PlanTables>> retired_;
  std::size_t kept_ = 0;  // that the last sweep left
};

}  // namespace weft
