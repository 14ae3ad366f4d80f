// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/group.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/stream.h"

namespace weft {

void Group::add_join(std::function<Result<std::unique_ptr<Communicator>>()> join,
                     std::function<void(std::unique_ptr<Communicator>)> deliver) {
  joins_.push_back({.join = std::move(join), .deliver = std::move(deliver)});
}

void Group::note_error(const Error& error) {
  if (error_ == nullptr) error_ = std::make_unique<Error>(error);
}

Status Group::end() {
  if (depth_ == 0) {
    return fail(WEFT_ERROR_INVALID_USAGE, "weft_group_end without weft_group_start on this thread",
                "call both on one thread, as often as each other");
  }
  if (--depth_ > 0) return {};
  const auto joins = std::exchange(joins_, {});
  const auto calls = std::exchange(calls_, {});
  const auto error = std::exchange(error_, nullptr);
  if (error != nullptr) return fail(Error(*error).with_context("nothing of the group was started"));
  WEFT_TRY(run_joins(joins));
  return start_calls(calls);
}

Status Group::run_joins(std::vector<Join> joins) {
  if (joins.empty()) return {};
  // Joins block until all ranks have come, and several of them may be ranks of one communicator:
  // none begins before each has its thread.
  enum class Order : std::uint8_t { kWait, kJoin, kLeave };
  std::atomic<Order> order{Order::kWait};
  std::vector<std::optional<Result<std::unique_ptr<Communicator>>>> joined(joins.size());
  std::vector<std::thread> threads;
  threads.reserve(joins.size());
  std::optional<Error> no_thread;
  const auto refused = [](int error) {
    return Error::from_errno(error, "cannot start a thread to join a rank",
                             "raise the limits of processes and memory (ulimit -u, ulimit -v)");
  };
  for (std::size_t i = 1; i < joins.size() && !no_thread; ++i) {
    try {
      threads.emplace_back([&, i] {
        order.wait(Order::kWait);
        if (order == Order::kJoin) joined[i].emplace(joins[i].join());
      });
    } catch (const std::system_error& error) {
      no_thread = refused(error.code().value());
    } catch (const std::bad_alloc&) {
      no_thread = refused(ENOMEM);
    }
  }
  order = no_thread ? Order::kLeave : Order::kJoin;
  order.notify_all();
  if (!no_thread) joined[0].emplace(joins[0].join());
  for (auto& thread : threads)
    thread.join();
  if (no_thread) return fail(std::move(*no_thread));
  for (auto& result : joined) {
    if (!*result) return fail(std::move(result->error()));
  }
  for (std::size_t i = 0; i < joins.size(); ++i)
    joins[i].deliver(std::move(**joined[i]));
  return {};
}

Group& Groups::of_this_thread() {
  const std::scoped_lock lock(mutex_);
  auto& group = groups_[std::this_thread::get_id()];
  if (group == nullptr) group = std::make_unique<Group>();
  return *group;
}

void Groups::forget_this_thread() {
  const std::scoped_lock lock(mutex_);
  groups_.erase(std::this_thread::get_id());
}

namespace {

bool joins_pair(const Call& call) {
  return weft::joins_pair(call.task.operation);
}

// What becomes one launch: a collective call, or all sends and receives of a communicator.
using CallBatch = std::vector<const Call*>;

// Launches that start together: at most one of each communicator, whose operations are serial.
struct Piece {
  std::size_t round = 0;
  Stream* stream = nullptr;
  std::vector<CallBatch> batches;
};

void add_to_piece(std::vector<Piece>& pieces, std::size_t round, Stream* stream, CallBatch batch) {
  auto place = std::ranges::find_if(
      pieces, [&](const Piece& piece) { return piece.round == round && piece.stream == stream; });
  if (place == pieces.end()) {
    place = pieces.insert(place, {.round = round, .stream = stream, .batches = {}});
  }
  place->batches.push_back(std::move(batch));
}

bool share_stream(const Piece& one, const Piece& other) {
  std::set<const Stream*> streams;
  for (const CallBatch& batch : one.batches) {
    for (const Call* call : batch)
      streams.insert(call->stream);
  }
  return std::ranges::any_of(other.batches, [&](const CallBatch& batch) {
    return std::ranges::any_of(batch,
                               [&](const Call* call) { return streams.contains(call->stream); });
  });
}

// Of sends and receives on several streams each communicator may name another stream first. Those
// that share one start together: started one after the other, the second would wait in that stream
// for the first, which may need it.
void join_by_streams(std::vector<Piece>& pieces, Piece piece) {
  std::erase_if(pieces, [&](Piece& other) {
    if (other.round != piece.round || !share_stream(other, piece)) return false;
    std::ranges::move(other.batches, std::back_inserter(piece.batches));
    return true;
  });
  pieces.push_back(std::move(piece));
}

// Round r holds each communicator's collective call r, whichever its stream: alike on all ranks.
// Starting a call may wait for the communicator's previous one on another stream, and that needs
// the calls of other ranks, which may be in this very group: by then they have been started. Sends
// and receives, which no two ranks call in the same order, come together after all of those.
std::vector<Piece> cut_into_pieces(std::span<const Call> calls) {
  std::vector<Piece> pieces;
  std::map<const Communicator*, std::size_t> rounds;
  std::map<const Communicator*, CallBatch> pairs;
  for (const Call& call : calls) {
    if (joins_pair(call)) {
      pairs[call.communicator].push_back(&call);
    } else {
      add_to_piece(pieces, rounds[call.communicator]++, call.stream, {&call});
    }
  }
  std::vector<Piece> together;
  for (auto& [communicator, batch] : pairs) {
    Stream* const stream = batch.front()->stream;
    join_by_streams(together, {rounds[communicator], stream, {std::move(batch)}});
  }
  for (Piece& piece : together) {
    for (CallBatch& batch : piece.batches)
      add_to_piece(pieces, piece.round, piece.stream, std::move(batch));
  }
  std::ranges::stable_sort(pieces, {}, &Piece::round);
  return pieces;
}

Error refusal(DeviceRuntime& runtime, weft_result result) {
  std::int64_t native = 0;
  const std::string_view said = runtime.last_failure(&native);
  if (!said.empty()) {
    return Error(result, "the device refused to start work: " + std::string(said))
        .with_native(ErrorSource::kCuda, native);
  }
  return Error(result, "the device refused to start work",
               result == WEFT_ERROR_OUT_OF_RESOURCES
                   ? "raise the limits of processes and memory (ulimit -u, ulimit -v)"
                   : "");
}

Result<Launch> prepare(std::span<const Call* const> batch, Stream& stream) {
  const Call& first = *batch.front();
  if (joins_pair(first)) return first.communicator->prepare_pairs(batch, stream);
  return first.communicator->prepare(first.task, first.send, first.recv, stream);
}

// The ordinary call: nothing is allocated on its way.
Status start_one(const Call& call) {
  const Call* const batch = &call;
  WEFT_TRY_ASSIGN(const Launch launch, prepare({&batch, 1}, *call.stream));
  const weft_result result =
      call.stream->runtime().launch(call.stream->device_stream(), {&launch, 1});
  if (result == WEFT_OK) return {};
  Error error = refusal(call.stream->runtime(), result);
  call.communicator->withdraw(launch, error);
  return fail(std::move(error));
}

// The calls of a batch may have been made on several streams: its work comes after all of theirs,
// and what they get next comes after it.
Status order_streams(const Piece& piece, bool after) {
  for (const CallBatch& batch : piece.batches) {
    std::set<Stream*> others;
    for (const Call* call : batch) {
      if (call->stream != piece.stream) others.insert(call->stream);
    }
    for (Stream* other : others) {
      DeviceRuntime& runtime = piece.stream->runtime();
      const weft_result ordered =
          after ? runtime.order_after(other->device_stream(), piece.stream->device_stream())
                : runtime.order_after(piece.stream->device_stream(), other->device_stream());
      if (ordered != WEFT_OK) return fail(refusal(runtime, ordered));
    }
  }
  return {};
}

Status start_piece(const Piece& piece) {
  std::vector<Launch> launches;
  std::vector<Communicator*> communicators;
  const auto withdraw_all = [&](const Error& why) {
    for (std::size_t i = 0; i < launches.size(); ++i)
      communicators[i]->withdraw(launches[i], why);
  };
  WEFT_TRY(order_streams(piece, false));
  for (const CallBatch& batch : piece.batches) {
    const Call& first = *batch.front();
    if (!joins_pair(first) && first.task.count == 0) {
      first.communicator->pass_over(first.task);
      continue;
    }
    auto launch = prepare(batch, *piece.stream);
    if (!launch) {
      withdraw_all(launch.error());
      return fail(std::move(launch.error()));
    }
    launches.push_back(*launch);
    communicators.push_back(first.communicator);
  }
  if (launches.empty()) return {};
  const weft_result result =
      piece.stream->runtime().launch(piece.stream->device_stream(), launches);
  if (result == WEFT_OK) return {};
  Error error = refusal(piece.stream->runtime(), result);
  withdraw_all(error);
  return fail(std::move(error));
}

// First all are asked for, then all are waited for: one thread may hold both partners of a pair.
Status connect_pairs(std::span<const Piece> pieces) {
  std::vector<const CallBatch*> batches;
  for (const Piece& piece : pieces) {
    for (const CallBatch& batch : piece.batches) {
      if (joins_pair(*batch.front())) batches.push_back(&batch);
    }
  }
  for (const CallBatch* batch : batches)
    WEFT_TRY(batch->front()->communicator->want_pairs(*batch));
  for (const CallBatch* batch : batches)
    WEFT_TRY(batch->front()->communicator->wait_for_pairs(*batch));
  return {};
}

Status start_one_pair(const Call& call) {
  if (call.task.count == 0) return {};
  const Call* const batch = &call;
  if (call.communicator->are_connected({&batch, 1})) return start_one(call);
  WEFT_TRY(call.communicator->want_pairs({&batch, 1}));
  WEFT_TRY(call.communicator->wait_for_pairs({&batch, 1}));
  return start_one(call);
}

}  // namespace

Status start_calls(std::span<const Call> calls) {
  if (calls.size() == 1) {
    if (joins_pair(calls[0])) return start_one_pair(calls[0]);
    if (calls[0].task.count == 0) {
      calls[0].communicator->pass_over(calls[0].task);
      return {};
    }
    return start_one(calls[0]);
  }
  const std::vector<Piece> pieces = cut_into_pieces(calls);
  WEFT_TRY(connect_pairs(pieces));
  for (const Piece& piece : pieces)
    WEFT_TRY(start_piece(piece));
  // Only now: a device may wait here for work whose partners this very group has started.
  for (const Piece& piece : pieces)
    WEFT_TRY(order_streams(piece, true));
  return {};
}

}  // namespace weft
