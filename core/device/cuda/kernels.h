// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernels, as the device's host side launches them: by pointer and argument block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/packed_transfer.h"
#include "core/device/portability.h"
#include "core/model/multicast.h"
#include "core/model/output_table.h"
#include "core/model/packed_items.h"
#include "core/model/pair_transfer.h"
#include "core/model/window_reduction.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {

inline constexpr std::uint32_t kWarp = 32;
inline constexpr std::uint32_t kThreads = 512;  ///< Of a CTA.
/// The warp that posts for them, of kernels that have one (posting.cuh), and both together.
inline constexpr std::uint32_t kPosterThreads = kWarp;
inline constexpr std::uint32_t kPostingThreads = kThreads + kPosterThreads;
/// Of kernels that copy by bulk copies: a warp for each of three threads.
inline constexpr std::uint32_t kBulkThreads = 96;
/// From so many bytes of an item on they are taken, and of launches of many items, whose lanes fill
/// a link as well.
inline constexpr std::uint64_t kLeastBulkBytes = 128 << 10;
inline constexpr std::uint64_t kLeastBulkBytesOfMany = 256 << 10;
/// Of kernels over wide lines, whose threads hold what comes from all ranks in registers.
inline constexpr std::uint32_t kWideThreads = 288;
inline constexpr std::uint32_t kMostItems = kMostPackedItems;  ///< Of a launch: one CTA each,
inline constexpr std::uint32_t kCtasOfCluster = 2;             ///< or such a cluster (spread.cuh).
/// A launch of so few may always be set up while the kernel before it runs, and lets the next one
/// be (early_launch.h).
inline constexpr std::uint32_t kCtasThatMayComeEarly = 2;

/// What a kernel is given besides its items. All pointers are device-visible.
struct KernelControl {
  const std::uint32_t* abort = nullptr;  ///< Host memory.
  KernelOutcome* outcome = nullptr;      ///< Host memory: the first bad end.
  LongWait* waiting = nullptr;           ///< Host memory; may be null.
};

/// What the pointers `ring` and `blocks` of an item point to, where it is carried along: a load of
/// host memory costs a kernel more than a microsecond. Left as it is where there are more ranks.
struct CarriedTables {
  std::uint64_t blocks[kMostCarriedRanks][2];  ///< Offset and count.
  std::uint16_t ring[kMostCarriedRanks];
};

/// The argument of a launch of items that are not packed, by value: a captured graph keeps it.
template <std::size_t kItems>
struct WholeItems {
  KernelControl control;
  WorkItem items[kItems];
  CarriedTables tables[kItems];
};
using WholeRingArgument = WholeItems<kMostWholeItems>;
/// Of the smallest launches: the less there is of an argument, the sooner the host has copied it.
using FewRingArgument = WholeItems<kCtasThatMayComeEarly>;
/// The same of more items, which whole would be 30 KB.
struct PackedRingArgument {
  KernelControl control;
  WorkItem first;  ///< As it is.
  PackedItems items;
};

/// Either of them: a kernel for each would have the same code once more, which stays in the GPU's
/// memory.
struct RingArgument {
  bool is_packed;
  bool is_bounded;  ///< Launch::is_bounded.
  union {
    WholeRingArgument whole;
    PackedRingArgument packed;
  };
};
/// With which both begin.
[[nodiscard]] WEFT_HD inline const KernelControl& control_of(const RingArgument& argument) {
  return argument.whole.control;
}

/// Packed items with the connections of each: a kernel that has no registers for them reads them
/// here as fast as from those.
struct LinkedRingArgument : PackedRingArgument {
  RingLinks links[kMostItems];
};

/// Of a call whose ranks agree on outputs. Such calls are large; others are launched without what
/// that takes.
struct OutputArgument {
  OutputCall call;
  DirectPeers peers;
};
struct RingArgumentWithOutputs : RingArgument {
  bool agrees;
  OutputArgument outputs;  ///< Unless it agrees, of no use.
};
constexpr std::size_t kMostArgumentBytes = 32764;  // of CUDA
static_assert(sizeof(RingArgument) <= 4096);       // what CUDA had room for before 12.1
static_assert(sizeof(RingArgumentWithOutputs) <= kMostArgumentBytes);
static_assert(sizeof(LinkedRingArgument) <= kMostArgumentBytes);

/// The argument of a kernel for inboxes, whose CTAs are the parts of one item.
struct DirectArgument {
  KernelControl control;
  WorkItem item;  ///< Its pointer `direct` is the host's.
  DirectPeers peers;
};

/// The same by multicast.
struct MulticastArgument {
  DirectArgument direct;
  MulticastView view;
};

