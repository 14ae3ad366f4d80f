// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A call that was begun and is not over. Internal to Communicator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/wait.h"
#include "core/comm/communicator.h"

namespace weft {

struct Communicator::UnderWay {
  Communicator* communicator = nullptr;
  Stream* stream = nullptr;
  std::vector<Stream*> others{};      // of the same launch's calls; each waits for it
  Task task;                          // of sends and receives the first one
  std::uint64_t begun = 0;            // which of all records; 0 while this one is free
  std::uint64_t sequence = 0;         // of collective calls, which all ranks number alike
  std::uint16_t past = 0;             // of those before, see CallHistory::past
  std::shared_ptr<BoundPlan> plan{};  // of them; kernels read it, and it may be forgotten meanwhile
  Launch launch{};                    // of all calls with this record, but for the items
  std::vector<WorkItem> items{};      // of `plan`, if there is one: what changes is that of a call
  std::vector<PairTransfer> transfers{};
  std::vector<PairTask> pair_tasks{};  // of each transfer
  bool pairs_repeat = false;           // transfers are still those of calls that can_repeat()

  [[nodiscard]] CallNote note() const { return make_call_note(task, sequence); }

  void make_room(std::size_t most_items, std::size_t pairs) {
    items.reserve(most_items);
    transfers.reserve(pairs);
    pair_tasks.reserve(pairs);
  }

  // Of a launch of transfers: make_room may have moved both since they were filled.
  void point_launch() {
    items.front().transfers = transfers.data();
    launch.items = items;
  }

  // Changes with every step that a transfer makes; other threads write the counters.
  [[nodiscard]] std::uint64_t progress_of_pairs() const {
    std::uint64_t steps = 0;
    for (const PairTransfer& transfer : transfers) {
      if (transfer.view.head == nullptr) continue;
      steps += load_counter(transfer.view.head) + load_counter(transfer.view.tail);
    }
    return steps;
  }

  // The first transfer that the kernel has not completed.
  [[nodiscard]] const Task* waiting_pair() {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (std::atomic_ref(transfers[i].complete).load(std::memory_order_acquire) == 0) {
        return &pair_tasks[i];
      }
    }
    return nullptr;
  }

  // The call that an outcome is about; sends and receives are numbered by pair.
  [[nodiscard]] CallNote call_of(const KernelOutcome& outcome) const {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const bool is_it = outcome.end == KernelEnd::kTagMismatch
                             ? transfers[i].tag == outcome.expected
                             : transfers[i].view.peer == outcome.peer;
      if (!is_it) continue;
      const PairTask& pair = pair_tasks[i];
      return make_call_note(pair, pair.number);
    }
    return note();
  }
};

}  // namespace weft
