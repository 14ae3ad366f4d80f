// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's connections, on the channels of rings and those of sends and exchanges, in memory of its
// device: kernels of launches of many channels or transfers find them there, so that arguments need
// not hold them.
//
// What is there never changes, and is the same for all plans: connections stay as they are as long
// as the communicator lives, and so does the memory, which graphs may read as long. It is written
// as work of a stream, before the first launch that needs it, since nobody may wait for a device
// whose kernels may wait for other ranks. A communicator's launches come one after the other, so
// all later ones find it, on whichever stream. Those of a capture run when somebody launches the
// graph, if ever: each capture writes for itself until a launch outside of one has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/model/packed_items.h"
#include "core/model/pair_transfer.h"

namespace weft {

/// Entries that come one after another and stay as they are. Threads: used by one at a time.
template <class Entry>
class DeviceTable {
 public:
  /// With room for so many; `memory` outlives it.
  static Result<std::unique_ptr<DeviceTable>> create(MemoryAccount& memory, std::size_t most);
  ~DeviceTable() { memory_.release(entries_); }
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  /// Memory of the device.
  [[nodiscard]] const Entry* entries() const { return entries_; }
  /// The same in the host's, until others are taken.
  [[nodiscard]] const Entry* known() const { return known_.data(); }
  /// Takes these for the first ones; answers false where others are.
  bool take(std::span<const Entry> entries);
  /// Before a launch on `stream` that needs the first `count`: it will find them.
  Status bring(std::size_t count, DeviceStream* stream);

 private:
  DeviceTable(MemoryAccount& memory, Entry* entries) : memory_(memory), entries_(entries) {}

  MemoryAccount& memory_;
  Entry* const entries_;
  std::vector<Entry> known_;
  std::size_t brought_ = 0;    // of them, for all launches to come
  std::size_t captured_ = 0;   // of them, for those of one capture
  std::uint64_t capture_ = 0;  // which one
};
extern template class DeviceTable<RingLinks>;
extern template class DeviceTable<ConnectionView>;

/// Its entries are PackedItems::links.
using LinkTable = DeviceTable<RingLinks>;

/// Those of a communicator: one for the rings of each protocol. Threads: used by one at a time.
class LinkTables {
 public:
  explicit LinkTables(MemoryAccount& memory) : memory_(memory) {}
  /// The one with these links, no more than kMostPackedItems; it stays as long as this does.
  Result<LinkTable*> find(std::span<const RingLinks> links);

 private:
  MemoryAccount& memory_;
  std::vector<std::unique_ptr<LinkTable>> tables_;
};

/// The views of a communicator's ends of sends and exchanges. Threads: used by one at a time.
class PairViews {
 public:
  explicit PairViews(MemoryAccount& memory) : memory_(memory) {}
  /// Before the first: how many there will be, at most. Of more than kMostViews the rest have no
  /// place, so that a table of many ranks takes no more than 360 KB.
  void expect(std::size_t views) { most_ = std::min<std::size_t>(views, kMostViews); }
  /// Answers the view's PairTransfer::place, or kNoPlace.
  [[nodiscard]] std::uint16_t add(const ConnectionView& view);
  /// Before a launch of these on `stream`: Launch::pair_views. Memory is taken by the first one
  /// that needs it.
  Result<const ConnectionView*> bring(std::span<const PairTransfer> transfers,
                                      DeviceStream* stream);

  static constexpr std::size_t kMostViews = 4096;

 private:
  MemoryAccount& memory_;
  std::size_t most_ = 0;
  std::vector<ConnectionView> known_;
  std::size_t taken_ = 0;                               // of them, by the table
  std::unique_ptr<DeviceTable<ConnectionView>> table_;  // null until first needed
};

}  // namespace weft
