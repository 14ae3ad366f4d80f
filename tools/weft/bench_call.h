// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What `weft bench` times: a collective, or a send and a receive of one group, with the sizes and
// the factors of nccl-tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <weft/types.h>

#include "core/model/operation.h"
#include "tools/weft/call_options.h"

namespace weft::tool {

/// A collective; or, as kSend, a group of one send to the next rank and one receive from the one
/// before.
struct BenchCall {
  Operation operation = Operation::kAllReduce;

  [[nodiscard]] constexpr std::string_view name() const {
    return collective() ? operation_name(operation) : "sendrecv";
  }
  [[nodiscard]] constexpr bool collective() const { return operation != Operation::kSend; }
  /// Otherwise what is sent must stay as it is until all of it has gone.
  [[nodiscard]] constexpr bool can_be_in_place() const {
    return collective() && !(sends_blocks() && receives_blocks());
  }
  /// Whether the buffer that is sent, or received, holds a block for each rank.
  [[nodiscard]] constexpr bool sends_blocks() const {
    return operation == Operation::kReduceScatter || operation == Operation::kScatter ||
           operation == Operation::kAllToAll || operation == Operation::kAllToAllV ||
           operation == Operation::kReduceScatterV;
  }
  [[nodiscard]] constexpr bool receives_blocks() const {
    return operation == Operation::kAllGather || operation == Operation::kGather ||
           operation == Operation::kAllToAll || operation == Operation::kAllToAllV ||
           operation == Operation::kAllGatherV;
  }
  [[nodiscard]] constexpr bool has_blocks() const { return sends_blocks() || receives_blocks(); }
  [[nodiscard]] constexpr bool has_uneven_blocks() const {
    return operation == Operation::kAllToAllV || operation == Operation::kAllGatherV ||
           operation == Operation::kReduceScatterV;
  }
  /// Whether a rank other than the root has a result.
  [[nodiscard]] constexpr bool only_root_gets() const {
    return operation == Operation::kReduce || operation == Operation::kGather;
  }
  /// Elements of a call that is said to have `bytes` bytes in its larger buffer; of a block where
  /// there are some, on average where they differ.
  [[nodiscard]] constexpr std::uint64_t count_for(std::uint64_t bytes, weft_data_type type,
                                                  std::uint32_t ranks) const {
    return bytes / element_size(type) / (has_blocks() ? ranks : 1);
  }
  /// What each link carries for a byte of the call (nccl-tests, doc/PERFORMANCE.md).
  [[nodiscard]] constexpr double bus_factor(std::uint32_t ranks) const {
    if (operation == Operation::kAllReduce) return 2.0 * (ranks - 1) / ranks;
    return has_blocks() ? 1.0 * (ranks - 1) / ranks : 1.0;
  }
};

/// Blocks that differ, from nothing to twice `count` elements, together as many as if all had
/// `count`, or a few less: those of one rank, by the other one, as counts and as offsets, one after
/// the other. Between two ranks, one sends as much as it gets; where all ranks name the same blocks
/// they are those of rank 0.
struct UnevenBlocks {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::size_t total = 0;

  UnevenBlocks() = default;
  UnevenBlocks(std::uint64_t count, std::uint32_t rank, std::uint32_t ranks) {
    for (std::uint32_t other = 0; other < ranks; ++other) {
      const std::uint64_t share = (rank + other) % ranks;
      offsets.push_back(total);
      counts.push_back(ranks == 1 ? count : 2 * count * share / (ranks - 1));
      total += counts.back();
    }
  }
};

inline constexpr auto kBenchCalls = [] {
  constexpr std::array kMore = {
      Operation::kAllToAll,   Operation::kAllToAllV,      Operation::kGather, Operation::kScatter,
      Operation::kAllGatherV, Operation::kReduceScatterV, Operation::kSend};
  std::array<BenchCall, kKnownOperations.size() + kMore.size()> calls{};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool known = i < kKnownOperations.size();
    calls[i].operation = known ? kKnownOperations[i] : kMore[i - kKnownOperations.size()];
  }
  return calls;
}();

}  // namespace weft::tool
