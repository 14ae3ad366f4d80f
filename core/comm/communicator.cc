// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/communicator.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/base/wait.h"
#include "core/comm/context.h"
#include "core/comm/exchange.h"
#include "core/comm/stream.h"
#include "core/config/units.h"

namespace weft {
namespace {

// Plans are small; a program calls few shapes over and over. Beyond that the table starts anew.
constexpr std::size_t kMostPlans = 1024;

// Coarse, since every call reads it: good to some milliseconds, for limits of seconds.
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

// In the place of the number of a call that has been reported.
constexpr std::uint64_t kUnknownCall = UINT64_MAX;

std::string describe_task(const Task& task) {
  return describe_operation(make_operation_tag(task, 0), std::to_string(task.count));
}

// What a peer's tag says. The tag holds a fingerprint of the count, not the count itself.
std::string describe_tag(OperationTag tag, const Task& mine) {
  const OperationTagParts parts = split_operation_tag(tag);
  const bool same_count = parts.count_fingerprint == count_fingerprint(mine.count);
  return fmt::format("{} (call {})",
                     describe_operation(tag, same_count ? std::to_string(mine.count)
                                                        : std::string("another number of")),
                     parts.sequence);
}

}  // namespace

struct Communicator::UnderWay {
  Communicator* communicator = nullptr;
  Stream* stream = nullptr;
  Task task;                          // of sends and receives the first one
  std::uint64_t begun = 0;            // which of all records; 0 while this one is free
  std::uint64_t sequence = 0;         // of collective calls, which all ranks number alike
  std::shared_ptr<BoundPlan> plan{};  // of them; kernels read it, and it may be forgotten meanwhile
  std::vector<PairTransfer> transfers{};
  std::vector<Task> pair_tasks{};  // of each transfer

  [[nodiscard]] CallNote note() const {
    return {.sequence = sequence, .tag = make_operation_tag(task, sequence), .count = task.count};
  }

  void make_room(std::size_t pairs) {
    transfers.reserve(pairs);
    pair_tasks.reserve(pairs);
  }

  // Changes with every step that a transfer makes; other threads write the counters.
  [[nodiscard]] std::uint64_t progress_of_pairs() const {
    std::uint64_t steps = 0;
    for (const PairTransfer& transfer : transfers) {
      if (transfer.view.head == nullptr) continue;
      steps += load_counter(transfer.view.head) + load_counter(transfer.view.tail);
    }
    return steps;
  }

  // The first transfer that the kernel has not completed.
  [[nodiscard]] const Task* waiting_pair() {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (std::atomic_ref(transfers[i].complete).load(std::memory_order_acquire) == 0) {
        return &pair_tasks[i];
      }
    }
    return nullptr;
  }

  // The call that an outcome is about.
  [[nodiscard]] const Task& task_of(const KernelOutcome& outcome) const {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const bool is_it = outcome.end == KernelEnd::kTagMismatch
                             ? transfers[i].tag == outcome.expected
                             : transfers[i].view.peer == outcome.peer;
      if (is_it) return pair_tasks[i];
    }
    return task;
  }
};

struct Communicator::Planned {
  std::shared_ptr<const Plan> plan;
  std::vector<PairLink> edges;       // that must be connected first
  std::shared_ptr<BoundPlan> bound;  // null before its first call
};

std::size_t Communicator::TaskHash::operator()(const Task& task) const {
  return std::hash<std::uint64_t>{}(make_operation_tag(task, 0) ^ (task.count << 1));
}

Communicator::Communicator(Context& context, Config config, std::uint32_t rank, std::uint32_t ranks,
                           DeviceRuntime& runtime)
    : context_(context),
      config_(std::move(config)),
      rank_(rank),
      ranks_(ranks),
      runtime_(runtime),
      made_reductions_(context.reduction_numbers()) {
  const auto limit_of = [&](const char* name) -> std::int64_t {
    const auto span = config_.duration(name);
    return span ? span->count() : 0;
  };
  report_after_ns_ = limit_of("timeouts.report");
  operation_limit_ns_ = limit_of("timeouts.operation");
}

