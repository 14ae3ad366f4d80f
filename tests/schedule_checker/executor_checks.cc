// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What an execution has left: results, traffic and bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "tests/schedule_checker/executor.h"

namespace weft::checker {

void Executor::compare_plans() {
  for (std::uint32_t rank = 1; rank < plans_.size(); ++rank) {
    if (*plans_[rank] == plan_) continue;
    verdict_.report.add(Rule::kAgreement,
                        fmt::format("rank {} has another plan than rank 0", rank));
    return;
  }
}

Due Executor::due(std::uint32_t call, std::uint32_t rank, std::uint64_t index) const {
  switch (plan_.task.operation) {
    case Operation::kBroadcast:
      return {.of_rank = plan_.task.root, .element = element(call, index)};
    case Operation::kAllGather:
    case Operation::kAllGatherV:
    case Operation::kGather:
      return {.of_rank = static_cast<std::uint32_t>(index / plan_.task.count),
              .element = element(call, index % plan_.task.count)};
    case Operation::kAllToAll:
      return {.of_rank = static_cast<std::uint32_t>(index / plan_.task.count),
              .element = element(call, rank * plan_.task.count + index % plan_.task.count)};
    case Operation::kScatter:
      return {.of_rank = plan_.task.root,
              .element = element(call, rank * plan_.task.count + index)};
    case Operation::kReduceScatter:
    case Operation::kReduceScatterV:
      index += rank * plan_.task.count;
      break;
    default:
      break;
  }
  // A rank alone copies.
  return {.element = element(call, index),
          .finished = plan_.task.reduction == WEFT_AVG && plan_.ranks > 1};
}

void Executor::check_results() {
  // A plan may promise more than its algorithm does.
  const Promise order = plan_.by_rank ? Promise::kByRank : bound().order;
  std::vector<Results> results;
  for (const ChannelPlan& channel : plan_.channels)
    results.emplace_back(expressions_, channel.ring, order);
  for (std::uint32_t call = 0; call < execution_.calls; ++call) {
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      if (has_output(rank) && !check_output(results, call, rank)) return;
    }
  }
}

bool Executor::check_output(std::vector<Results>& results, std::uint32_t call, std::uint32_t rank) {
  const std::uint64_t count = plan_.task.count;
  for (std::uint64_t first = 0; first < output_elements(); first += count) {
    for (std::size_t channel = 0; channel < results.size(); ++channel) {
      if (!is_executed(static_cast<std::uint32_t>(channel))) continue;
      const ChannelPlan& share = plan_.channels[channel];
      const Extent part{.offset = first + share.offset, .count = share.count};
      if (!check_part(results[channel], call, rank, part)) return false;
    }
  }
  return true;
}

bool Executor::check_part(Results& results, std::uint32_t call, std::uint32_t rank,
                          const Extent& part) {
  const Value* const output = output_of(call, rank);
  const bool all_alike = plan_.task.operation == Operation::kAllReduce;
  const Value* const other = all_alike ? output_of(call, 0) : nullptr;
  Due due = this->due(call, rank, part.offset);
  for (std::uint64_t i = part.offset; i < part.offset + part.count; ++i, ++due.element) {
    if (!is_due(rank, i)) {
      if (execution_.in_place || output[i] == make_nothing(Nothing::kUnwritten)) continue;
      verdict_.report.add(Rule::kWrongElement,
                          fmt::format("call {}, rank {}, element {} is behind its block and was "
                                      "written",
                                      call, rank, i));
      return false;
    }
    std::optional<Violation> violation;
    if (!results.is_as_before(output[i], due)) violation = results.judge(output[i], due);
    if (!violation && all_alike && expression_of(output[i]) != expression_of(other[i])) {
      violation = Violation{.rule = Rule::kAgreement, .text = "is not the sum that rank 0 has"};
    }
    if (violation) {
      verdict_.report.add(violation->rule, fmt::format("call {}, rank {}, element {} {}", call,
                                                       rank, i, violation->text));
      return false;
    }
    verdict_.measures.hops = std::max<std::uint64_t>(verdict_.measures.hops, hops_of(output[i]));
  }
  return true;
}

