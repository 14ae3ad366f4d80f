// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/property/schedule/ring_executor.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/model/ring_geometry.h"

namespace weft::test {
namespace {

constexpr std::size_t kMostRanks = 32;
using Contributions = std::bitset<kMostRanks>;

/// What a rank does with one step's worth of elements. A move that both receives and sends waits
/// for the data and for the slot before it touches either, as kernels that reduce from one buffer
/// straight into the next do.
struct Move {
  Extent extent{};
  bool receives = false;
  bool sends = false;
  bool reduces = false;  ///< Adds this rank's own input to what came.
  bool keeps = false;    ///< Writes what came (and was reduced) to this rank's output.
};

struct Message {
  Extent extent;
  Contributions contributions;
};

struct RankState {
  std::vector<Move> moves;
  std::size_t next_move = 0;
  std::map<std::uint64_t, std::pair<std::uint64_t, Contributions>> output;  // by offset
};

void add_moves(std::vector<Move>& moves, const Plan& plan, Extent extent, Move kind) {
  const std::uint64_t element_bytes = element_size(plan.task.type);
  const std::uint64_t step = plan.step_bytes / element_bytes;
  for (std::uint64_t done = 0; done < extent.count; done += step) {
    kind.extent = {.offset = extent.offset + done, .count = std::min(step, extent.count - done)};
    moves.push_back(kind);
  }
}

std::vector<Move> all_reduce_moves(const Plan& plan, const ChannelPlan& channel,
                                   std::uint32_t position) {
  std::vector<Move> moves;
  const std::uint32_t ranks = plan.ranks;
  for (std::uint64_t base = 0; base < channel.count;) {
    const RingLoop loop =
        ring_loop(base, channel.count, channel.chunk, ranks, element_size(plan.task.type));
    const auto add = [&](std::uint32_t hop, Move kind) {
      add_moves(moves, plan, loop.extent(ring_chunk(position, hop, ranks), channel.count), kind);
    };
    add(0, {.sends = true});
    for (std::uint32_t hop = 1; hop + 1 < ranks; ++hop) {
      add(hop, {.receives = true, .sends = true, .reduces = true});
    }
    add(ranks - 1, {.receives = true, .sends = true, .reduces = true, .keeps = true});
    for (std::uint32_t hop = ranks; hop + 2 < 2 * ranks; ++hop) {
      add(hop, {.receives = true, .sends = true, .keeps = true});
    }
    add(2 * ranks - 2, {.receives = true, .keeps = true});
    base += loop.chunk * ranks;
  }
  return moves;
}

/// `first`: how far behind its own block a rank begins.
std::vector<Move> block_moves(const Plan& plan, const ChannelPlan& channel, std::uint32_t position,
                              std::uint32_t first, const Move& own, const Move& passed,
                              const Move& last) {
  std::vector<Move> moves;
  for (std::uint64_t base = 0; base < channel.count; base += channel.chunk) {
    for (std::uint32_t hop = 0; hop < plan.ranks; ++hop) {
      const std::uint32_t block = channel.ring[ring_chunk(position, first + hop, plan.ranks)];
      add_moves(moves, plan,
                {.offset = block * plan.task.count + base,
                 .count = std::min(channel.chunk, channel.count - base)},
                hop == 0               ? own
                : hop + 1 < plan.ranks ? passed
                                       : last);
    }
  }
  return moves;
}

std::vector<Move> reduce_moves(const Plan& plan, const ChannelPlan& channel,
                               std::uint32_t position) {
  std::vector<Move> moves;
  for (std::uint64_t base = 0; base < channel.count; base += channel.chunk) {
    add_moves(moves, plan, {.offset = base, .count = std::min(channel.chunk, channel.count - base)},
              {.receives = position != 1,
               .sends = position != 0,
               .reduces = position != 1,
               .keeps = position == 0});
  }
  return moves;
}

std::vector<Move> broadcast_moves(const Plan& plan, const ChannelPlan& channel,
                                  std::uint32_t position) {
  std::vector<Move> moves;
  for (std::uint64_t base = 0; base < channel.count; base += channel.chunk) {
    add_moves(moves, plan, {.offset = base, .count = std::min(channel.chunk, channel.count - base)},
              {.receives = position != 0, .sends = position + 1 != plan.ranks, .keeps = true});
  }
  return moves;
}

std::vector<Move> moves_of(const Plan& plan, const ChannelPlan& channel, std::uint32_t position) {
  switch (plan.task.operation) {
    case Operation::kAllReduce:
      return all_reduce_moves(plan, channel, position);
    case Operation::kBroadcast:
      return broadcast_moves(plan, channel, position);
    case Operation::kReduce:
      return reduce_moves(plan, channel, position);
    case Operation::kAllGather:
      return block_moves(plan, channel, position, 0, {.sends = true, .keeps = true},
                         {.receives = true, .sends = true, .keeps = true},
                         {.receives = true, .keeps = true});
    case Operation::kReduceScatter:
      return block_moves(plan, channel, position, 1, {.sends = true},
                         {.receives = true, .sends = true, .reduces = true},
                         {.receives = true, .reduces = true, .keeps = true});
    default:
      return {};
  }
}

class Channel {
 public:
  Channel(const Plan& plan, std::size_t index, std::uint32_t slots)
      : plan_(plan),
        share_(plan.channels[index]),
        slots_(slots),
        links_(plan.ranks),
        ranks_(plan.ranks) {
    result_.sent.assign(plan.ranks, 0);
    result_.received.assign(plan.ranks, 0);
    for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
      places_.push_back(ring_place(plan, index, rank));
      const std::uint32_t position = places_[rank].position;
      if (plan.ranks == 1) {
        ranks_[rank].output[0] = {share_.count, due(0)};
      } else {
        ranks_[rank].moves = moves_of(plan, share_, position);
      }
    }
  }

