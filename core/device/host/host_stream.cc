// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The queue, the choice of who runs a piece, and the end of a launch.
#include "core/device/host/host_stream.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "core/base/thread_name.h"
#include "core/device/host/host_memory.h"

namespace weft::device {
namespace {

/// So many pieces in a row claimed by synchronize() make launch() leave the worker asleep.
constexpr std::uint32_t kStreak = 4;
/// How often a worker looks for a deferred piece that nobody claimed.
constexpr std::chrono::microseconds kTick{500};
/// After so many looks without a new piece the worker rests until it is woken.
constexpr std::uint32_t kIdleTicks = 10;
/// The number of no piece: to the end of the queue.
constexpr std::uint64_t kAll = UINT64_MAX;

weft_result result_of(KernelEnd end) {
  switch (end) {
    case KernelEnd::kDone:
      return WEFT_OK;
    case KernelEnd::kAborted:
      return WEFT_ERROR_ABORTED;
    case KernelEnd::kPeerError:
    case KernelEnd::kForeignPlace:
      return WEFT_ERROR_PEER;
    case KernelEnd::kTagMismatch:
    case KernelEnd::kSizeMismatch:
      return WEFT_ERROR_MISMATCH;
    case KernelEnd::kUnsupported:
      return WEFT_ERROR_UNSUPPORTED;
    case KernelEnd::kBeingTold:
      break;
  }
  return WEFT_ERROR_INTERNAL;
}

}  // namespace

struct HostStream::LaunchState {
  Launch launch;
  std::atomic<std::uint32_t> failed{0};  ///< An item ended badly; the others leave.
  std::atomic<std::uint32_t> left{0};    ///< Items that have not ended.
  KernelOutcome outcome;                 ///< Written by the item that raised `failed`.
  weft_result result = WEFT_OK;          ///< Written by the item that ended last.
};

/// Reused from a free list, so that a launch like the ones before allocates nothing.
struct HostStream::Piece {
  std::uint64_t number = 0;
  std::unique_ptr<LaunchState[]> launches;
  std::uint32_t launch_count = 0;
  std::uint32_t launch_capacity = 0;
  std::uint32_t item_count = 0;       ///< Of all launches.
  std::shared_ptr<HostStream> after;  ///< Of a barrier: whose piece `after_number` comes first.
  std::uint64_t after_number = 0;
  Piece* next = nullptr;                 ///< In the queue, or in a free list.
  std::unique_ptr<Piece> made_before{};  ///< See pieces_.
};

void HostShared::wake_all_deferred() {
  const std::scoped_lock lock(streams_mutex);
  for (const auto& stream : streams)
    stream->wake_if_deferred();
}

void HostShared::add(std::shared_ptr<HostStream> stream) {
  streams.push_back(std::move(stream));
  if (streams.size() == 1 || has_several.exchange(true, std::memory_order_relaxed)) return;
  for (const auto& known : streams)
    known->count_if_deferred();
}

HostStream::HostStream(HostShared& shared) : shared_(shared) {}

void HostStream::close() {
  static_cast<void>(synchronize());
  if (!worker_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    ring();
  }
  worker_.join();
  shared_.budget.ended();
}

HostStream::~HostStream() {
  if (worker_.joinable()) close();
  // One by one: a long list that frees itself would recurse.
  while (pieces_)
    pieces_ = std::move(pieces_->made_before);
}

bool HostStream::callers_claim() const {
  return caller_streak_ >= kStreak;
}

/// Under mutex_. Everything that can fail is had before anything is queued.
weft_result HostStream::prepare(std::uint32_t items) {
  if (!worker_.joinable() && !shared_.budget.start(worker_, [this] {
        name_this_thread("weft-stream");
        work();
      })) {
    return WEFT_ERROR_OUT_OF_RESOURCES;
  }
  if (items > 1 && items - 1 > reserved_) {
    if (!shared_.pool.reserve(items - 1 - reserved_)) return WEFT_ERROR_OUT_OF_RESOURCES;
    reserved_ = items - 1;
  }
  return WEFT_OK;
}

/// Of a piece that is not queued.
bool HostStream::make_room(Piece& piece, std::uint32_t launches) {
  if (launches <= piece.launch_capacity) [[likely]]
    return true;
  std::unique_ptr<LaunchState[]> room(new (std::nothrow) LaunchState[launches]);
  if (!room) return false;
  piece.launches = std::move(room);
  piece.launch_capacity = launches;
  return true;
}

weft_result HostStream::reserve(const LaunchRoom& room) {
  const std::scoped_lock lock(mutex_);
  most_launches_ = std::max(room.launches, most_launches_);
  for (Piece* piece = free_; piece != nullptr; piece = piece->next) {
    if (!make_room(*piece, most_launches_)) return WEFT_ERROR_OUT_OF_MEMORY;
  }
  while (free_count_ < room.pieces) {
    Piece* none = nullptr;  // so that one is made
    Piece* const piece = take_piece(none);
    if (piece == nullptr) return WEFT_ERROR_OUT_OF_MEMORY;
    give_back(*piece);
    if (!make_room(*piece, most_launches_)) return WEFT_ERROR_OUT_OF_MEMORY;
  }
  return WEFT_OK;
}

/// Under mutex_. Room for as many as were ever launched, so that it does not matter which piece a
/// launch gets.
bool HostStream::fill(Piece& piece, std::span<const Launch> launches, std::uint32_t items) {
  const auto count = static_cast<std::uint32_t>(launches.size());
  if (!make_room(piece, std::max(most_launches_, count))) return false;
  most_launches_ = std::max(most_launches_, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    LaunchState& state = piece.launches[i];
    state.launch = launches[i];
    state.failed.store(0, std::memory_order_relaxed);
    state.left.store(static_cast<std::uint32_t>(launches[i].items.size()),
                     std::memory_order_relaxed);
    state.outcome = KernelOutcome{};
    state.result = WEFT_OK;
  }
  piece.launch_count = count;
  piece.item_count = items;
  return true;
}

/// Under mutex_. One of the list or a new one; null without memory.
HostStream::Piece* HostStream::take_piece(Piece*& free) {
  if (free == nullptr) [[unlikely]] {
    std::unique_ptr<Piece> made(new (std::nothrow) Piece);
    if (!made) return nullptr;
    made->made_before = std::move(pieces_);
    pieces_ = std::move(made);
    return pieces_.get();
  }
  Piece* const piece = free;
  free = piece->next;
  if (&free == &free_) --free_count_;
  return piece;
}

/// Under mutex_.
void HostStream::give_back(Piece& piece) {
  Piece*& free = piece.after ? free_barriers_ : free_;
  if (&free == &free_) {
    ++free_count_;
  } else {
    piece.after.reset();
  }
  piece.next = free;
  free = &piece;
}

/// Under mutex_, with a queue that nobody works on: sees to it that somebody will. Answers whether
/// it is deferred.
bool HostStream::announce() {
  if (!callers_claim()) {
    ring();
    return false;
  }
  deferred_ = true;
  if (shared_.has_several.load(std::memory_order_relaxed)) count_deferred();
  if (resting_) ring();  // it goes on looking from time to time
  return true;
}

/// Under mutex_, of a stream that is deferred.
void HostStream::count_deferred() {
  if (std::exchange(counted_, true)) return;
  shared_.deferred_streams.fetch_add(1, std::memory_order_relaxed);
}

void HostStream::count_if_deferred() {
  const std::scoped_lock lock(mutex_);
  if (deferred_) count_deferred();
}

/// Of a thread that helped, and does not go on with this stream as one that synchronizes it does.
void HostStream::leave() {
  const std::scoped_lock lock(mutex_);
  if (head_ != nullptr && !running_) announce();
}

/// Under mutex_. Answers whether it is deferred.
bool HostStream::append(Piece& piece) {
  piece.number = ++launched_;
  piece.next = nullptr;
  if (last_ != nullptr) {
    last_->next = &piece;
  } else {
    head_ = &piece;
  }
  last_ = &piece;
  return announce();
}

weft_result HostStream::launch(std::span<const Launch> launches) {
  if (launches.empty()) return WEFT_OK;
  std::size_t items = 0;
  for (const Launch& launch : launches)
    items += launch.items.size();
  if (items > UINT32_MAX) return WEFT_ERROR_INVALID_ARGUMENT;

  const std::scoped_lock lock(mutex_);
  Piece* const piece = take_piece(free_);
  if (piece == nullptr) return WEFT_ERROR_OUT_OF_MEMORY;
  weft_result prepared = WEFT_ERROR_OUT_OF_MEMORY;
  if (fill(*piece, launches, static_cast<std::uint32_t>(items))) {
    prepared = prepare(static_cast<std::uint32_t>(items));
  }
  if (prepared != WEFT_OK) {
    give_back(*piece);
    return prepared;
  }
  PieceCounts::count(append(*piece) ? counts_.deferred : counts_.woken);
  return WEFT_OK;
}

weft_result HostStream::order_after(HostStream& earlier, std::uint64_t up_to) {
  if (&earlier == this) return WEFT_OK;
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(earlier.mutex_);
    if (earlier.head_ == nullptr) return WEFT_OK;
    number = std::min(earlier.launched_, up_to);
  }
  const std::scoped_lock lock(mutex_);
  if (last_ != nullptr && last_->after.get() == &earlier && last_->after_number == number) {
    return WEFT_OK;
  }
  // A worker, so that it is passed though nobody synchronizes: others may wait for this stream.
  if (const weft_result prepared = prepare(0); prepared != WEFT_OK) return prepared;
  Piece* const piece = take_piece(free_barriers_);
  if (piece == nullptr) return WEFT_ERROR_OUT_OF_MEMORY;
  piece->after = earlier.shared_from_this();
  piece->after_number = number;
  append(*piece);
  return WEFT_OK;
}

