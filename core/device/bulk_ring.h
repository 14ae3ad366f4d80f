// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings that only copy, by bulk copies: broadcasts and all-gathers, each as its template says, from
// the agreement on outputs to the last copy.
//
// `Cta` is a thread of a group of three that work, each of which makes its own: what
// core/device/output_entry.h asks of it, and
//  - role(): 0 to 2 of the three, more of a thread that only comes to barriers;
//  - sync(): a barrier of all threads; what was written before is seen after;
//  - memory(tag): bulk memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/bulk_board.h"
#include "core/device/bulk_walkers.h"
#include "core/device/output_entry.h"
#include "core/device/portability.h"
#include "core/device/ring_all_gather.h"
#include "core/device/ring_broadcast.h"
#include "core/device/work_item_kernel.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Which connections an item uses.
struct BulkEnds {
  bool receives = false;
  bool sends = false;
};
WEFT_HD inline BulkEnds bulk_ends(const WorkItem& item) {
  if (item.operation == Operation::kAllGather) return {.receives = true, .sends = true};
  return {.receives = item.ring_position != 0, .sends = item.ring_position + 1 < item.ranks};
}

template <template <class> class Walker, bulk_memory Memory>
WEFT_HD KernelOutcome walk_in_bulk(Memory& memory, const WorkItem& item, BulkBoard<Memory>& board) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  const BulkEnds ends = bulk_ends(item);
  Walker<Memory> walker(memory, item, board, bytes, ends.receives, ends.sends);
  if (item.operation == Operation::kAllGather) {
    ring_all_gather(walker, item, bytes);
  } else {
    ring_broadcast(walker, item);
  }
  return walker.finish();
}

/// What a root keeps of what it sends may be copied by another group than the one that sends it,
/// which then is told to send alone.
WEFT_HD inline bool keeps_a_copy(const WorkItem& item) {
  return item.operation == Operation::kBroadcast && item.ring_position == 0 &&
         item.send != item.recv;
}
WEFT_HD inline void send_alone(WorkItem& item) {
  item.recv = const_cast<std::byte*>(item.send);  // nothing is written there
}

/// By one thread of that other group, whose board nobody else uses: the copy.
template <bulk_memory Memory>
WEFT_HD_OUTLINE void copy_kept(Memory& memory, const WorkItem& item, BulkBoard<Memory>& board) {
  constexpr std::uint64_t kPiece = Memory::kPieceBytes;
  constexpr std::uint32_t kAhead = 4;
  constexpr std::uint32_t kBeingRead = 2;
  static_assert(kAhead + kBeingRead <= kPieces);
  const std::uint64_t bytes = item.count * element_size(item.type);
  const std::uint64_t whole = bytes & ~std::uint64_t{kBulkGrain - 1};
  const std::uint64_t count = (whole + kPiece - 1) / kPiece;
  const auto size_of = [&](std::uint64_t number) {
    const std::uint64_t left = whole - number * kPiece;
    return static_cast<std::uint32_t>(left < kPiece ? left : kPiece);
  };
  const auto load = [&](std::uint64_t number) {
    const auto index = static_cast<std::uint32_t>(number % kPieces);
    memory.arrive_and_expect(&board.full[index], size_of(number));
    memory.bulk_load(board.pieces[index], item.send + number * kPiece, size_of(number),
                     &board.full[index]);
  };
  for (std::uint64_t number = 0; number < kAhead && number < count; ++number)
    load(number);
  for (std::uint64_t number = 0; number < count; ++number) {
    const auto index = static_cast<std::uint32_t>(number % kPieces);
    while (!memory.has_completed(&board.full[index],
                                 static_cast<std::uint32_t>(number / kPieces % 2))) {
      if (!memory.idle()) return;
    }
    memory.bulk_store(item.recv + number * kPiece, board.pieces[index], size_of(number));
    memory.close_group();
    // The piece that is filled next was stored kPieces - kAhead pieces ago.
    memory.template await_reads<kBeingRead>();
    if (number + kAhead < count) load(number + kAhead);
  }
  const auto rest = static_cast<std::uint32_t>(bytes - whole);
  if (rest != 0) {
    memory.load_rest(board.rests[0], item.send + whole, rest);
    memory.store_rest(item.recv + whole, board.rests[0], rest);
  }
  memory.template await_stores<0>();
}

template <class Cta, bulk_memory Memory>
WEFT_HD_OUTLINE void run_bulk_walkers(Cta cta, const WorkItem& item, BulkBoard<Memory>& board) {
  constexpr std::uint32_t kLoader = 0;
  constexpr std::uint32_t kStorer = 1;
  constexpr std::uint32_t kPoster = 2;
  const std::uint32_t role = cta.role();
  if (role > kPoster) return;
  const BulkEnds ends = bulk_ends(item);
  if (!can_run(item, static_cast<std::uint32_t>(element_size(item.type)), ends.receives, ends.sends,
               least_order_bytes(item.protocol))) {
    if (role == kLoader) cta.report(unsupported());
    return;
  }
  Memory memory = cta.memory(item.tag);
  switch (role) {
    case kLoader:
      return cta.report(walk_in_bulk<BulkLoader>(memory, item, board));
    case kStorer:
      return cta.report(walk_in_bulk<BulkStorer>(memory, item, board));
    default:
      return serve_posts(memory, board);
  }
}

/// By all threads. `outputs` is null where the ranks of this call agree on nothing.
template <bool kAgrees, class Cta, bulk_memory Memory>
WEFT_HD void run_bulk_ring(Cta& cta, const WorkItem& item, BulkBoard<Memory>& board,
                           const OutputCall* outputs, const DirectPeers* peers) {
  if (cta.is_first_thread()) {
    Memory memory = cta.memory(item.tag);
    prepare(memory, board);
  }
  if constexpr (kAgrees) {
    std::byte* next = nullptr;
    const OutputWay way = enter_outputs(cta, item, *outputs, *peers, bulk_ends(item).sends, &next);
    if (cta.is_first_thread()) {
      board.way = way;
      board.next_output = next;
    }
  }
  cta.sync();
  if (board.way == OutputWay::kNone) return;
  run_bulk_walkers(cta, item, board);
  if constexpr (kAgrees) {
    if (board.way != OutputWay::kOutputs) return;
    cta.sync();
    if (cta.is_first_thread()) leave_outputs(cta, *outputs);
  }
}

}  // namespace weft::device