Communicator::~Communicator() {
  static_cast<void>(finish());
  if (kernel_watch_ != 0) context_.reactor().remove(kernel_watch_);
  // Orderly only where all is well: a failure has been announced, or is about to be by the close.
  if (bootstrap_ != nullptr) {
    const auto last = history_.find(history_.latest());
    bootstrap_->leave(encode_call_note(last.value_or(CallNote{})));
  }
  failure_->clear_hook();
  pairs_.reset();
  connections_.reset();
  bootstrap_.reset();
}

Status Communicator::check_task(const Task& task) const {
  const std::size_t element = element_size(task.type);
  if (element == 0) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} is no element type", task.type),
                "one of the WEFT_INT8 to WEFT_FLOAT8_E5M2 constants");
  }
  if (task.count > UINT64_MAX / 4 / element) {
    return fail(
        WEFT_ERROR_INVALID_ARGUMENT,
        fmt::format("{} elements of {} bytes are more than memory can hold", task.count, element),
        "check the count, which is of elements");
  }
  if (has_blocks(task.operation) && !has_uneven_blocks(task.operation) &&
      task.count > UINT64_MAX / 4 / element / ranks_) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("{} blocks of {} elements of {} bytes are more than memory can hold",
                            ranks_, task.count, element),
                "check the count, which is of the elements of one block");
  }
  if (has_root(task.operation) && task.root >= ranks_) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("root {} is not a rank of this communicator of {}", task.root, ranks_),
                "a rank counted from 0");
  }
  if (joins_pair(task.operation) && task.root >= ranks_) {
    return fail(
        WEFT_ERROR_INVALID_ARGUMENT,
        fmt::format("partner {} is not a rank of this communicator of {}", task.root, ranks_),
        "a rank counted from 0");
  }
  if (!reduces(task.operation)) return check_kernel(task);
  if (task.reduction < WEFT_SUM || task.reduction > kPremulSum) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} is no reduction", task.reduction),
                "one of WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG");
  }
  return check_kernel(task);
}

Status Communicator::check_kernel(const Task& task) const {
  if (runtime_.has_kernel(task)) return {};
  const std::string by =
      reduces(task.operation) ? fmt::format(" by {}", reduction_name(task.reduction)) : "";
  return fail(
      WEFT_ERROR_UNSUPPORTED,
      fmt::format("this version has no kernel for {} of {}{} on devices of kind {}",
                  operation_name(task.operation), data_type_name(task.type), by, runtime_.name()),
      "a type that it has: weft bench all_reduce --help lists them");
}

PlanInput Communicator::plan_input(Operation operation) const {
  PlanInput input{.topology = topology_, .costs = costs_, .limits = limits_, .tuner = tuner_.get()};
  // There is one way alone, which needs no parameters.
  if (has_uneven_blocks(operation)) return input;
  const std::string section = fmt::format("collectives.{}.", operation_name(operation));
  input.algorithms = config_.list(section + "algorithm");
  input.protocols = config_.list(section + "protocol");
  return input;
}

Result<std::shared_ptr<const Plan>> Communicator::plan(const Task& task) {
  WEFT_TRY(check_task(task));
  WEFT_TRY_ASSIGN(auto plan, make_plan(task, plan_input(task.operation)));
  return std::make_shared<const Plan>(std::move(plan));
}

