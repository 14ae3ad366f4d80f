// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The queue, the choice of who runs a piece, and the end of a launch.
#include "core/device/host/host_stream.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

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
      return WEFT_ERROR_PEER;
    case KernelEnd::kTagMismatch:
    case KernelEnd::kSizeMismatch:
      return WEFT_ERROR_MISMATCH;
    case KernelEnd::kUnsupported:
      return WEFT_ERROR_UNSUPPORTED;
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
  std::vector<WorkItem> items;
  std::vector<std::uint32_t> launch_of;  ///< By item.
  std::unique_ptr<LaunchState[]> launches;
  std::uint32_t launch_count = 0;
  std::uint32_t launch_capacity = 0;
  std::shared_ptr<HostStream> after;  ///< Of a barrier: whose piece `after_number` comes first.
  std::uint64_t after_number = 0;
  std::unique_ptr<Piece> next;
};

void HostShared::wake_deferred() {
  if (deferred_streams.load(std::memory_order_relaxed) == 0) return;
  const std::scoped_lock lock(streams_mutex);
  for (const auto& stream : streams)
    stream->wake_if_deferred();
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
  for (std::unique_ptr<Piece>* free : {&free_, &free_barriers_}) {
    while (*free)
      *free = std::move((*free)->next);
  }
}

bool HostStream::callers_claim() const {
  return caller_streak_ >= kStreak;
}

/// Under mutex_. Everything that can fail is had before anything is queued.
weft_result HostStream::prepare(std::uint32_t items) {
  if (!worker_.joinable() && !shared_.budget.start(worker_, [this] { work(); })) {
    return WEFT_ERROR_OUT_OF_RESOURCES;
  }
  if (items > 1 && items - 1 > reserved_) {
    if (!shared_.pool.reserve(items - 1 - reserved_)) return WEFT_ERROR_OUT_OF_RESOURCES;
    reserved_ = items - 1;
  }
  return WEFT_OK;
}

