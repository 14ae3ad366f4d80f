// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/communicator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/comm/context.h"
#include "core/comm/exchange.h"
#include "core/comm/stream.h"
#include "core/comm/under_way.h"
#include "core/schedule/work_items.h"

namespace weft {

Communicator::Communicator(Context& context, Config config, std::uint32_t rank, std::uint32_t ranks,
                           DeviceRuntime& runtime)
    : context_(context),
      config_(std::move(config)),
      rank_(rank),
      ranks_(ranks),
      runtime_(runtime),
      made_reductions_(context.reduction_numbers()) {
  runtime_.communicators().fetch_add(1);
  const auto limit_of = [&](const char* name) -> std::int64_t {
    const auto span = config_.duration(name);
    return span ? span->count() : 0;
  };
  report_after_ns_ = limit_of("timeouts.report");
  operation_limit_ns_ = limit_of("timeouts.operation");
  least_copied_ = config_.bytes("windows.copy_from");
  least_reduced_ = config_.bytes("windows.reduce_from");
}

Communicator::~Communicator() {
  static_cast<void>(finish());
  runtime_.communicators().fetch_sub(1);
  if (is_on_device_) context_.leave_device(runtime_, number_);
  if (kernel_watch_ != 0) context_.reactor().remove(kernel_watch_);
  if (output_watch_ != 0) context_.reactor().remove(output_watch_);
  failure_->set_alarm(nullptr);
  if (suspicion_watch_ != 0) context_.reactor().remove(suspicion_watch_);
  // Orderly only where all is well: a failure has been announced, or is about to be by the close.
  if (bootstrap_ != nullptr) {
    const auto last = history_.find(history_.latest());
    bootstrap_->leave(encode_call_note(last.value_or(CallNote{})));
  }
  failure_->clear_hook();
  windows_ = {};
  output_mappings_.reset();
  runtime_.release_shared(output_map_);
  table_memory_.release(output_table_);
  table_memory_.release(window_staging_);
  if (multicast_ != nullptr && failure_->stopped()) multicast_->leave_to_peers();
  multicast_.reset();
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

Status Communicator::why_not_callable(const Stream& stream) {
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

// The owner of a stream that it ended within a capture has been told what is ordered then.
Status Communicator::why_not_ordered(const Stream& stream) const {
  const bool was_ended = latest_.owner.expired() && !runtime_.is_lasting(latest_.stream);
  if (was_ended || !runtime_.is_capturing(latest_.stream)) return {};
  if (runtime_.is_capturing(stream.device_stream())) return {};
  return fail(WEFT_ERROR_INVALID_USAGE,
              "the communicator's latest call was made on another stream, which is captured now: "
              "nothing outside of the capture can be ordered after it",
              "call before the capture begins or after it has ended, or capture a stream on which "
              "the communicator was not called");
}

Status Communicator::why_not_captured(std::span<const Call* const> calls, Stream& stream) {
  WEFT_TRY(check_call(stream));
  const bool captured = runtime_.is_capturing(stream.device_stream());
  if (captured && runtime_.is_lasting(stream.device_stream())) {
    return fail(WEFT_ERROR_INVALID_USAGE,
                "the program is capturing a stream that waits for the null stream: a call on that "
                "would end the capture",
                "call when the capture has ended, or capture a stream made with "
                "cudaStreamNonBlocking");
  }
  WEFT_TRY(check_order(stream));
  if (reach_ != Reach::kMessages || !captured) return {};
  WEFT_TRY_ASSIGN(const auto needs, needs_of(calls, 0));
  const bool by_net = std::ranges::any_of(needs, [&](const Need& need) {
    return choice_with(need.link.peer).kind == PluginKind::kNet;
  });
  if (!by_net) return {};
  return fail(
      WEFT_ERROR_UNSUPPORTED,
      fmt::format("{} cannot be captured into a graph: messages of a net need the CPU in each "
                  "replay",
                  describe_task(calls.front()->task)),
      "call it outside of the capture");
}

Result<const Launch*> Communicator::prepare(const Call& call, Stream& stream) {
  const Task& task = call.task;
  if (report_ != nullptr) {
    if (const auto place = copied_into(call)) {
      WEFT_TRY(check_call(stream));
      WEFT_TRY(order_after_latest(stream));
      return copy_launch(call, *place, stream);
    }
    if (const auto places = reduced_in(call)) {
      WEFT_TRY(check_call(stream));
      WEFT_TRY(order_after_latest(stream));
      return reduction_launch(call, *places, stream);
    }
  }
  if (is_exchange(task.operation)) return prepare_exchange(call, stream);
  WEFT_TRY(check_call(stream));
  // Counted once, by the record: the communicator or the call's graph has it meanwhile.
  const std::shared_ptr<BoundPlan>* found = call.plan != nullptr ? &call.plan : call.latest;
  if (found == nullptr) {
    WEFT_TRY_ASSIGN(found, find_bound(call));
  }
  const std::shared_ptr<BoundPlan>& bound = *found;
  WEFT_TRY(order_after_latest(stream));
  if (bound->tables() != nullptr && latest_was_captured_) bound->tables()->note_capture();
  if (report_ != nullptr) return reported_launch(call, bound, stream);
  const bool has_task_of_plan = !has_uneven_blocks(task.operation);
  UnderWay& record =
      begin_record(task, stream, has_task_of_plan ? bound->tag() : make_operation_tag(task, 0));
  return finish_counted(&record, [&] {
    if (record.plan != bound) {
      record.plan = nullptr;  // there may be no memory for the items
      bound->make_items(record.items);
      record.plan = bound;
      // The next such call gets another record, depending on what has ended by then.
      if (record.items.size() > room_for_items_) reserve(0, record.items.size(), 0);
    }
    bound->set_call(call.send, call.recv, call.factor, history_.tag(), record.items);
    if (bound->needs_cpu()) bound->enqueue_messages(record.items);
    record.launch.items = record.items;
    return &record.launch;
  });
}

// Of a device whose launches do not call back, and of a call that is connected and in order.
Result<const Launch*> Communicator::reported_launch(const Call& call,
                                                    const std::shared_ptr<BoundPlan>& bound,
                                                    Stream& stream) {
  if (Status brought = bound->bring_links(stream.device_stream()); !brought) {
    withdraw({}, brought.error());
    return fail(std::move(brought.error()));
  }
  if (launched_plan_ != bound) {
    launched_plan_ = nullptr;  // there may be no memory for the items
    bound->make_items(plan_items_);
    launched_plan_ = bound;
  }
  const Task& task = call.task;
  bound->set_call(call.send, call.recv, call.factor, make_operation_tag(task, history_.add(task)),
                  plan_items_);
  return finish_counted(nullptr, [&] {
    bound->enqueue_messages(plan_items_);
    if (goes_directly(bound->plan().algorithm)) enqueue_inbox_messages(plan_items_.front());
    // Kernels that run on their own drive no net.
    if (connections_->busy()) connections_->leave();
    launch_by_report(stream, plan_items_, task.options.max_channels);
    reported_launch_.packed = bound->packed();
    reported_launch_.links = bound->links();
    if (bound->plan().into_outputs && output_table_ != nullptr) {
      reported_launch_.outputs = output_call(call, stream);
    }
    return &reported_launch_;
  });
}

// Operations of a communicator are serial, streams are not: those of the old stream come first.
// What a device captures runs when it is replayed: within the graph it is ordered, and what runs
// outside of it neither waits for it nor is forgotten for it.
Status Communicator::order_after_another(Stream& stream, std::uint64_t capture) {
  UsedStream& used = capture == 0 ? latest_ : latest_of(capture);
  const std::shared_ptr<DeviceStream> earlier = used.life.lock();
  if (earlier != nullptr && earlier != stream.handle() &&
      (report_ != nullptr || under_way_.load(std::memory_order_acquire) != 0)) {
    const weft_result ordered =
        runtime_.order_after(stream.device_stream(), earlier.get(), latest_piece_);
    if (ordered != WEFT_OK && report_ == nullptr) {
      // The host device lacks a thread or memory.
      Error error(ordered, "the device refused to start work",
                  "raise the limits of processes and memory (ulimit -u, ulimit -v)");
      withdraw({}, error);
      return fail(std::move(error));
    }
  }
  used.stream = stream.device_stream();
  used.life = stream.handle();
  if (report_ != nullptr) {
    used.kept = stream.handle();
    used.owner = stream.life();
  }
  return {};
}

// Where one was captured it is mostly replayed: who ends the communicator waits there, so one that
// has ended is forgotten for a newer one alone.
Communicator::UsedStream& Communicator::latest_of(std::uint64_t capture) {
  const auto known = std::ranges::find(captures_, capture, &Capture::number);
  if (known != captures_.end()) return known->latest;
  std::erase_if(captures_, [this](const Capture& other) {
    return runtime_.capture_number(other.latest.stream) != other.number;
  });
  // A stream that its owner left within a capture is part of it for ever.
  const auto left = std::ranges::find_if(
      captures_, [](const Capture& other) { return other.latest.owner.expired(); });
  if (captures_.size() >= kMostCaptures && left != captures_.end()) captures_.erase(left);
  return captures_.emplace_back(Capture{.number = capture}).latest;
}

void Communicator::launched() {
  if (report_ != nullptr) return;
  latest_piece_ = runtime_.last_piece(latest_.stream);
}

// On threads of the device, which nothing may leave: who waits calls again, and there may be memory
// by then.
bool Communicator::drive_hook(void* self, bool about_to_sleep) {
  try {
    return static_cast<Communicator*>(self)->drive(about_to_sleep);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Communicator::drive(bool about_to_sleep) {
  if (connections_->drive(about_to_sleep)) return true;
  check_time();
  return false;
}

void Communicator::wait_for(const UsedStream& used) {
  const std::shared_ptr<DeviceStream> held = used.life.lock();
  if (held == nullptr) return;
  const bool waits_itself = report_ != nullptr;
  // A stream that the program captures now would lose its capture.
  if (waits_itself && runtime_.is_capturing(held.get())) return;
  const weft_result ended = runtime_.await_stream(held.get());
  if (waits_itself && ended != WEFT_OK) report_->note_loss(ended);
}

Status Communicator::finish(bool may_work) {
  const bool waits_itself = report_ != nullptr;  // for kernels whose ends nobody reports
  const bool works = may_work && under_way_.load(std::memory_order_acquire) != 0;
  // The caller may run the work itself, so that a communicator ends though nobody synchronizes.
  if (waits_itself || works) wait_for(latest_);
  // What was captured there is mostly replayed there, too.
  for (const Capture& capture : captures_) {
    if (capture.latest.stream != latest_.stream) wait_for(capture.latest);
  }
  if (report_ != nullptr) report_->look();
  for (std::uint64_t left = await_ends(); left != 0; left = await_ends())
    under_way_.wait(left, std::memory_order_acquire);
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

// Whoever gives up may lack memory.
void Communicator::abort() {
  Error why = or_no_memory([&] {
    return Error(WEFT_ERROR_ABORTED, fmt::format("rank {} was aborted by its user", rank_),
                 "see why the program of that rank gave up");
  });
  if (why.code() != WEFT_ERROR_ABORTED) why = {WEFT_ERROR_ABORTED, "aborted"};
  failure_->note(std::move(why), true);
}

void Communicator::give_up(const Error& why) {
  if (!failure_->stopped()) failure_->note(or_no_memory([&] { return why; }), true);
}

// Model: tests/models/abort.pml
void Communicator::stop_everything(const Error& cause, bool tell_others) {
  const bool names_rank = cause.source() == ErrorSource::kPeer && cause.native() >= 0 &&
                          cause.native() < static_cast<std::int64_t>(ranks_);
  const auto culprit = names_rank ? static_cast<std::uint32_t>(cause.native()) : rank_;
  if (tell_others) bootstrap_->announce_failure(cause);
  connections_->abort(culprit + 1);
  const std::scoped_lock lock(comparison_mutex_);
  comparison_changed_.notify_all();
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
  facts.bytes_held = connections_->bytes_held() + table_memory_.bytes_held();
  if (multicast_ != nullptr) facts.bytes_held += multicast_->view().bytes;
  if (report_ != nullptr) {
    facts.bytes_held += KernelReport::bytes_held();
    facts.by_outputs = report_->calls_that_went(OutputWay::kOutputs);
    facts.by_slots = report_->calls_that_went(OutputWay::kSlots);
  }
  if (output_mappings_ != nullptr) {
    facts.bytes_held += sizeof(OutputMap);
    facts.outputs_shared = output_mappings_->bytes_shared();
    facts.outputs_mapped = output_mappings_->bytes_mapped();
  }
  return facts;
}

}  // namespace weft
