// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The connections that calls need and that are made when they are first needed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "core/comm/bound_plan.h"
#include "core/comm/call_history.h"
#include "core/comm/co_residency.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/exchange.h"
#include "core/comm/pair_calls.h"
#include "core/config/units.h"
#include "core/transport/channels.h"
#include "core/transport/net_devices.h"

namespace weft {
namespace {

template <class Needs>
std::vector<PairLink> each_once(const Needs& needs) {
  std::vector<PairLink> links;
  links.reserve(needs.size());
  for (const auto& need : needs)
    links.push_back(need.link);
  std::ranges::sort(links);
  const auto twice = std::ranges::unique(links);
  links.erase(twice.begin(), twice.end());
  return links;
}

}  // namespace

const PairConnections* Communicator::partner(std::uint32_t rank, std::uint32_t channel) {
  const PairSpread& spread = pair_ends_.spread;
  const std::size_t lines = spread.channels;
  const std::size_t exchanges = lines + spread.line_channels;
  const PairSpread& of_exchanges = exchange_ends_.spread;
  const std::size_t wide =
      exchanges + (of_exchanges.first_channel == 0 ? 0 : of_exchanges.channels);
  const std::size_t channels = wide + spread.wide_channels;
  if (partners_.empty()) {
    partners_.resize(ranks_ * channels);
    // Ends that small parts go over may have two, one of them of lines.
    const std::size_t views =
        channels + (spread.most_by_lines_of_net == 0 ? 0 : spread.few_channels);
    pair_views_.expect(2 * views * (ranks_ - 1));
  }
  const std::uint32_t number = kPairChannel + channel;
  const std::size_t place = is_of_pair_wide_lines(number) ? wide + (number - kPairWideChannel)
                            : is_of_exchanges(number)     ? exchanges + (number - kExchangeChannel)
                            : is_of_pair_lines(number)    ? lines + (number - kPairLineChannel)
                                                          : channel;
  const PairConnections*& known = partners_[rank * channels + place];
  if (known == nullptr) known = keep_partner(pairs_->find({.peer = rank, .channel = number}));
  return known;
}

// Of a device whose kernels find views at places, those of both ends.
const PairConnections* Communicator::keep_partner(const PairConnections* pair) {
  if (pair == nullptr || runtime_.reports_ends()) return pair;
  PairConnections& placed = placed_partners_.emplace_back(*pair);
  for (ConnectionEnd* const end : {&placed.to, &placed.from}) {
    end->place = pair_views_.add(end->view);
    if (end->line_view.connected()) end->line_place = pair_views_.add(end->line_view);
  }
  return &placed;
}

// Whether all channels are connected that a message of so many bytes takes.
bool Communicator::is_joined(std::uint32_t rank, std::uint64_t bytes, const PairSpread& spread) {
  bool joined = true;
  for_each_channel(cut_message(bytes, spread), [&](std::uint32_t channel) {
    joined = joined && partner(rank, channel) != nullptr;
  });
  return joined;
}

// Bytes of the two messages between this rank and another one; what one sends the other receives,
// so both ask for the same channels.
std::array<std::uint64_t, 2> Communicator::bytes_with(const Call& call, std::uint32_t other) const {
  if (other == rank_) return {};
  const std::uint64_t element = element_size(call.task.type);
  return {element * block_sent(call, rank_, other).count,
          element * block_received(call, rank_, other).count};
}

// Of messages that a net carries. CPUs have none of lines.
std::uint32_t Communicator::inbox_stripes() const {
  if (runtime_.reports_ends()) return 1;
  const auto wanted = static_cast<std::uint32_t>(config_.integer("transports.net_stripes"));
  return wanted != 0 ? wanted : std::min(net_stripes(topology_), kMostInboxStripes);
}

std::vector<PairLink> Communicator::find_inbox_links() const {
  std::vector<std::uint32_t> stripes(ranks_, 1);
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
    const bool by_net = peer != rank_ && choice_with(peer).kind == PluginKind::kNet;
    if (by_net) stripes[peer] = inbox_stripes();
  }
  return inbox_links(stripes, rank_);
}

bool Communicator::has_inboxes() {
  has_inboxes_ = has_inboxes_ || pairs_->are_connected(inbox_links_);
  return has_inboxes_;
}

bool Communicator::is_connected(const Call& call) {
  if (is_empty(call)) return true;
  if (joins_pair(call.task.operation)) {
    return call.task.root != rank_ &&
           is_joined(call.task.root, call.task.bytes(), pair_ends_.spread);
  }
  if (goes_by_inboxes(call.task) || goes_through_windows(call)) return has_inboxes();
  if (is_exchange(call.task.operation)) {
    if (repeats_exchange(call)) return true;
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      for (const std::uint64_t bytes : bytes_with(call, other)) {
        if (bytes != 0 && !is_joined(other, bytes, exchange_ends_.spread)) return false;
      }
    }
    return true;
  }
  const auto planned = find_plan(call);
  if (!planned) return false;
  const std::vector<PairLink>& links = (*planned)->links;
  return (*planned)->bound != nullptr || links.empty() || pairs_->are_connected(links);
}

