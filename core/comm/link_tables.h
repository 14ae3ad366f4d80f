// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's connections on the channels of rings, in memory of its device: kernels of launches of
// many channels find them there, so that arguments need not hold them.
//
// What is there never changes, and is the same for all plans: connections stay as they are as long
// as the communicator lives, and so does the memory, which graphs may read as long. It is written
// as work of a stream, before the first launch that needs it, since nobody may wait for a device
// whose kernels may wait for other ranks. A communicator's launches come one after the other, so
// all later ones find it, on whichever stream. Those of a capture run when somebody launches the
// graph, if ever: each capture writes for itself until a launch outside of one has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/model/packed_items.h"

namespace weft {

/// Threads: used by one at a time.
class LinkTable {
 public:
  /// `memory` outlives it.
  static Result<std::unique_ptr<LinkTable>> create(MemoryAccount& memory);
  ~LinkTable() { memory_.release(links_); }
  LinkTable(const LinkTable&) = delete;
  LinkTable& operator=(const LinkTable&) = delete;

  /// Of the device: PackedItems::links.
  [[nodiscard]] const RingLinks* links() const { return links_; }
  /// Takes these for those of the first channels; answers false where others are.
  bool take(std::span<const RingLinks> links);
  /// Before a launch of so many channels on `stream`: it will find them.
  Status bring(std::size_t channels, DeviceStream* stream);

 private:
  LinkTable(MemoryAccount& memory, RingLinks* links) : memory_(memory), links_(links) {}

  MemoryAccount& memory_;
  RingLinks* const links_;
  std::vector<RingLinks> known_;
  std::size_t brought_ = 0;    // of them, for all launches to come
  std::size_t captured_ = 0;   // of them, for those of one capture
  std::uint64_t capture_ = 0;  // which one
};

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

}  // namespace weft
