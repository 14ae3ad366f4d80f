// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/bound_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/model/step_lines.h"
#include "core/schedule/work_items.h"
#include "core/transport/net_port.h"

namespace weft {
namespace {

std::uint32_t line_channel(const Plan& plan, std::size_t channel) {
  const std::uint32_t first = plan.protocol == Protocol::kLL ? kFirstLLChannel : kFirstLL128Channel;
  return first + static_cast<std::uint32_t>(channel);
}

std::uint32_t ring_channel(const Plan& plan, std::size_t channel) {
  if (plan.small_slots) return kFirstSmallChannel + static_cast<std::uint32_t>(channel);
  return has_lines(plan.protocol) ? line_channel(plan, channel) : plan.channels[channel].index;
}

// By lines and by small slots trees have the edges that rings have.
std::uint32_t tree_channel(const Plan& plan, std::size_t channel) {
  return has_lines(plan.protocol) || plan.small_slots
             ? ring_channel(plan, channel)
             : kFirstTreeChannel + static_cast<std::uint32_t>(channel);
}

// To whom a rank sends on a channel; itself may be among them, and others several times.
std::vector<std::uint32_t> receivers_of(const Plan& plan, std::size_t channel, std::uint32_t rank) {
  const Task& task = plan.task;
  std::vector<std::uint32_t> to;
  if (plan.algorithm == Algorithm::kRing) {
    if (steps_sent(plan, channel, rank) != 0) to = {ring_place(plan, channel, rank).next};
  } else if (plan.algorithm == Algorithm::kTree) {
    const TreePlace place = tree_place(plan, channel, rank);
    if (comes_down(task.operation)) to = place.children;
    if (goes_up(task.operation)) to.push_back(place.parent);
  } else if (plan.algorithm == Algorithm::kPat) {
    const PatPlace place = pat_place(plan, channel, rank);
    const Operation moved = pat_operation(plan);
    if (pat_gathers(moved)) to = place.ahead;
    if (pat_scatters(moved)) to.insert(to.end(), place.behind.begin(), place.behind.end());
  } else if (plan.algorithm == Algorithm::kChain) {
    if (rank + 1 < plan.ranks && chain_steps_up(plan, channel) != 0) to.push_back(rank + 1);
    if (rank != 0 && chain_steps_down(plan, channel, rank - 1) != 0) to.push_back(rank - 1);
  } else if (task.operation == Operation::kReduce) {
    to = {task.root};
  } else if (!has_root(task.operation) || rank == task.root) {
    to.resize(plan.ranks);
    std::iota(to.begin(), to.end(), 0U);
  }
  return to;
}

}  // namespace

std::vector<PairLink> inbox_links(std::span<const std::uint32_t> stripes, std::uint32_t rank) {
  std::vector<PairLink> links;
  for (std::uint32_t peer = 0; peer < stripes.size(); ++peer) {
    if (peer == rank) continue;
    for (std::uint32_t stripe = 0; stripe < stripes[peer]; ++stripe)
      links.push_back({.peer = peer, .channel = inbox_channel(stripe)});
  }
  return links;
}

// Calls that may write into outputs agree on that through inboxes.
std::vector<PairLink> links_of(const Plan& plan, std::uint32_t rank,
                               std::span<const PairLink> inboxes) {
  std::vector<PairLink> edges;
  if (plan.ranks < 2) return edges;
  if (goes_directly(plan.algorithm) || plan.into_outputs)
    edges.assign(inboxes.begin(), inboxes.end());
  if (goes_directly(plan.algorithm)) return edges;
  const bool pat = plan.algorithm == Algorithm::kPat;
  const bool chain = plan.algorithm == Algorithm::kChain;
  const bool ring = plan.algorithm == Algorithm::kRing;
  for (std::uint32_t i = 0; i < plan.channels.size(); ++i) {
    if (ring) {
      const RingPlace place = ring_place(plan, i, rank);
      edges.push_back({.peer = place.previous, .channel = ring_channel(plan, i)});
      if (place.next != place.previous) {
        edges.push_back({.peer = place.next, .channel = ring_channel(plan, i)});
      }
      continue;
    }
    const std::uint32_t channel = tree_channel(plan, i);
    if (pat) {
      const PatPlace place = pat_place(plan, i, rank);
      for (const std::uint32_t peer : place.ahead)
        edges.push_back({.peer = peer, .channel = channel});
      for (const std::uint32_t peer : place.behind)
        edges.push_back({.peer = peer, .channel = channel});
      continue;
    }
    if (chain) {
      if (rank + 1 < plan.ranks) edges.push_back({.peer = rank + 1, .channel = channel});
      if (rank != 0) edges.push_back({.peer = rank - 1, .channel = channel});
      continue;
    }
    const TreePlace place = tree_place(plan, i, rank);
    if (!place.root) edges.push_back({.peer = place.parent, .channel = channel});
    for (const std::uint32_t child : place.children)
      edges.push_back({.peer = child, .channel = channel});
  }
  return edges;
}

std::vector<NetEdge> hops_of(const Plan& plan, std::uint32_t stripes) {
  const bool by_inboxes = goes_directly(plan.algorithm);
  const auto channel_of = [&](std::uint32_t i, std::uint32_t stripe) {
    if (by_inboxes) return inbox_channel(stripe);
    return plan.algorithm == Algorithm::kRing ? plan.channels[i].index : kFirstTreeChannel + i;
  };
  std::vector<NetEdge> hops;
  for (std::uint32_t i = 0; i < plan.channels.size(); ++i) {
    for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
      const std::vector<std::uint32_t> receivers = receivers_of(plan, i, rank);
      for (const std::uint32_t to : std::set(receivers.begin(), receivers.end())) {
        if (to == rank) continue;
        for (std::uint32_t stripe = 0; stripe < (by_inboxes ? stripes : 1); ++stripe)
          hops.push_back({.channel = channel_of(i, stripe), .from = rank, .to = to});
      }
    }
  }
  return hops;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> joined_pairs(std::span<const NetEdge> hops) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const NetEdge& hop : hops)
    pairs.emplace(std::minmax(hop.from, hop.to));
  return {pairs.begin(), pairs.end()};
}

