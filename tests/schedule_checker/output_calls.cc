// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/output_calls.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "core/device/output_entry.h"

namespace weft::checker {
namespace {

constexpr std::uint32_t kMapping = 3;

CopyTimes times_of(Turns turns, std::uint64_t seed) {
  switch (turns) {
    case Turns::kInOrder:
      return CopyTimes::kAtOnce;
    case Turns::kLateReceivers:
      return CopyTimes::kLate;
    case Turns::kEarlyReceivers:
      return CopyTimes::kLateStores;
    case Turns::kShuffled:
      break;
  }
  return seed % 2 == 0 ? CopyTimes::kMixed : CopyTimes::kLateStores;
}

}  // namespace

OutputCalls::OutputCalls(World& world, const IntoOutputs& settings, std::uint32_t ranks,
                         std::uint32_t groups, std::uint64_t output_bytes, Turns turns,
                         std::uint64_t seed)
    : world_(world),
      settings_(settings),
      ranks_(ranks),
      groups_(groups),
      output_bytes_(output_bytes),
      times_(times_of(turns, seed)),
      outputs_(ranks),
      shared_(ranks),
      calls_(ranks),
      live_(ranks) {
  for (std::uint32_t i = 0; i < ranks * groups; ++i)
    teams_.push_back(std::make_unique<BulkTeam>(world.fibers, seed + i));
}

bool OutputCalls::goes_by_threads(const OutputStep& step, std::uint32_t rank) const {
  return step.kind == OutputStep::Kind::kThreads ||
         (step.kind == OutputStep::Kind::kBoth && rank % 2 == 0);
}

// Each call has a generation of its own, as after pages were mapped anew.
void OutputCalls::share(std::uint32_t rank, const Live& live) {
  const OutputPlace place{
      .mapping = kMapping, .generation = outputs_[rank].call + 1, .offset = device::kBulkGrain};
  calls_[rank].offer = offer_of(place);
  for (OutputRank& other : shared_) {
    if (other.map.empty()) other.map.emplace_back();
    other.map.front().entries[rank][kMapping] = {
        .base = reinterpret_cast<std::uint64_t>(live.begin) - place.offset,
        .bytes = place.offset + output_bytes_,
        .generation = place.generation};
  }
}

void OutputCalls::begin(std::uint32_t rank, std::uint32_t call, const Live& live, bool is_written) {
  const OutputStep& it = step(call);
  const bool offers = it.kind == OutputStep::Kind::kAgreed && it.refuses != rank;
  live_[rank] = live;
  outputs_[rank] = {
      .call = call, .inside = true, .open = offers && is_written && !it.refuses.has_value()};
  shared_[rank].inside = groups_;
  OutputCall& own = calls_[rank];
  own = {.table = &shared_[rank].table,
         .peers = nullptr,
         .map = nullptr,
         .offer = 0,
         .begin = reinterpret_cast<const std::byte*>(live.begin),
         .bytes = output_bytes_,
         .calls = shared_[rank].calls};
  if (offers && settings_.between_processes && agree()) {
    share(rank, live);
    if (!is_written) own.offer = kUnwrittenOutput;
    own.ended = &shared_[rank].ended;
    own.number = call + 1;
  } else if (offers) {
    own.offer = reinterpret_cast<std::uint64_t>(live.begin);
  }
  if (settings_.between_processes && agree()) {
    if (shared_[rank].map.empty()) shared_[rank].map.emplace_back();
    own.map = &shared_[rank].map.front();
  }
  if (settings_.change) settings_.change(own, rank, call);
}

void OutputCalls::end(std::uint32_t rank, std::uint32_t call) {
  outputs_[rank].inside = false;
  if (step(call).kind != OutputStep::Kind::kAgreed || !agree()) return;
  OutputRank& shared = shared_[rank];
  ++shared.agreements;
  world_.inboxes->ended(rank);
  const OutputTable& table = shared.table;
  const bool by_outputs = table.way == OutputWay::kOutputs;
  const auto wrong = [&](Rule rule, const char* what) {
    world_.report.add(rule, fmt::format("call {}, rank {}: {}", call, rank, what));
    world_.fibers.stop();
  };
  if (by_outputs == step(call).refuses.has_value()) {
    wrong(Rule::kAgreement, by_outputs ? "went into outputs, though not all were open"
                                       : "went by slots, though all outputs were open");
  } else if (table.state != 0 || table.left != 0 || table.ended != 0) {
    wrong(Rule::kKernel, "leaves the table as the next launch must not find it");
  } else if (calls_[rank].ended != nullptr && shared.ended != calls_[rank].number) {
    wrong(Rule::kAway, "has ended, and the host does not know");
  }
}

void OutputCalls::wait_for_all(std::uint32_t call) {
  std::uint64_t agreed = 0;
  for (std::uint32_t i = 0; i <= call; ++i)
    agreed += step(i).kind == OutputStep::Kind::kAgreed && !step(i).refuses ? 1 : 0;
  const std::uint64_t all = agreed * ranks_ * groups_;
  if (++came_ == all) {
    world_.fibers.raised(&came_, false, waiters_);
  } else {
    static_cast<void>(world_.fibers.wait(&came_, all, waiters_));
  }
}

KernelOutcome OutputCalls::run_bulk(const Actor& actor, const WorkItem& item, BulkWay way) {
  BulkTeam& team = *teams_[actor.rank * groups_ + actor.channel];
  const OutputCall& own = calls_[actor.rank];
  if (actor.lane == 0) team.outcome = {};
  const BulkThread thread({.world = world_,
                           .actor = actor,
                           .team = team,
                           .rank = shared_[actor.rank],
                           .outputs = outputs_,
                           .item = item,
                           .times = times_},
                          groups_);
  const std::function<std::byte*()> next = [&] {
    wait_for_all(actor.call);
    const std::byte* const place = item.recv != nullptr ? item.recv : item.send;
    return reinterpret_cast<std::byte*>(live_[item.to_next.peer].begin) + (place - own.begin);
  };
  settings_.kernel({.thread = thread,
                    .item = item,
                    .way = way,
                    .outputs = own,
                    .peers = way == BulkWay::kAgreed ? &world_.inboxes->peers(actor.rank) : nullptr,
                    .next = next,
                    .board = reinterpret_cast<std::byte*>(team.board.data())});
  if (world_.fibers.stopped()) return {};
  team.meeting.any(false);
  std::size_t under_way = team.loads.size();
  for (const auto& group : team.groups)
    under_way += group.size();
  if (under_way != 0) {
    world_.report.add(Rule::kAway,
                      fmt::format("{}: ends with {} copies under way", actor.name(), under_way));
    world_.fibers.stop();
  }
  return team.outcome;
}

KernelOutcome OutputCalls::run(const Actor& actor, const WorkItem& item,
                               const std::function<KernelOutcome()>& slots) {
  const OutputStep& it = step(actor.call);
  if (goes_by_threads(it, actor.rank)) return actor.lane == 0 ? slots() : KernelOutcome{};
  if (it.kind != OutputStep::Kind::kAgreed) return run_bulk(actor, item, BulkWay::kSlots);
  if (!agree()) {
    return run_bulk(actor, item, it.refuses ? BulkWay::kSlots : BulkWay::kOutputs);
  }
  if (it.refuses != actor.rank || actor.rank % 2 != 0) {
    return run_bulk(actor, item, BulkWay::kAgreed);
  }
  // As the kernel of other copies does: it offers nothing, and so knows the way beforehand.
  if (actor.lane != 0) return {};
  BulkThread thread({.world = world_,
                     .actor = actor,
                     .team = *teams_[actor.rank * groups_ + actor.channel],
                     .rank = shared_[actor.rank],
                     .outputs = outputs_,
                     .item = item,
                     .times = times_},
                    groups_);
  device::enter_outputs(thread, item, calls_[actor.rank], world_.inboxes->peers(actor.rank), false,
                        nullptr);
  return world_.fibers.stopped() ? KernelOutcome{} : slots();
}

}  // namespace weft::checker
