// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ostream>

namespace weft::gpu_test {
namespace {

constexpr std::array kNames{"all_reduce",     "broadcast",    "reduce",           "all_gather",
                            "reduce_scatter", "all_to_all",   "gather",           "scatter",
                            "all_to_all_v",   "all_gather_v", "reduce_scatter_v", "exchange"};

const char* name_of(weft_reduction reduction) {
  constexpr std::array kReductions{"sum", "prod", "max", "min", "avg"};
  return kReductions[static_cast<std::size_t>(reduction)];
}

/// Elements of the block that `from` has for `to`; where all ranks name the same, of `to` alone.
std::size_t block_count(const Call& call, std::uint32_t ranks, std::uint32_t from,
                        std::uint32_t to) {
  if (!has_tables(call.operation) || call.table == 0) return call.count;
  if (call.operation != Operation::kAllToAllV) from = 0;
  const std::uint64_t drawn = draw(call.table, std::uint64_t{from} * ranks + to);
  // Both ways between two ranks differ.
  const std::uint32_t turn = (2 * from + to + call.table) % ranks;
  switch (call.table % 3) {
    case 1:  // one has all
      return turn == 0 ? call.count : 0;
    case 2:  // each a tenth of the one before
      return turn > 8 ? 0 : call.count / static_cast<std::size_t>(std::pow(10, turn));
    default:  // any, one in four nothing
      return drawn % 4 == 0 ? 0 : (drawn >> 8) % (call.count + 1);
  }
}

/// A buffer with a block for each rank. Tables put them in any order, with gaps.
Side side_of_blocks(const Call& call, std::uint32_t ranks, const std::vector<std::size_t>& counts,
                    std::uint64_t seed) {
  Side side;
  side.blocks.resize(ranks);
  const bool spread = has_tables(call.operation) && call.table != 0;
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0U);
  for (std::uint32_t i = 1; spread && i < ranks; ++i)
    std::swap(order[i], order[draw(seed, i) % (i + 1)]);
  for (const std::uint32_t rank : order) {
    if (spread) side.extent += draw(seed, ranks + rank) % 4 * call.type.bytes;
    side.blocks[rank] = {.at = side.extent, .bytes = counts[rank] * call.type.bytes};
    side.extent += side.blocks[rank].bytes;
  }
  if (spread) side.extent += draw(seed, 2 * ranks) % 4 * call.type.bytes;
  return side;
}

Side side_of_one(std::size_t bytes) {
  return {.blocks = {{.at = 0, .bytes = bytes}}, .extent = bytes};
}

/// Byte of rank `from`'s input at which the block for `to` begins.
std::size_t block_begin(const Call& call, std::uint32_t ranks, std::uint32_t from,
                        std::uint32_t to) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < to; ++i)
    count += block_count(call, ranks, from, i);
  return count * call.type.bytes;
}

/// Adds a message behind the last one, no more aligned than its elements are.
void append(Side& side, const Message& message, std::size_t number) {
  const std::size_t grain = message.type.bytes;
  side.extent = (side.extent + grain - 1) / grain * grain + (draw(number, 3) % 3) * grain;
  side.blocks.push_back({.at = side.extent, .bytes = message.count * grain});
  side.extent += message.count * grain;
}

Buffers buffers_of_exchange(const Call& call, std::uint32_t ranks, std::uint32_t rank) {
  Buffers buffers;
  std::vector<std::size_t> sent(ranks);  // so far, by rank
  for (std::size_t i = 0; i < call.messages.size(); ++i) {
    const Message& message = call.messages[i];
    if (message.from == rank) append(buffers.send, message, i);
    if (message.to == rank) {
      append(buffers.recv, message, i + 1000);
      buffers.due.push_back({.from = message.from, .at = sent[message.from]});
    }
    sent[message.from] += message.count * message.type.bytes;
  }
  return buffers;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Type& type) {
  return out << type.name;
}

const char* name_of(Operation operation) {
  return kNames[static_cast<std::size_t>(operation)];
}

std::ostream& operator<<(std::ostream& out, Operation operation) {
  return out << name_of(operation);
}

std::optional<Operation> parse_operation(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return {};
  return static_cast<Operation>(found - kNames.begin());
}

bool reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduce ||
         operation == Operation::kReduceScatter || operation == Operation::kReduceScatterV;
}

bool has_root(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce ||
         operation == Operation::kGather || operation == Operation::kScatter;
}

bool has_blocks(Operation operation) {
  return operation != Operation::kAllReduce && operation != Operation::kBroadcast &&
         operation != Operation::kReduce && operation != Operation::kExchange;
}

bool has_tables(Operation operation) {
  return operation == Operation::kAllToAllV || operation == Operation::kAllGatherV ||
         operation == Operation::kReduceScatterV;
}

bool can_be_in_place(Operation operation) {
  return operation != Operation::kAllToAll && operation != Operation::kAllToAllV &&
         operation != Operation::kExchange;
}

