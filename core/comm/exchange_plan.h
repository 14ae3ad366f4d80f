// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What all ranks do in an exchange, for people who ask: from the rounds that the transfers are made
// by.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

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
};

struct ExchangePlan {
  Task task;
  std::uint32_t ranks = 1;
  SlotGeometry slots;                 ///< Of each connection.
  std::vector<ExchangeBlock> blocks;  ///< By round, then by sender.
  std::vector<std::uint64_t> copied;  ///< Bytes of each rank for itself; unless in place.
};

/// `calls` are those of all ranks, in order: one exchange.
[[nodiscard]] ExchangePlan plan_exchange(std::span<const Call> calls, const SlotGeometry& slots);

/// Pairs of ranks between which something goes, the lower rank first.
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> joined_pairs(
    const ExchangePlan& plan);

/// In words, as plans are told. Every line ends with a newline.
[[nodiscard]] std::string to_text(const ExchangePlan& plan);

}  // namespace weft