/// Under mutex_, of a piece that is not queued. Room for all that was reserved or launched, so that
/// it does not matter which piece a launch gets.
bool HostStream::make_room(Piece& piece) const {
  try {
    piece.items.reserve(room_.items);
    piece.launch_of.reserve(room_.items);
    if (piece.launch_capacity < room_.launches) {
      piece.launches = std::make_unique<LaunchState[]>(room_.launches);
      piece.launch_capacity = room_.launches;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

weft_result HostStream::reserve(const LaunchRoom& room) {
  const std::scoped_lock lock(mutex_);
  if (room.launches > room_.launches || room.items > room_.items) {
    room_.launches = std::max(room.launches, room_.launches);
    room_.items = std::max(room.items, room_.items);
    for (Piece* piece = free_.get(); piece != nullptr; piece = piece->next.get()) {
      if (!make_room(*piece)) return WEFT_ERROR_OUT_OF_MEMORY;
    }
  }
  while (free_count_ < room.pieces) {
    std::unique_ptr<Piece> piece(new (std::nothrow) Piece);
    if (!piece || !make_room(*piece)) return WEFT_ERROR_OUT_OF_MEMORY;
    give_back(std::move(piece));
  }
  return WEFT_OK;
}

bool HostStream::fill(Piece& piece, std::span<const Launch> launches, std::uint32_t items) {
  const LaunchRoom before = room_;
  room_.launches = std::max(room_.launches, static_cast<std::uint32_t>(launches.size()));
  room_.items = std::max(room_.items, items);
  if (!make_room(piece)) {
    room_ = before;  // later launches may need less
    return false;
  }
  piece.items.clear();
  piece.launch_of.clear();
  piece.launch_count = 0;
  for (const Launch& launch : launches) {
    LaunchState& state = piece.launches[piece.launch_count];
    state.launch = launch;
    state.launch.items = {};
    state.failed.store(0, std::memory_order_relaxed);
    state.left.store(static_cast<std::uint32_t>(launch.items.size()), std::memory_order_relaxed);
    state.outcome = KernelOutcome{};
    state.result = WEFT_OK;
    for (const WorkItem& item : launch.items) {
      piece.items.push_back(item);
      piece.launch_of.push_back(piece.launch_count);
    }
    ++piece.launch_count;
  }
  return true;
}

/// Under mutex_. One of the list or a new one; null without memory.
std::unique_ptr<HostStream::Piece> HostStream::take_piece(std::unique_ptr<Piece>& free) {
  if (!free) return std::unique_ptr<Piece>(new (std::nothrow) Piece);
  std::unique_ptr<Piece> piece = std::move(free);
  free = std::move(piece->next);
  if (&free == &free_) --free_count_;
  return piece;
}

/// Under mutex_.
void HostStream::give_back(std::unique_ptr<Piece> piece) {
  std::unique_ptr<Piece>& free = piece->after ? free_barriers_ : free_;
  if (&free == &free_) ++free_count_;
  piece->after.reset();
  piece->next = std::move(free);
  free = std::move(piece);
}

/// Under mutex_, with a queue that nobody works on: sees to it that somebody will. Answers whether
/// it is deferred.
bool HostStream::announce() {
  if (!callers_claim()) {
    ring();
    return false;
  }
  if (!deferred_) {
    deferred_ = true;
    shared_.deferred_streams.fetch_add(1, std::memory_order_relaxed);
  }
  if (resting_) ring();  // it goes on looking from time to time
  return true;
}

/// Of a thread that helped, and does not go on with this stream as one that synchronizes it does.
void HostStream::leave() {
  const std::scoped_lock lock(mutex_);
  if (head_ && !running_) announce();
}

/// Under mutex_. Answers whether it is deferred.
bool HostStream::append(std::unique_ptr<Piece> piece) {
  piece->number = ++launched_;
  Piece* added = piece.get();
  if (head_) {
    last_->next = std::move(piece);
  } else {
    head_ = std::move(piece);
  }
  last_ = added;
  return announce();
}

weft_result HostStream::launch(std::span<const Launch> launches) {
  if (launches.empty()) return WEFT_OK;
  std::size_t items = 0;
  for (const Launch& launch : launches)
    items += launch.items.size();
  if (items > UINT32_MAX) return WEFT_ERROR_INVALID_ARGUMENT;

  const std::scoped_lock lock(mutex_);
  std::unique_ptr<Piece> piece = take_piece(free_);
  if (!piece) return WEFT_ERROR_OUT_OF_MEMORY;
  weft_result prepared = WEFT_ERROR_OUT_OF_MEMORY;
  if (fill(*piece, launches, static_cast<std::uint32_t>(items))) {
    prepared = prepare(static_cast<std::uint32_t>(items));
  }
  if (prepared != WEFT_OK) {
    give_back(std::move(piece));
    return prepared;
  }
  PieceCounts::count(append(std::move(piece)) ? counts_.deferred : counts_.woken);
  return WEFT_OK;
}

weft_result HostStream::order_after(HostStream& earlier, std::uint64_t up_to) {
  if (&earlier == this) return WEFT_OK;
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(earlier.mutex_);
    if (!earlier.head_) return WEFT_OK;
    number = std::min(earlier.launched_, up_to);
  }
  const std::scoped_lock lock(mutex_);
  if (last_ != nullptr && last_->after.get() == &earlier && last_->after_number == number) {
    return WEFT_OK;
  }
  // A worker, so that it is passed though nobody synchronizes: others may wait for this stream.
  if (const weft_result prepared = prepare(0); prepared != WEFT_OK) return prepared;
  std::unique_ptr<Piece> piece = take_piece(free_barriers_);
  if (!piece) return WEFT_ERROR_OUT_OF_MEMORY;
  piece->after = earlier.shared_from_this();
  piece->after_number = number;
  append(std::move(piece));
  return WEFT_OK;
}

/// Under mutex_.
void HostStream::undefer() {
  if (!deferred_) return;
  deferred_ = false;
  shared_.deferred_streams.fetch_sub(1, std::memory_order_relaxed);
}

/// Under mutex_.
void HostStream::ring() {
  resting_ = false;
  post(&doorbell_, &doorbell_waiters_, doorbell_ + 1);
}

void HostStream::wake_if_deferred() {
  const std::scoped_lock lock(mutex_);
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
  std::atomic_ref<std::uint64_t>(completed_).store(head_->number, std::memory_order_seq_cst);
  std::unique_ptr<Piece> done = std::move(head_);
  head_ = std::move(done->next);
  if (!head_) {
    last_ = nullptr;
    undefer();
    if (reserved_ != 0) shared_.pool.unreserve(std::exchange(reserved_, 0));
  }
  give_back(std::move(done));
}

/// The other half of post(), whose store retire() makes.
void HostStream::wake_waiters() {
  const std::atomic_ref<std::uint32_t> waiters(completed_waiters_);
  if (waiters.load(std::memory_order_seq_cst) != 0) wake_sleepers(&completed_);
}

/// Under mutex_. Answers whether there were any that could be passed.
bool HostStream::pass_barriers() {
  bool passed = false;
  while (head_ && head_->after && head_->after->has_ended(head_->after_number)) {
    retire();
    passed = true;
  }
  return passed;
}

/// For a thread that synchronizes: this stream, up to kAll, or one that another stream waits for,
/// up to the piece that it waits for.
HostStream::Step HostStream::next_step(std::uint64_t up_to) {
  Step step;
  bool passed = false;
  {
    const std::scoped_lock lock(mutex_);
    step = look(up_to, passed);
  }
  if (passed) wake_waiters();
  return step;
}

/// Under mutex_. `passed`: wake_waiters must follow.
HostStream::Step HostStream::look(std::uint64_t up_to, bool& passed) {
  Step step;
  passed = pass_barriers();
  const bool own = up_to == kAll;
  if (!head_ || head_->number > up_to) {
    if (own) {
      attended_ = false;
      step.result = std::exchange(error_, WEFT_OK);
    }
  } else if (running_) {
    step.next = Next::kAwait;
    step.number = head_->number;
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
  return step;
}

weft_result HostStream::synchronize() {
  Step step = next_step(kAll);
  for (;;) {
    std::shared_ptr<HostStream> helped;
    while (step.next == Next::kHeld) {
      helped = std::move(step.other);
      step = helped->next_step(step.number);
    }
    HostStream& stream = helped ? *helped : *this;
    if (step.next == Next::kNothing) {
      if (!helped) return step.result;
      step = next_step(kAll);  // it got there meanwhile
      continue;
    }
    // This thread is about to block, and what it waits for may be a piece that it deferred itself.
    shared_.wake_deferred();
    if (step.next == Next::kRun) {
      stream.run(*step.piece);
      if (!helped) {
        step = complete_and_look(*step.piece);
        continue;
      }
      stream.complete(*step.piece);
      helped->leave();
    } else {
      sync_waiter_.wait(
          &stream.completed_, &stream.completed_waiters_, step.number, [] { return false; },
          [](bool) { return false; });
    }
    step = next_step(kAll);
  }
}

weft_result HostStream::query() {
  const std::scoped_lock lock(mutex_);
  if (!head_) return std::exchange(error_, WEFT_OK);
  if (deferred_ && !running_) {  // who polls does not claim
    undefer();
    ring();
  }
  return WEFT_IN_PROGRESS;
}

void HostStream::run(Piece& piece) {
  for (std::uint32_t i = 0; i < piece.launch_count; ++i) {
    if (piece.launches[i].left.load(std::memory_order_relaxed) == 0) end_launch(piece.launches[i]);
  }
  if (piece.items.empty()) return;
  if (piece.items.size() == 1) return run_item(piece, 0, run_waiter_);
  struct Context {
    HostStream& stream;
    Piece& piece;
  } context{*this, piece};
  shared_.pool.run(
      static_cast<std::uint32_t>(piece.items.size()),
      [](void* raw, std::uint32_t index, Waiter& waiter) {
        auto& own = *static_cast<Context*>(raw);
        own.stream.run_item(own.piece, index, waiter);
      },
      &context, run_waiter_);
}

void HostStream::run_item(Piece& piece, std::uint32_t index, Waiter& waiter) {
  LaunchState& state = piece.launches[piece.launch_of[index]];
  HostMemory memory(shared_.loops, waiter, state.launch, state.failed);
  const KernelOutcome outcome = run_on_host(piece.items[index], memory);
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
HostStream::Step HostStream::complete_and_look(Piece& piece) {
  Step step;
  bool passed = false;
  {
    const std::scoped_lock lock(mutex_);
    end(piece);
    step = look(kAll, passed);
  }
  wake_waiters();
  return step;
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
      const bool waiting = head_ && !running_ && !(deferred_ && attended_);
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
      other->wake_if_deferred();
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