Result<Communicator::Planned*> Communicator::find_plan(const Task& task) {
  if (latest_plan_ != nullptr && latest_plan_->plan->task == task) return latest_plan_;
  const auto found = plans_.find(task);
  if (found != plans_.end()) return latest_plan_ = found->second.get();
  WEFT_TRY_ASSIGN(auto fresh, plan(task));
  // Work under way shares its plan, and so do graphs.
  if (plans_.size() >= kMostPlans) plans_.clear();
  auto planned = std::make_unique<Planned>();
  planned->edges = tree_edges(*fresh, rank_);
  planned->plan = std::move(fresh);
  return latest_plan_ = plans_.emplace(task, std::move(planned)).first->second.get();
}

Result<std::shared_ptr<BoundPlan>> Communicator::bind(const Call& call) {
  WEFT_TRY_ASSIGN(Planned* const planned, find_plan(planned_task(call)));
  const bool differ = has_uneven_blocks(call.task.operation);
  // Of blocks that differ those of the last call are kept.
  if (planned->bound == nullptr ||
      (differ && planned->bound->plan().blocks != call.blocks->common)) {
    std::shared_ptr<const Plan> plan = planned->plan;
    if (differ) {
      auto with_blocks = std::make_shared<Plan>(*plan);
      with_blocks->blocks = call.blocks->common;
      plan = std::move(with_blocks);
    }
    const auto pair = [this](const PairLink& link) -> const PairConnections& {
      return *pairs_->find(link);
    };
    planned->bound = std::make_shared<BoundPlan>(
        std::move(plan), rank_,
        BoundPlan::Ends{
            .rings = connections_->rings(), .direct = connections_->direct(), .pair = pair});
  }
  return planned->bound;
}

// Under records_mutex_.
void Communicator::add_free_record() {
  records_.push_back(std::make_unique<UnderWay>());
  free_records_.reserve(records_.size());
  free_records_.push_back(records_.back().get());
  free_records_.back()->make_room(room_for_pairs_);
}

void Communicator::reserve(std::size_t launches, std::size_t pairs) {
  const std::scoped_lock lock(records_mutex_);
  if (pairs > room_for_pairs_) {
    for (UnderWay* record : free_records_)
      record->make_room(pairs);
    room_for_pairs_ = pairs;
  }
  while (free_records_.size() < launches)
    add_free_record();
}

Communicator::UnderWay* Communicator::take_record(const Task& task, Stream& stream) {
  const std::scoped_lock lock(records_mutex_);
  if (free_records_.empty()) add_free_record();
  UnderWay* record = free_records_.back();
  free_records_.pop_back();
  record->communicator = this;
  record->stream = &stream;
  record->task = task;
  record->begun = ++records_begun_;
  record->sequence = joins_pair(task.operation) ? 0 : history_.add(task);
  record->transfers.clear();
  record->pair_tasks.clear();
  return record;
}

void Communicator::give_back(UnderWay* record) {
  record->plan.reset();
  const std::scoped_lock lock(records_mutex_);
  record->begun = 0;
  free_records_.push_back(record);
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
                 .note = {.sequence = 0, .tag = make_operation_tag(*pair, 0), .count = pair->count},
                 .text = describe_task(*pair)};
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

Status Communicator::check_call(const Stream& stream) {
  if (report_ != nullptr) report_->look();
  if (failure_->stopped()) {
    if (auto cause = failure_->settle()) return fail(std::move(*cause));
  }
  if (&stream.runtime() != &runtime_) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("the stream belongs to device {} {}, the communicator to device {} {}",
                            stream.runtime().name(), stream.runtime().index(), runtime_.name(),
                            runtime_.index()));
  }
  return {};
}

