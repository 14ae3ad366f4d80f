// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The sends and receives of a group, of one rank: what its kernel is given. The n-th send of a rank
// to another is the n-th receive there; both count, so that the tags of both ends are equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/comm/start.h"
#include "core/model/operation.h"
#include "core/model/pair_transfer.h"
#include "core/model/progress_op.h"
#include "core/model/work_item.h"
#include "core/transport/net_devices.h"
#include "core/transport/net_port.h"
#include "core/transport/pair_connections.h"

namespace weft {

/// Whether what a rank sends to itself is received by the same group, in the same order; calls
/// without elements do not count.
[[nodiscard]] Status check_own(std::span<const Call* const> calls, std::uint32_t rank);

/// Over how many channels two ranks send to each other: a part of a message over each, as long as
/// a part has so many bytes. Alike on all ranks.
struct PairSpread {
  std::uint32_t channels = 1;  ///< At most kMostPairChannels, or kMostExchangeChannels.
  /// The first of those, as a number beyond kPairChannel.
  std::uint32_t first_channel = 0;
  std::uint64_t least_bytes = UINT64_MAX;
  /// Up to so many channels; more pay from longer parts on.
  std::uint32_t few_channels = kMostPairChannels;
  std::uint64_t least_bytes_of_many = 0;
  /// Messages go by lines, where that is not 0, in parts of up to so many bytes on as many channels
  /// of lines as there are. Those that are longer have a header on the first of these: so both ends
  /// always meet on one connection, also where they have different lengths in mind.
  std::uint64_t line_bytes = 0;
  /// A further channel of lines pays as long as a part has so many bytes.
  std::uint64_t least_line_bytes = UINT64_MAX;
  std::uint32_t line_channels = 1;  ///< At most kMostPairLineChannels.
  /// Longer ones of up to so many bytes go in steps of lines of LL128, in parts of so many bytes
  /// and more.
  std::uint64_t most_wide_bytes = 0;
  std::uint64_t least_wide_part_bytes = UINT64_MAX;
  std::uint32_t wide_channels = 0;  ///< At most kMostPairWideChannels.
  SlotGeometry wide_slots{};        ///< Of each of those channels.
  /// Parts of up to so many bytes go by lines where a net's connection has room for those, which it
  /// has on the first few channels; 0: none. Which do each end knows for itself.
  std::uint64_t most_by_lines_of_net = 0;
  /// Messages of so many bytes and more are lent where both ends read each other's memory.
  std::uint64_t least_lent_bytes = UINT64_MAX;
};

/// How both ends cut a message of `bytes`, which is more than 0: in parts of `part_bytes`, but for
/// the last, on the first `channels`; or, where there are none of those, on channels of lines.
struct PairCut {
  std::uint32_t channels = 1;
  std::uint32_t first_channel = 0;
  std::uint64_t part_bytes = 0;
  std::uint32_t line_channels = 0;  ///< For all of it, or one for its header.

  [[nodiscard]] bool goes_by_lines() const { return channels == 0; }
  [[nodiscard]] bool goes_by_wide_lines() const {
    return channels != 0 && is_of_pair_wide_lines(kPairChannel + first_channel);
  }
};
/// The channels of a cut, as numbers beyond kPairChannel.
template <class Visit>
void for_each_channel(const PairCut& cut, Visit visit) {
  for (std::uint32_t channel = 0; channel < cut.line_channels; ++channel)
    visit(kPairLineChannel - kPairChannel + channel);
  for (std::uint32_t channel = 0; channel < cut.channels; ++channel)
    visit(cut.first_channel + channel);
}
[[nodiscard]] PairCut cut_message(std::uint64_t bytes, const PairSpread& spread);

/// What this rank has called so far, by partner and direction. Used by the calling thread.
class PairNumbers {
 public:
  /// Forgets which transfers there are, not their numbers: those of another launch follow.
  void begin_launch() { ++launch_; }
  struct Latest {
    std::uint64_t launch = 0;
    std::uint32_t transfer = 0;
  };
  /// All calls with one partner in one direction.
  struct Direction {
    std::uint64_t calls = 0;     ///< The number of the latest one.
    std::vector<Latest> latest;  ///< By channel, as far as they were used.
  };
  /// That of a call; until the next one is asked for.
  [[nodiscard]] Direction& direction_of(const Task& task);
  /// Counts one more call there. Answers its tag, the same at both ends.
  [[nodiscard]] static OperationTag add(Direction& direction, const Task& task, std::uint32_t rank);
  /// Notes that transfer number `transfer` of the launch is a part of that call, on that channel.
  /// Answers the launch's transfer before it on that connection, or kNoTransfer.
  [[nodiscard]] std::uint32_t follow(Direction& direction, std::uint32_t channel,
                                     std::uint32_t transfer) const;

