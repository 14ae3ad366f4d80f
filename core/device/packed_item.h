// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One of packed items, and the tables that it points to, as a group's kernel takes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/portability.h"
#include "core/model/operation.h"
#include "core/model/packed_items.h"

namespace weft::device {

/// Tables of up to this many ranks are copied at once; longer ones stay where they are.
inline constexpr std::uint32_t kMostStagedRanks = 64;

/// Where an item goes that a group shares.
struct ItemPlace {
  WorkItem* item;
  Extent* blocks;       ///< kMostStagedRanks.
  std::uint32_t* ring;  ///< The same.
};

/// What a reduce of several ranks by Simple looks at of its item. Its connections stay where they
/// are: of a kernel that is given them in its argument, that is memory which it reads as fast as
/// registers, of which there are not enough for them.
struct ReduceItem {
  static constexpr Operation operation = Operation::kReduce;
  static constexpr Protocol protocol = Protocol::kSimple;
  const ConnectionView& from_previous;
  const ConnectionView& to_next;
  BothEnds both_ends = BothEnds::kNo;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::uint64_t count = 0;
  std::uint64_t chunk = 0;
  std::uint32_t ranks = 0;
  std::uint32_t ring_position = 0;
  OperationTag tag = 0;
};

/// One of packed items, by each lane for itself.
[[nodiscard]] WEFT_HD inline ReduceItem unpack_reduce(const WorkItem& first, const PackedItem& own,
                                                      const RingLinks& links) {
  const std::uint64_t offset = own.offset * element_size(first.type);
  return {.from_previous = links.from_previous,
          .to_next = links.to_next,
          .both_ends = own.both_ends,
          .send = first.send == nullptr ? nullptr : first.send + offset,
          .recv = first.recv == nullptr ? nullptr : first.recv + offset,
          .count = own.count,
          .chunk = own.chunk,
          .ranks = first.ranks,
          .ring_position = own.ring_position,
          .tag = first.tag};
}

/// By all lanes of a group, with barriers. Connections are asked for once, all at a time.
template <class Group>
WEFT_HD void unpack_item(Group& group, const WorkItem& first, const PackedItems& packed,
                         std::uint32_t index, const ItemPlace& to) {
  using Word [[gnu::may_alias]] = std::uint64_t;
  constexpr std::size_t kWord = sizeof(Word);
  constexpr std::uint32_t kWords = sizeof(WorkItem) / kWord;
  constexpr std::uint32_t kFirstOfLinks = offsetof(WorkItem, from_previous) / kWord;
  constexpr std::uint32_t kWordsOfLinks = sizeof(RingLinks) / kWord;
  static_assert(sizeof(WorkItem) % kWord == 0 && sizeof(RingLinks) % kWord == 0);
  static_assert(offsetof(WorkItem, from_previous) % kWord == 0);
  static_assert(offsetof(WorkItem, to_next) - offsetof(WorkItem, from_previous) ==
                offsetof(RingLinks, to_next));
  const auto* const whole = reinterpret_cast<const Word*>(&first);
  const auto* const links =
      packed.links == nullptr ? nullptr : reinterpret_cast<const Word*>(packed.links + index);
  auto* const words = reinterpret_cast<Word*>(to.item);
  const std::uint32_t lanes = group.size();
  for (std::uint32_t i = group.rank(); i < kWords; i += lanes) {
    const bool is_link = links != nullptr && i - kFirstOfLinks < kWordsOfLinks;
    words[i] = is_link ? links[i - kFirstOfLinks] : whole[i];
  }
  const PackedItem& own = packed.items[index];
  const std::uint32_t ranks = first.ranks;
  const std::size_t row = std::size_t{index} * ranks;
  const bool is_staged = ranks <= kMostStagedRanks;
  const bool is_carried = ranks <= kMostCarriedRanks;
  for (std::uint32_t i = group.rank(); is_staged && i < ranks; i += lanes) {
    if (first.ring != nullptr) to.ring[i] = is_carried ? own.ring[i] : first.ring[row + i];
    if (first.blocks == nullptr) continue;
    if (is_carried) {
      to.blocks[i] = {.offset = packed.blocks[i].offset,
                      .count = block_share(packed.blocks[i].count, own.offset, own.count)};
    } else {
      to.blocks[i] = first.blocks[row + i];
    }
  }
  group.sync();
  if (group.rank() == 0) {
    WorkItem& item = *to.item;
    const std::uint64_t offset = own.offset * element_size(first.type);
    if (first.send != nullptr) item.send = first.send + offset;
    if (first.recv != nullptr) item.recv = first.recv + offset;
    item.count = own.count;
    item.chunk = own.chunk;
    item.ring_position = own.ring_position;
    item.both_ends = own.both_ends;
    if (first.ring != nullptr) item.ring = is_staged ? to.ring : first.ring + row;
    if (first.blocks != nullptr) item.blocks = is_staged ? to.blocks : first.blocks + row;
    if (first.tree != nullptr) item.tree = first.tree + index;
    if (first.pat != nullptr) item.pat = first.pat + index;
    if (first.chain != nullptr) item.chain = first.chain + index;
  }
  group.sync();
}

}  // namespace weft::device