/// Under mutex_.
void HostStream::undefer() {
  deferred_ = false;
  if (std::exchange(counted_, false)) {
    shared_.deferred_streams.fetch_sub(1, std::memory_order_relaxed);
  }
}

/// Under mutex_.
void HostStream::ring() {
  resting_ = false;
  post(&doorbell_, &doorbell_waiters_, doorbell_ + 1);
}

void HostStream::wake_if_deferred() {
  const std::scoped_lock lock(mutex_);
  hand_over();
}

void HostStream::wake_to_await() {
  const std::scoped_lock lock(mutex_);
  is_awaited_ = head_ != nullptr;
  hand_over();
}

/// Under mutex_: a deferred piece to the worker.
void HostStream::hand_over() {
  if (!deferred_ || running_ || attended_) return;
  PieceCounts::count(counts_.handed_over);
  undefer();
  ring();
}

/// Under mutex_, with a head that nobody runs.
HostStream::Piece& HostStream::claim() {
  running_ = true;
  undefer();
  return *head_;
}

/// Under mutex_: takes the head, which has ended, out of the queue. wake_waiters follows, without
/// mutex_.
void HostStream::retire() {
  Piece& done = *head_;
  const std::atomic_ref<std::uint64_t> completed(completed_);
  if (is_awaited_) {
    completed.store(done.number, std::memory_order_seq_cst);
  } else {
    completed.store(done.number, std::memory_order_release);
  }
  head_ = done.next;
  if (head_ == nullptr) {
    last_ = nullptr;
    is_awaited_ = false;
    undefer();
    if (reserved_ != 0) shared_.pool.unreserve(std::exchange(reserved_, 0));
  }
  give_back(done);
}

