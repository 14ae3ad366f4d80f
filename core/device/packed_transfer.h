// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and receives as arguments of a GPU's kernels hold those of larger launches: a launch costs
// what its argument weighs, and more than half of a transfer is its connection, which is the same
// in all calls and lies in memory of the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/portability.h"
#include "core/model/pair_transfer.h"

namespace weft::device {

enum class PackedWay : std::uint8_t { kSend, kReceive, kCopy };

/// What a transfer has for itself.
struct PackedTransfer {
  std::uint64_t buffer;  ///< The caller's: where a send and a copy read, a receive writes.
  std::uint64_t bytes;
  std::uint64_t tag_or_to;  ///< Its tag; of a copy, which has none, where it writes.
  std::uint16_t after;      ///< As PairTransfer::after, which counts from the first of a group.
  std::uint16_t place;      ///< PairTransfer::place.
  std::uint8_t payload;     ///< A PairPayload.
  PackedWay way;
};
static_assert(sizeof(PackedTransfer) == 32);

inline constexpr std::uint16_t kNoPackedTransfer = UINT16_MAX;

/// Of one that has a place or is a copy, as it is before it begins; `after` is within its group.
inline void pack_transfer(const PairTransfer& whole, std::uint32_t after, PackedTransfer& packed) {
  const bool sends = whole.from != nullptr;
  const bool copies = sends && whole.to != nullptr;
  packed.buffer = reinterpret_cast<std::uint64_t>(sends ? whole.from : whole.to);
  packed.bytes = whole.bytes;
  packed.tag_or_to = copies ? reinterpret_cast<std::uint64_t>(whole.to) : whole.tag;
  packed.after = after == kNoTransfer ? kNoPackedTransfer : static_cast<std::uint16_t>(after);
  packed.place = whole.place;
  packed.payload = static_cast<std::uint8_t>(whole.payload);
  packed.way = copies ? PackedWay::kCopy : sends ? PackedWay::kSend : PackedWay::kReceive;
}

/// By all lanes of a group, with a barrier at the end: `count` transfers, as whole ones that the
/// group shares. `views` are in memory of the device, and asked for once, all at a time.
template <class Group>
WEFT_HD void unpack_transfers(Group& group, const PackedTransfer* packed,
                              const ConnectionView* views, std::uint32_t count, PairTransfer* to) {
  using Word [[gnu::may_alias]] = std::uint64_t;
  constexpr std::uint32_t kWords = sizeof(ConnectionView) / sizeof(Word);
  static_assert(sizeof(ConnectionView) % sizeof(Word) == 0);
  const std::uint32_t lanes = group.size();
  for (std::uint32_t i = group.rank(); i < count * kWords; i += lanes) {
    const PackedTransfer& from = packed[i / kWords];
    // A copy has the view that nobody has set.
    const bool has_view = from.way != PackedWay::kCopy;
    const auto* const view = reinterpret_cast<const Word*>(views + from.place);
    if (has_view) reinterpret_cast<Word*>(&to[i / kWords].view)[i % kWords] = view[i % kWords];
  }
  for (std::uint32_t i = group.rank(); i < count; i += lanes) {
    const PackedTransfer& from = packed[i];
    PairTransfer& whole = to[i];
    const bool copies = from.way == PackedWay::kCopy;
    const bool receives = from.way == PackedWay::kReceive;
    whole.from = receives ? nullptr : reinterpret_cast<const std::byte*>(from.buffer);
    whole.to = reinterpret_cast<std::byte*>(receives ? from.buffer : copies ? from.tag_or_to : 0);
    whole.bytes = from.bytes;
    whole.tag = copies ? 0 : from.tag_or_to;
    if (copies) whole.view = ConnectionView{};
    whole.after = from.after == kNoPackedTransfer ? kNoTransfer : from.after;
    whole.complete = 0;
    whole.payload = static_cast<PairPayload>(from.payload);
    whole.taken = 0;
    whole.place = from.place;
    whole.moved = 0;
    whole.step = 0;
  }
  group.sync();
}

}  // namespace weft::device