Result<Launch> Communicator::prepare(const Call& call, Stream& stream) {
  const Task& task = call.task;
  if (is_exchange(task.operation)) return prepare_exchange(call, stream);
  WEFT_TRY(check_call(stream));
  auto bound = call.plan;
  if (bound == nullptr) {
    WEFT_TRY_ASSIGN(bound, bind(call));
  }
  if (bound->needs_cpu() && runtime_.is_capturing(stream.device_stream())) {
    return fail(WEFT_ERROR_UNSUPPORTED,
                fmt::format("{} cannot be captured into a graph: messages of a net need the CPU in "
                            "each replay",
                            describe_task(task)),
                "call it outside of the capture");
  }
  WEFT_TRY(order_after_latest(stream));
  std::uint64_t sequence = 0;
  Launch launch;
  if (report_ == nullptr) {
    UnderWay* record = begin_record(task, stream);
    sequence = record->sequence;
    record->plan = bound;
    launch = launch_of(record);
  } else {
    sequence = history_.add(task);
    stream.watch(report_);
    launch.abort = report_->abort_word();
    launch.outcome = report_->outcome();
    launch.waiting = report_->waiting_word();
  }
  const OperationTag tag = make_operation_tag(task, sequence);
  bound->work_items(call.send, call.recv, call.factor, tag, items_);
  bound->enqueue_messages(items_);
  // Kernels that run on their own drive no net.
  if (report_ != nullptr && connections_->busy()) connections_->leave();
  launch.items = items_;
  return launch;
}

const PairConnections* Communicator::partner(std::uint32_t rank) {
  if (partners_.empty()) partners_.resize(ranks_);
  if (partners_[rank] == nullptr) partners_[rank] = pairs_->find({.peer = rank});
  return partners_[rank];
}

bool Communicator::exchanges_with(const Call& call, std::uint32_t other) const {
  return other != rank_ && (block_sent(call, rank_, other).count != 0 ||
                            block_received(call, rank_, other).count != 0);
}

bool Communicator::is_connected(const Call& call) {
  if (is_empty(call)) return true;
  if (joins_pair(call.task.operation)) {
    return call.task.root != rank_ && partner(call.task.root) != nullptr;
  }
  if (is_exchange(call.task.operation)) {
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      if (exchanges_with(call, other) && partner(other) == nullptr) return false;
    }
    return true;
  }
  const auto planned = find_plan(planned_task(call));
  return planned && ((*planned)->bound != nullptr || (*planned)->edges.empty());
}

Result<std::vector<Communicator::Need>> Communicator::needs_of(std::span<const Call* const> calls,
                                                               std::uint64_t ahead) {
  std::vector<Need> needs;
  for (const Call* call : calls) {
    const Task& task = call->task;
    if (is_empty(*call)) continue;
    if (joins_pair(task.operation)) {
      if (task.root == rank_) continue;
      needs.push_back(
          {.link = {.peer = task.root},
           .call = {.sequence = 0, .tag = make_operation_tag(task, 0), .count = task.count}});
      continue;
    }
    const std::uint64_t sequence = history_.latest() + 1 + ahead;
    const CallNote note{
        .sequence = sequence, .tag = make_operation_tag(task, sequence), .count = task.count};
    if (is_exchange(task.operation)) {
      for (std::uint32_t other = 0; other < ranks_; ++other) {
        if (exchanges_with(*call, other)) needs.push_back({.link = {.peer = other}, .call = note});
      }
      continue;
    }
    WEFT_TRY_ASSIGN(const Planned* const planned, find_plan(planned_task(*call)));
    for (const PairLink& edge : planned->edges)
      needs.push_back({.link = edge, .call = note});
  }
  return needs;
}

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

Result<Launch> Communicator::prepare_pairs(std::span<const Call* const> calls, Stream& stream) {
  WEFT_TRY(check_call(stream));
  WEFT_TRY(order_after_latest(stream));
  UnderWay* record = begin_record(calls.front()->task, stream);
  pair_messages_.clear();
  const auto ends_towards = [this](std::uint32_t rank) -> const PairConnections& {
    return *partner(rank);
  };
  make_transfers(calls, rank_, pair_numbers_, ends_towards, record->transfers, pair_messages_,
                 record->pair_tasks);
  return pair_launch(record);
}