/// The other half of post(), whose store retire() makes.
void HostStream::wake_waiters() {
  const std::atomic_ref<std::uint32_t> waiters(completed_waiters_);
  if (waiters.load(std::memory_order_seq_cst) != 0) wake_sleepers(&completed_);
}

/// Under mutex_. Answers whether there were any that could be passed.
bool HostStream::pass_barriers() {
  bool passed = false;
  while (head_ != nullptr && head_->after && head_->after->has_ended(head_->after_number)) {
    retire();
    passed = true;
  }
  return passed;
}

/// For a thread that synchronizes: this stream, up to kAll, or one that another stream waits for,
/// up to the piece that it waits for.
void HostStream::next_step(std::uint64_t up_to, Step& step) {
  bool passed = false;
  {
    const std::scoped_lock lock(mutex_);
    passed = look(up_to, step);
  }
  if (passed) wake_waiters();
}

/// Under mutex_. Answers whether wake_waiters must follow. `step.other` is null.
bool HostStream::look(std::uint64_t up_to, Step& step) {
  const bool passed = pass_barriers();
  const bool own = up_to == kAll;
  if (head_ == nullptr || head_->number > up_to) {
    step.next = Next::kNothing;
    if (own) {
      attended_ = false;
      step.result = std::exchange(error_, WEFT_OK);
    }
  } else if (running_) {
    step.next = Next::kAwait;
    step.number = head_->number;
    is_awaited_ = true;
  } else if (head_->after) {
    step.next = Next::kHeld;
    step.number = head_->after_number;
    step.other = head_->after;
    attended_ = attended_ || own;
  } else {
    step.next = Next::kRun;
    if (caller_streak_ < kStreak) ++caller_streak_;
    PieceCounts::count(counts_.by_caller);
    step.piece = &claim();
  }
  return passed;
}

