// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The connections that calls need and that are made when they are first needed.
#include <algorithm>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/exchange.h"

namespace weft {
namespace {

template <class Needs>
std::vector<PairLink> links_of(const Needs& needs) {
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

const PairConnections* Communicator::partner(std::uint32_t rank) {
  if (partners_.empty()) partners_.resize(ranks_);
  if (partners_[rank] == nullptr) partners_[rank] = pairs_->find({.peer = rank});
  return partners_[rank];
}

bool Communicator::exchanges_with(const Call& call, std::uint32_t other) const {
  return other != rank_ && (block_sent(call, rank_, other).count != 0 ||
                            block_received(call, rank_, other).count != 0);
}

bool Communicator::is_connected(const Call& call) {
  if (is_empty(call)) return true;
  if (joins_pair(call.task.operation)) {
    return call.task.root != rank_ && partner(call.task.root) != nullptr;
  }
  if (is_exchange(call.task.operation)) {
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      if (exchanges_with(call, other) && partner(other) == nullptr) return false;
    }
    return true;
  }
  const auto planned = find_plan(planned_task(call));
  return planned && ((*planned)->bound != nullptr || (*planned)->edges.empty());
}

Result<std::vector<Communicator::Need>> Communicator::needs_of(std::span<const Call* const> calls,
                                                               std::uint64_t ahead) {
  std::vector<Need> needs;
  for (const Call* call : calls) {
    const Task& task = call->task;
    if (is_empty(*call)) continue;
    if (joins_pair(task.operation)) {
      if (task.root == rank_) continue;
      needs.push_back(
          {.link = {.peer = task.root},
           .call = {.sequence = 0, .tag = make_operation_tag(task, 0), .count = task.count}});
      continue;
    }
    const std::uint64_t sequence = history_.latest() + 1 + ahead;
    const CallNote note{
        .sequence = sequence, .tag = make_operation_tag(task, sequence), .count = task.count};
    if (is_exchange(task.operation)) {
      for (std::uint32_t other = 0; other < ranks_; ++other) {
        if (exchanges_with(*call, other)) needs.push_back({.link = {.peer = other}, .call = note});
      }
      continue;
    }
    WEFT_TRY_ASSIGN(const Planned* const planned, find_plan(planned_task(*call)));
    for (const PairLink& edge : planned->edges)
      needs.push_back({.link = edge, .call = note});
  }
  return needs;
}

Status Communicator::want_connections(std::span<const Call* const> calls) {
  if (joins_pair(calls.front()->task.operation)) WEFT_TRY(check_own(calls, rank_));
  WEFT_TRY_ASSIGN(const auto needs, needs_of(calls, 0));
  if (!needs.empty()) pairs_->want(links_of(needs));
  return {};
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
  Deadline next_question = Deadline::after(std::chrono::seconds(1));
  const Status connected =
      pairs_->wait(links_of(needs), limit ? Deadline::after(*limit) : Deadline::never(), [&] {
        if (next_question.passed()) {
          look_for_partners(true);
          next_question = Deadline::after(std::chrono::seconds(5));
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
