// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/start.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/graph.h"
#include "core/comm/stream.h"

namespace weft {
namespace {

bool joins_pair(const Call& call) {
  return weft::joins_pair(call.task.operation);
}

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

}  // namespace

// Round r holds each communicator's collective call r, whichever its stream: alike on all ranks.
// Its work waits for the communicator's previous one, on whichever stream (Communicator::launched),
// and for what its own stream got before: for earlier rounds alone, so that no order in which ranks
// name communicators and streams can lock them up. Sends and receives, which no two ranks call in
// the same order, come together after all of those. Devices that only know all of a stream wait for
// more than that; so communicators of one round come in an order that is the same on all ranks.
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
  const auto number = [](const CallBatch& batch) { return batch.front()->communicator->number(); };
  for (Piece& piece : pieces)
    std::ranges::stable_sort(piece.batches, {}, number);
  std::ranges::stable_sort(pieces, {}, [&](const Piece& piece) {
    return std::pair(piece.round, number(piece.batches.front()));
  });
  return pieces;
}

namespace {

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
  return first.communicator->prepare(first, stream);
}

// The ordinary call: nothing is allocated on its way.
Status start_one(const Call& call) {
  const Call* const batch = &call;
  WEFT_TRY_ASSIGN(const Launch launch, prepare({&batch, 1}, *call.stream));
  const weft_result result =
      call.stream->runtime().launch(call.stream->device_stream(), {&launch, 1});
  if (result == WEFT_OK) {
    call.communicator->launched();
    return {};
  }
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
          after ? runtime.order_after(other->device_stream(), piece.stream->device_stream(),
                                      kWholeStream)
                : runtime.order_after(piece.stream->device_stream(), other->device_stream(),
                                      kWholeStream);
      if (ordered != WEFT_OK) return fail(refusal(runtime, ordered));
    }
  }
  return {};
}

}  // namespace

Status start_piece(Piece& piece, Stream& stream) {
  std::vector<Launch>& launches = piece.launches;
  std::vector<Communicator*>& communicators = piece.communicators;
  launches.clear();
  communicators.clear();
  const auto withdraw_all = [&](const Error& why) {
    for (std::size_t i = 0; i < launches.size(); ++i)
      communicators[i]->withdraw(launches[i], why);
  };
  for (const CallBatch& batch : piece.batches) {
    const Call& first = *batch.front();
    if (!joins_pair(first) && is_empty(first)) {
      first.communicator->pass_over(first.task);
      continue;
    }
    auto launch = prepare(batch, stream);
    if (!launch) {
      withdraw_all(launch.error());
      return fail(std::move(launch.error()));
    }
    launches.push_back(*launch);
    communicators.push_back(first.communicator);
  }
  if (launches.empty()) return {};
  const weft_result result = stream.runtime().launch(stream.device_stream(), launches);
  if (result == WEFT_OK) {
    for (Communicator* communicator : communicators)
      communicator->launched();
    return {};
  }
  Error error = refusal(stream.runtime(), result);
  withdraw_all(error);
  return fail(std::move(error));
}

// First all are asked for, then all are waited for: one thread may hold both partners of a pair.
Status connect_batches(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    for (const CallBatch& batch : piece.batches)
      WEFT_TRY(batch.front()->communicator->want_connections(batch));
  }
  for (const Piece& piece : pieces) {
    for (const CallBatch& batch : piece.batches)
      WEFT_TRY(batch.front()->communicator->wait_for_connections(batch, piece.round));
  }
  return {};
}

namespace {

Status connect_one(const Call& call) {
  if (call.communicator->is_connected(call)) return {};
  const Call* const batch = &call;
  WEFT_TRY(call.communicator->want_connections({&batch, 1}));
  return call.communicator->wait_for_connections({&batch, 1}, 0);
}

// The graph that these calls are to be recorded in; null where they are to be made.
Result<Graph*> capture_of(std::span<const Call> calls) {
  const auto captured = std::ranges::find_if(
      calls, [](const Call& call) { return call.stream->capture() != nullptr; });
  if (captured == calls.end()) return nullptr;
  const Stream* const stream = captured->stream;
  if (std::ranges::any_of(calls, [&](const Call& call) { return call.stream != stream; })) {
    return fail(WEFT_ERROR_INVALID_USAGE,
                "a group calls on a stream that is captured and on another one",
                "close the group between calls of the two streams");
  }
  return stream->capture();
}

}  // namespace

Status start_calls(std::span<const Call> calls) {
  WEFT_TRY_ASSIGN(Graph* const capture, capture_of(calls));
  if (capture != nullptr) return capture->record(calls, *calls.front().stream);
  if (calls.size() == 1) {
    if (is_empty(calls[0])) {
      if (!joins_pair(calls[0])) calls[0].communicator->pass_over(calls[0].task);
      return {};
    }
    WEFT_TRY(connect_one(calls[0]));
    return start_one(calls[0]);
  }
  std::vector<Piece> pieces = cut_into_pieces(calls);
  WEFT_TRY(connect_batches(pieces));
  for (Piece& piece : pieces) {
    WEFT_TRY(order_streams(piece, false));
    WEFT_TRY(start_piece(piece, *piece.stream));
  }
  // Only now: a device may wait here for work whose partners this very group has started.
  for (const Piece& piece : pieces)
    WEFT_TRY(order_streams(piece, true));
  return {};
}

}  // namespace weft