// A thread that synchronizes is about to block, and what it waits for may be a piece that it
// deferred itself.
weft_result HostStream::synchronize() {
  Step step;
  next_step(kAll, step);
  while (step.next == Next::kRun) {
    shared_.wake_deferred();
    run(*step.piece);
    complete_and_look(*step.piece, step);
  }
  return step.next == Next::kNothing ? step.result : help(step);
}

/// The same where pieces of other streams, or that other threads run, come first.
weft_result HostStream::help(Step& step) {
  static thread_local Waiter waiter;  // several may wait for one stream
  for (;;) {
    std::shared_ptr<HostStream> helped;
    while (step.next == Next::kHeld) {
      helped = std::move(step.other);
      helped->next_step(step.number, step);
    }
    HostStream& stream = helped ? *helped : *this;
    if (step.next == Next::kNothing) {
      if (!helped) return step.result;
      next_step(kAll, step);  // it got there meanwhile
      continue;
    }
    shared_.wake_deferred();
    if (step.next == Next::kRun) {
      stream.run(*step.piece);
      if (!helped) {
        complete_and_look(*step.piece, step);
        continue;
      }
      stream.complete(*step.piece);
      helped->leave();
    } else {
      waiter.wait(
          &stream.completed_, &stream.completed_waiters_, step.number, [] { return false; },
          [](bool) { return false; });
    }
    next_step(kAll, step);
  }
}

weft_result HostStream::query() {
  const std::scoped_lock lock(mutex_);
  if (head_ == nullptr) return std::exchange(error_, WEFT_OK);
  if (deferred_ && !running_) {  // who polls does not claim
    undefer();
    ring();
  }
  return WEFT_IN_PROGRESS;
}

void HostStream::run(Piece& piece) {
  if (piece.launch_count > 1 || piece.item_count == 0) {
    for (std::uint32_t i = 0; i < piece.launch_count; ++i) {
      if (piece.launches[i].launch.items.empty()) end_launch(piece.launches[i]);
    }
  }
  if (piece.item_count == 0) return;
  if (piece.item_count == 1) return run_item(piece, 0, run_waiter_);
  struct Context {
    HostStream& stream;
    Piece& piece;
  } context{*this, piece};
  shared_.pool.run(
      piece.item_count,
      [](void* raw, std::uint32_t index, Waiter& waiter) {
        auto& own = *static_cast<Context*>(raw);
        own.stream.run_item(own.piece, index, waiter);
      },
      &context, run_waiter_);
}

