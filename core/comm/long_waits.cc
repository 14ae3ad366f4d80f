// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a rank does that waits for long: it asks the others what they called, reports, and gives up
// where a limit is set. By the worker that waits; for kernels that run on their own by the reactor.
#include <algorithm>
#include <cerrno>
#include <new>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/comm/co_residency.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/config/units.h"

namespace weft {
namespace {

// Coarse, since every wait reads it: good to some milliseconds, for limits of seconds.
std::int64_t now_ns() {
  timespec now{};
  // Fails for no clock that the kernel has.
  static_cast<void>(clock_gettime(CLOCK_MONOTONIC_COARSE, &now));
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// A question costs each rank a message, so they become rarer. The first comes when a wait is too
// long to be that of a healthy ring, the last interval is short beside timeouts.report.
constexpr std::int64_t kFirstQuestionNs = 500'000'000;
constexpr std::int64_t kFirstPairQuestionNs = 5'000'000'000;
constexpr std::int64_t kLongestIntervalNs = 16'000'000'000;

// What a partner sent before it left may still be on its way, and what a kernel tells of its wait
// is up to half a second old when others hear of it.
constexpr std::chrono::seconds kUntilAllHasCome{2};

// In the place of a complaint's peer, where calls are compared without one.
constexpr std::uint32_t kGoesRound = UINT32_MAX;
constexpr std::uint32_t kTurnsBack = UINT32_MAX - 1;

// How often a kernel that waits tells it hangs on what it looks at: host memory takes longer.
constexpr std::uint32_t kMostSilentLooks = 4;

// In the place of the number of a call that has been reported.
constexpr std::uint64_t kUnknownCall = UINT64_MAX;

bool is_of_pair(OperationTag tag) {
  return joins_pair(static_cast<Operation>(split_operation_tag(tag).operation));
}

}  // namespace

void Communicator::restart_clock() {
  waiting_since_ns_.store(0, std::memory_order_relaxed);
  ask_after_ns_.store(kFirstQuestionNs, std::memory_order_relaxed);
}

// A wait begins with the first look at it, so that calls that do not wait read no clock.
std::int64_t Communicator::waited_ns() {
  const std::int64_t now = now_ns();
  std::int64_t since = waiting_since_ns_.load(std::memory_order_relaxed);
  if (since == 0 &&
      waiting_since_ns_.compare_exchange_strong(since, now, std::memory_order_relaxed)) {
    return 0;
  }
  return now - since;
}

bool Communicator::is_long(std::int64_t waited) const {
  return waited > ask_after_ns_.load(std::memory_order_relaxed) ||
         (operation_limit_ns_ != 0 && waited > operation_limit_ns_) ||
         (report_after_ns_ != 0 && waited > report_after_ns_);
}

void Communicator::check_time() {
  const std::int64_t waited = waited_ns();
  if (!is_long(waited)) return;
  const auto waiting = oldest_under_way();
  if (!waiting) return;
  if (waiting->note.sequence != 0) {
    return consider_wait(waiting->note, waiting->begun, waiting->text, waited);
  }
  // Sends and receives may be long, and what a partner sent before it left may still be on its way.
  if (pair_progress_.exchange(waiting->pair_progress) != waiting->pair_progress) {
    return restart_clock();
  }
  const bool may_ask = waited > kFirstPairQuestionNs;
  consider_wait(may_ask ? std::optional(waiting->note) : std::nullopt, waiting->begun,
                waiting->text, waited);
}

void Communicator::consider_wait(const std::optional<CallNote>& call, std::uint64_t number,
                                 const std::string& description, std::int64_t waited) {
  std::int64_t ask_after = ask_after_ns_.load(std::memory_order_relaxed);
  const std::int64_t next = ask_after + std::min(ask_after, kLongestIntervalNs);
  // Of several workers that wait, one asks.
  if (call && waited > ask_after && ask_after_ns_.compare_exchange_strong(ask_after, next)) {
    ask_others(*call);
    if (call->sequence != 0) call_roll(*call, ask_after == kFirstQuestionNs);
  }
  const bool late = operation_limit_ns_ != 0 && waited > operation_limit_ns_;
  const bool report = report_after_ns_ != 0 && waited > report_after_ns_;
  if (late || (report && reported_call_.exchange(number) != number)) {
    say_what_waits(call, description, std::chrono::nanoseconds(waited), late);
  }
}

// No worker waits together with a kernel that runs on its own: the reactor looks now and then at
// what kernels tell.
Status Communicator::start_kernel_watch() {
  constexpr itimerspec kPeriod{.it_interval = {.tv_sec = 0, .tv_nsec = 400'000'000},
                               .it_value = {.tv_sec = 0, .tv_nsec = 400'000'000}};
  kernel_timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!kernel_timer_ || timerfd_settime(kernel_timer_.get(), 0, &kPeriod, nullptr) != 0) {
    return fail(Error::from_errno(errno, "cannot make a timer"));
  }
  WEFT_TRY_ASSIGN(kernel_watch_,
                  context_.reactor().add(kernel_timer_.get(), EPOLLIN, [this](std::uint32_t) {
                    try {
                      watch_kernels();
                    } catch (const std::bad_alloc&) {
                      return;  // Nothing may leave the reactor's thread: it looks again.
                    }
                  }));
  return {};
}

// Others wait for this rank, which may itself wait for work of another communicator that they do
// not get to: nobody would ask.
Status Communicator::start_suspicion_watch() {
  suspicion_timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!suspicion_timer_) return fail(Error::from_errno(errno, "cannot make a timer"));
  const auto arm = [fd = suspicion_timer_.get()](std::chrono::nanoseconds in) {
    constexpr long kNanoseconds = 1'000'000'000;
    const itimerspec once{
        .it_interval = {},
        .it_value = {.tv_sec = in.count() / kNanoseconds, .tv_nsec = in.count() % kNanoseconds}};
    static_cast<void>(timerfd_settime(fd, 0, &once, nullptr));
  };
  WEFT_TRY_ASSIGN(
      suspicion_watch_,
      context_.reactor().add(suspicion_timer_.get(), EPOLLIN, [this, arm](std::uint32_t) {
        std::uint64_t expirations = 0;
        static_cast<void>(read(suspicion_timer_.get(), &expirations, sizeof(expirations)));
        try {
          static_cast<void>(failure_->known());
        } catch (const std::bad_alloc&) {
          arm(Failure::kUntilMemory);
        }
      }));
  failure_->set_alarm(arm);
  return {};
}

