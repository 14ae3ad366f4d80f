// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/exchange.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace weft {
namespace {

Result<std::vector<Block>> read_buffer(std::string_view name, const size_t* counts,
                                       const size_t* offsets, std::uint32_t ranks,
                                       std::size_t element_bytes) {
  if (counts == nullptr || offsets == nullptr) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("{}_{} is NULL", name, counts == nullptr ? "counts" : "offsets"),
                "pass an element for each rank, 0 where there is no block");
  }
  const std::uint64_t most = UINT64_MAX / 4 / element_bytes;
  std::vector<Block> blocks(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    blocks[rank] = {.offset = offsets[rank], .count = counts[rank]};
    if (offsets[rank] > most || counts[rank] > most - offsets[rank]) {
      return fail(WEFT_ERROR_INVALID_ARGUMENT,
                  fmt::format("{}_counts[{}] is {} and {}_offsets[{}] is {}: more elements of {} "
                              "bytes than memory can hold",
                              name, rank, counts[rank], name, rank, offsets[rank], element_bytes),
                  "check both, which are of elements");
    }
  }
  return blocks;
}

}  // namespace

Result<std::shared_ptr<const BlockTable>> read_blocks(const BlockArrays& arrays,
                                                      weft_data_type type, std::uint32_t rank,
                                                      std::uint32_t ranks) {
  const std::size_t element = element_size(type);
  auto table = std::make_shared<BlockTable>();
  WEFT_TRY_ASSIGN(table->sent,
                  read_buffer("send", arrays.send_counts, arrays.send_offsets, ranks, element));
  WEFT_TRY_ASSIGN(table->received,
                  read_buffer("recv", arrays.recv_counts, arrays.recv_offsets, ranks, element));
  const std::uint64_t sent = table->sent[rank].count;
  const std::uint64_t received = table->received[rank].count;
  if (sent != received) {
    return fail(WEFT_ERROR_MISMATCH,
                fmt::format("rank {} sends {} {} to itself and receives {} {}", rank, sent,
                            data_type_name(type), received, data_type_name(type)),
                "make both halves alike");
  }
  return table;
}

Result<std::shared_ptr<const BlockTable>> read_common_blocks(const BlockArrays& arrays,
                                                             std::uint32_t ranks, Task& task) {
  const std::size_t element = element_size(task.type);
  const bool sends = task.operation == Operation::kReduceScatterV;
  auto table = std::make_shared<BlockTable>();
  WEFT_TRY_ASSIGN(
      table->common,
      read_buffer(sends ? "send" : "recv", sends ? arrays.send_counts : arrays.recv_counts,
                  sends ? arrays.send_offsets : arrays.recv_offsets, ranks, element));
  task.count = 0;
  std::uint64_t checksum = 0;
  for (const Block& block : table->common) {
    if (block.count > UINT64_MAX / 4 / element - task.count) {
      return fail(WEFT_ERROR_INVALID_ARGUMENT,
                  fmt::format("{} elements of {} bytes are more than memory can hold",
                              task.count + block.count, element),
                  "check the counts, which are of elements");
    }
    task.count += block.count;
    // Where blocks lie is a matter of each rank, how long they are of all.
    checksum = (checksum ^ block.count) * 0x9E3779B97F4A7C15U;
    checksum ^= checksum >> 29;
  }
  task.root = static_cast<std::uint32_t>(checksum & 0xFFF);
  return table;
}

Task planned_task(const Call& call) {
  Task task = call.task;
  if (!has_uneven_blocks(task.operation)) return task;
  task.root = 0;
  task.count = 0;
  for (const Block& block : call.blocks->common)
    task.count = std::max(task.count, block.count);
  return task;
}

std::uint64_t total_of(const std::vector<Block>& blocks) {
  std::uint64_t total = 0;
  for (const Block& block : blocks)
    total += block.count;
  return total;
}

Block block_sent(const Call& call, std::uint32_t rank, std::uint32_t other) {
  const Task& task = call.task;
  const std::uint64_t count = task.count;
  switch (task.operation) {
    case Operation::kSend:
      return {.offset = 0, .count = other == task.root ? count : 0};
    case Operation::kAllToAll:
      return {.offset = other * count, .count = count};
    case Operation::kGather:
      return {.offset = 0, .count = other == task.root ? count : 0};
    case Operation::kScatter:
      return {.offset = other * count, .count = rank == task.root ? count : 0};
    default:
      return call.blocks->sent[other];
  }
}