Result<std::vector<Communicator::Need>> Communicator::needs_of(std::span<const Call* const> calls,
                                                               std::uint64_t ahead) {
  std::vector<Need> needs;
  const auto add_message = [&](std::uint32_t other, std::uint64_t bytes, const PairSpread& spread,
                               const CallNote& note) {
    if (bytes == 0) return;
    for_each_channel(cut_message(bytes, spread), [&](std::uint32_t channel) {
      needs.push_back({.link = {.peer = other, .channel = kPairChannel + channel}, .call = note});
    });
  };
  for (const Call* call : calls) {
    const Task& task = call->task;
    if (is_empty(*call)) continue;
    if (joins_pair(task.operation)) {
      if (task.root == rank_) continue;
      add_message(task.root, task.bytes(), pair_ends_.spread, make_call_note(task, 0));
      continue;
    }
    const CallNote note = make_call_note(task, history_.latest() + 1 + ahead);
    if (goes_by_inboxes(task) || goes_through_windows(*call)) {
      for (const PairLink& link : inbox_links_)
        needs.push_back({.link = link, .call = note});
      continue;
    }
    if (is_exchange(task.operation)) {
      for (std::uint32_t other = 0; other < ranks_; ++other) {
        for (const std::uint64_t bytes : bytes_with(*call, other))
          add_message(other, bytes, exchange_ends_.spread, note);
      }
      continue;
    }
    WEFT_TRY_ASSIGN(const Planned* const planned, find_plan(*call));
    for (const PairLink& link : planned->links)
      needs.push_back({.link = link, .call = note});
  }
  return needs;
}

bool Communicator::are_connected(std::span<const Call* const> calls) {
  return std::ranges::all_of(calls, [&](const Call* call) {
    const bool is_own = joins_pair(call->task.operation) && call->task.root == rank_;
    return is_own || is_connected(*call);
  });
}

Status Communicator::check_pairs(std::span<const Call* const> calls) const {
  return joins_pair(calls.front()->task.operation) ? check_own(calls, rank_) : Status{};
}

Status Communicator::want_connections(std::span<const Call* const> calls) {
  WEFT_TRY_ASSIGN(const auto needs, needs_of(calls, 0));
  if (!needs.empty()) pairs_->want(each_once(needs));
  return {};
}

void Communicator::say_who_is_not_connected(std::span<const Need> needs,
                                            std::chrono::nanoseconds waited) {
  constexpr std::size_t kMostNamed = 32;
  std::set<std::uint32_t> peers;
  const Need* first = nullptr;
  for (const Need& need : needs) {
    if (peers.size() == kMostNamed) break;
    if (pairs_->find(need.link) != nullptr) continue;
    if (first == nullptr) first = &need;
    peers.insert(need.link.peer);
  }
  if (first == nullptr) return;
  context_.logger().warn(Topic::kComm,
                         "rank {} of {} has waited {} to be connected with rank{} {} for {}", rank_,
                         ranks_, print_duration(waited), peers.size() == 1 ? "" : "s",
                         fmt::join(peers, ", "), describe_call(first->call));
}

Status Communicator::wait_for_connections(std::span<const Call* const> calls, std::uint64_t ahead) {
  WEFT_TRY_ASSIGN(const auto needs, needs_of(calls, ahead));
  if (needs.empty()) return {};
  // Who left before it was connected will never be; but who has done all and left may be a step
  // ahead of this end.
  const auto look_for_partners = [&](bool ask) {
    // In this order: who comes up is connected next, and may leave then.
    const std::vector<Departure> departed = bootstrap_->departed_neighbours();
    for (const Need& need : needs) {
      if (pairs_->comes_up(need.link) || pairs_->find(need.link) != nullptr) continue;
      look_for_leavers(departed, rank_, need.call);
      if (ask) bootstrap_->ask(encode_call_note(need.call));
    }
  };
  look_for_partners(false);
  const auto limit = config_.duration("timeouts.bootstrap");
  const auto report_after = config_.duration("timeouts.report");
  Deadline report = report_after ? Deadline::after(*report_after) : Deadline::never();
  Deadline next_question = Deadline::after(std::chrono::seconds(1));
  const Status connected =
      pairs_->wait(each_once(needs), limit ? Deadline::after(*limit) : Deadline::never(), [&] {
        if (next_question.passed()) {
          look_for_partners(true);
          next_question = Deadline::after(std::chrono::seconds(5));
        }
        if (report.passed()) {
          report = Deadline::never();
          say_who_is_not_connected(needs, *report_after);
        }
        return failure_->stopped();
      });
  if (connected) return {};
  // Neighbours of a partner that left know that it did not die.
  look_for_partners(true);
  // The partners may be connected and wait for data: they must not wait in vain.
  if (!failure_->stopped()) failure_->establish(connected.error(), true);
  auto cause = failure_->settle();
  return fail(cause ? std::move(*cause) : Error(connected.error()));
}

}  // namespace weft