// On the reactor's thread.
void Communicator::watch_kernels() {
  std::uint64_t expirations = 0;
  static_cast<void>(read(kernel_timer_.get(), &expirations, sizeof(expirations)));
  report_->look();
  const LongWait told = report_->take_waiting();
  if (told.begun != 0) another_wait_ = true;
  if (told.tag == 0) {
    if (++silent_looks_ == kMostSilentLooks) waiting_tag_ = 0;
    return;
  }
  silent_looks_ = 0;
  // Of a call that runs once all waits are one. Each replay of a graph has the tags of the calls
  // that it holds, so there another wait may be that of another replay; and calls with one partner
  // may all have one tag, while those with several tell by turns. So do kernels that wait at once,
  // as of replays that nobody has ordered: what has been told of before is no other wait.
  const bool in_pair = is_of_pair(told.tag);
  const bool was_silent = waiting_tag_ == 0;
  const bool is_other =
      in_pair ? !is_of_pair(std::exchange(waiting_tag_, told.tag)) : told.tag != waiting_tag_;
  const bool may_differ = is_other || in_pair || has_captured_.load(std::memory_order_relaxed);
  const bool is_new = was_silent || (another_wait_ && may_differ);
  // Kept until then: it may have been told just before the tag that it belongs to.
  if (is_new) {
    another_wait_ = false;
    waiting_tag_ = told.tag;
    reported_call_.store(0);
    restart_clock();
    static_cast<void>(waited_ns());
    return;
  }
  const std::int64_t waited = waited_ns();
  if (!is_long(waited)) return;
  // A graph may replay a call that is long gone: then its number and its count are not known.
  const auto call = in_pair ? std::nullopt : history_.find_tag(told.tag);
  const std::string text =
      call ? describe_call(*call) : describe_operation(told.tag, "an unknown number of");
  if (in_pair && waited > kFirstPairQuestionNs) {
    const CallNote note{.sequence = 0, .tag = told.tag, .count = CallNote::kUnknownCount};
    return consider_wait(note, kUnknownCall, text, waited);
  }
  consider_wait(call, call ? call->sequence : kUnknownCall, text, waited);
}