Result<Launch> Communicator::prepare_exchange(const Call& call, Stream& stream) {
  WEFT_TRY(check_call(stream));
  WEFT_TRY(order_after_latest(stream));
  UnderWay* record = begin_record(call.task, stream);
  pair_messages_.clear();
  const auto ends_towards = [this](std::uint32_t rank) -> const PairConnections& {
    return *partner(rank);
  };
  make_exchange(call, rank_, ranks_, record->sequence, ends_towards, record->transfers,
                pair_messages_, record->pair_tasks);
  return pair_launch(record);
}

Launch Communicator::pair_launch(UnderWay* record) {
  items_.assign(1, pair_item(record->transfers, ranks_));
  for (const PairMessage& message : pair_messages_)
    message.port->enqueue({&message.operation, 1});
  Launch launch = launch_of(record);
  launch.items = items_;
  return launch;
}

// Operations of a communicator are serial, streams are not: those of the old stream come first.
Status Communicator::order_after_latest(Stream& stream) {
  if (latest_stream_ == &stream) return {};
  if (latest_stream_ != nullptr && !latest_stream_life_.expired() &&
      (report_ != nullptr || under_way_.load(std::memory_order_acquire) != 0)) {
    const weft_result ordered = runtime_.order_after(
        stream.device_stream(), latest_stream_->device_stream(), latest_piece_);
    if (ordered != WEFT_OK && report_ == nullptr) {
      // The host device lacks a thread or memory.
      Error error(ordered, "the device refused to start work",
                  "raise the limits of processes and memory (ulimit -u, ulimit -v)");
      withdraw({}, error);
      return fail(std::move(error));
    }
  }
  latest_stream_ = &stream;
  latest_stream_life_ = stream.life();
  return {};
}

void Communicator::launched() {
  latest_piece_ = runtime_.last_piece(latest_stream_->device_stream());
}

Communicator::UnderWay* Communicator::begin_record(const Task& task, Stream& stream) {
  UnderWay* record = take_record(task, stream);
  if (under_way_.fetch_add(1, std::memory_order_acq_rel) == 0) restart_clock();
  return record;
}

Launch Communicator::launch_of(UnderWay* record) {
  return {.items = {},
          .abort = &failure_->abort_flag(),
          .progress = drive_hook,
          .progress_context = this,
          .own_processors = own_processors_,
          .finished = finished_hook,
          .finished_context = record};
}

void Communicator::withdraw(const Launch& launch, const Error& why) {
  // Peers will wait for this call in vain: the communicator is lost.
  auto* record = static_cast<UnderWay*>(launch.finished_context);
  const std::string call = record != nullptr ? describe_task(record->task) : "call";
  failure_->establish(
      Error(why).with_context(fmt::format("rank {} could not start its {}", rank_, call)), true);
  if (record == nullptr) return;
  give_back(record);
  under_way_.fetch_sub(1, std::memory_order_acq_rel);
}

bool Communicator::drive_hook(void* self, bool about_to_sleep) {
  return static_cast<Communicator*>(self)->drive(about_to_sleep);
}

bool Communicator::drive(bool about_to_sleep) {
  if (connections_->drive(about_to_sleep)) return true;
  check_time();
  return false;
}

void Communicator::restart_clock() {
  waiting_since_ns_.store(now_ns(), std::memory_order_relaxed);
  ask_after_ns_.store(kFirstQuestionNs, std::memory_order_relaxed);
}

bool Communicator::is_long(std::int64_t waited) const {
  return waited > ask_after_ns_.load(std::memory_order_relaxed) ||
         (operation_limit_ns_ != 0 && waited > operation_limit_ns_) ||
         (report_after_ns_ != 0 && waited > report_after_ns_);
}

