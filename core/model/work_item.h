// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One channel's share of one operation, ready for a device: the plan bound to pointers and views.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model/chain_links.h"
#include "core/model/connection_view.h"
#include "core/model/direct_peers.h"
#include "core/model/operation.h"
#include "core/model/operation_tag.h"
#include "core/model/pair_transfer.h"
#include "core/model/pat_links.h"
#include "core/model/ring_geometry.h"
#include "core/model/tree_links.h"

namespace weft {

/// What a rank multiplies its input by, of kPremulSum: one element of the call's type.
struct Factor {
  std::uint64_t bits = 0;           ///< The element, in its first bytes,
  const std::byte* from = nullptr;  ///< unless this is where it lies when the item begins.
};

/// The tables `ring` and `blocks` of an item with so many ranks or fewer are copied by launch(), as
/// the item is, for devices whose kernels do not read the memory of the host's allocator; those of
/// more ranks such a device gets in memory of DeviceRuntime::allocate_shared.
inline constexpr std::uint32_t kMostCarriedRanks = 8;

/// Everything a kernel needs. Plain data: copied into the device's queue as it is.
struct WorkItem {
  Operation operation = Operation::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  bool rounds_each = false;  ///< Whether what accumulates() is rounded in each step all the same.
  bool gathers_inputs = false;         ///< Plan::gathers_inputs.
  BothEnds both_ends = BothEnds::kNo;  ///< Of a channel of Plan::both_ends.
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;

  const std::byte* send = nullptr;  ///< The caller's input of this channel, first element.
  std::byte* recv = nullptr;        ///< The caller's output of this channel, first element.
  std::uint64_t count = 0;          ///< Elements of this channel.
  std::uint64_t chunk = 0;          ///< Elements of one chunk at most; ChannelPlan::chunk.

  /// Elements from one rank's block to the next, of operations that have blocks.
  std::uint64_t stride = 0;
  /// Instead of that, where the blocks differ: what is this channel's of each rank's, from the
  /// first element of the buffers that hold them; `count` is that of the longest. As `ring`.
  const Extent* blocks = nullptr;
  /// The ranks by their place in the ring, of operations that have blocks; memory that the device
  /// reads, outlives the launch and its replays, but see kMostCarriedRanks.
  const std::uint32_t* ring = nullptr;

  std::uint32_t ranks = 1;
  /// This rank's distance from the ring's origin along the ring, 0 to ranks - 1. For operations
  /// with a root the origin is the root; for others it is the first of the ring order.
  std::uint32_t ring_position = 0;

  OperationTag tag = 0;
  ConnectionView from_previous;  ///< Of rings.
  ConnectionView to_next;        ///< Of rings.
  /// Of sends and receives, all of a group in one item. Host memory; outlives the launch where the
  /// device reports ends, and else is copied by launch().
  PairTransfer* transfers = nullptr;
  std::uint32_t transfer_count = 0;  ///< Of an item that is only looked at also without them.
  /// That a device may cut such an item into, and those below: alike on all ranks there.
  std::uint32_t most_parts = kMostDirectParts;
  /// Of algorithms that go directly, whose launch has one item, cut into parts by the device. Host
  /// memory, read by the device's host side; outlives the launch.
  const DirectPeers* direct = nullptr;
  /// Of trees: memory that the device reads, outlives the launch.
  const TreeLinks* tree = nullptr;
  /// Of parallel aggregated trees: the same.
  const PatLinks* pat = nullptr;
  /// Of chains: the same.
  const ChainLinks* chain = nullptr;
  Factor factor;
};

/// Why a kernel ended. Everything but kDone leaves output undefined and the connections unusable.
enum class KernelEnd : std::uint32_t {
  kDone = 0,
  kAborted = 1,       ///< The abort flag was raised.
  kPeerError = 2,     ///< The other end of a connection put a value into its error word.
  kTagMismatch = 3,   ///< A slot belongs to another call than this one.
  kSizeMismatch = 4,  ///< A slot carries another number of bytes than this call expects.
  kUnsupported = 5,   ///< The device has no kernel for this operation, type or reduction.
  kForeignPlace = 6,  ///< The peer offers an output in memory that it has not shared.
  kBeingTold = 7,     ///< No end: in memory that several kernels share, one of them writes its own.
};

struct KernelOutcome {
  KernelEnd end = KernelEnd::kDone;
  std::uint32_t peer = 0;      ///< Rank at the connection that showed it.
  std::uint64_t expected = 0;  ///< Tag or bytes.
  std::uint64_t found = 0;     ///< Tag, bytes, or the error word.
};

/// What kernels tell that wait for long, again and again while they do. Each word by itself, by
/// whichever thread that waits: whoever takes a word leaves 0.
struct LongWait {
  std::uint64_t tag = 0;    ///< Of the call.
  std::uint64_t begun = 0;  ///< 1: a wait told of itself for the first time.
};

}  // namespace weft
