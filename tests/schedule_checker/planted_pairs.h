// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Defects of one rank's kernel for sends, receives and exchanges.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/pair_checker.h"

namespace weft::checker {

using Transfers = std::vector<PairTransfer>;

/// The transfers of a call, changed on rank `kRank`.
template <std::uint32_t kRank, class Change>
Kernel with_transfers(Change change) {
  return [change](const KernelCall& call) {
    if (call.rank != kRank) return run_kernel(call);
    Transfers transfers(call.item.transfers, call.item.transfers + call.item.transfer_count);
    change(transfers);
    WorkItem item = call.item;
    item.transfers = transfers.data();
    item.transfer_count = static_cast<std::uint32_t>(transfers.size());
    return run_kernel(call.with(item));
  };
}

/// The kernel of rank `kRank` has another memory.
template <std::uint32_t kRank, class Memory>
KernelOutcome with_memory(const KernelCall& call) {
  if (call.rank != kRank) return run_kernel(call);
  Memory memory(call);
  return device::run_work_item(call.group, memory, call.item, call.reduction);
}

}  // namespace weft::checker
