// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Parallel aggregated trees: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter
// operations at scale" (2025). One definition for the kernels that move the data, the planner that
// counts steps and the tests that check either.
//
// Each rank's block has a binomial tree of its own, the same one turned round the ring: the rank
// `away` places behind the block's owner has it over the distance 2^level, level being the lowest
// bit of `away`, so that few blocks go far and many go near. A message carries blocks of several
// trees over one distance, as many as fit into a step; with all of them in one a rank is through
// after as many messages as there are distances.
//
// Ranks of several hosts stand in rows, each of which is on one host: a distance below a row's
// length turns within the row, and those from it on lead from row to row at the same place. Where a
// row is a host, gathering then goes across hosts first, each rank with its own block alone, and
// inside them after that; reducing inside first. Without rows the last rank of each host would send
// half of all blocks to the next host. What makes the trees fit is that all ranks see the same ones
// around them, and a torus, rows by places, turns as a ring does.
//
// Where they do not fit, messages come in an order in which few blocks are under way: the ring is
// cut into windows, those of a level twice as long as those of the level below, and what an
// all-gather does in a window it does before those within it, a reduce-scatter after them.
//
// An all-reduce is both, round by round: its elements are cut into pieces, a piece into a range for
// the rank at each place of the ring, as those of a two-shot, and a range is that rank's block. So
// each element is summed up by one rank, and where a row is a host it goes inside, across, inside.
// Ranges may be shorter than others, and empty; a message has no gaps for what they lack.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/model/operation.h"
#include "core/model/ring_geometry.h"
#include "core/model/two_shot.h"

namespace weft {

[[nodiscard]] constexpr bool fits_pat(Operation operation) {
  return operation == Operation::kAllGather || operation == Operation::kReduceScatter ||
         operation == Operation::kAllReduce;
}

// Small inputs of an all-reduce are gathered whole instead, each rank's as its block, into memory
// of the group that moves them, and each rank sums up for itself, by places in the ring, so that
// all come to the same bits: half of the messages, one after the other.

/// Bytes of the inputs of all ranks together that may be gathered so.
inline constexpr std::uint32_t kMostGatheredBytes = 16 * 1024;

/// The operation by which blocks travel.
[[nodiscard]] constexpr Operation pat_operation(Operation operation, bool gathers_inputs) {
  return gathers_inputs ? Operation::kAllGather : operation;
}

// The halves of which an operation has one or both.

[[nodiscard]] constexpr bool pat_scatters(Operation operation) {
  return operation != Operation::kAllGather;
}
[[nodiscard]] constexpr bool pat_gathers(Operation operation) {
  return operation != Operation::kReduceScatter;
}

/// Distances at which a rank has partners, at most: 2^0 to 2^15.
inline constexpr std::uint32_t kMostPatLevels = 16;
static_assert(kMaxRanks <= 1U << kMostPatLevels);

/// What every rank sends over the distance 2^level as one step, and gets: `count` blocks, those of
/// its own and of the ranks 2 * 2^level, 4 * 2^level ... behind, from block number `first` on.
struct PatMessage {
  std::uint32_t level = 0;
  std::uint32_t number = 0;  ///< Of its level, in one round.
  std::uint32_t first = 0;
  std::uint32_t count = 0;  ///< 0: there is no such message.

  /// How far behind the one who has block `index` < count, and the one who has not, its owner is.
  [[nodiscard]] constexpr std::uint32_t near(std::uint32_t index) const {
    return (first + index) << (level + 1);
  }
  [[nodiscard]] constexpr std::uint32_t far(std::uint32_t index) const {
    return near(index) + (1U << level);
  }
};

/// Places of the ring in rows of `row` ranks, one row after the other: a power of two that divides
/// `ranks`. 1: a ring without rows.
struct PatTorus {
  std::uint32_t ranks = 1;
  std::uint32_t row = 1;