std::ostream& operator<<(std::ostream& out, const Call& call) {
  out << name_of(call.operation);
  if (call.operation == Operation::kExchange) {
    out << (call.grouped ? " in a group of" : " one by one of");
    for (std::size_t i = 0; i < std::min<std::size_t>(call.messages.size(), 12); ++i) {
      const Message& message = call.messages[i];
      out << ' ' << message.count << ' ' << message.type << ' ' << message.from << "->"
          << message.to;
    }
    return out << ", " << call.messages.size() << " messages";
  }
  if (has_root(call.operation)) out << " of rank " << call.root;
  if (reduces(call.operation)) {
    constexpr std::array kPremul{"", " premultiplied now", " premultiplied at call",
                                 " premultiplied now and at call"};
    out << ' ' << name_of(call.reduction) << kPremul[static_cast<std::size_t>(call.premul)];
  }
  out << " of " << call.count << ' ' << call.type;
  if (has_tables(call.operation)) out << " by table " << call.table;
  if (call.in_place) {
    out << " in place at +" << call.recv_offset;
  } else {
    out << " from +" << call.send_offset << " to +" << call.recv_offset;
  }
  return out << (call.specials ? " with special values" : "")
             << (call.whole ? " of whole numbers" : "");
}

std::size_t Buffers::input_bytes() const {
  std::size_t bytes = 0;
  for (const Block& block : send.blocks)
    bytes += block.bytes;
  return send.counts ? bytes : 0;
}

Buffers buffers_of(const Call& call, std::uint32_t ranks, std::uint32_t rank) {
  if (call.operation == Operation::kExchange) return buffers_of_exchange(call, ranks, rank);
  Buffers buffers;
  buffers.send = buffers.recv = side_of_one(call.bytes());
  const bool is_root = rank == call.root;
  const auto all = [&](bool sent) {
    std::vector<std::size_t> counts(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i)
      counts[i] = sent ? block_count(call, ranks, rank, i) : block_count(call, ranks, i, rank);
    // What all ranks name alike is named by the rank whose block it is.
    if (call.operation == Operation::kAllGatherV) {
      for (std::uint32_t i = 0; i < ranks; ++i)
        counts[i] = block_count(call, ranks, rank, i);
    }
    return side_of_blocks(call, ranks, counts, draw(call.table, rank * 2 + (sent ? 0 : 1)));
  };
  const auto own = [&] {
    return side_of_one(block_count(call, ranks, rank, rank) * call.type.bytes);
  };
  switch (call.operation) {
    case Operation::kAllReduce:
    case Operation::kReduce:
      buffers.recv.counts = is_root || call.operation == Operation::kAllReduce;
      buffers.due = {{.from = {}, .at = 0}};
      break;
    case Operation::kBroadcast:
      buffers.send.counts = is_root;
      buffers.due = {{.from = call.root, .at = 0}};
      break;
    case Operation::kAllGather:
    case Operation::kAllGatherV:
    case Operation::kGather:
      buffers.send = own();
      buffers.recv = all(false);
      buffers.recv.counts = is_root || call.operation != Operation::kGather;
      for (std::uint32_t i = 0; i < ranks; ++i)
        buffers.due.push_back({.from = i, .at = 0});
      break;
    case Operation::kReduceScatter:
    case Operation::kReduceScatterV:
      buffers.send = all(true);
      buffers.recv = own();
      buffers.due = {{.from = {}, .at = block_begin(call, ranks, rank, rank)}};
      break;
    case Operation::kScatter:
      buffers.send = all(true);
      buffers.send.counts = is_root;
      buffers.due = {{.from = call.root, .at = block_begin(call, ranks, call.root, rank)}};
      break;
    case Operation::kAllToAll:
    case Operation::kAllToAllV:
      buffers.send = all(true);
      buffers.recv = all(false);
      for (std::uint32_t i = 0; i < ranks; ++i)
        buffers.due.push_back({.from = i, .at = block_begin(call, ranks, i, rank)});
      break;
    case Operation::kExchange:
      break;
  }
  // Only roots have something to be in place where the others have one buffer.
  const bool of_root =
      call.operation == Operation::kGather || call.operation == Operation::kScatter;
  buffers.in_place = call.in_place && (is_root || !of_root);
  if (can_be_in_place(call.operation) && has_blocks(call.operation)) {
    const bool gathers = call.operation == Operation::kAllGather ||
                         call.operation == Operation::kAllGatherV ||
                         call.operation == Operation::kGather;
    buffers.inner = (gathers ? buffers.recv : buffers.send).blocks[rank].at;
  }
  return buffers;
}

std::uint64_t draw(std::uint64_t seed, std::uint64_t n) {
  // splitmix64
  std::uint64_t state = seed + (n + 1) * 0x9e3779b97f4a7c15U;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
  return state ^ (state >> 31);
}

}  // namespace weft::gpu_test