 private:
  std::uint64_t launch_ = 0;
  std::vector<Direction> sent_;      // by partner, as far as they were used
  std::vector<Direction> received_;  // the same
};

/// The call that a transfer is a part of, and its number: of those between the two ranks in that
/// direction, or of all collectives.
struct PairTask : Task {
  std::uint64_t number = 0;
  /// At the first transfer of a message: how many it has.
  std::uint32_t parts = 1;
};

/// What messages a net must move for one call.
struct PairMessage {
  NetPort* port;
  ProgressOp operation;
};

/// A rank's ends towards other ranks.
struct PairEnds {
  /// Of a channel with a partner, which is not the rank itself.
  std::function<const PairConnections&(std::uint32_t partner, std::uint32_t channel)> towards;
  PairSpread spread{};
};

/// The parts of one copy, or of one message to or from `partner`. `whole` is complete but for its
/// connection. `add_part(transfer, channel)` is called for each part, the transfer complete but for
/// what comes before it; nets are given to `messages`.
template <class AddPart>
void add_parts(const PairTransfer& whole, std::uint32_t partner, const PairEnds& ends,
               std::vector<PairMessage>& messages, AddPart add_part);

/// Gives a transfer, complete but for that, the end of its connection, and lends it where that is
/// possible and it has bytes enough by `spread`: so both ends find the same. Where a net carries
/// it, `messages` gets what the net must move.
void add_connection(const ConnectionEnd& end, const PairSpread& spread, PairTransfer& transfer,
                    std::vector<PairMessage>& messages);

/// Writes the transfers of each call with elements, and the task of each of them; those of a rank
/// to itself are copies. All partners must be connected, and check_own() must hold.
void make_transfers(std::span<const Call* const> calls, std::uint32_t rank, PairNumbers& numbers,
                    const PairEnds& ends, std::vector<PairTransfer>& transfers,
                    std::vector<PairMessage>& messages, std::vector<PairTask>& tasks);

/// Whether transfers of make_transfers() will do for calls of the same tasks with other buffers: no
/// copies within the rank, no two of them on one connection.
[[nodiscard]] bool can_repeat(std::span<const PairTransfer> transfers);
/// Whether `tasks`, of transfers that can_repeat() holds of, are those of these calls.
[[nodiscard]] bool are_tasks_of(std::span<const Call* const> calls,
                                std::span<const PairTask> tasks);
/// Makes such transfers those of these calls, and counts them.
void repeat_transfers(std::span<const Call* const> calls, std::uint32_t rank, PairNumbers& numbers,
                      std::span<PairTransfer> transfers, std::span<PairTask> tasks);

/// The same of the message whose first transfer is number `first`: of `whole`, which has other
/// buffers and another tag, of call number `number`. Answers where the next message begins.
std::size_t repeat_message(const PairTransfer& whole, std::uint64_t number, std::size_t first,
                           std::span<PairTransfer> transfers, std::span<PairTask> tasks);

/// The one item of a group: all its transfers, which outlive the launch where its end is reported.
[[nodiscard]] WorkItem pair_item(std::span<PairTransfer> transfers, std::uint32_t ranks,
                                 std::uint32_t most_parts);

template <class AddPart>
void add_parts(const PairTransfer& whole, std::uint32_t partner, const PairEnds& ends,
               std::vector<PairMessage>& messages, AddPart add_part) {
  const bool copies = whole.from != nullptr && whole.to != nullptr;
  PairSpread spread = ends.spread;
  if (copies) spread.line_bytes = spread.most_wide_bytes = 0;
  const PairCut cut = cut_message(whole.bytes, spread);
  std::uint64_t begin = 0;
  for_each_channel(cut, [&](std::uint32_t channel) {
    PairTransfer part = whole;
    const bool lines = is_of_pair_lines(kPairChannel + channel);
    if (cut.goes_by_wide_lines()) part.payload = PairPayload::kWideLines;
    if (lines) part.payload = cut.goes_by_lines() ? PairPayload::kLines : PairPayload::kHeader;
    if (part.payload == PairPayload::kHeader) {
      part.bytes = 0;
    } else {
      if (part.from != nullptr) part.from += begin;
      if (part.to != nullptr) part.to += begin;
      part.bytes = std::min(cut.part_bytes, whole.bytes - begin);
      begin += part.bytes;
    }
    if (!copies) {
      const PairConnections& pair = ends.towards(partner, channel);
      add_connection(whole.from != nullptr ? pair.to : pair.from, spread, part, messages);
    }
    add_part(part, channel);
  });
}

}  // namespace weft