namespace {

using FindPair = std::function<const PairConnections&(const PairLink& link)>;

struct RingEnds {
  const ConnectionEnd& from;
  const ConnectionEnd& to;
};
RingEnds ring_ends(const Plan& plan, std::size_t channel, std::uint32_t rank,
                   const FindPair& pair) {
  const RingPlace place = ring_place(plan, channel, rank);
  const std::uint32_t number = ring_channel(plan, channel);
  return {.from = pair({.peer = place.previous, .channel = number}).from,
          .to = pair({.peer = place.next, .channel = number}).to};
}

}  // namespace

std::vector<RingLinks> ring_links(const Plan& plan, std::uint32_t rank, const FindPair& pair) {
  std::vector<RingLinks> links;
  if (plan.algorithm != Algorithm::kRing || plan.ranks < 2) return links;
  for (std::size_t i = 0; i < plan.channels.size(); ++i) {
    const auto [from, to] = ring_ends(plan, i, rank, pair);
    links.push_back({.from_previous = from.view, .to_next = to.view});
  }
  return links;
}

BoundPlan::BoundPlan(std::shared_ptr<const Plan> plan, std::uint32_t rank, const Ends& ends)
    : plan_(std::move(plan)),
      tag_(make_operation_tag(plan_->task, 0)),
      tables_(ends.tables),
      links_(ends.links) {
  if (tables_ == nullptr) {
    if (plan_->algorithm == Algorithm::kTree) trees_.reserve(plan_->channels.size());
    if (plan_->algorithm == Algorithm::kChain) chains_.reserve(plan_->channels.size());
    if (plan_->algorithm == Algorithm::kPat) pats_.reserve(plan_->channels.size());
  }
  for (std::size_t i = 0; i < plan_->channels.size(); ++i) {
    WorkItem item = work_item(*plan_, i, rank);
    if (tables_ != nullptr) {
      item.ring = tables_->ring(i);
      item.blocks = tables_->blocks(i);
    } else if (!plan_->blocks.empty()) {
      blocks_.push_back(channel_blocks(*plan_, i));
      item.blocks = blocks_.back().data();  // stays where it is when blocks_ grows
    }
    if (goes_directly(plan_->algorithm)) {
      item.direct = ends.direct;
    } else if (plan_->algorithm == Algorithm::kTree) {
      add_tree(i, rank, ends, item);
    } else if (plan_->algorithm == Algorithm::kChain) {
      add_chain(i, rank, ends, item);
    } else if (plan_->algorithm == Algorithm::kPat) {
      add_pat(i, rank, ends, item);
    } else if (plan_->ranks > 1) {
      add_ring(i, rank, ends, item);
    }
    items_.push_back(item);
  }
  if (!ends.packs_items) return;
  packed_ = std::make_unique<PackedItems>();
  pack_items(*plan_, items_, links_ == nullptr ? nullptr : links_->entries(), *packed_);
}

void BoundPlan::add_message(const ConnectionEnd& end, std::uint64_t steps,
                            const LandingWalk& landing, std::size_t channel) {
  if (end.port == nullptr || steps == 0) return;
  auto found = std::ranges::find(messages_, end.port, &PortWork::port);
  if (found == messages_.end()) {
    messages_.push_back({.port = end.port, .operations = {}, .channels = {}});
    found = messages_.end() - 1;
  }
  found->operations.push_back(
      {.connection = end.port_connection, .reserved = 0, .steps = steps, .landing = landing});
  found->channels.push_back(channel);
}