  [[nodiscard]] constexpr bool valid() const {
    return std::has_single_bit(row) && ranks % row == 0;
  }
  /// The place `away` < ranks places behind `place`: away % row in its row, away / row in rows.
  [[nodiscard]] constexpr std::uint32_t behind(std::uint32_t place, std::uint32_t away) const {
    const std::uint32_t column = (place - away) % row;  // a power of two divides what wraps around
    const std::uint32_t rows = ranks / row;
    const std::uint32_t from = place / row;
    const std::uint32_t down = away / row;
    return (from < down ? from + rows - down : from - down) * row + column;
  }
  [[nodiscard]] constexpr std::uint32_t ahead(std::uint32_t place, std::uint32_t away) const {
    const std::uint32_t column = (place + away) % row;
    const std::uint32_t rows = ranks / row;
    return (place / row + away / row) % rows * row + column;
  }
};

/// One round, in which a chunk of each block goes to all ranks, or comes together from them: of an
/// all-reduce, half of a round.
struct PatRound {
  std::uint32_t ranks = 2;   ///< 2 to kMaxRanks.
  std::uint32_t blocks = 1;  ///< Of one message at most: a power of two.

  [[nodiscard]] constexpr std::uint32_t levels() const {
    std::uint32_t levels = 1;
    while ((1U << levels) < ranks)
      ++levels;
    return levels;
  }
  /// Blocks that a rank sends over the distance 2^level < ranks.
  [[nodiscard]] constexpr std::uint32_t blocks_over(std::uint32_t level) const {
    return ((ranks - 1 - (1U << level)) >> (level + 1)) + 1;
  }
  [[nodiscard]] constexpr std::uint32_t messages_over(std::uint32_t level) const {
    return (blocks_over(level) + blocks - 1) / blocks;
  }
  [[nodiscard]] constexpr PatMessage message(std::uint32_t level, std::uint32_t number) const {
    const std::uint32_t all = blocks_over(level);
    const std::uint32_t first = number * blocks;
    const std::uint32_t count = first >= all ? 0 : std::min(blocks, all - first);
    return {.level = level, .number = number, .first = first, .count = count};
  }
  [[nodiscard]] constexpr std::uint64_t messages() const {
    std::uint64_t all = 0;
    for (std::uint32_t level = 0; level < levels(); ++level)
      all += messages_over(level);
    return all;
  }

  /// The windows of the lowest level, from 0 on: that of another level is `window >> level`, which
  /// is also the number of the message there.
  [[nodiscard]] constexpr std::uint32_t windows() const {
    return (ranks + 2 * blocks - 1) / (2 * blocks);
  }
  /// The highest level whose window begins with this one of the lowest level.
  [[nodiscard]] constexpr std::uint32_t opened_by(std::uint32_t window) const {
    return zeros_below(window);
  }
  /// The highest level whose window ends with it.
  [[nodiscard]] constexpr std::uint32_t closed_by(std::uint32_t window) const {
    return window + 1 == windows() ? levels() - 1 : zeros_below(window + 1);
  }

 private:
  [[nodiscard]] constexpr std::uint32_t zeros_below(std::uint32_t number) const {
    std::uint32_t zeros = 0;
    while (zeros + 1 < levels() && (number >> zeros) % 2 == 0)
      ++zeros;
    return zeros;
  }
};

/// For steps and chunks of so many bytes, chunk_bytes <= step_bytes.
[[nodiscard]] constexpr PatRound pat_round(std::uint32_t ranks, std::uint64_t step_bytes,
                                           std::uint64_t chunk_bytes) {
  const PatRound one{.ranks = ranks, .blocks = 1};
  const std::uint64_t fit =
      chunk_bytes == 0 ? 1 : std::max<std::uint64_t>(1, step_bytes / chunk_bytes);
  const std::uint32_t most = one.blocks_over(0);
  std::uint32_t blocks = 1;
  while (blocks < most && (std::uint64_t{2} * blocks <= fit || fit >= most))
    blocks *= 2;
  return {.ranks = ranks, .blocks = blocks};
}

/// The rounds of a call of `count` elements, `chunk` of a block at most, a step or less. All are
/// alike, though the last may have less in each message.
[[nodiscard]] constexpr PatRound pat_round(Operation operation, std::uint32_t ranks,
                                           std::uint64_t step_bytes, std::uint64_t count,
                                           std::uint64_t chunk, std::uint64_t element_bytes) {
  if (operation != Operation::kAllReduce) {
    return pat_round(ranks, step_bytes, std::min(chunk, count) * element_bytes);
  }
  const std::uint64_t range = two_shot_piece(0, count, chunk, ranks, element_bytes).chunk;
  // What fits as a whole fits into one message, however few ranks have a part of it.
  const bool fits = std::min(range * ranks, count) * element_bytes <= step_bytes;
  return fits ? pat_round(ranks, ranks, 1) : pat_round(ranks, step_bytes, range * element_bytes);
}

}  // namespace weft
