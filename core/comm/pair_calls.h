// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The sends and receives of a group, of one rank: what its kernel is given. The n-th send of a rank
// to another is the n-th receive there; both count, so that the tags of both ends are equal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/comm/start.h"
#include "core/model/operation.h"
#include "core/model/pair_transfer.h"
#include "core/model/progress_op.h"
#include "core/model/work_item.h"
#include "core/transport/pair_connections.h"

namespace weft {

/// Whether what a rank sends to itself is received by the same group, in the same order.
[[nodiscard]] Status check_own(std::span<const Call* const> calls, std::uint32_t rank);

/// What this rank has called so far, by partner and direction. Used by the calling thread.
class PairNumbers {
 public:
  /// Forgets which transfers there are, not their numbers: those of another launch follow.
  void begin_launch() { ++launch_; }
  /// Counts one more call; `transfer` is its index in the launch. Answers its tag, the same at both
  /// ends, and in `after` the launch's transfer before it on that connection; left alone if none.
  [[nodiscard]] OperationTag add(const Task& task, std::uint32_t rank, std::uint32_t transfer,
                                 std::uint32_t& after);

 private:
  struct Direction {
    std::uint64_t calls = 0;
    std::uint64_t launch = 0;  // of `latest`
    std::uint32_t latest = 0;
  };
  std::uint64_t launch_ = 0;
  std::map<std::uint32_t, Direction> sent_;      // by partner
  std::map<std::uint32_t, Direction> received_;  // by partner
};

/// What messages a net must move for one call.
struct PairMessage {
  NetPort* port;
  ProgressOp operation;
};

/// A rank's ends towards another one, which is not the rank itself.
using EndsTowards = std::function<const PairConnections&(std::uint32_t partner)>;

/// Gives a transfer, complete but for that, the end of its connection; where a net carries it,
/// `messages` gets what the net must move.
void add_connection(const RingEnd& end, PairTransfer& transfer, std::vector<PairMessage>& messages);

/// Writes one transfer for each call with elements, and its task; those of a rank to itself are
/// copies. All partners must be connected, and check_own() must hold.
void make_transfers(std::span<const Call* const> calls, std::uint32_t rank, PairNumbers& numbers,
                    const EndsTowards& ends_towards, std::vector<PairTransfer>& transfers,
                    std::vector<PairMessage>& messages, std::vector<Task>& tasks);

/// The one item of a group: all its transfers, which outlive the launch.
[[nodiscard]] WorkItem pair_item(std::span<PairTransfer> transfers, std::uint32_t ranks);

}  // namespace weft
