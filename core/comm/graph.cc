// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/graph.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/comm/bound_plan.h"
#include "core/comm/communicator.h"
#include "core/comm/member.h"
#include "core/comm/stream.h"

namespace weft {

namespace {

// As calls that are made: what is without elements is told of a failure alone.
Status check(const Call& call, const Stream& stream, bool is_alone) {
  const bool joins = joins_pair(call.task.operation);
  if (!is_empty(call) || (joins && !is_alone)) return call.communicator->check_call(stream);
  if (auto failure = call.communicator->known_failure()) return fail(std::move(*failure));
  return {};
}

}  // namespace

Status Graph::record(std::span<const Call> calls, const Stream& stream) {
  Step step{.calls = {calls.begin(), calls.end()}, .pieces = {}};
  // Alone it meets nobody and has no number; in a group it may share a launch.
  const auto is_nothing = [](const Call& call) {
    return joins_pair(call.task.operation) && call.task.count == 0;
  };
  for (const Call& call : step.calls)
    WEFT_TRY(check(call, stream, step.calls.size() == 1));
  if (step.calls.size() == 1 && is_nothing(step.calls.front())) return {};
  // A collective without elements only counts.
  const auto has_plan = [](const Call& call) {
    return is_planned(call.task.operation) && !is_empty(call);
  };
  CallCutter cutter;
  static_cast<void>(cutter.cut(step.calls));
  step.pieces = cutter.take();
  WEFT_TRY_ASSIGN(const bool connected, want_batches(step.pieces));
  if (!connected) WEFT_TRY(await_batches(step.pieces));
  for (Call& call : step.calls) {
    if (!has_plan(call)) continue;
    WEFT_TRY_ASSIGN(call.plan, call.communicator->bind(call));
  }
  for (Piece& piece : step.pieces) {
    count(piece);
    piece.launches.reserve(piece.batches.size());
    piece.communicators.reserve(piece.batches.size());
  }
  // The graph is launched on others, and may outlive this one.
  for (Call& call : step.calls)
    call.stream = nullptr;
  for (Piece& piece : step.pieces) {
    piece.stream = nullptr;
    piece.streams.clear();
  }
  steps_.push_back(std::move(step));
  return {};
}

void Graph::count(const Piece& piece) {
  for (const CallBatch& batch : piece.batches) {
    const Call& first = *batch.front();
    Known& member = known_of(*first.communicator, first.background);
    ++member.launches;
    const std::size_t pairs =
        is_exchange(first.task.operation) ? std::size_t{2} * member.ranks : batch.size();
    if (first.plan == nullptr) {
      member.pairs = std::max(member.pairs, pairs);
      member.items = std::max(member.items, std::size_t{1});
    } else {
      member.items = std::max(member.items, first.plan->plan().channels.size());
    }
  }
  ++room_.pieces;
  room_.launches = std::max(room_.launches, static_cast<std::uint32_t>(piece.batches.size()));
}

Graph::Known& Graph::known_of(Communicator& communicator, Member* background) {
  const auto known = std::ranges::find(members_, &communicator, &Known::communicator);
  // Another one may have had the same place in memory.
  if (known != members_.end() && !known->life.expired()) return *known;
  return members_.emplace_back(Known{.communicator = &communicator,
                                     .life = communicator.life(),
                                     .background = background,
                                     .rank = communicator.rank(),
                                     .ranks = communicator.ranks()});
}

Status Graph::launch(Stream& stream) {
  for (const Known& member : members_) {
    if (!member.life.expired()) {
      // What it started may still be connecting there.
      if (member.background != nullptr) WEFT_TRY(member.background->for_calls());
      continue;
    }
    return fail(
        WEFT_ERROR_INVALID_USAGE,
        fmt::format("rank {} of {}, whose calls the graph holds, has finalized or destroyed "
                    "its communicator",
                    member.rank, member.ranks),
        "capture the calls of a communicator that lives");
  }
  for (const Known& member : members_)
    member.communicator->reserve(member.launches, member.items, member.pairs);
  if (const weft_result reserved = stream.runtime().reserve(stream.device_stream(), room_);
      reserved != WEFT_OK) {
    return fail(reserved, "no memory to queue the calls of a graph");
  }
  std::optional<Error> first;
  for (Step& step : steps_) {
    for (Piece& piece : step.pieces) {
      Status started = start_piece(piece, stream, IfOneFails::kOthersStart);
      if (!started && !first) first = std::move(started.error());
    }
  }
  if (first) return fail(std::move(*first));
  return {};
}

}  // namespace weft