void Communicator::say_what_waits(const std::optional<CallNote>& call,
                                  const std::string& description, std::chrono::nanoseconds waited,
                                  bool late) {
  const std::string last = describe_last_finished(call);
  const std::string others =
      roll_.describe(call ? call->sequence : 0, std::chrono::steady_clock::now());
  const std::string text =
      fmt::format("rank {} of {} has waited {} in {}:{}{}{}{}{}", rank_, ranks_,
                  print_duration(waited < std::chrono::seconds(10)
                                     ? std::chrono::duration_cast<std::chrono::milliseconds>(waited)
                                     : std::chrono::duration_cast<std::chrono::seconds>(waited)),
                  description, last.empty() ? "" : "\n  last finished: ", last,
                  others.empty() ? "" : "\n  ", others, pairs_->describe_waiting());
  if (late) {
    failure_->establish(Error(WEFT_ERROR_TIMEOUT, text,
                              "look at the ranks named here; timeouts.operation sets this limit"),
                        true);
  } else {
    context_.logger().warn(Topic::kComm, "{}", text);
  }
}

// Data shows calls that differ only where data comes. A rank that waits for long shows its call to
// all others, and a rank that leaves shows its last call to its neighbours; they compare it with
// their own call of that number.
void Communicator::ask_others(const CallNote& waiting) {
  look_for_leavers(bootstrap_->departed_neighbours(), rank_, waiting);
  bootstrap_->ask(encode_call_note(waiting));
}

// On the reactor's thread, also while the destructor leaves: bootstrap_ is not this thread's.
void Communicator::answer_question(const Question& question) {
  const auto asker = static_cast<std::uint32_t>(question.asker);
  if (const auto complaint = decode_complaint(question.text)) {
    return answer_complaint(*complaint, asker, question.departed);
  }
  const auto waiting = decode_call_note(question.text);
  if (!waiting) return;
  if (const auto called = find_call(waiting->sequence)) {
    if (auto mismatch = find_mismatch(*called, rank_, *waiting, asker)) {
      failure_->establish(std::move(*mismatch), true);
    }
  }
  look_for_leavers(question.departed, asker, *waiting);
}

// Data of another call has come. By the worker that got it.
void Communicator::complain(const KernelOutcome& outcome, const CallNote& mine) {
  const bool has_tag = outcome.end == KernelEnd::kTagMismatch;
  Complaint complaint{.peer = outcome.peer, .found = has_tag ? outcome.found : 0, .waiting = mine};
  const bool in_pair = joins_pair(static_cast<Operation>(split_operation_tag(mine.tag).operation));
  complaint.calls = calls_up_to(in_pair ? history_.latest() : mine.sequence);
  answer_complaint(complaint, rank_, bootstrap_->departed_neighbours());
  bootstrap_->ask(encode_complaint(complaint));
}

// The latest first.
std::vector<CallNote> Communicator::calls_up_to(std::uint64_t sequence) {
  std::vector<CallNote> calls;
  for (; sequence != 0 && calls.size() < kMostComplaintCalls; --sequence) {
    const auto note = find_call(sequence);
    if (!note) break;
    calls.push_back(*note);
  }
  return calls;
}

// The first calls that differ are what is wrong; whose data has met need not be those.
std::optional<Error> Communicator::first_difference(std::span<const CallNote> calls,
                                                    std::uint32_t asker) {
  for (std::size_t i = calls.size(); i-- > 0;) {
    const auto called = find_call(calls[i].sequence);
    auto cause = called ? find_mismatch(*called, rank_, calls[i], asker) : std::nullopt;
    if (cause) return cause;
  }
  return std::nullopt;
}