void Communicator::check_time() {
  const std::int64_t waited = now_ns() - waiting_since_ns_.load(std::memory_order_relaxed);
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
  }
  const bool late = operation_limit_ns_ != 0 && waited > operation_limit_ns_;
  const bool report = report_after_ns_ != 0 && waited > report_after_ns_;
  if (late || (report && reported_call_.exchange(number) != number)) {
    say_what_waits(description, std::chrono::nanoseconds(waited), late);
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
                  context_.reactor().add(kernel_timer_.get(), EPOLLIN,
                                         [this](std::uint32_t) { watch_kernels(); }));
  return {};
}

// On the reactor's thread.
void Communicator::watch_kernels() {
  std::uint64_t expirations = 0;
  static_cast<void>(read(kernel_timer_.get(), &expirations, sizeof(expirations)));
  report_->look();
  const auto tag = report_->take_waiting();
  if (!tag) {
    waiting_tag_ = 0;
    return;
  }
  if (*tag != waiting_tag_) {
    waiting_tag_ = *tag;
    restart_clock();
    return;
  }
  const std::int64_t waited = now_ns() - waiting_since_ns_.load(std::memory_order_relaxed);
  if (!is_long(waited)) return;
  const auto call = history_.find_tag(*tag);
  // A graph may replay a call that is long gone: then its number and its count are not known.
  consider_wait(call, call ? call->sequence : kUnknownCall,
                call ? describe_call(*call) : describe_operation(*tag, "an unknown number of"),
                waited);
}

void Communicator::say_what_waits(const std::string& call, std::chrono::nanoseconds waited,
                                  bool late) {
  const std::string text =
      fmt::format("rank {} of {} has waited {} in {}:{}", rank_, ranks_,
                  print_duration(waited < std::chrono::seconds(10)
                                     ? std::chrono::duration_cast<std::chrono::milliseconds>(waited)
                                     : std::chrono::duration_cast<std::chrono::seconds>(waited)),
                  call, connections_->describe_waiting() + pairs_->describe_waiting());
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
  const auto waiting = decode_call_note(question.text);
  if (!waiting) return;
  if (const auto called = find_call(waiting->sequence)) {
    if (auto mismatch = find_mismatch(*called, rank_, *waiting, asker)) {
      failure_->establish(std::move(*mismatch), true);
    }
  }
  look_for_leavers(question.departed, asker, *waiting);
}

// Only a rank's neighbours know how it left: they answer for it.
void Communicator::look_for_leavers(std::span<const Departure> departed, std::uint32_t asker,
                                    const CallNote& waiting) {
  for (const Departure& departure : departed) {
    const auto last = decode_call_note(departure.last_words);
    if (!last) continue;
    const auto leaver = static_cast<std::uint32_t>(departure.rank);
    auto cause = find_partner_that_left(leaver, waiting, asker);
    if (!cause) cause = find_early_leaver(*last, leaver, waiting, asker);
    if (!cause) cause = find_mismatch(*last, leaver, waiting, asker);
    if (cause) failure_->establish(std::move(*cause), true);
  }
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
    explain_outcome(record, outcome);
    record.stream->note_failure(failure_);
    result = failure_->code();
    if (result == WEFT_OK) result = WEFT_ERROR_INTERNAL;
  }
  restart_clock();
  give_back(&record);
  under_way_.fetch_sub(1, std::memory_order_acq_rel);
  under_way_.notify_all();
  return result;
}

void Communicator::explain_outcome(const UnderWay& record, const KernelOutcome& outcome) {
  const Task& task = record.task_of(outcome);
  std::string mine = describe_task(task);
  if (record.sequence != 0) {
    mine += fmt::format(" (call {})", record.sequence & 0xFFFF);
  } else if (outcome.end == KernelEnd::kTagMismatch) {
    // Sends and receives are numbered by pair.
    mine += fmt::format(" (call {})", split_operation_tag(outcome.expected).sequence);
  }
  explain_kernel_end(
      *failure_, rank_, ranks_, outcome, mine,
      outcome.end == KernelEnd::kTagMismatch ? describe_tag(outcome.found, task) : "");
}

