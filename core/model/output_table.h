// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls whose data may go straight into the outputs of other ranks, instead of through slots: what
// the ranks tell each other before such a call, and what they make of it. Such a plan carries both
// ways, since whether an output can be reached is for its own rank to see, call by call.
//
// Model: tests/models/output_agreement.pml
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
  /// What each rank offers: where its output begins, as this process sees it; 0: nothing.
  std::uint64_t offers[kMostDirectRanks];
  OutputWay way;
  /// Within a launch: 0 until the group that agrees has told the others, then 1 + way; and the
  /// groups that need nothing of this any more.
  std::uint32_t state;
  std::uint32_t left;
  std::uint32_t reserved;
  std::uint64_t calls[2];  ///< So far that went by OutputWay 0, and by 1.
};

/// A call's part in it. Plain data, copied by a launch; pointers as in WorkItem.
struct OutputCall {
  OutputTable* table = nullptr;
  const DirectPeers* peers = nullptr;  ///< The inboxes by which ranks agree; read by launch().
  /// Where this rank's output begins, if all others may write there; else 0. A rank into whose
  /// output nobody writes offers any address.
  std::uint64_t offer = 0;
  /// Where the caller's buffer begins that the items' `recv` lie in, or `send` where that is null:
  /// items lie as far from it as in the outputs of other ranks.
  const std::byte* begin = nullptr;
  std::uint64_t* calls = nullptr;  ///< Host memory, two numbers: OutputTable::calls.
};

}  // namespace weft