/// `index`: of all items of the piece. Once the launch has ended its items may be gone.
void HostStream::run_item(Piece& piece, std::uint32_t index, Waiter& waiter) {
  LaunchState* launch = piece.launches.get();
  std::size_t in_launch = index;
  while (in_launch >= launch->launch.items.size())
    in_launch -= (launch++)->launch.items.size();
  LaunchState& state = *launch;
  HostMemory memory(shared_.loops, waiter, state.launch, state.failed);
  const KernelOutcome outcome = run_on_host(state.launch.items[in_launch], memory);
  if (outcome.end != KernelEnd::kDone && state.failed.exchange(1, std::memory_order_acq_rel) == 0) {
    state.outcome = outcome;
  }
  // Who is the last that has not ended needs not count.
  if (state.left.load(std::memory_order_acquire) == 1 ||
      state.left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    end_launch(state);
  }
}

void HostStream::end_launch(LaunchState& state) {
  state.result = state.launch.finished != nullptr
                     ? state.launch.finished(state.launch.finished_context, state.outcome)
                     : result_of(state.outcome.end);
}

/// Under mutex_; wake_waiters follows.
void HostStream::end(Piece& piece) {
  for (std::uint32_t i = 0; i < piece.launch_count; ++i) {
    if (error_ == WEFT_OK) error_ = piece.launches[i].result;
  }
  running_ = false;
  retire();
}

void HostStream::complete(Piece& piece) {
  {
    const std::scoped_lock lock(mutex_);
    end(piece);
  }
  wake_waiters();
}

/// Of a thread that synchronizes this stream: what it does next.
void HostStream::complete_and_look(Piece& piece, Step& step) {
  {
    const std::scoped_lock lock(mutex_);
    end(piece);
    look(kAll, step);
  }
  wake_waiters();
}

void HostStream::work() {
  std::uint32_t idle_ticks = 0;
  std::uint64_t last_launched = 0;  // as of the last look
  std::uint64_t watched = 0;        // the deferred piece that was at the head at the last look
  for (;;) {
    Piece* piece = nullptr;
    std::shared_ptr<HostStream> other;  // whose piece `number` comes first
    std::uint64_t number = 0;
    bool passed = false;
    bool rest = false;
    std::uint64_t rung = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) return;
      passed = pass_barriers();
      rung = doorbell_;
      idle_ticks = launched_ == last_launched ? idle_ticks + 1 : 0;
      last_launched = launched_;
      const bool waiting = head_ != nullptr && !running_ && !(deferred_ && attended_);
      if (waiting && (!deferred_ || head_->number == watched)) {
        if (head_->after) {
          other = head_->after;
          number = head_->after_number;
        } else {
          caller_streak_ = 0;
          PieceCounts::count(counts_.by_worker);
          piece = &claim();
        }
      } else {
        watched = waiting ? head_->number : 0;
        rest = !waiting && (!callers_claim() || idle_ticks > kIdleTicks);
        resting_ = rest;
      }
    }
    if (passed) wake_waiters();
    if (piece != nullptr) {
      run(*piece);
      complete(*piece);
    } else if (other) {
      other->wake_to_await();
      shared_.asleep.fetch_add(1, std::memory_order_relaxed);
      sleep_on(&other->completed_, &other->completed_waiters_, number,
               std::chrono::nanoseconds(-1));
      shared_.asleep.fetch_sub(1, std::memory_order_relaxed);
    } else if (rest) {
      shared_.asleep.fetch_add(1, std::memory_order_relaxed);
      sleep_on(&doorbell_, &doorbell_waiters_, rung + 1, std::chrono::nanoseconds(-1));
      shared_.asleep.fetch_sub(1, std::memory_order_relaxed);
    } else {
      sleep_on(&doorbell_, &doorbell_waiters_, rung + 1, kTick);
    }
  }
}

}  // namespace weft::device
