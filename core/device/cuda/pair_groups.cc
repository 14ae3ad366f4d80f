// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/pair_groups.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace weft::device::cuda {

namespace {

/// Which group each transfer belongs to, and how many groups there are. Ends that send and ends
/// that receive take turns, so that neighbouring CTAs, which share what leads out of their
/// processors, do different things. Ends with most to move come first: where there are more ends
/// than groups, a group gets its second one of those with least. Then come copies within the rank,
/// which wait for nobody.
struct Division {
  std::vector<std::uint32_t> group_of;
  std::uint32_t groups = 0;
};

/// The transfers of one end: places [begin, end) of a list that is sorted by ends.
struct End {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t bytes = 0;
};

Division divide(std::span<const PairTransfer> transfers, std::uint32_t most_groups) {
  // In the way of each call, so without a map.
  std::vector<std::pair<const ConnectionCursor*, std::uint32_t>> by_end;
  std::vector<std::uint32_t> copies;
  by_end.reserve(transfers.size());
  for (std::uint32_t i = 0; i < transfers.size(); ++i) {
    if (const ConnectionCursor* const end = transfers[i].view.cursor; end != nullptr) {
      by_end.emplace_back(end, i);
    } else {
      copies.push_back(i);
    }
  }
  std::ranges::sort(by_end);

  std::vector<End> ends[2];  // by direction
  for (std::size_t at = 0; at < by_end.size();) {
    End end{.begin = at};
    for (; at < by_end.size() && by_end[at].first == by_end[end.begin].first; ++at)
      end.bytes += transfers[by_end[at].second].bytes;
    end.end = at;
    ends[transfers[by_end[end.begin].second].from == nullptr ? 1 : 0].push_back(end);
  }
  for (auto& of_direction : ends)
    std::ranges::stable_sort(of_direction, std::greater{}, &End::bytes);
  Division division{.group_of = std::vector<std::uint32_t>(transfers.size())};
  std::uint32_t next = 0;
  for (std::size_t turn = 0; turn < std::max(ends[0].size(), ends[1].size()); ++turn) {
    for (const auto& of_direction : ends) {
      if (turn >= of_direction.size()) continue;
      const std::uint32_t group = next++ % most_groups;
      for (std::size_t at = of_direction[turn].begin; at < of_direction[turn].end; ++at)
        division.group_of[by_end[at].second] = group;
    }
  }
  for (const std::uint32_t copy : copies)
    division.group_of[copy] = next++ % most_groups;
  division.groups = std::min(next, most_groups);
  return division;
}

/// Whether each could have a group of its own: no two on one end, no copies.
bool are_ends(std::span<const PairTransfer> transfers, std::uint32_t most_groups) {
  return transfers.size() <= most_groups && std::ranges::all_of(transfers, [](const auto& one) {
           return one.view.cursor != nullptr && one.after == kNoTransfer;
         });
}

// As divide() would, of what most calls are: one message each way. In the way of each call, so
// nothing is allocated.
void group_ends(std::span<const PairTransfer> transfers, PairGroups& groups) {
  const auto count = static_cast<std::uint32_t>(transfers.size());
  std::vector<std::uint32_t>& places = groups.places;
  places.clear();
  std::size_t sends = 0;
  for (const bool is_send : {true, false}) {
    for (std::uint32_t place = 0; place < count; ++place) {
      if ((transfers[place].from != nullptr) == is_send) places.push_back(place);
    }
    if (is_send) sends = places.size();
  }
  const std::span<std::uint32_t> all(places);
  const std::span<std::uint32_t> ways[2] = {all.first(sends), all.subspan(sends)};
  for (const auto& way : ways) {
    std::ranges::sort(way, [&](std::uint32_t one, std::uint32_t other) {
      const std::uint64_t bytes[2] = {transfers[one].bytes, transfers[other].bytes};
      return bytes[0] != bytes[1] ? bytes[0] > bytes[1] : one < other;
    });
  }
  groups.order.clear();
  for (std::size_t turn = 0; groups.order.size() < count; ++turn) {
    for (const auto& way : ways) {
      if (turn < way.size()) groups.order.push_back(way[turn]);
    }
  }
  groups.after.assign(count, kNoTransfer);
  groups.begin.resize(count + std::size_t{1});
  std::iota(groups.begin.begin(), groups.begin.end(), 0U);
}

/// Whether the latest division was of such transfers; notes what they are, but not that they are
/// divided.
bool are_known(std::span<const PairTransfer> transfers, std::uint32_t most_groups,
               PairGroups& groups) {
  bool alike = groups.most_groups == most_groups && groups.known.size() == transfers.size();
  groups.known.resize(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const PairTransfer& transfer = transfers[i];
    const PairGroups::Known is{.end = transfer.view.cursor,
                               .bytes = transfer.bytes,
                               .after = transfer.after,
                               .sends = transfer.from != nullptr};
    alike = alike && groups.known[i] == is;
    groups.known[i] = is;
  }
  if (!alike) groups.most_groups = 0;
  return alike;
}

void divide_anew(std::span<const PairTransfer> transfers, std::uint32_t most_groups,
                 PairGroups& groups) {
  if (are_ends(transfers, most_groups)) return group_ends(transfers, groups);
  const auto [group_of, count] = divide(transfers, most_groups);
  groups.begin.assign(count + std::size_t{1}, 0);
  for (const std::uint32_t group : group_of)
    ++groups.begin[group + 1];
  for (std::size_t group = 1; group < groups.begin.size(); ++group)
    groups.begin[group] += groups.begin[group - 1];
  groups.order.resize(transfers.size());
  groups.after.resize(transfers.size());
  std::vector<std::uint32_t> filled(groups.begin.size() - 1);
  std::vector<std::uint32_t>& place = groups.places;  // within its group
  place.resize(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    place[i] = filled[group_of[i]]++;
    const std::uint32_t at = groups.begin[group_of[i]] + place[i];
    const std::uint32_t after = transfers[i].after;
    groups.order[at] = static_cast<std::uint32_t>(i);
    groups.after[at] = after == kNoTransfer ? kNoTransfer : place[after];
  }
}

}  // namespace

// Known is only what has been divided: there may be no memory for it.
void divide_transfers(std::span<const PairTransfer> transfers, std::uint32_t most_groups,
                      PairGroups& groups) {
  if (are_known(transfers, most_groups, groups)) return;
  divide_anew(transfers, most_groups, groups);
  groups.most_groups = most_groups;
}

void group_transfers(std::span<const PairTransfer> transfers, std::uint32_t most_groups,
                     PairGroups& groups) {
  divide_transfers(transfers, most_groups, groups);
  groups.transfers.resize(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    groups.transfers[i] = transfers[groups.order[i]];
    groups.transfers[i].after = groups.after[i];
  }
}

}  // namespace weft::device::cuda