/// Transfers that arguments of kernels have room for: as they are, up to what a send and a receive
/// of 64 KiB take, by lines over 8 channels each; and packed. The host copies all of an argument,
/// so there are sizes for what is called most, between two GPUs and four alike: a send and a
/// receive of up to 2 MiB, over 16 channels, with a header each where they go in steps
/// (core/comm/pair_calls.h), and of more, over 32, as well as an all-to-all of four over 11 with
/// each other rank in a communicator that joined beside another; and all-to-alls of three and more
/// in the only one, which have up to 128 ends and a copy within the rank.
inline constexpr std::array kWholePairs = {8U, kMostWholePairs};
inline constexpr std::array kPackedPairs = {40U, 84U, 168U, kMostPackedPairs};

/// The most CTAs of a launch of sends and receives that has the device for itself; others have up
/// to kMostItems.
inline constexpr std::uint32_t kMostPairGroups = 128;
/// Where each CTA's transfers begin, of an argument for so many.
template <std::uint32_t kTransfers>
inline constexpr std::uint32_t kPairBegins =
    (kTransfers < kMostPairGroups ? kTransfers : kMostPairGroups) + 1;

/// A CTA has the transfers begin[number of the CTA] up to that of the next one.
template <std::uint32_t kTransfers>
struct PairArgument {
  KernelControl control;
  std::uint16_t begin[kPairBegins<kTransfers>];
  PairTransfer transfers[kTransfers];
};
// What CUDA had room for before 12.1.
static_assert(sizeof(PairArgument<kWholePairs.back()>) <= 4096);

/// The same of more, whose connections are in memory of the device.
template <std::uint32_t kTransfers>
struct PackedPairArgument {
  KernelControl control;
  const ConnectionView* views;
  std::uint16_t begin[kPairBegins<kTransfers>];
  PackedTransfer transfers[kTransfers];
};

/// Words that go to memory of the device.
inline constexpr std::uint32_t kMostStoredWords = 4000;
struct StoreArgument {
  std::uint64_t* to;
  std::uint32_t count;
  std::uint64_t words[kMostStoredWords];
};
static_assert(sizeof(StoreArgument) <= kMostArgumentBytes);

/// The same as a PairArgument with the transfers in device memory.
struct StoredPairs {
  KernelControl control;
  PairTransfer* transfers;
  std::uint32_t begin[kMostItems + 1];
};

/// Whether a launch of so many items has them packed.
[[nodiscard]] constexpr bool are_packed(std::size_t items) {
  return items > kMostWholeItems;
}

/// Whether there are kernels for such calls: of what has a plan, all types and reductions.
[[nodiscard]] constexpr bool kernel_exists(const Task& task) {
  if (static_cast<std::size_t>(task.operation) >= kOperationCount || element_size(task.type) == 0 ||
      !is_planned(task.operation)) {
    return false;
  }
  return !reduces(task.operation) || (task.reduction >= WEFT_SUM && task.reduction <= kPremulSum);
}

[[nodiscard]] constexpr bool kernel_exists(const WorkItem& item) {
  return kernel_exists(Task{.operation = item.operation,
                            .type = item.type,
                            .reduction = item.reduction,
                            .root = 0,
                            .count = item.count});
}

/// The kernel that runs so many items like `item`, by so many threads a CTA; null where there is
/// none.
struct RingKernel {
  const void* address = nullptr;
  std::uint32_t threads = kThreads;
  std::uint32_t shared_bytes = 0;  ///< Of dynamic shared memory.
  /// That agrees on outputs first: its argument is a RingArgumentWithOutputs.
  const void* for_outputs = nullptr;
  bool fills_outputs = false;  ///< It can do what was agreed on then.
  /// It does so itself, once it has put its item together, and so may be launched programmatically
  /// serialized; unless it has few items it lets the next begin late, when it waits for no other
  /// rank any more.
  bool awaits_kernel_before = false;
  /// What `address` takes: a RingArgument, the one WithOutputs, a FewRingArgument, a
  /// PackedRingArgument or a LinkedRingArgument.
  enum class Takes : std::uint8_t { kAny, kAnyWithOutputs, kFew, kPacked, kLinked };
  Takes takes = Takes::kAny;
};
[[nodiscard]] RingKernel kernel_for(const WorkItem& item, std::uint32_t items, bool agrees);
/// The same of chains, of trees and of PAT, whose items point to links in memory that
/// kernels reach.
[[nodiscard]] RingKernel chain_kernel_for(const WorkItem& item);
[[nodiscard]] RingKernel tree_kernel_for(const WorkItem& item);
[[nodiscard]] RingKernel pat_kernel_for(const WorkItem& item);
/// The same of rings and trees by LL, and by LL128.
[[nodiscard]] RingKernel ll_kernel_for(const WorkItem& item);
[[nodiscard]] RingKernel ll128_kernel_for(const WorkItem& item);
/// The same among those that know their reduction at compile time; where they take packed items
/// they have a warp that posts.
[[nodiscard]] RingKernel known_ring_kernel_for(const WorkItem& item, std::uint32_t items);
/// The same of kCtasThatMayComeEarly items at most; one of these kernels only copies.
[[nodiscard]] RingKernel few_ring_kernel_for(const WorkItem& item, std::uint32_t items);
/// The same among those that only copy.
[[nodiscard]] RingKernel posting_copy_kernel_for(const WorkItem& item, std::uint32_t items);

