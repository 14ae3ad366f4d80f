// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the groups of a call begin that may write straight into outputs of other ranks: the first one
// agrees with the other ranks, and tells the others of its launch.
//
// Who writes OutputTable::state: the first group, with release, once it knows; the last group to
// have acquired it puts it back to 0, for the next launch, which begins when this one has ended.
// All groups of a launch run at once (core/comm/co_residency.h), so none waits in vain. Where this
// rank offers nothing the outcome is known without the others: nobody is told, and nobody waits.
//
// OutputCall::ended is stored by one thread: of a call by slots by the first group, at once; by
// outputs by the group that ends last, which has acquired what the others did. Where one ended
// badly it has reported that before, so the host looks for reports after it has read the word.
//
// `Cta` is a thread of such a group:
//  - index(), count(): number of the group, number of groups of the launch;
//  - is_first_thread(), is_agreeing(): the one that decides; those that agree, among which it is;
//  - group(): those as a lane_group; memory(tag): flagged memory;
//  - load_acquire(word), store_release(word, value), add(word, value): a word that the groups of
//    the launch share; add() answers what it was;
//  - idle(): between looks at such a word. False: leave;
//  - fence(): what any group wrote or acquired before is seen by all that acquire what follows;
//  - store_system(word, value): with release, to the host;
//  - report(outcome).
//
// Model of `ended`: tests/models/output_mappings.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/output_agreement.h"
#include "core/device/portability.h"
#include "core/device/shared_place.h"
#include "core/device/slot_check.h"
#include "core/model/direct_peers.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

namespace weft::device {

/// By those of the first group that agree; the answer of its first thread counts.
template <class Cta>
WEFT_HD_OUTLINE OutputWay agree_on_outputs(Cta cta, const WorkItem& item, const OutputCall& call,
                                           const DirectPeers& peers) {
  auto group = cta.group();
  auto memory = cta.memory(item.tag);
  OutputAgreement<kMostDirectRanks, decltype(group), decltype(memory)> agreement(
      group, memory, item, peers, call.offer, *call.table);
  const KernelOutcome outcome = agreement.run();
  if (!group.leader()) return OutputWay::kNone;
  cta.report(outcome);
  const OutputWay way = call.table->way;
  if (way != OutputWay::kNone) {
    const auto index = static_cast<std::uint32_t>(way);
    memory.store_relaxed(call.calls + index, ++call.table->calls[index]);
  }
  return way;
}

/// By one thread of each group but the first, of a rank that offers something.
template <class Cta>
WEFT_HD OutputWay await_agreement(Cta& cta, OutputTable& table) {
  std::uint32_t state = 0;
  while (state == 0) {
    state = cta.load_acquire(&table.state);
    if (state == 0 && !cta.idle()) return OutputWay::kNone;
  }
  return static_cast<OutputWay>(state - 1);
}

/// The same once it needs nothing of the table any more.
template <class Cta>
WEFT_HD void leave_table(Cta& cta, OutputTable& table) {
  if (cta.add(&table.left, 1) != cta.count() - 2) return;
  table.left = 0;
  table.state = 0;
}

template <class Cta>
WEFT_HD void tell_end(Cta& cta, const OutputCall& call) {
  if (call.ended != nullptr) cta.store_system(call.ended, call.number);
}

/// By one thread of each group of a call by outputs, once the group is done with all outputs.
template <class Cta>
WEFT_HD void leave_outputs(Cta& cta, const OutputCall& call) {
  if (call.ended == nullptr) return;
  cta.fence();
  if (cta.add(&call.table->ended, 1) + 1 != cta.count()) return;
  cta.fence();
  call.table->ended = 0;
  tell_end(cta, call);
}

/// Where the item's output begins at the next rank; null where that rank is at fault.
template <class Cta>
WEFT_HD std::byte* next_output(Cta& cta, const WorkItem& item, const OutputCall& call) {
  const std::uint32_t peer = item.to_next.peer;
  const std::uint64_t offer = call.table->offers[peer];
  auto* begin = reinterpret_cast<std::byte*>(offer);
  if (call.map != nullptr) {
    auto memory = cta.memory(item.tag);
    begin = shared_place(memory, *call.map, peer, offer, call.bytes);
    if (begin == nullptr) {
      const KernelOutcome outcome{.end = KernelEnd::kForeignPlace, .peer = peer, .found = offer};
      cta.report(outcome);
      memory.give_up(item.from_previous.peer_error, reason_of(outcome));
      memory.give_up(item.to_next.peer_error, reason_of(outcome));
      return nullptr;
    }
  }
  const std::byte* const own = item.recv != nullptr ? item.recv : item.send;
  return begin + (own - call.begin);
}

/// The way of this call, and by outputs, where the item `sends`, where its output begins at the
/// next rank. By all threads of a group; the answer of the first one counts.
template <class Cta>
WEFT_HD OutputWay enter_outputs(Cta& cta, const WorkItem& item, const OutputCall& call,
                                const DirectPeers& peers, bool sends, std::byte** next) {
  if (!cta.is_agreeing()) return OutputWay::kSlots;
  const bool is_first = cta.index() == 0;
  const bool tells = call.offer != 0 && cta.count() > 1;
  OutputWay way = OutputWay::kSlots;
  if (is_first) way = agree_on_outputs(cta, item, call, peers);
  if (!cta.is_first_thread()) return way;
  if (is_first && way == OutputWay::kSlots) tell_end(cta, call);
  if (is_first && tells) {
    cta.store_release(&call.table->state, static_cast<std::uint32_t>(way) + 1);
  }
  if (!is_first && tells) way = await_agreement(cta, *call.table);
  if (way == OutputWay::kOutputs && sends) {
    *next = next_output(cta, item, call);
    if (*next == nullptr) way = OutputWay::kNone;
  }
  if (!is_first && tells) leave_table(cta, *call.table);
  return way;
}

}  // namespace weft::device
