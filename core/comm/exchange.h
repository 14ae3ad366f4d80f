// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of all ranks whose data goes from each rank straight to the one that it is for: all-to-all,
// gather, scatter. They are calls like other collectives, numbered and compared as those are; what
// moves their data is the kernel of sends and receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/comm/pair_calls.h"
#include "core/model/operation.h"
#include "core/model/operation_tag.h"
#include "core/model/pair_transfer.h"
#include "core/model/ring_geometry.h"

namespace weft {

/// A part of a caller's buffer, in elements.
using Block = Extent;

/// The blocks of a call in which they differ, by rank.
struct BlockTable {
  std::vector<Block> sent;
  std::vector<Block> received;
  /// Of calls whose ranks all name the same ones; then the other two are empty.
  std::vector<Block> common{};
};

/// The same as a caller's arrays, each with an element for each rank.
struct BlockArrays {
  const size_t* send_counts = nullptr;
  const size_t* send_offsets = nullptr;
  const size_t* recv_counts = nullptr;
  const size_t* recv_offsets = nullptr;
};

/// Reads the arrays of rank `rank` of `ranks`. INVALID_ARGUMENT where one is null or a block is
/// beyond all memory; MISMATCH where the rank's block for itself has two sizes.
[[nodiscard]] Result<std::shared_ptr<const BlockTable>> read_blocks(const BlockArrays& arrays,
                                                                    weft_data_type type,
                                                                    std::uint32_t rank,
                                                                    std::uint32_t ranks);
/// The same of a call whose ranks all name the same blocks: of the send arrays, or, where those are
/// null, of the receive arrays. `task` gets what tells the blocks apart from others.
[[nodiscard]] Result<std::shared_ptr<const BlockTable>> read_common_blocks(
    const BlockArrays& arrays, std::uint32_t ranks, Task& task);
/// Elements of all of them.
[[nodiscard]] std::uint64_t total_of(const std::vector<Block>& blocks);
/// The task that a call is planned as: that of the longest block where they differ.
[[nodiscard]] Task planned_task(const Call& call);

/// What rank `rank` sends to rank `other` in `call`, or gets from it; its own block is both. Of a
/// send its one message.
[[nodiscard]] Block block_sent(const Call& call, std::uint32_t rank, std::uint32_t other);
[[nodiscard]] Block block_received(const Call& call, std::uint32_t rank, std::uint32_t other);

/// Calls `visit(round, partner, block, sends)` for each block that `rank` sends to others or gets
/// from them, in the order in which its kernel looks at them: in round k, from 1, each rank sends
/// to the k-th after it and receives from the k-th before it, so that no rank is everybody's first.
template <class Visit>
void for_each_block(const Call& call, std::uint32_t rank, std::uint32_t ranks, Visit visit) {
  for (std::uint32_t round = 1; round < ranks; ++round) {
    const std::uint32_t to = (rank + round) % ranks;
    const std::uint32_t from = (rank + ranks - round) % ranks;
    const Block sent = block_sent(call, rank, to);
    if (sent.count != 0) visit(round, to, sent, true);
    const Block received = block_received(call, rank, from);
    if (received.count != 0) visit(round, from, received, false);
  }
}

/// Which exchanges go through inboxes, in bytes of a block.
struct InboxExchanges {
  std::uint64_t most_by_ll = 0;  ///< Up to so many by lines of LL; 0: none.
  /// All-to-alls of so many and more by wide lines instead, up to `most_wide`; 0: none.
  std::uint64_t least_wide = 0;
  std::uint64_t most_wide = 0;
  bool all_to_alls_by_ll = true;
  bool roots_by_ll = true;    ///< Gathers and scatters.
  std::uint32_t stripes = 1;  ///< That messages of LL which a net carries may have.
  friend bool operator==(const InboxExchanges&, const InboxExchanges&) = default;
};
/// By which lines; none of calls that do not go so.
[[nodiscard]] std::optional<Protocol> inbox_protocol(const Task& task,
                                                     const InboxExchanges& exchanges);

/// Writes the transfers of one exchange as make_transfers() does those of a group. `sequence` is
/// the number of the call, `past` a checksum of those before (CallHistory::past).
void make_exchange(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                   std::uint64_t sequence, std::uint16_t past, const PairEnds& ends,
                   std::vector<PairTransfer>& transfers, std::vector<PairMessage>& messages,
                   std::vector<PairTask>& tasks);

/// Whether `transfers`, which make_exchange() wrote without a net's messages, will do for `call`
/// with its buffers: it is of the same task, and what is the rank's own lies likewise.
[[nodiscard]] bool are_transfers_of(const Call& call, std::uint32_t rank,
                                    std::span<const PairTransfer> transfers,
                                    std::span<const PairTask> tasks);
/// Makes them those of this call, as repeat_transfers() does.
void repeat_exchange(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                     std::uint64_t sequence, std::uint16_t past, std::span<PairTransfer> transfers,
                     std::span<PairTask> tasks);

}  // namespace weft