// Where the device reads them: in the tables, or in `own`, which has room for those of all
// channels.
template <class Links>
const Links* BoundPlan::keep(std::size_t channel, const Links& links, std::vector<Links>& own) {
  if (tables_ != nullptr) return tables_->put_links(channel, links);
  own.push_back(links);
  return &own.back();
}

void BoundPlan::add_tree(std::size_t channel, std::uint32_t rank, const Ends& ends,
                         WorkItem& item) {
  const TreePlace place = tree_place(*plan_, channel, rank);
  const std::uint64_t steps = tree_steps(plan_->channels[channel]);
  const bool up = goes_up(plan_->task.operation);
  const bool down = comes_down(plan_->task.operation);
  const auto pair = [&](std::uint32_t peer) -> const PairConnections& {
    return ends.pair({.peer = peer, .channel = tree_channel(*plan_, channel)});
  };
  item.tree = keep(channel,
                   tree_links(
                       place, [&](std::uint32_t peer) { return pair(peer).to.view; },
                       [&](std::uint32_t peer) { return pair(peer).from.view; }),
                   trees_);
  const auto add = [&](std::uint32_t peer, bool sends, bool receives) {
    if (sends) add_message(pair(peer).to, steps, {}, channel);
    if (receives) add_message(pair(peer).from, steps, {}, channel);
  };
  if (!place.root) add(place.parent, up, down);
  for (const std::uint32_t child : place.children)
    add(child, down, up);
}

void BoundPlan::add_chain(std::size_t channel, std::uint32_t rank, const Ends& ends,
                          WorkItem& item) {
  const auto pair = [&](std::uint32_t peer) -> const PairConnections& {
    return ends.pair(
        {.peer = peer, .channel = kFirstTreeChannel + static_cast<std::uint32_t>(channel)});
  };
  item.chain = keep(channel,
                    chain_links(
                        rank, plan_->ranks, plan_->task.root,
                        [&](std::uint32_t peer) { return pair(peer).to.view; },
                        [&](std::uint32_t peer) { return pair(peer).from.view; }),
                    chains_);
  const std::uint64_t up = chain_steps_up(*plan_, channel);
  if (rank + 1 < plan_->ranks) {
    add_message(pair(rank + 1).to, up, {}, channel);
    add_message(pair(rank + 1).from, chain_steps_down(*plan_, channel, rank), {}, channel);
  }
  if (rank != 0) {
    add_message(pair(rank - 1).from, up, {}, channel);
    add_message(pair(rank - 1).to, chain_steps_down(*plan_, channel, rank - 1), {}, channel);
  }
}

void BoundPlan::add_ring(std::size_t channel, std::uint32_t rank, const Ends& ends,
                         WorkItem& item) {
  const auto [from, to] = ring_ends(*plan_, channel, rank, ends.pair);
  item.from_previous = from.view;
  item.to_next = to.view;
  add_message(to, steps_sent(*plan_, channel, rank), {}, channel);
  add_message(from, steps_received(*plan_, channel, rank), landing_of(item), channel);
}

void BoundPlan::add_pat(std::size_t channel, std::uint32_t rank, const Ends& ends, WorkItem& item) {
  const PatPlace place = pat_place(*plan_, channel, rank);
  const ChannelPlan& share = plan_->channels[channel];
  const PatRound round = pat_round_of(*plan_, share);
  const auto pair = [&](std::uint32_t peer) -> const PairConnections& {
    return ends.pair(
        {.peer = peer, .channel = kFirstTreeChannel + static_cast<std::uint32_t>(channel)});
  };
  item.pat =
      keep(channel,
           pat_links(
               pat_operation(*plan_), place, [&](std::uint32_t peer) { return pair(peer).to.view; },
               [&](std::uint32_t peer) { return pair(peer).from.view; }),
           pats_);
  for (std::uint32_t level = 0; level < round.levels(); ++level) {
    const std::uint64_t steps = pat_rounds(*plan_, share) * round.messages_over(level);
    const auto add = [&](std::uint32_t to, std::uint32_t from) {
      add_message(pair(to).to, steps, {}, channel);
      add_message(pair(from).from, steps, {}, channel);
    };
    if (pat_scatters(pat_operation(*plan_))) add(place.behind[level], place.ahead[level]);
    if (pat_gathers(pat_operation(*plan_))) add(place.ahead[level], place.behind[level]);
  }
}

void BoundPlan::set_call(const void* send, void* recv, const Factor& factor, OperationTag tag,
                         std::span<WorkItem> items) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    weft::set_call(*plan_, i, send, recv, tag, items[i]);
    items[i].factor = factor;
  }
}

void BoundPlan::enqueue_messages(std::span<const WorkItem> items) {
  for (PortWork& work : messages_) {
    for (std::size_t i = 0; i < work.operations.size(); ++i)
      work.operations[i].landing.output = items[work.channels[i]].recv;
    work.port->enqueue(work.operations);
  }
}

}  // namespace weft
