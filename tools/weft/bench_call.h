// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What `weft bench` times: a collective, or sends and receives of one group, with the sizes and the
// factors of nccl-tests.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <weft/types.h>

#include "core/model/operation.h"
#include "tools/weft/call_options.h"

namespace weft::tool {

/// Which sends and receives make up a group.
enum class Exchange : std::uint8_t {
  kNone,     ///< It is a collective.
  kToNext,   ///< To the next rank, from the one before.
  kWithAll,  ///< A block to each rank, and one from each.
};

struct BenchCall {
  Operation operation = Operation::kAllReduce;  ///< kSend where it is an exchange.
  Exchange exchange = Exchange::kNone;

  [[nodiscard]] constexpr std::string_view name() const {
    if (exchange == Exchange::kToNext) return "sendrecv";
    if (exchange == Exchange::kWithAll) return "all_to_all";
    return operation_name(operation);
  }
  [[nodiscard]] constexpr bool collective() const { return exchange == Exchange::kNone; }
  /// What is sent must stay as it is until all of it has gone.
  [[nodiscard]] constexpr bool can_be_in_place() const { return collective(); }
  /// Whether the buffer that is sent, or received, holds a block for each rank.
  [[nodiscard]] constexpr bool sends_blocks() const {
    return operation == Operation::kReduceScatter || exchange == Exchange::kWithAll;
  }
  [[nodiscard]] constexpr bool receives_blocks() const {
    return operation == Operation::kAllGather || exchange == Exchange::kWithAll;
  }
  [[nodiscard]] constexpr bool has_blocks() const { return sends_blocks() || receives_blocks(); }
  /// Elements of a call that is said to have `bytes` bytes in its larger buffer; of a block where
  /// there are some.
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

inline constexpr auto kBenchCalls = [] {
  std::array<BenchCall, kKnownOperations.size() + 2> calls{};
  for (std::size_t i = 0; i < kKnownOperations.size(); ++i)
    calls[i] = {.operation = kKnownOperations[i], .exchange = Exchange::kNone};
  calls[kKnownOperations.size()] = {.operation = Operation::kSend, .exchange = Exchange::kToNext};
  calls.back() = {.operation = Operation::kSend, .exchange = Exchange::kWithAll};
  return calls;
}();

}  // namespace weft::tool
