// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/start.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/graph.h"
#include "core/comm/later_start.h"
#include "core/comm/stream.h"

namespace weft {
namespace {

bool joins_pair(const Call& call) {
  return weft::joins_pair(call.task.operation);
}

// Both in order.
bool have_common(const std::vector<Stream*>& some, const std::vector<Stream*>& others) {
  auto one = some.begin();
  auto other = others.begin();
  while (one != some.end() && other != others.end()) {
    if (*one == *other) return true;
    if (std::less<>()(*one, *other)) {
      ++one;
    } else {
      ++other;
    }
  }
  return false;
}

void put_in_order(std::vector<Stream*>& streams) {
  std::ranges::sort(streams, std::less<>());
  const auto twice = std::ranges::unique(streams);
  streams.erase(twice.begin(), twice.end());
}

void join_pieces(Piece& into, Piece& from) {
  std::ranges::move(from.batches, std::back_inserter(into.batches));
  from.batches.clear();
  into.streams.insert(into.streams.end(), from.streams.begin(), from.streams.end());
  put_in_order(into.streams);
}

}  // namespace

// Round r holds each communicator's collective call r, whichever its stream: alike on all ranks.
// Its work waits for the communicator's previous one, on whichever stream (Communicator::launched),
// and for what its own stream got before: for earlier rounds alone, so that no order in which ranks
// name communicators and streams can lock them up. Sends and receives, which no two ranks call in
// the same order, come together after all of those. Devices that only know all of a stream wait for
// more than that; so communicators of one round come in an order that is the same on all ranks.
std::span<Piece> CallCutter::cut(std::span<const Call> calls) {
  if (repeats(calls)) return std::span(pieces_).first(used_);
  recycle();
  for (const Call& call : calls) {
    Member& member = member_of(call.communicator);
    if (joins_pair(call)) {
      if (member.pairs.empty()) member.pairs = take_batch();
      member.pairs.push_back(&call);
      continue;
    }
    const std::size_t round = member.rounds++;
    Piece* piece = find_piece(round, call.stream, used_);
    if (piece == nullptr) {
      piece = &add_piece(round, call.stream);
      piece->streams.push_back(call.stream);
    }
    piece->batches.push_back(take_batch());
    piece->batches.back().push_back(&call);
  }
  const std::size_t first = used_;
  for (Member& member : members_) {
    if (!member.pairs.empty()) add_pairs(member, first);
  }
  for (std::size_t i = first; i < used_;) {
    Piece* const place = find_piece(pieces_[i].round, pieces_[i].stream, first);
    if (place == nullptr) {
      ++i;
      continue;
    }
    join_pieces(*place, pieces_[i]);
    remove(i);
  }
  sort();
  remember(calls);
  return std::span(pieces_).first(used_);
}

bool CallCutter::repeats(std::span<const Call> calls) const {
  if (calls.data() != known_at_ || calls.size() != known_.size()) return false;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const Known& known = known_[i];
    const bool alike = call.communicator == known.communicator && call.stream == known.stream &&
                       call.communicator->number() == known.number && call.task == known.task;
    if (!alike) return false;
  }
  return true;
}

void CallCutter::remember(std::span<const Call> calls) {
  // When these calls are not the same again hangs on the moment, where threads take each other's
  // groups: recycle() shall allocate nothing.
  std::size_t batches = spare_.size();
  for (const Piece& piece : std::span(pieces_).first(used_))
    batches += piece.batches.size();
  spare_.reserve(batches);
  connected_ = false;
  known_at_ = calls.data();
  known_.clear();
  for (const Call& call : calls) {
    known_.push_back({.communicator = call.communicator,
                      .number = call.communicator->number(),
                      .stream = call.stream,
                      .task = call.task});
  }
}

void CallCutter::note_connected() {
  connected_ = std::ranges::all_of(
      known_, [](const Known& known) { return weft::joins_pair(known.task.operation); });
}

std::vector<Piece> CallCutter::take() {
  known_at_ = nullptr;
  pieces_.resize(std::exchange(used_, 0));
  return std::exchange(pieces_, {});
}

void CallCutter::recycle() {
  known_at_ = nullptr;
  for (std::size_t i = 0; i < used_; ++i) {
    for (CallBatch& batch : pieces_[i].batches) {
      batch.clear();
      spare_.push_back(std::move(batch));
    }
    pieces_[i].batches.clear();
  }
  used_ = 0;
  members_.clear();
  latest_member_ = 0;
}