// Of a rank that has left its neighbours know the last call.
void Communicator::look_at_departed(std::span<const Departure> departed,
                                    std::span<const CallNote> calls, std::uint32_t asker) {
  for (const Departure& departure : departed) {
    const auto leaver = static_cast<std::uint32_t>(departure.rank);
    const auto last = decode_call_note(departure.last_words);
    if (!last) continue;
    for (const CallNote& call : calls) {
      if (auto cause = find_mismatch(*last, leaver, call, asker)) {
        failure_->establish(std::move(*cause), true);
      }
    }
  }
}

void Communicator::answer_complaint(const Complaint& complaint, std::uint32_t asker,
                                    std::span<const Departure> departed) {
  look_at_departed(departed, complaint.calls, asker);
  if (complaint.peer != rank_ || asker == rank_) return;
  if (auto cause = first_difference(complaint.calls, asker)) {
    return failure_->establish(std::move(*cause), true);
  }
  if (complaint.found == 0) return;
  auto mine = sent_.find(asker, complaint.found);
  if (!mine) {
    const std::uint64_t number = sequence_near(history_.latest(), complaint.found);
    // What differs lies further back than both can say.
    if (std::ranges::find(complaint.calls, number, &CallNote::sequence) != complaint.calls.end())
      return;
    mine = find_call(number);
  }
  if (!mine) return;
  failure_->establish(
      name_both(describe_call(*mine), rank_, describe_call(complaint.waiting), asker), true);
}

// A root that sends waits for nobody, so ranks that all take themselves for the root get no data
// that would show it, and there is no later call whose data would. So each of them shows its calls
// to all others before it ends: from rank to rank, so that what comes back has met everybody; where
// a rank has left it turns back. A rank that is not that far yet drops it, and it comes again.
Status Communicator::compare_last_calls() {
  const auto last = history_.find(history_.latest());
  if (report_ != nullptr || ranks_ < 2 || !last) return {};
  const auto operation = static_cast<Operation>(split_operation_tag(last->tag).operation);
  // Of blocks that differ one rank may have all, as a root has.
  const bool met_all = !has_root(operation) && !has_uneven_blocks(operation) && last->count != 0;
  if (met_all) return {};
  const std::vector<CallNote> calls = calls_up_to(last->sequence);
  constexpr std::chrono::milliseconds kFirst{1};
  constexpr std::chrono::milliseconds kLongest{1000};
  restart_clock();
  for (auto again = kFirst; !failure_->stopped(); again = std::min(2 * again, kLongest)) {
    if (!send_comparison(calls)) break;
    std::unique_lock lock(comparison_mutex_);
    comparison_changed_.wait_for(lock, again, [&] { return compared_ || failure_->stopped(); });
    if (compared_) break;
    lock.unlock();
    const std::int64_t waited = waited_ns();
    if (is_long(waited)) consider_wait(last, last->sequence, describe_call(*last), waited);
  }
  look_at_departed(bootstrap_->departed_neighbours(), calls, rank_);
  if (auto cause = failure_->settle()) return fail(std::move(*cause));
  return {};
}

void Communicator::stop_comparing() {
  const std::scoped_lock lock(comparison_mutex_);
  compared_ = true;
  comparison_changed_.notify_all();
}

// False if there is nobody left to send it to.
bool Communicator::send_comparison(std::span<const CallNote> calls) {
  const auto text = encode_complaint(
      {.peer = kGoesRound, .waiting = calls.front(), .calls = {calls.begin(), calls.end()}});
  const auto asker = static_cast<int>(rank_);
  return bootstrap_->hand_on(0, asker, text) || bootstrap_->hand_on(1, asker, text);
}

