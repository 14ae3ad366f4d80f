// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The sends and receives of a group, of one rank: what its kernel is given. The n-th send of a rank
// to another is the n-th receive there; both count, so that the tags of both ends are equal.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/comm/group.h"
#include "core/model/operation.h"
#include "core/model/pair_transfer.h"
#include "core/model/progress_op.h"
#include "core/transport/pair_connections.h"

namespace weft {

/// The ranks that these calls, all sends and receives, concern; without `rank` itself, ascending.
[[nodiscard]] std::vector<std::uint32_t> partners_of(std::span<const Call* const> calls,
                                                     std::uint32_t rank);

/// Whether what a rank sends to itself is received by the same group, in the same order.
[[nodiscard]] Status check_own(std::span<const Call* const> calls, std::uint32_t rank);

/// Numbers the calls of one rank. Used by the calling thread.
class PairNumbers {
 public:
  /// Of the next call: the same at both ends.
  [[nodiscard]] OperationTag next_tag(const Task& task, std::uint32_t rank);

 private:
  std::map<std::uint32_t, std::uint64_t> sent_;      // by partner
  std::map<std::uint32_t, std::uint64_t> received_;  // by partner
};

/// What messages a net must move for one call.
struct PairMessage {
  NetPort* port;
  ProgressOp operation;
};

/// Writes one transfer for each call with elements, and its task; those of a rank to itself are
/// copies. All partners must be connected, and check_own() must hold. `connector` is null for a
/// rank alone.
void make_transfers(std::span<const Call* const> calls, std::uint32_t rank, PairNumbers& numbers,
                    PairConnector* connector, std::vector<PairTransfer>& transfers,
                    std::vector<PairMessage>& messages, std::vector<Task>& tasks);

}  // namespace weft
