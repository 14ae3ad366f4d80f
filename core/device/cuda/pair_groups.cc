// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/pair_groups.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace weft::device::cuda {

PairGroups group_transfers(std::span<const PairTransfer> transfers, std::uint32_t most_groups) {
  // A copy within the rank waits for nobody, and is a matter of its own.
  std::unordered_map<const ConnectionCursor*, std::uint32_t> group_of_end;
  std::vector<std::uint32_t> group_of(transfers.size());
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const ConnectionCursor* const end = transfers[i].view.cursor;
    if (end == nullptr) {
      group_of[i] = next++ % most_groups;
      continue;
    }
    const auto [known, first] = group_of_end.try_emplace(end, next % most_groups);
    if (first) ++next;
    group_of[i] = known->second;
  }

  PairGroups groups;
  groups.begin.assign(std::min(next, most_groups) + 1, 0);
  for (const std::uint32_t group : group_of)
    ++groups.begin[group + 1];
  for (std::size_t group = 1; group < groups.begin.size(); ++group)
    groups.begin[group] += groups.begin[group - 1];
  groups.transfers.resize(transfers.size());
  std::vector<std::uint32_t> filled(groups.begin.size() - 1);
  std::vector<std::uint32_t> place(transfers.size());  // within its group
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    place[i] = filled[group_of[i]]++;
    PairTransfer& transfer = groups.transfers[groups.begin[group_of[i]] + place[i]];
    transfer = transfers[i];
    if (transfer.after != kNoTransfer) transfer.after = place[transfer.after];
  }
  return groups;
}

}  // namespace weft::device::cuda