std::uint64_t Executor::direct_bytes(std::uint32_t rank) const {
  const Task& task = plan_.task;
  if (!is_exchange(task.operation)) return bytes_sent(plan_, 0, rank);
  // No plan announces them: a block to each rank that gets one.
  const bool to_all = task.operation == Operation::kAllToAll ||
                      (task.operation == Operation::kScatter && rank == task.root);
  const bool to_root = task.operation == Operation::kGather && rank != task.root;
  return (to_all ? plan_.ranks - 1 : to_root ? 1 : 0) * task.bytes();
}

void Executor::check_traffic() {
  const auto compare = [&](const char* what, std::uint32_t rank, std::size_t channel,
                           std::uint64_t moved, std::uint64_t announced) {
    if (moved == announced * execution_.calls || !verdict_.report.empty()) return;
    verdict_.report.add(Rule::kTraffic,
                        fmt::format("rank {} {} {} on channel {} in {} calls, the plan says {} "
                                    "for each",
                                    rank, what, moved, channel, execution_.calls, announced));
  };
  std::uint64_t bytes = 0;
  if (direct()) {
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      compare("sent bytes:", rank, 0, inboxes_->bytes(rank), direct_bytes(rank));
      bytes += inboxes_->bytes(rank);
    }
  }
  struct Moved {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Moved> moved(plan_.channels.size() * plan_.ranks);  // by channel, then by rank
  const auto of = [&](const Connection& connection, std::uint32_t rank) -> Moved& {
    return moved[std::size_t{connection.channel} * plan_.ranks + rank];
  };
  std::vector<std::uint64_t> far(plan_.ranks);  // bytes
  const auto& host_of = execution_.host_of;
  for (const Connection& connection : connections_.all()) {
    // Over a net there are two, the sender's and the receiver's.
    const bool of_sender = !nets_ || !nets_->is_net(connection.from);
    const bool of_receiver = !nets_ || !nets_->is_net(connection.to);
    if (of_receiver) of(connection, connection.to).received += connection.head;
    if (!of_sender) continue;
    Moved& from = of(connection, connection.from);
    from.sent += connection.tail;
    from.bytes += connection.bytes;
    // What goes by edges is never lent, and a net would send as much as slots say.
    if (goes_by_edges() && connection.announced != connection.bytes) {
      verdict_.report.add(
          Rule::kTraffic,
          fmt::format("rank {} fills {} bytes for rank {} in all, and says {}", connection.from,
                      connection.bytes, connection.to, connection.announced));
    }
    const std::uint64_t all = members_of(connection.channel) * connection.bytes;
    bytes += all;
    if (!host_of.empty() && host_of.at(connection.from) != host_of.at(connection.to)) {
      far[connection.from] += all;
    }
  }
  if (!connections_.all().empty()) {
    std::vector<std::uint64_t> sent(plan_.ranks);  // steps
    for (const std::uint32_t channel : kinds_.first) {
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        const Moved& of_rank = moved[std::size_t{channel} * plan_.ranks + rank];
        compare("sent steps:", rank, channel, of_rank.sent, steps_sent(plan_, channel, rank));
        compare("received steps:", rank, channel, of_rank.received,
                steps_received(plan_, channel, rank));
        compare("sent bytes:", rank, channel, of_rank.bytes, bytes_sent(plan_, channel, rank));
        sent[rank] += members_of(channel) * of_rank.sent;
      }
    }
    verdict_.measures.steps = std::ranges::max(sent) / execution_.calls;
  }
  verdict_.measures.most_far_bytes = std::ranges::max(far) / execution_.calls;
  verdict_.measures.bytes = bytes / execution_.calls;
}

void Executor::check_bound() {
  if (!execution_.declared && !bound_of(plan_.algorithm, plan_.task, plan_.ranks)) {
    verdict_.report.add(Rule::kBound, "the algorithm has no row in the table of bounds");
    return;
  }
  const Bound most = bound();
  const Measures& measured = verdict_.measures;
  if (measured.hops <= most.hops && measured.bytes <= most.bytes && measured.steps <= most.steps) {
    return;
  }
  verdict_.report.add(Rule::kBound,
                      fmt::format("{} hops, {} bytes and {} steps of a rank, where {}, {} and {} "
                                  "are promised",
                                  measured.hops, measured.bytes, measured.steps, most.hops,
                                  most.bytes, most.steps));
}

}  // namespace weft::checker
