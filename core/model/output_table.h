// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls whose data may go straight into the outputs of other ranks, instead of through slots: what
// the ranks tell each other before such a call, and what they make of it. Such a plan carries both
// ways, since whether an output can be reached is for its own rank to see, call by call.
//
// Within a process an offer is an address. Between processes it is a place in memory that its owner
// shared with all others before (core/comm/output_mappings.h), which each of them has mapped
// elsewhere: OutputMap tells where.
//
// Models: tests/models/output_agreement.pml, tests/models/output_mappings.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model/direct_peers.h"

namespace weft {

/// Which way a call goes: alike on all ranks, since all know the same offers.
enum class OutputWay : std::uint32_t {
  kSlots = 0,    ///< At least one rank offers nothing.
  kOutputs = 1,  ///< All ranks write into each other's outputs.
  kNone = 2,     ///< Not known: the agreement failed, and with it the call.
};

/// Device memory of a rank, zero at first. One is enough for a communicator: its calls are serial.
struct OutputTable {
  /// What each rank offers; 0: nothing.
  std::uint64_t offers[kMostDirectRanks];
  OutputWay way;
  /// Within a launch: 0 until the group that agrees has told the others, then 1 + way; the groups
  /// that need nothing of this any more; and those that have ended, of a call by outputs.
  std::uint32_t state;
  std::uint32_t left;
  std::uint32_t ended;
  std::uint64_t calls[2];  ///< So far that went by OutputWay 0, and by 1.
};

/// Stretches of memory that a rank shares with the others of a communicator at a time.
inline constexpr std::uint32_t kMostMappings = 64;

/// A place in memory that its owner shared: an offer between processes.
struct OutputPlace {
  std::uint32_t mapping = 0;     ///< The owner's number of it, below kMostMappings.
  std::uint32_t generation = 0;  ///< Which of those that had that number; never 0.
  std::uint64_t offset = 0;      ///< Bytes, a multiple of kOutputGrain.
};
inline constexpr std::uint64_t kOutputGrain = 16;
inline constexpr std::uint32_t kGenerationBits = 20;
inline constexpr std::uint32_t kMostGeneration = (1U << kGenerationBits) - 1;
inline constexpr std::uint32_t kPlaceBits = 36;
/// What an offer can tell of: more than any device has.
inline constexpr std::uint64_t kMostOutputBytes = kOutputGrain << kPlaceBits;

/// In one word: never 0, as the generation is not.
[[nodiscard]] constexpr std::uint64_t offer_of(const OutputPlace& place) {
  return (std::uint64_t{place.mapping} << (kGenerationBits + kPlaceBits)) |
         (std::uint64_t{place.generation} << kPlaceBits) | (place.offset / kOutputGrain);
}
/// Of any word.
[[nodiscard]] constexpr OutputPlace place_of(std::uint64_t offer) {
  return {.mapping = static_cast<std::uint32_t>(offer >> (kGenerationBits + kPlaceBits)),
          .generation = static_cast<std::uint32_t>(offer >> kPlaceBits) & kMostGeneration,
          .offset = (offer & ((std::uint64_t{1} << kPlaceBits) - 1)) * kOutputGrain};
}
/// Of a rank into whose output nobody writes: no place, but not nothing.
inline constexpr std::uint64_t kUnwrittenOutput = UINT64_MAX;

/// Where this rank has mapped what the others share. Host memory that kernels reach, zero at first.
/// The host's thread that maps writes an entry, `generation` last, with release; kernels acquire
/// it. An entry of a generation stays as it is for as long as calls can be offered a place there.
struct OutputMap {
  struct Entry {
    std::uint64_t base;
    std::uint64_t bytes;
    std::uint64_t generation;  ///< 0: nothing is mapped.
  };
  Entry entries[kMostDirectRanks][kMostMappings];
};

/// A call's part in it. Plain data, copied by a launch; pointers as in WorkItem.
struct OutputCall {
  OutputTable* table = nullptr;
  const DirectPeers* peers = nullptr;  ///< The inboxes by which ranks agree; read by launch().
  /// Between processes; null where offers are addresses.
  OutputMap* map = nullptr;
  /// Where this rank's output begins, if all others may write there; else 0. A rank into whose
  /// output nobody writes offers anything else.
  std::uint64_t offer = 0;
  /// Where the caller's buffer begins that the items' `recv` lie in, or `send` where that is null:
  /// items lie as far from it as in the outputs of other ranks. And its bytes, on all ranks.
  const std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t* calls = nullptr;  ///< Host memory, two numbers: OutputTable::calls.
  /// Between processes, where this rank offers something: host memory to which the kernel stores
  /// `number`, with release, once this rank writes into no other's output in this call any more,
  /// and nobody into its own.
  std::uint64_t* ended = nullptr;
  std::uint64_t number = 0;
};

}  // namespace weft
