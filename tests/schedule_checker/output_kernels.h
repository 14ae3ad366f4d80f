// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernel that copies in bulk over threads of the checker, and over wrong ones of its tests.
#pragma once

#include <cstddef>

#include "core/device/bulk_board.h"
#include "core/device/bulk_ring.h"
#include "core/model/output_table.h"
#include "tests/schedule_checker/output_memory.h"

namespace weft::checker {

template <class Thread>
void run_bulk_with(Thread thread, const BulkCall& call) {
  using Memory = decltype(thread.memory(0));
  static_assert(sizeof(device::BulkBoard<Memory>) <=
                BulkTeam::kBoardBytes * sizeof(BulkTeam::Block));
  auto& board = *reinterpret_cast<device::BulkBoard<Memory>*>(call.board);
  switch (call.way) {
    case BulkWay::kAgreed:
      return device::run_bulk_ring<true>(thread, call.item, board, &call.outputs, call.peers);
    case BulkWay::kSlots:
      return device::run_bulk_ring<false>(thread, call.item, board, nullptr, nullptr);
    case BulkWay::kOutputs:
      break;
  }
  if (thread.is_first_thread()) {
    Memory memory = thread.memory(call.item.tag);
    device::prepare(memory, board);
    board.way = OutputWay::kOutputs;
    board.next_output = call.next();
  }
  thread.sync();
  device::run_bulk_walkers(thread, call.item, board);
}

}  // namespace weft::checker