// Of calls with a number. One text goes round, so that one alone comes back.
void Communicator::call_roll(const CallNote& waiting, bool is_first) {
  roll_.ask(waiting.sequence, is_first, std::chrono::steady_clock::now());
  const auto text = encode_roll_call({.call = waiting});
  const auto asker = static_cast<int>(rank_);
  static_cast<void>(bootstrap_->hand_on(0, asker, text) || bootstrap_->hand_on(1, asker, text));
}

// On the reactor's thread, which alone looks at what kernels tell.
RankAnswer Communicator::whereabouts(const CallNote& call) {
  RankAnswer answer{.rank = rank_, .where = Whereabouts::kWaits, .number = 0};
  if (const std::uint64_t latest = history_.latest(); latest < call.sequence) {
    answer.where = Whereabouts::kNotThere;
    answer.number = latest;
    return answer;
  }
  if (report_ == nullptr) {
    const auto waiting = oldest_under_way();
    if (!waiting) {
      answer.where = Whereabouts::kThrough;
    } else if (waiting->note.sequence != call.sequence) {
      answer.where = Whereabouts::kElsewhere;
      answer.number = waiting->note.sequence;
    }
    return answer;
  }
  if (waiting_tag_ == 0) {
    answer.where =
        shares_device(topology_, rank_) ? Whereabouts::kQuietOnSharedDevice : Whereabouts::kQuiet;
  } else if (waiting_tag_ != call.tag) {
    const auto found = is_of_pair(waiting_tag_) ? std::nullopt : history_.find_tag(waiting_tag_);
    const bool is_same = found && found->sequence == call.sequence;
    if (!is_same) answer.where = Whereabouts::kElsewhere;
    if (!is_same && found) answer.number = found->sequence;
  }
  return answer;
}

// As below. Where a rank has left the text turns back.
void Communicator::pass_roll_call(const RoundText& round, RollCall roll) {
  if (static_cast<std::uint32_t>(round.asker) == rank_) {
    return roll_.answer(std::move(roll), std::chrono::steady_clock::now());
  }
  if (!roll.has_turned) roll.add(whereabouts(roll.call));
  if (round.hand_on(1 - round.side, encode_roll_call(roll)) || roll.has_turned) return;
  roll.has_turned = true;
  round.hand_on(round.side, encode_roll_call(roll));
}

void Communicator::pass_round(const RoundText& round) {
  if (auto roll = decode_roll_call(round.text, ranks_)) {
    return pass_roll_call(round, std::move(*roll));
  }
  pass_comparison(round);
}

// On the reactor's thread, also while the destructor leaves: bootstrap_ is not this thread's.
void Communicator::pass_comparison(const RoundText& round) {
  const auto asker = static_cast<std::uint32_t>(round.asker);
  if (asker == rank_) return stop_comparing();
  auto comparison = decode_complaint(round.text);
  if (!comparison) return;
  if (comparison->peer == kGoesRound) {
    if (auto cause = first_difference(comparison->calls, asker)) {
      return failure_->establish(std::move(*cause), true);
    }
    if (history_.latest() < comparison->waiting.sequence) return;
  }
  if (round.hand_on(1 - round.side, round.text)) return;
  if (comparison->peer != kGoesRound) return;
  look_at_departed(round.departed, comparison->calls, asker);
  comparison->peer = kTurnsBack;
  round.hand_on(round.side, encode_complaint(*comparison));
}

// Only a rank's neighbours know how it left: they answer for it.
void Communicator::look_for_leavers(std::span<const Departure> departed, std::uint32_t asker,
                                    const CallNote& waiting) {
  for (const Departure& departure : departed) {
    const auto last = decode_call_note(departure.last_words);
    if (!last) continue;
    const auto leaver = static_cast<std::uint32_t>(departure.rank);
    const bool has_settled = std::chrono::steady_clock::now() - departure.since >= kUntilAllHasCome;
    auto cause = has_settled ? find_partner_that_left(leaver, waiting, asker) : std::nullopt;
    if (!cause) cause = find_early_leaver(*last, leaver, waiting, asker);
    if (!cause) cause = find_mismatch(*last, leaver, waiting, asker);
    if (cause) failure_->establish(std::move(*cause), true);
  }
}

}  // namespace weft