Block block_received(const Call& call, std::uint32_t rank, std::uint32_t other) {
  const Task& task = call.task;
  const std::uint64_t count = task.count;
  switch (task.operation) {
    case Operation::kSend:
      return {};
    case Operation::kAllToAll:
      return {.offset = other * count, .count = count};
    case Operation::kGather:
      return {.offset = other * count, .count = rank == task.root ? count : 0};
    case Operation::kScatter:
      return {.offset = 0, .count = other == task.root ? count : 0};
    default:
      return call.blocks->received[other];
  }
}

std::optional<Protocol> inbox_protocol(const Task& task, const InboxExchanges& exchanges) {
  if (!is_exchange(task.operation) || task.operation == Operation::kAllToAllV) return {};
  const bool to_all = task.operation == Operation::kAllToAll;
  const std::uint64_t bytes = task.bytes();
  if (to_all && bytes >= exchanges.least_wide && bytes <= exchanges.most_wide) {
    return Protocol::kLL128;
  }
  if (bytes > exchanges.most_by_ll || exchanges.most_by_ll == 0) return {};
  const bool by_ll = to_all ? exchanges.all_to_alls_by_ll : exchanges.roots_by_ll;
  return by_ll ? std::optional(Protocol::kLL) : std::nullopt;
}

namespace {

/// What the rank has for itself, complete; nothing where it is where it shall be.
std::optional<PairTransfer> own_copy(const Call& call, std::uint32_t rank) {
  const std::uint64_t element = element_size(call.task.type);
  const Block sent = block_sent(call, rank, rank);
  const Block received = block_received(call, rank, rank);
  if (sent.count == 0) return {};
  PairTransfer copy;
  copy.from = static_cast<const std::byte*>(call.send) + sent.offset * element;
  copy.to = static_cast<std::byte*>(call.recv) + received.offset * element;
  copy.bytes = sent.count * element;
  return copy.from != copy.to ? std::optional(copy) : std::nullopt;
}

/// Calls `visit(whole, partner, task)` for each message, and the rank's own copy: complete but for
/// the connection, in the order of their transfers.
template <class Visit>
void for_each_message(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                      std::uint64_t sequence, std::uint16_t past, Visit visit) {
  const std::uint64_t element = element_size(call.task.type);
  for_each_block(
      call, rank, ranks,
      [&](std::uint32_t /*round*/, std::uint32_t partner, const Block& block, bool sends) {
        Task task = call.task;
        task.count = block.count;
        PairTransfer whole;
        const std::uint64_t offset = block.offset * element;
        if (sends) whole.from = static_cast<const std::byte*>(call.send) + offset;
        if (!sends) whole.to = static_cast<std::byte*>(call.recv) + offset;
        whole.bytes = task.bytes();
        whole.tag = make_operation_tag(task, sequence, past);
        visit(whole, partner, task);
      });
  if (const auto copy = own_copy(call, rank)) visit(*copy, rank, call.task);
}

}  // namespace

void make_exchange(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                   std::uint64_t sequence, std::uint16_t past, const PairEnds& ends,
                   std::vector<PairTransfer>& transfers, std::vector<PairMessage>& messages,
                   std::vector<PairTask>& tasks) {
  for_each_message(call, rank, ranks, sequence, past,
                   [&](const PairTransfer& whole, std::uint32_t partner, const Task& task) {
                     const std::size_t first = tasks.size();
                     add_parts(whole, partner, ends, messages,
                               [&](const PairTransfer& part, std::uint32_t) {
                                 transfers.push_back(part);
                                 tasks.push_back({task, sequence});
                               });
                     tasks[first].parts = static_cast<std::uint32_t>(tasks.size() - first);
                   });
}

// All blocks are alike, but where each call has a table of its own; so one task stands for all.
bool are_transfers_of(const Call& call, std::uint32_t rank, std::span<const PairTransfer> transfers,
                      std::span<const PairTask> tasks) {
  if (call.blocks != nullptr || tasks.empty()) return false;
  const Task& known = tasks.front();
  const PairTransfer& last = transfers.back();
  const bool copies = last.from != nullptr && last.to != nullptr;
  return call.task == known && copies == own_copy(call, rank).has_value();
}

void repeat_exchange(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                     std::uint64_t sequence, std::uint16_t past, std::span<PairTransfer> transfers,
                     std::span<PairTask> tasks) {
  std::size_t at = 0;
  for_each_message(call, rank, ranks, sequence, past,
                   [&](const PairTransfer& whole, std::uint32_t, const Task&) {
                     at = repeat_message(whole, sequence, at, transfers, tasks);
                   });
}

}  // namespace weft
