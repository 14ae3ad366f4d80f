// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The records of calls under way: made by the thread that calls, given back by the worker that has
// done the work. Which waits longest is asked by any thread.
#include "core/comm/under_way.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "core/comm/stream.h"

namespace weft {
namespace {

// What a peer's tag says as long as the peer itself has not said more. The tag holds a fingerprint
// of the count, not the count itself.
std::string describe_tag(const KernelOutcome& outcome, const CallNote& mine) {
  const std::string same = std::to_string(mine.count);
  return fmt::format(
      "{} (call {})",
      describe_operation(outcome.found, count_beside(outcome.found, outcome.expected, same)),
      sequence_near(mine.sequence, outcome.found));
}

}  // namespace

// Under records_mutex_.
void Communicator::add_free_record() {
  records_.push_back(std::make_unique<UnderWay>());
  free_records_.reserve(records_.size());
  UnderWay& record = *records_.back();
  record.make_room(room_for_items_, room_for_pairs_);
  record.communicator = this;
  record.launch = {.items = {},
                   .abort = &failure_->abort_flag(),
                   .progress = drive_hook,
                   .read_peer = read_hook,
                   .progress_context = this,
                   .own_processors = own_processors_,
                   .ranks_per_processor = ranks_per_processor_,
                   .waits_for_messages = reach_ == Reach::kMessages,
                   .finished = finished_hook,
                   .finished_context = &record};
  free_records_.push_back(&record);
}

// As many more as there are: how many are under way at once hangs on the moment, and none of a
// steady program's calls shall be the first to find too few.
void Communicator::add_free_records() {
  const std::size_t fewest = 8;
  for (std::size_t more = std::max(records_.size(), fewest); more != 0; --more)
    add_free_record();
}

void Communicator::reserve(std::size_t launches, std::size_t items, std::size_t pairs) {
  const std::scoped_lock lock(records_mutex_);
  if (items > room_for_items_ || pairs > room_for_pairs_) {
    room_for_items_ = std::max(items, room_for_items_);
    room_for_pairs_ = std::max(pairs, room_for_pairs_);
    for (UnderWay* record : free_records_)
      record->make_room(room_for_items_, room_for_pairs_);
  }
  while (free_records_.size() < launches)
    add_free_record();
}

// Counts the call; of all but sends and receives, which have no `tag` as of call 0, in history_,
// too. Where there is no memory for the record nothing is counted.
Communicator::UnderWay& Communicator::begin_record(const Task& task, Stream& stream,
                                                   std::optional<OperationTag> tag) {
  UnderWay* record = nullptr;
  {
    const std::scoped_lock lock(records_mutex_);
    if (free_records_.empty()) [[unlikely]]
      add_free_records();
    record = free_records_.back();
    // It may have been away when the others got more.
    record->make_room(room_for_items_, room_for_pairs_);
    free_records_.pop_back();
    record->stream = &stream;
    record->others.clear();
    record->task = task;
    record->begun = ++records_begun_;
    record->sequence = tag ? history_.add(task, *tag) : 0;
    record->past = tag ? history_.past() : std::uint16_t{0};
    if (tag) forget_pairs(*record);
    count_under_way(+1);
  }
  if (under_way_.load(std::memory_order_relaxed) == 1) restart_clock();
  return *record;
}

// The call is over, well or badly, or was never launched.
void Communicator::end_record(UnderWay& record, bool done) {
  const std::scoped_lock lock(records_mutex_);
  if (done) {
    last_finished_.any = true;
    last_finished_.task = record.task;
    last_finished_.sequence = record.sequence;
    last_finished_.pairs = record.sequence != 0 ? 0 : record.pair_tasks.size();
  }
  record.begun = 0;
  free_records_.push_back(&record);
  count_under_way(-1);
  // Under the lock: who was woken takes it before the communicator goes.
  if (is_awaited_) under_way_.notify_all();
}

// Of a thread that sleeps until nothing is under way: how much there is. Who ends some of it from
// now on wakes it.
std::uint64_t Communicator::await_ends() {
  const std::scoped_lock lock(records_mutex_);
  const std::uint64_t left = under_way_.load(std::memory_order_relaxed);
  is_awaited_ = left != 0;
  return left;
}

// What several communicators launch may have to run side by side, if ranks call them in different
// orders; launches that take all there is for a moment would then wait for each other.
bool Communicator::has_device_for_itself() const {
  return own_processors_ && runtime_.communicators().load(std::memory_order_relaxed) == 1;
}

// Of a device whose launches do not call back.
void Communicator::launch_by_report(Stream& stream, std::span<const WorkItem> items,
                                    std::uint32_t named) {
  stream.watch(report_);
  reported_launch_ = {.items = items,
                      .abort = report_->abort_word(),
                      .outcome = report_->outcome(),
                      .waiting = report_->waiting(),
                      .own_processors = has_device_for_itself(),
                      .shares_device = !own_processors_,
                      .is_bounded = is_bounded_ || named != 0};
}

void Communicator::withdraw(const Launch& launch, const Error& why) {
  // Peers will wait for this call in vain: the communicator is lost.
  auto* record = static_cast<UnderWay*>(launch.finished_context);
  failure_->note(
      or_no_memory([&] {
        const std::string call = record != nullptr ? describe_task(record->task) : "call";
        return Error(why).with_context(fmt::format("rank {} could not start its {}", rank_, call));
      }),
      true);
  if (record != nullptr) end_record(*record, false);
}

Result<const Launch*> Communicator::lose_counted(UnderWay* record) {
  withdraw(record != nullptr ? record->launch : Launch{}, no_memory());
  return fail(no_memory());
}

weft_result Communicator::finished_hook(void* record, const KernelOutcome& outcome) {
  auto* under_way = static_cast<UnderWay*>(record);
  return under_way->communicator->finished(*under_way, outcome);
}

weft_result Communicator::finished(UnderWay& record, const KernelOutcome& outcome) {
  weft_result result = WEFT_OK;
  if (outcome.end == KernelEnd::kDone) {
    if (connections_->busy()) connections_->leave();
  } else {
    result = code_of(record, outcome);
    record.stream->note_failure(failure_);
    for (Stream* const other : record.others)
      other->note_failure(failure_);
  }
  restart_clock();
  end_record(record, outcome.end == KernelEnd::kDone);
  return result;
}

// Of a bad end. Nothing may leave the device's thread: who asks for the cause is told the rest.
weft_result Communicator::code_of(const UnderWay& record, const KernelOutcome& outcome) {
  try {
    explain_outcome(record, outcome);
    const weft_result code = failure_->code();
    return code != WEFT_OK ? code : WEFT_ERROR_INTERNAL;
  } catch (const std::bad_alloc&) {
    if (outcome.end != KernelEnd::kAborted) failure_->note(no_memory(), true);
    return WEFT_ERROR_OUT_OF_MEMORY;
  }
}

void Communicator::explain_outcome(const UnderWay& record, const KernelOutcome& outcome) {
  if (outcome.end == KernelEnd::kAborted) return;  // whoever raised the flag has said why
  const CallNote mine = record.call_of(outcome);
  if (outcome.end != KernelEnd::kTagMismatch && outcome.end != KernelEnd::kSizeMismatch) {
    return explain_kernel_end(*failure_, rank_, ranks_, outcome, describe_call(mine), "");
  }
  // Until who sent it has named both calls in full; that is the cause then, for all ranks.
  failure_->suspect(find_kernel_mismatch(
      rank_, outcome, describe_call(mine),
      outcome.end == KernelEnd::kTagMismatch ? describe_tag(outcome, mine) : ""));
  complain(outcome, mine);
}

std::optional<Communicator::Waiting> Communicator::oldest_under_way() {
  const std::scoped_lock lock(records_mutex_);
  UnderWay* oldest = nullptr;
  for (const auto& record : records_) {
    if (record->begun == 0) continue;
    if (oldest == nullptr || record->begun < oldest->begun) oldest = record.get();
  }
  if (oldest == nullptr) return std::nullopt;
  if (oldest->sequence != 0) {
    return Waiting{
        .begun = oldest->begun, .note = oldest->note(), .text = describe_call(oldest->note())};
  }
  const Task* pair = oldest->waiting_pair();
  if (pair == nullptr) pair = &oldest->task;
  return Waiting{.begun = oldest->begun,
                 .pair_progress = oldest->progress_of_pairs(),
                 .note = make_call_note(*pair, 0),
                 .text = describe_task(*pair)};
}

// Empty where that is not known.
std::string Communicator::describe_last_finished(const std::optional<CallNote>& waiting) {
  if (report_ != nullptr) {
    // No record tells; but calls that have a number run one after another.
    if (!waiting || waiting->sequence == 0) return {};
    if (waiting->sequence == 1) return "nothing";
    const auto before = history_.find(waiting->sequence - 1);
    return before ? describe_call(*before) : std::string();
  }
  const std::scoped_lock lock(records_mutex_);
  const auto& [any, task, sequence, pairs] = last_finished_;
  if (!any) return "nothing";
  if (sequence != 0) return fmt::format("{} (call {})", describe_task(task), sequence);
  if (pairs < 2) return describe_task(task);
  return fmt::format("{}, grouped with {} more", describe_task(task), pairs - 1);
}

std::optional<CallNote> Communicator::find_call(std::uint64_t sequence) {
  if (auto found = history_.find(sequence)) return found;
  // More calls wait in the stream than the history holds.
  const std::scoped_lock lock(records_mutex_);
  for (const auto& record : records_) {
    if (sequence != 0 && record->begun != 0 && record->sequence == sequence) return record->note();
  }
  return std::nullopt;
}

}  // namespace weft