/// The kernel that copies by bulk copies for such items, all of one launch; null where they reduce,
/// are small, or lie where bulk copies cannot begin; `agrees`: on outputs. From compute capability
/// 9.0 on.
[[nodiscard]] RingKernel bulk_kernel_for(std::span<const WorkItem> items, bool agrees);
/// What its CTAs take of a multiprocessor's shared memory.
[[nodiscard]] std::uint32_t bulk_shared_bytes();

/// The kernel that runs direct items like `item` by lines, of all-reduces or of calls with blocks,
/// by wide lines, once or by ranges, or two-shots of so many parts; null where there is none.
[[nodiscard]] const void* direct_kernel_for(const WorkItem& item);
[[nodiscard]] const void* blocks_kernel_for(const WorkItem& item);
[[nodiscard]] const void* wide_kernel_for(const WorkItem& item);
/// Of items that fits_wide_lines() holds of, with a root.
[[nodiscard]] const void* wide_rooted_kernel_for(const WorkItem& item);
/// Of items that fits_wide_ranges() holds of.
[[nodiscard]] const void* wide_two_shot_kernel_for(const WorkItem& item);
[[nodiscard]] const void* wide_blocks_kernel_for(const WorkItem& item);
[[nodiscard]] const void* two_shot_kernel_for(const WorkItem& item, std::uint32_t parts);
/// The same by multicast, and the only one. From compute capability 9.0 on.
[[nodiscard]] const void* multicast_kernel_for(const WorkItem& item, std::uint32_t parts);
[[nodiscard]] const void* multicast_kernel_address();

/// The kernels that move the transfers of a PairArgument, by kWholePairs, and of a
/// PackedPairArgument, by kPackedPairs.
[[nodiscard]] const void* pair_kernel_of_size(std::size_t place);
[[nodiscard]] const void* packed_pair_kernel_of_size(std::size_t place);
/// The kernel that moves StoredPairs.
[[nodiscard]] const void* stored_pairs_kernel_address();
/// Brings what a StoreArgument holds to where it says.
[[nodiscard]] const void* store_kernel_address();
/// Takes nothing, and does nothing.
[[nodiscard]] const void* empty_kernel_address();
/// Copies (to, from, bytes) by however many CTAs of kThreads.
[[nodiscard]] const void* copy_kernel_address();

/// The kernel of a reduction in windows (argument: SourcesToReduce), CTAs of kThreads.
[[nodiscard]] const void* reduce_sources_kernel_address();

/// All kernels, to be loaded before anything spins.
[[nodiscard]] std::span<const void* const> ring_kernels();
[[nodiscard]] std::span<const void* const> chain_kernels();
[[nodiscard]] std::span<const void* const> tree_kernels();
[[nodiscard]] std::span<const void* const> pat_kernels();
[[nodiscard]] std::span<const void* const> ll_kernels();
[[nodiscard]] std::span<const void* const> ll128_kernels();
[[nodiscard]] std::span<const void* const> bulk_ring_kernels();
[[nodiscard]] std::span<const void* const> known_ring_kernels();
[[nodiscard]] std::span<const void* const> few_ring_kernels();
[[nodiscard]] std::span<const void* const> posting_copy_kernels();
[[nodiscard]] std::span<const void* const> pair_kernels();
[[nodiscard]] std::span<const void* const> direct_kernels();
[[nodiscard]] std::span<const void* const> blocks_kernels();
[[nodiscard]] std::span<const void* const> wide_kernels();
[[nodiscard]] std::span<const void* const> wide_rooted_kernels();
[[nodiscard]] std::span<const void* const> wide_two_shot_kernels();
[[nodiscard]] std::span<const void* const> wide_blocks_kernels();
[[nodiscard]] std::span<const void* const> two_shot_kernels();

}  // namespace weft::device::cuda
