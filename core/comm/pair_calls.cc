// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/pair_calls.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

namespace weft {
namespace {

bool sends(const Call& call) {
  return call.task.operation == Operation::kSend;
}

}  // namespace

Status check_own(std::span<const Call* const> calls, std::uint32_t rank) {
  // The next that is sent to itself, and the next received; the first goes with the first.
  std::size_t places[2] = {0, 0};
  const auto next = [&](bool is_send) -> const Call* {
    std::size_t& place = places[is_send ? 0 : 1];
    while (place < calls.size()) {
      const Call* const call = calls[place++];
      // Without elements it meets nobody, as between two ranks.
      if (call->task.count == 0) continue;
      if (call->task.root == rank && sends(*call) == is_send) return call;
    }
    return nullptr;
  };
  while (true) {
    const Call* const sent = next(true);
    const Call* const received = next(false);
    if (sent == nullptr && received == nullptr) return {};
    if (sent == nullptr || received == nullptr) {
      return fail(WEFT_ERROR_INVALID_USAGE,
                  fmt::format("rank {} {} itself and does not {} in the same group", rank,
                              sent != nullptr ? "sends to" : "receives from",
                              sent != nullptr ? "receive" : "send"),
                  "put both between weft_group_start and weft_group_end");
    }
    const Task& one = sent->task;
    const Task& other = received->task;
    if (one.type != other.type || one.count != other.count) {
      return fail(WEFT_ERROR_MISMATCH,
                  fmt::format("rank {} sends {} {} to itself and receives {} {}", rank, one.count,
                              data_type_name(one.type), other.count, data_type_name(other.type)),
                  "make both halves alike");
    }
  }
}

// Parts end where a line of memory does, so that a part is aligned as the whole is.
PairCut cut_message(std::uint64_t bytes, const PairSpread& spread) {
  constexpr std::uint64_t kGrain = 128;
  const auto parts_of = [bytes](std::uint64_t wanted) {
    const std::uint64_t even = (bytes + wanted - 1) / wanted;
    return (even + kGrain - 1) / kGrain * kGrain;
  };
  const auto count_of = [bytes](std::uint64_t part) {
    return static_cast<std::uint32_t>((bytes + part - 1) / part);
  };
  if (bytes <= spread.line_bytes * spread.line_channels) {
    const std::uint64_t wanted =
        std::max<std::uint64_t>(bytes / spread.least_line_bytes, count_of(spread.line_bytes));
    const std::uint64_t part = parts_of(std::min<std::uint64_t>(wanted, spread.line_channels));
    return {.channels = 0, .part_bytes = part, .line_channels = count_of(part)};
  }
  if (bytes <= spread.most_wide_bytes) {
    const std::uint64_t wanted =
        std::clamp<std::uint64_t>(bytes / spread.least_wide_part_bytes, 1, spread.wide_channels);
    const std::uint64_t part = parts_of(wanted);
    return {.channels = count_of(part),
            .first_channel = kPairWideChannel - kPairChannel,
            .part_bytes = part,
            .line_channels = 1};
  }
  const std::uint64_t few =
      std::min<std::uint64_t>(bytes / spread.least_bytes, spread.few_channels);
  const std::uint64_t many =
      spread.least_bytes_of_many == 0 ? 0 : bytes / spread.least_bytes_of_many;
  const std::uint64_t wanted = std::clamp<std::uint64_t>(std::max(few, many), 1, spread.channels);
  const std::uint64_t part = parts_of(wanted);
  return {.channels = count_of(part),
          .first_channel = spread.first_channel,
          .part_bytes = part,
          .line_channels = spread.line_bytes == 0 ? 0U : 1U};
}

PairNumbers::Direction& PairNumbers::direction_of(const Task& task) {
  auto& directions = task.operation == Operation::kSend ? sent_ : received_;
  if (task.root >= directions.size()) directions.resize(task.root + std::size_t{1});
  return directions[task.root];
}

std::uint32_t PairNumbers::follow(Direction& direction, std::uint32_t channel,
                                  std::uint32_t transfer) const {
  std::vector<Latest>& by_channel = direction.latest;
  if (channel >= by_channel.size()) by_channel.resize(channel + std::size_t{1});
  Latest& latest = by_channel[channel];
  const std::uint32_t before = latest.launch == launch_ ? latest.transfer : kNoTransfer;
  latest = {.launch = launch_, .transfer = transfer};
  return before;
}

OperationTag PairNumbers::add(Direction& direction, const Task& task, std::uint32_t rank) {
  const bool is_send = task.operation == Operation::kSend;
  return make_operation_tag({.operation = Operation::kSend,
                             .type = task.type,
                             .reduction = WEFT_SUM,
                             .root = is_send ? task.root : rank,
                             .count = task.count},
                            ++direction.calls);
}

void add_connection(const ConnectionEnd& end, const PairSpread& spread, PairTransfer& transfer,
                    std::vector<PairMessage>& messages) {
  transfer.view = end.view;
  transfer.place = end.place;
  if (end.peer_memory.plugin != nullptr && transfer.bytes >= spread.least_lent_bytes) {
    transfer.payload = PairPayload::kLent;
  }
  if (end.port == nullptr) return;
  const bool by_lines = end.line_view.connected() && transfer.bytes <= spread.most_by_lines_of_net;
  if (by_lines) {
    transfer.view = end.line_view;
    transfer.place = end.line_place;
    transfer.payload = PairPayload::kLines;
  }
  const std::uint64_t step = by_lines ? transfer.bytes : end.view.step_bytes;
  messages.push_back({.port = end.port,
                      .operation = {.connection = end.port_connection,
                                    .reserved = 0,
                                    .steps = (transfer.bytes + step - 1) / step,
                                    .by_lines = by_lines}});
}

void make_transfers(std::span<const Call* const> calls, std::uint32_t rank, PairNumbers& numbers,
                    const PairEnds& ends, std::vector<PairTransfer>& transfers,
                    std::vector<PairMessage>& messages, std::vector<PairTask>& tasks) {
  numbers.begin_launch();
  // Copies within the rank before these have their receive, their send: the first made is the first
  // completed.
  std::size_t complete[2] = {0, 0};
  for (const Call* call : calls) {
    const Task& task = call->task;
    if (task.count == 0) continue;
    const bool is_send = sends(*call);
    PairTransfer whole;
    whole.bytes = task.bytes();
    if (task.root == rank) {
      std::size_t& place = complete[is_send ? 1 : 0];
      const auto lacks_this = [&](std::size_t i) {
        return tasks[i].root == rank &&
               (is_send ? transfers[i].from == nullptr : transfers[i].to == nullptr);
      };
      while (place < transfers.size() && !lacks_this(place))
        ++place;
      if (place == transfers.size()) {
        transfers.push_back(whole);
        tasks.push_back({task});
      }
      if (is_send) {
        transfers[place].from = static_cast<const std::byte*>(call->send);
      } else {
        transfers[place].to = static_cast<std::byte*>(call->recv);
      }
      continue;
    }
    if (is_send) whole.from = static_cast<const std::byte*>(call->send);
    if (!is_send) whole.to = static_cast<std::byte*>(call->recv);
    PairNumbers::Direction& direction = numbers.direction_of(task);
    whole.tag = PairNumbers::add(direction, task, rank);
    const std::size_t first = tasks.size();
    add_parts(whole, task.root, ends, messages, [&](PairTransfer& part, std::uint32_t channel) {
      part.after = numbers.follow(direction, channel, static_cast<std::uint32_t>(transfers.size()));
      transfers.push_back(part);
      tasks.push_back({task, direction.calls});
    });
    tasks[first].parts = static_cast<std::uint32_t>(tasks.size() - first);
  }
}

bool can_repeat(std::span<const PairTransfer> transfers) {
  return std::ranges::all_of(transfers, [](const auto& transfer) {
    return transfer.view.connected() && transfer.after == kNoTransfer;
  });
}

bool are_tasks_of(std::span<const Call* const> calls, std::span<const PairTask> tasks) {
  std::size_t at = 0;
  for (const Call* call : calls) {
    if (at == tasks.size()) return false;
    const Task& known = tasks[at];
    if (call->task != known) return false;
    at += tasks[at].parts;
  }
  return at == tasks.size();
}

void repeat_transfers(std::span<const Call* const> calls, std::uint32_t rank, PairNumbers& numbers,
                      std::span<PairTransfer> transfers, std::span<PairTask> tasks) {
  std::size_t at = 0;
  for (const Call* call : calls) {
    PairNumbers::Direction& direction = numbers.direction_of(call->task);
    PairTransfer whole;
    if (sends(*call)) whole.from = static_cast<const std::byte*>(call->send);
    if (!sends(*call)) whole.to = static_cast<std::byte*>(call->recv);
    whole.tag = PairNumbers::add(direction, call->task, rank);
    at = repeat_message(whole, direction.calls, at, transfers, tasks);
  }
}

std::size_t repeat_message(const PairTransfer& whole, std::uint64_t number, std::size_t first,
                           std::span<PairTransfer> transfers, std::span<PairTask> tasks) {
  const std::size_t end = first + tasks[first].parts;
  std::uint64_t begin = 0;
  for (std::size_t at = first; at != end; ++at) {
    PairTransfer& transfer = transfers[at];
    transfer.tag = whole.tag;
    tasks[at].number = number;
    if (whole.from != nullptr) transfer.from = whole.from + begin;
    if (whole.to != nullptr) transfer.to = whole.to + begin;
    begin += transfer.bytes;
    std::atomic_ref(transfer.complete).store(0, std::memory_order_relaxed);
    transfer.taken = 0;
    transfer.moved = 0;
  }
  return end;
}

WorkItem pair_item(std::span<PairTransfer> transfers, std::uint32_t ranks,
                   std::uint32_t most_parts) {
  WorkItem item;
  item.operation = Operation::kSend;
  item.algorithm = Algorithm::kPair;
  item.ranks = ranks;
  item.transfers = transfers.data();
  item.transfer_count = static_cast<std::uint32_t>(transfers.size());
  item.most_parts = most_parts;
  return item;
}

}  // namespace weft