Status Communicator::finish(bool may_work) {
  const bool waits_itself = report_ != nullptr;  // for kernels whose ends nobody reports
  const bool works = may_work && under_way_.load(std::memory_order_acquire) != 0;
  if (latest_stream_ != nullptr && !latest_stream_life_.expired() && (waits_itself || works)) {
    // The caller may run the work itself, so that a communicator ends though nobody synchronizes.
    static_cast<void>(runtime_.synchronize(latest_stream_->device_stream()));
  }
  if (report_ != nullptr) report_->look();
  for (std::uint64_t left = under_way_.load(std::memory_order_acquire); left != 0;
       left = under_way_.load(std::memory_order_acquire)) {
    under_way_.wait(left, std::memory_order_acquire);
  }
  // Messages that the last call left to the engine are part of its work.
  while (connections_ != nullptr && connections_->busy() && !failure_->stopped()) {
    if (!connections_->drive(false)) std::this_thread::yield();
  }
  if (auto cause = failure_->settle()) return fail(std::move(*cause));
  return {};
}

weft_result Communicator::async_error() {
  const auto failure = known_failure();
  return failure ? failure->code() : WEFT_OK;
}

std::optional<Error> Communicator::known_failure() {
  if (report_ != nullptr) report_->look();
  return failure_->known();
}

void Communicator::abort() {
  failure_->establish(
      Error(WEFT_ERROR_ABORTED, fmt::format("rank {} was aborted by its user", rank_),
            "see why the program of that rank gave up"),
      true);
}

// Model: tests/models/abort.pml
void Communicator::stop_everything(const Error& cause, bool tell_others) {
  const bool names_rank = cause.source() == ErrorSource::kPeer && cause.native() >= 0 &&
                          cause.native() < static_cast<std::int64_t>(ranks_);
  const auto culprit = names_rank ? static_cast<std::uint32_t>(cause.native()) : rank_;
  if (tell_others) bootstrap_->announce_failure(cause);
  connections_->abort(culprit + 1);
  context_.logger().info(Topic::kComm, "rank {} stops: {}", rank_, cause.to_string());
}

CommunicatorFacts Communicator::facts() const {
  CommunicatorFacts facts;
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    if (!topology_.same_host(rank_, other)) continue;
    ++facts.local_ranks;
    if (other < rank_) ++facts.local_rank;
  }
  facts.hosts = static_cast<std::uint32_t>(topology_.hosts.size());
  facts.channels = static_cast<std::uint32_t>(rings_.size());
  facts.shares_memory = reach_ != Reach::kMessages;
  facts.most_direct = limits_.direct_bytes;
  facts.calls = history_.latest();
  facts.bytes_held = connections_->bytes_held();
  if (report_ != nullptr) facts.bytes_held += KernelReport::bytes_held();
  return facts;
}

std::string Communicator::describe_pair(std::uint32_t a, std::uint32_t b) const {
  if (a >= ranks_ || b >= ranks_) return {};
  if (a == b) return "the same rank: memory";
  const auto choice = choose_pair(*choice_, a, b);
  if (!choice) return "none: " + choice.error().what();
  return choice->plugin + ": " + choice->reason;
}

std::vector<std::string> Communicator::describe_net_edges(std::optional<std::uint32_t> rank) const {
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const auto& ring : rings_) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const std::uint32_t from = ring[i];
      const std::uint32_t to = ring[(i + 1) % ring.size()];
      if (from != to && (!rank || rank == from || rank == to)) edges.emplace(from, to);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [from, to] : edges) {
    const auto choice = choose_pair(*choice_, std::min(from, to), std::max(from, to));
    if (!choice || choice->kind != PluginKind::kNet) continue;
    lines.push_back(fmt::format("{} from rank {} to rank {}: {}", choice->plugin, from, to,
                                describe_devices(*choice_, choice->plugin, rings_, from, to)));
  }
  return lines;
}

}  // namespace weft
