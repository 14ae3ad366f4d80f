// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What people are told of how a communicator's calls go.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/comm/communicator.h"
#include "core/comm/exchange_plan.h"
#include "core/model/direct_peers.h"
#include "core/model/inbox_message.h"
#include "core/schedule/work_items.h"

namespace weft {

std::string Communicator::describe_pair(std::uint32_t a, std::uint32_t b) const {
  if (a >= ranks_ || b >= ranks_) return {};
  if (a == b) return "the same rank: memory";
  const auto choice = chooser_->choose(a, b);
  if (!choice) return "none: " + choice.error().what();
  return choice->plugin + ": " + choice->reason;
}

// As connections to it will, which need not be there yet.
bool Communicator::meets_in_host_memory(std::uint32_t peer) const {
  if (peer == rank_) return false;
  const auto wire = chooser_->wire(std::min(rank_, peer), std::max(rank_, peer));
  return wire && !wire->device_memory;
}

std::string Communicator::describe_launch(const Plan& plan) const {
  std::vector<WorkItem> items;
  for (std::size_t channel = 0; channel < plan.channels.size(); ++channel) {
    WorkItem& item = items.emplace_back(work_item(plan, channel, rank_));
    if (goes_directly(plan.algorithm)) item.direct = connections_->direct();
    if (plan.algorithm == Algorithm::kRing) {
      const RingPlace place = ring_place(plan, channel, rank_);
      item.from_previous.in_host_memory = meets_in_host_memory(place.previous);
      item.to_next.in_host_memory = meets_in_host_memory(place.next);
    }
  }
  std::string text = launch_text(runtime_.shape_of(items, plan.into_outputs));
  const std::uint32_t stripes = stripes_over_net(plan);
  if (!text.empty() && stripes > 1) {
    text += fmt::format("; messages over a net in {} stripes", stripes);
  }
  return text;
}

// Of its messages between inboxes.
std::uint32_t Communicator::stripes_over_net(const Plan& plan) const {
  if (reach_ != Reach::kMessages || !goes_directly(plan.algorithm)) return 1;
  const auto lines = static_cast<std::uint32_t>(direct_lines(plan.task.bytes()) - 1);
  return stripes_of(lines, inbox_stripes());
}

std::vector<NetEdge> Communicator::hops(const Plan& plan) const {
  return hops_of(plan, stripes_over_net(plan));
}

std::uint64_t Communicator::copied_from(const Task& task) const {
  if (task.options.names_way()) return 0;
  return may_go_through_windows() && copied_output(task, ranks_) != 0 ? least_copied_ : 0;
}

std::uint64_t Communicator::reduced_from(const Task& task) const {
  if (task.options.names_way()) return 0;
  return may_go_through_windows() && reduced_input(task, ranks_) != 0 ? least_reduced_ : 0;
}

// Rank `rank`'s, as this rank's device would launch it; its transfers are not made.
WorkItem Communicator::exchange_item(const ExchangePlan& plan, std::uint32_t rank) const {
  WorkItem item;
  item.operation = plan.task.operation;
  item.type = plan.task.type;
  item.ranks = ranks_;
  item.count = plan.task.count;
  if (const auto lines = inbox_protocol(plan.task, plan.ways.inboxes)) {
    item.algorithm = Algorithm::kDirect;
    item.protocol = *lines;
    if (*lines == Protocol::kLL128) item.chunk = wide_chunk(item.type);
    item.direct = connections_->direct();
    if (plan.task.options.max_channels != 0) item.most_parts = plan.task.options.max_channels;
  } else {
    item.algorithm = Algorithm::kPair;
    const std::uint32_t ends = pair_ends_of(plan, rank);
    item.most_parts = std::min(ends, pair_parts_);
    if (plan.task.options.max_channels != 0) {
      item.most_parts = std::min(item.most_parts, plan.task.options.max_channels);
    } else if (!is_bounded_ && own_processors_ && ends <= kMostPackedPairs) {
      item.transfer_count = ends;
    }
  }
  return item;
}

ExchangePlan Communicator::explain_exchange(std::span<const Call> calls) const {
  if (!runtime_.reports_ends()) {
    const Task& task = calls.front().task;
    const bool sends = joins_pair(task.operation);
    const ExchangeWays ways{.spread = sends ? pair_ends_.spread : exchange_ends_.spread,
                            .inboxes = sends ? InboxExchanges{} : inbox_exchanges_,
                            .window_bytes = copied_from(task)};
    ExchangePlan plan = plan_exchange(calls, sends ? slots_of_pairs() : slots_of_exchanges(), ways);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const WorkItem item = exchange_item(plan, rank);
      plan.launches.push_back(item.algorithm == Algorithm::kPair && item.most_parts == 0
                                  ? LaunchShape{}
                                  : runtime_.shape_of({&item, 1}, false));
    }
    return plan;
  }
  const auto reads = [this](std::uint32_t from, std::uint32_t to) {
    return chooser_->wire(std::min(from, to), std::max(from, to)).value_or(PairWire{}).single_copy;
  };
  return plan_exchange(calls, slots_of_pairs(), {.spread = exchange_ends_.spread}, reads);
}

std::vector<std::string> Communicator::describe_net_edges(std::span<const NetEdge> edges) const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<NetEdge>> alike;
  for (const NetEdge& edge : edges)
    alike[{edge.from, edge.to}].push_back(edge);
  std::vector<std::string> lines;
  for (const auto& [ranks, of_these] : alike) {
    const auto& [from, to] = ranks;
    const auto choice = chooser_->choose(std::min(from, to), std::max(from, to));
    if (!choice || choice->kind != PluginKind::kNet) continue;
    lines.push_back(fmt::format("{} from rank {} to rank {}: {}", choice->plugin, from, to,
                                describe_devices(*choice_, choice->plugin, of_these)));
  }
  return lines;
}

}  // namespace weft