  ExecutionResult run() {
    bool moved = true;
    while (moved && result_.failure.empty()) {
      moved = false;
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        while (result_.failure.empty() && try_move(rank))
          moved = true;
      }
    }
    if (result_.failure.empty()) check_end();
    return std::move(result_);
  }

 private:
  /// What the right result holds in a block.
  [[nodiscard]] Contributions due(std::uint32_t block) const {
    Contributions contributions;
    if (plan_.task.operation == Operation::kBroadcast) {
      contributions.set(plan_.task.root);
    } else if (plan_.task.operation == Operation::kAllGather) {
      contributions.set(block);
    } else {
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank)
        contributions.set(rank);
    }
    return contributions;
  }

  /// The blocks that a rank must hold in the end: [first, second). Without blocks there is one.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> blocks_of(std::uint32_t rank) const {
    switch (plan_.task.operation) {
      case Operation::kAllGather:
        return {0, plan_.ranks};
      case Operation::kReduceScatter:
        return {rank, rank + 1};
      case Operation::kReduce:
        return {0, rank == plan_.task.root ? 1 : 0};
      default:
        return {0, 1};
    }
  }

  bool try_move(std::uint32_t rank) {
    RankState& state = ranks_[rank];
    if (state.next_move == state.moves.size()) return false;
    const Move& move = state.moves[state.next_move];
    std::deque<Message>& in = links_[places_[rank].previous];
    std::deque<Message>& out = links_[rank];
    if (move.receives && in.empty()) return false;
    if (move.sends && out.size() == slots_) return false;

    Contributions contributions;
    if (move.receives) {
      if (in.front().extent != move.extent) {
        result_.failure = fmt::format("rank {} expects {} elements from {} and gets {} from {}",
                                      rank, move.extent.count, move.extent.offset,
                                      in.front().extent.count, in.front().extent.offset);
        return false;
      }
      contributions = in.front().contributions;
      in.pop_front();
      ++result_.received[rank];
    }
    if (!move.receives || move.reduces) {
      if (contributions.test(rank)) {
        result_.failure = fmt::format("rank {} adds its input twice", rank);
        return false;
      }
      contributions.set(rank);
    }
    if (move.sends) {
      out.push_back({.extent = move.extent, .contributions = contributions});
      ++result_.sent[rank];
    }
    if (move.keeps) {
      const bool added =
          state.output.emplace(move.extent.offset, std::pair(move.extent.count, contributions))
              .second;
      if (!added) result_.failure = fmt::format("rank {} writes its output twice", rank);
    }
    ++state.next_move;
    return true;
  }

  void check_end() {
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      const RankState& state = ranks_[rank];
      if (state.next_move != state.moves.size()) {
        result_.failure = fmt::format("deadlock: rank {} does not get past move {} of {}", rank,
                                      state.next_move, state.moves.size());
        return;
      }
      if (!links_[rank].empty()) {
        result_.failure =
            fmt::format("{} steps of rank {} are left over", links_[rank].size(), rank);
        return;
      }
      if (!check_output(rank)) return;
    }
  }

  bool check_output(std::uint32_t rank) {
    const auto [first, end] = blocks_of(rank);
    auto piece = ranks_[rank].output.begin();
    for (std::uint32_t block = first; block < end; ++block) {
      const std::uint64_t begin = block * plan_.task.count;
      std::uint64_t covered = 0;
      for (; covered < share_.count && piece != ranks_[rank].output.end(); ++piece) {
        if (piece->first != begin + covered || piece->second.second != due(block)) break;
        covered += piece->second.first;
      }
      if (covered != share_.count) {
        result_.failure = fmt::format("rank {} holds a wrong result at element {} of block {}",
                                      rank, covered, block);
        return false;
      }
    }
    if (piece != ranks_[rank].output.end()) {
      result_.failure = fmt::format("rank {} holds more than its result", rank);
    }
    return result_.failure.empty();
  }

  const Plan& plan_;
  const ChannelPlan& share_;
  std::size_t slots_;
  std::vector<std::deque<Message>> links_;  // by sender
  std::vector<RankState> ranks_;
  std::vector<RingPlace> places_;
  ExecutionResult result_;
};

}  // namespace

ExecutionResult execute(const Plan& plan, std::size_t channel, std::uint32_t slots) {
  return Channel(plan, channel, slots).run();
}

}  // namespace weft::test
