// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The connections that calls need and that are made when they are first needed.
#include <algorithm>
#include <utility>

#include "core/comm/communicator.h"

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

bool Communicator::is_connected(const Call& call) {
  if (call.task.count == 0) return true;
  if (joins_pair(call.task.operation)) {
    return call.task.root != rank_ && pairs_->find({.peer = call.task.root}) != nullptr;
  }
  const auto planned = find_plan(call.task);
  return planned && ((*planned)->bound != nullptr || (*planned)->edges.empty());
}

Result<std::vector<Communicator::Need>> Communicator::needs_of(std::span<const Call* const> calls,
                                                               std::uint64_t ahead) {
  std::vector<Need> needs;
  for (const Call* call : calls) {
    const Task& task = call->task;
    if (task.count == 0) continue;
    if (joins_pair(task.operation)) {
      if (task.root == rank_) continue;
      needs.push_back(
          {.link = {.peer = task.root},
           .call = {.sequence = 0, .tag = make_operation_tag(task, 0), .count = task.count}});
      continue;
    }
    WEFT_TRY_ASSIGN(const Planned* const planned, find_plan(task));
    const std::uint64_t sequence = history_.latest() + 1 + ahead;
    for (const PairLink& edge : planned->edges) {
      needs.push_back({.link = edge,
                       .call = {.sequence = sequence,
                                .tag = make_operation_tag(task, sequence),
                                .count = task.count}});
    }
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
