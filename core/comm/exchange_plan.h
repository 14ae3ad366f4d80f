// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What all ranks do in an exchange, for people who ask: from the rounds that the transfers are made
// by.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/comm/exchange.h"
#include "core/comm/pair_calls.h"
#include "core/comm/start.h"
#include "core/model/operation.h"
#include "core/transport/net_port.h"

namespace weft {

/// A block on its way from a rank to another one.
struct ExchangeBlock {
  std::uint32_t round = 0;  ///< From 1: the how-many-th partner it is that a rank begins with.
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;  ///< Steps of the connection.
  bool lent = false;           ///< Read straight from the sender's memory.
};

/// How the blocks of exchanges go, where that is not by slots of one connection.
struct ExchangeWays {
  PairSpread spread{};  ///< Of messages over channels, and from which size on lent.
  InboxExchanges inboxes{};
  std::uint64_t window_bytes = 0;  ///< Outputs of so many go by copy engines into windows; 0: none.
};

struct ExchangePlan {
  Task task;
  std::uint32_t ranks = 1;
  SlotGeometry slots;                 ///< Of each connection.
  std::vector<ExchangeBlock> blocks;  ///< By round, then by sender.
  std::vector<std::uint64_t> copied;  ///< Bytes of each rank for itself; unless in place.
  ExchangeWays ways;
  /// What each rank launches, by rank; empty where a worker of the CPU moves it.
  std::vector<LaunchShape> launches;

  [[nodiscard]] bool goes_by_inboxes() const;
};

/// Whether two ranks read each other's memory.
using ReadsPeer = std::function<bool(std::uint32_t from, std::uint32_t to)>;

/// `calls` are those of all ranks, in order: one exchange, or a send of each. No launches yet.
/// Blocks are lent only between ranks of which `reads`, unless it is empty, says so.
[[nodiscard]] ExchangePlan plan_exchange(std::span<const Call> calls, const SlotGeometry& slots,
                                         const ExchangeWays& ways = {},
                                         const ReadsPeer& reads = {});

/// Parts of one rank's launch by pairs that could each have a CTA: ends of connections that it
/// uses, and its copies to itself.
[[nodiscard]] std::uint32_t pair_ends_of(const ExchangePlan& plan, std::uint32_t rank);

/// Pairs of ranks between which something goes, the lower rank first.
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> joined_pairs(
    const ExchangePlan& plan);

/// "16 CTAs of 544 threads, on a device of 132 multiprocessors"; empty where there are none.
[[nodiscard]] std::string launch_text(const LaunchShape& shape);

/// In words, as plans are told. Every line ends with a newline.
[[nodiscard]] std::string to_text(const ExchangePlan& plan);

}  // namespace weft