CallBatch CallCutter::take_batch() {
  if (spare_.empty()) return {};
  CallBatch batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

Piece& CallCutter::add_piece(std::size_t round, Stream* stream) {
  if (used_ == pieces_.size()) pieces_.emplace_back();
  Piece& piece = pieces_[used_++];
  piece.round = round;
  piece.stream = stream;
  piece.streams.clear();
  return piece;
}

Piece* CallCutter::find_piece(std::size_t round, const Stream* stream, std::size_t end) {
  const auto pieces = std::span(pieces_).first(end);
  const auto found = std::ranges::find_if(
      pieces, [&](const Piece& piece) { return piece.round == round && piece.stream == stream; });
  return found == pieces.end() ? nullptr : &*found;
}

// Calls of one communicator mostly follow each other.
CallCutter::Member& CallCutter::member_of(const Communicator* communicator) {
  if (latest_member_ >= members_.size() || members_[latest_member_].communicator != communicator) {
    const auto found = std::ranges::find(members_, communicator, &Member::communicator);
    latest_member_ = static_cast<std::size_t>(found - members_.begin());
    if (found == members_.end()) members_.push_back({.communicator = communicator});
  }
  return members_[latest_member_];
}

// `first` is the first piece of sends and receives.
void CallCutter::add_pairs(Member& member, std::size_t first) {
  Piece& piece = add_piece(member.rounds, member.pairs.front()->stream);
  for (const Call* call : member.pairs) {
    if (piece.streams.empty() || piece.streams.back() != call->stream) {
      piece.streams.push_back(call->stream);
    }
  }
  put_in_order(piece.streams);
  piece.batches.push_back(std::move(member.pairs));
  join_last(first);
}

// Of sends and receives on several streams each communicator may name another stream first. Those
// that share one start together: started one after the other, the second would wait in that stream
// for the first, which may need it.
void CallCutter::join_last(std::size_t first) {
  for (std::size_t i = first; i + 1 < used_;) {
    Piece& last = pieces_[used_ - 1];
    Piece& other = pieces_[i];
    if (other.round != last.round || !have_common(other.streams, last.streams)) {
      ++i;
      continue;
    }
    join_pieces(last, other);
    std::swap(other, last);  // the joined one takes its place, and may join more
    --used_;
    std::swap(pieces_[i], pieces_[used_ - 1]);
  }
}

void CallCutter::remove(std::size_t place) {
  --used_;
  std::swap(pieces_[place], pieces_[used_]);
}

void CallCutter::sort() {
  const auto number = [](const CallBatch& batch) {
    return std::pair(batch.front()->communicator->number(), batch.front());
  };
  const auto pieces = std::span(pieces_).first(used_);
  for (Piece& piece : pieces)
    std::ranges::sort(piece.batches, {}, number);
  std::ranges::sort(pieces, {}, [&](const Piece& piece) {
    return std::pair(piece.round, number(piece.batches.front()));
  });
}

namespace {

Error describe_refusal(DeviceRuntime& runtime, weft_result result) {
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

Error refusal(DeviceRuntime& runtime, weft_result result) {
  return or_no_memory([&] { return describe_refusal(runtime, result); });
}

Result<const Launch*> prepare(std::span<const Call* const> batch, Stream& stream) {
  const Call& first = *batch.front();
  if (joins_pair(first)) return first.communicator->prepare_pairs(batch, stream);
  return first.communicator->prepare(first, stream);
}

// Of several, where what was prepared before has to be withdrawn.
Result<const Launch*> prepare_or_fail(std::span<const Call* const> batch, Stream& stream) {
  try {
    return prepare(batch, stream);
  } catch (const std::bad_alloc&) {
    return fail(no_memory());
  }
}

// A call without elements, which moves nothing.
Status pass_over(const Call& call) {
  if (auto failure = call.communicator->known_failure()) return fail(std::move(*failure));
  if (!joins_pair(call)) call.communicator->pass_over(call.task);
  return {};
}

// The ordinary call: nothing is allocated on its way.
Status start_one(const Call& call) {
  Communicator& communicator = *call.communicator;
  Stream& stream = *call.stream;
  const Call* const batch = &call;
  WEFT_TRY(communicator.check_capture({&batch, 1}, stream));
  WEFT_TRY_ASSIGN(const Launch* const launch, prepare({&batch, 1}, stream));
  const weft_result result = stream.runtime().launch(stream.device_stream(), {launch, 1});
  if (result == WEFT_OK) {
    communicator.launched();
    return {};
  }
  Error error = refusal(stream.runtime(), result);
  communicator.withdraw(*launch, error);
  return fail(std::move(error));
}

// The calls of a piece may have been made on several streams: its work comes after all of theirs,
// and what they get next comes after it.
Status order_streams(const Piece& piece, bool after) {
  if (piece.streams.size() == 1) return {};
  DeviceRuntime& runtime = piece.stream->runtime();
  for (Stream* const other : piece.streams) {
    if (other == piece.stream) continue;
    DeviceStream* const its = piece.stream->device_stream();
    const weft_result ordered =
        after ? runtime.order_after(other->device_stream(), its, kWholeStream)
              : runtime.order_after(its, other->device_stream(), kWholeStream);
    if (ordered != WEFT_OK) return fail(refusal(runtime, ordered));
  }
  return {};
}

}  // namespace

Error of_group(const Error& why) {
  return or_no_memory(
      [&] { return Error(why.code(), "a communicator of the group failed: " + why.to_string()); });
}

Status start_piece(Piece& piece, Stream& stream, IfOneFails then) {
  std::vector<Launch>& launches = piece.launches;
  std::vector<Communicator*>& communicators = piece.communicators;
  launches.clear();
  communicators.clear();
  // Before anything is counted.
  launches.reserve(piece.batches.size());
  communicators.reserve(piece.batches.size());
  const auto withdraw_all = [&](const Error& why) {
    for (std::size_t i = 0; i < launches.size(); ++i)
      communicators[i]->withdraw(launches[i], why);
  };
  Status started;
  for (const CallBatch& batch : piece.batches) {
    const Call& first = *batch.front();
    Status refused;
    if (!joins_pair(first) && is_empty(first)) {
      refused = pass_over(first);
    } else if (auto launch = prepare_or_fail(batch, stream)) {
      launches.push_back(**launch);
      communicators.push_back(first.communicator);
    } else {
      refused = fail(std::move(launch.error()));
    }
    if (refused) continue;
    if (then == IfOneFails::kNoneStarts) {
      withdraw_all(of_group(refused.error()));
      return refused;
    }
    // Nobody makes this call again, and its later ones are made.
    first.communicator->give_up(refused.error());
    if (started) started = std::move(refused);
  }
  if (launches.empty()) return started;
  const weft_result result = stream.runtime().launch(stream.device_stream(), launches);
  if (result == WEFT_OK) {
    for (Communicator* communicator : communicators)
      communicator->launched();
    return started;
  }
  Error error = refusal(stream.runtime(), result);
  withdraw_all(error);
  if (!started) return started;
  return fail(std::move(error));
}

// First all are asked for, then all are waited for: one thread may hold both partners of a pair.
Result<bool> want_batches(std::span<const Piece> pieces) {
  bool connected = true;
  for (const Piece& piece : pieces) {
    for (const CallBatch& batch : piece.batches) {
      Communicator& communicator = *batch.front()->communicator;
      WEFT_TRY(communicator.check_pairs(batch));
      if (communicator.are_connected(batch)) continue;
      connected = false;
      WEFT_TRY(communicator.want_connections(batch));
    }
  }
  return connected;
}

Status await_batches(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    for (const CallBatch& batch : piece.batches)
      WEFT_TRY(batch.front()->communicator->wait_for_connections(batch, piece.round));
  }
  return {};
}

namespace {

// Of a call that is not connected.
Status want_one(const Call& call) {
  const Call* const batch = &call;
  WEFT_TRY(call.communicator->check_pairs({&batch, 1}));
  return call.communicator->want_connections({&batch, 1});
}

Status check_one(const Call& call) {
  const Call* const batch = &call;
  return call.communicator->check_capture({&batch, 1}, *call.stream);
}

Status await_one(const Call& call) {
  const Call* const batch = &call;
  return call.communicator->wait_for_connections({&batch, 1}, 0);
}

// Whether they go on in the background where they would block.
bool have_background(std::span<const Call> calls) {
  return std::ranges::all_of(calls, [](const Call& call) { return call.background != nullptr; });
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

Result<weft_result> record(Graph& graph, std::span<const Call> calls, CallCutter& cutter,
                           bool may_go_on) {
  if (may_go_on && have_background(calls)) {
    WEFT_TRY_ASSIGN(const bool connected, want_batches(cutter.cut(calls)));
    if (!connected) return start_later(calls);
  }
  WEFT_TRY(graph.record(calls, *calls.front().stream));
  return WEFT_OK;
}

// Of a stream that is not captured. `may_go_on`: in the background.
Result<weft_result> start_alone(const Call& call, bool may_go_on) {
  if (is_empty(call)) {
    WEFT_TRY(pass_over(call));
    return WEFT_OK;
  }
  // What was bound is connected.
  if (call.latest == nullptr && !call.communicator->is_connected(call)) [[unlikely]] {
    WEFT_TRY(want_one(call));
    if (may_go_on && call.background != nullptr) {
      WEFT_TRY(check_one(call));  // there it would be the communicator's end
      return start_later({&call, 1});
    }
    WEFT_TRY(await_one(call));
  }
  WEFT_TRY(start_one(call));
  return WEFT_OK;
}

// Streams of several devices cannot be asked by one of them.
Status check_devices(const Piece& piece) {
  for (const CallBatch& batch : piece.batches) {
    for (const Call* const call : batch)
      WEFT_TRY(call->communicator->check_call(*call->stream));
  }
  return {};
}

// Nothing orders what is captured, and runs when its graph is replayed, and what runs now.
Status check_one_capture(const Piece& piece) {
  DeviceRuntime& runtime = piece.stream->runtime();
  const auto capture = [&](const Stream* stream) {
    return runtime.capture_number(stream->device_stream());
  };
  const std::uint64_t first = capture(piece.stream);
  if (std::ranges::all_of(piece.streams, [&](Stream* stream) { return capture(stream) == first; }))
    return {};
  return fail(WEFT_ERROR_INVALID_USAGE,
              "a group sends or receives on a stream that is captured and on one that is not, or "
              "not by the same capture",
              "close the group between calls of the two streams, or let the other one join the "
              "capture by an event before");
}

// Before anything of a group is started: what is refused leaves its communicators as they are.
Status check_captures(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    if (piece.streams.size() > 1) {
      WEFT_TRY(check_devices(piece));
      WEFT_TRY(check_one_capture(piece));
    }
    for (const CallBatch& batch : piece.batches)
      WEFT_TRY(batch.front()->communicator->check_capture(batch, *piece.stream));
  }
  return {};
}

// Of a group some of which has been started, so that the rest is not missed in silence.
void give_up(std::span<const Piece> pieces, const Error& why) {
  for (const Piece& piece : pieces) {
    for (const CallBatch& batch : piece.batches)
      batch.front()->communicator->give_up(why);
  }
}

// Of a group some of which may have been started: of what it lacks the rest has to hear.
Status start_in_order(Piece& piece) {
  try {
    WEFT_TRY(order_streams(piece, false));
    return start_piece(piece, *piece.stream, IfOneFails::kNoneStarts);
  } catch (const std::bad_alloc&) {
    return fail(no_memory());
  }
}

// `may_go_on`: in the background.
Result<weft_result> start(std::span<const Call> calls, CallCutter& cutter, bool may_go_on) {
  WEFT_TRY_ASSIGN(Graph* const capture, capture_of(calls));
  if (capture != nullptr) return record(*capture, calls, cutter, may_go_on);
  if (calls.size() == 1) return start_alone(calls[0], may_go_on);
  const std::span<Piece> pieces = cutter.cut(calls);
  if (!cutter.is_connected()) {
    WEFT_TRY_ASSIGN(const bool connected, want_batches(pieces));
    if (!connected && may_go_on && have_background(calls)) {
      WEFT_TRY(check_captures(pieces));  // there it would be the communicators' end
      return start_later(calls);
    }
    if (!connected) WEFT_TRY(await_batches(pieces));
    cutter.note_connected();
  }
  WEFT_TRY(check_captures(pieces));
  Status started;
  std::size_t done = 0;
  for (; done < pieces.size(); ++done) {
    started = start_in_order(pieces[done]);
    if (!started) break;
  }
  // Only now: a device may wait here for work whose partners this very group has started.
  Status ordered;
  for (const Piece& piece : pieces.first(done)) {
    Status after = order_streams(piece, true);
    if (ordered && !after) ordered = std::move(after);
  }
  if (!started) {
    if (done != 0) give_up(pieces.subspan(done), of_group(started.error()));
    return fail(std::move(started.error()));
  }
  if (!ordered) {
    // What comes next on those streams would not come after this.
    give_up(pieces, of_group(ordered.error()));
    return fail(std::move(ordered.error()));
  }
  return WEFT_OK;
}

}  // namespace

Status start_calls(std::span<const Call> calls, CallCutter& cutter) {
  WEFT_TRY(start(calls, cutter, false));
  return {};
}

Status start_calls(std::span<const Call> calls) {
  CallCutter cutter;
  return start_calls(calls, cutter);
}

Result<weft_result> begin_calls(std::span<const Call> calls, CallCutter& cutter) {
  return start(calls, cutter, true);
}

Result<weft_result> begin_calls(const Call& call) {
  if (call.stream->capture() == nullptr) [[likely]]
    return start_alone(call, true);
  CallCutter cutter;
  return start({&call, 1}, cutter, true);
}

}  // namespace weft
