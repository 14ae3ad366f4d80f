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

// What a root keeps the group copies itself, in the end, where a GPU has another group for that.
template <class Thread, class Board>
void run_bulk_by_slots(Thread thread, const WorkItem& given, Board& board) {
  WorkItem item = given;
  const bool keeps = device::keeps_a_copy(item);
  if (keeps) device::send_alone(item);
  device::run_bulk_ring<false>(thread, item, board, nullptr, nullptr);
  thread.sync();
  if (!keeps || !thread.is_first_thread()) return;
  auto memory = thread.memory(item.tag);
  device::prepare(memory, board);
  device::copy_kept(memory, given, board);
}

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
      return run_bulk_by_slots(thread, call.item, board);
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
