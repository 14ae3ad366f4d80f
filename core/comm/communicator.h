// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank's membership in a communicator: joined once, then it turns calls into launches, watches
// what becomes of them, and ends with a cause.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/base/spin_lock.h"
#include "core/bootstrap/bootstrap.h"
#include "core/comm/bound_plan.h"
#include "core/comm/call_history.h"
#include "core/comm/exchange.h"
#include "core/comm/failure.h"
#include "core/comm/inbox_ports.h"
#include "core/comm/kernel_report.h"
#include "core/comm/known_blocks.h"
#include "core/comm/link_tables.h"
#include "core/comm/made_reductions.h"
#include "core/comm/multicast.h"
#include "core/comm/output_mappings.h"
#include "core/comm/pair_calls.h"
#include "core/comm/plan_tables.h"
#include "core/comm/roll_call.h"
#include "core/comm/stream.h"
#include "core/comm/tuner.h"
#include "core/comm/windows.h"
#include "core/config/config.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"
#include "core/schedule/planner.h"
#include "core/topology/topology.h"
#include "core/transport/connections.h"

namespace weft {

class Context;
struct ExchangePlan;

/// What a communicator says of itself.
struct CommunicatorFacts {
  std::uint32_t local_rank = 0;   ///< Among the ranks of its host, in their order.
  std::uint32_t local_ranks = 0;  ///< Of its host.
  std::uint32_t hosts = 0;
  std::uint32_t channels = 0;     ///< Most that a call uses.
  bool shares_memory = true;      ///< Memory joins every pair.
  std::uint64_t most_direct = 0;  ///< Bytes of the largest direct call; 0: none.
  std::uint64_t calls = 0;        ///< Collective calls so far.
  std::uint64_t bytes_held = 0;   ///< Of memory for connections.
  /// Of calls that may write straight into outputs: which way they went.
  std::uint64_t by_outputs = 0;
  std::uint64_t by_slots = 0;
  /// Bytes of its outputs that ranks of other processes may write to, and of theirs.
  std::uint64_t outputs_shared = 0;
  std::uint64_t outputs_mapped = 0;
};

/// Threads: calls (prepare, finish) by one thread at a time; abort and async_error by any; drive,
/// and the end of operations, by the device's workers. Operations of one communicator run one after
/// another, in the order of the calls.
class Communicator {
 public:
  /// Whether there may be a rank of that number, and so many of them.
  static Status check_numbers(std::uint32_t rank, std::uint32_t ranks);
  /// One that has yet to join: only join, abort, rank and ranks may be used until join has
  /// answered. `runtime` is the device of this rank; all ranks have devices of one kind.
  static Result<std::unique_ptr<Communicator>> create(Context& context, Config config,
                                                      std::uint32_t rank, std::uint32_t ranks,
                                                      DeviceRuntime& runtime);
  /// Blocks until all ranks joined; fails on all of them alike. Called once. An
  /// abort by another thread ends it, while ranks meet by `cancel_fd`, a descriptor that the caller
  /// makes readable as well; -1 if nobody aborts. It outlives this.
  Status join(const UniqueId& id, int cancel_fd = -1);
  /// Both at once.
  static Result<std::unique_ptr<Communicator>> join(Context& context, Config config,
                                                    const UniqueId& id, std::uint32_t rank,
                                                    std::uint32_t ranks, DeviceRuntime& runtime);
  /// Waits for its work, unless it has failed; then says goodbye.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Context& context() const { return context_; }
  [[nodiscard]] DeviceRuntime& runtime() const { return runtime_; }
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  /// The same on all its ranks, and another than those of other communicators.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] const Topology& topology() const { return topology_; }

  /// Those that a user made: used by the thread that makes the calls.
  [[nodiscard]] MadeReductions& made_reductions() { return made_reductions_; }
  /// The blocks of its calls: used by the same thread.
  [[nodiscard]] KnownBlocks& known_blocks() { return known_blocks_; }
  /// Of the calls that the same thread makes from now on.
  [[nodiscard]] WayOptions& way_options() { return way_options_; }

  /// Registers a buffer of this rank, as all others do theirs at the same time; blocks until all
  /// have. That not all ranks reach all others is no error: calls then go as without it. The window
  /// is the communicator's.
  Result<Window*> register_window(void* memory, std::uint64_t bytes);
  /// Takes back a window that no call of this rank has come upon, and waits for nothing.
  void withdraw_window(const Window* window) { windows_.remove(window); }
  /// Waits for this rank's work. Others may keep theirs, which no call can use any more.
  Status deregister_window(const Window* window);

  /// Whether `task` is one that this communicator could carry out at all.
  [[nodiscard]] Status check_task(const Task& task) const;
  /// The plan of a call: the one that runs.
  Result<std::shared_ptr<const Plan>> plan(const Task& task);

  /// What a launch of the plan takes of this rank's device: "64 CTAs of 544 threads, on a device of
  /// 132 multiprocessors"; empty where devices have no such thing, and where nothing is launched.
  [[nodiscard]] std::string describe_launch(const Plan& plan) const;
  /// From how many bytes of output on the call's output, where it lies in a window, is written by
  /// copy engines; 0 where it never is.
  [[nodiscard]] std::uint64_t copied_from(const Task& task) const;
  /// From how many bytes of input on a call that reduces is carried out in windows by copy engines
  /// and a kernel that sums up, where its buffers lie in some; 0 where it never is.
  [[nodiscard]] std::uint64_t reduced_from(const Task& task) const;
  /// How an exchange goes between the ranks of this communicator; `calls` are those of all, in
  /// order, outputs in no window.
  [[nodiscard]] ExchangePlan explain_exchange(std::span<const Call> calls) const;

  // A call needs connections, which are made when they are first needed, whichever way it goes.
  // Whoever prepares calls, or binds their plans, has waited for them.

  /// Whether calls can be made now, on that stream: why it is unusable, if it is.
  [[nodiscard]] Status check_call(const Stream& stream) {
    if (report_ == nullptr && !failure_->stopped() && &stream.runtime() == &runtime_) [[likely]]
      return {};
    return why_not_callable(stream);
  }
  /// Whether a call on `stream` can come after the latest one. Behind what a stream was given
  /// before the program began to capture it nothing can be put, but what the same capture holds.
  [[nodiscard]] Status check_order(const Stream& stream) const {
    if (report_ == nullptr || !is_elsewhere(stream)) [[likely]]
      return {};
    return why_not_ordered(stream);
  }
  /// The plan of a call that is connected, bound to this rank's connections; kept for the next.
  Result<std::shared_ptr<BoundPlan>> bind(const Call& call);
  /// The bound plan of a call like the latest planned one, which was checked and is connected; null
  /// of others, and where it was not bound yet. Until the next plan is looked up. Null as well
  /// where its buffers may lie in windows, in which it goes by inboxes, and those are not known to
  /// be connected.
  [[nodiscard]] const std::shared_ptr<BoundPlan>* latest_bound(const Task& task) const {
    if (latest_plan_ == nullptr || latest_plan_->bound == nullptr) return nullptr;
    if (!windows_.empty() && !has_inboxes_) return nullptr;
    return latest_plan_->plan->task == task ? &latest_plan_->bound : nullptr;
  }
  /// Whether connected calls, sends and receives of a group or one other call, may be made on
  /// `stream`, where the program may be capturing it: what a net carries needs the CPU in each
  /// replay of a device's own graph. And where it may be capturing another: see check_order, and
  /// that the null stream cannot be used then.
  [[nodiscard]] Status check_capture(std::span<const Call* const> calls, Stream& stream) {
    if (report_ == nullptr) return {};
    const bool asks_nobody = reach_ != Reach::kMessages && !is_elsewhere(stream) &&
                             !runtime_.is_lasting(stream.device_stream());
    if (asks_nobody) [[likely]]
      return {};
    return why_not_captured(calls, stream);
  }
  /// Makes the launch of one collective call on `stream`, counting it as under way: it must be
  /// given to the runtime, or withdrawn, before the next is made. Fails if the communicator is
  /// unusable, which it is as well where there is no memory for the rest of a call that is counted;
  /// without memory before that it throws. The launch is valid until the next is made.
  Result<const Launch*> prepare(const Call& call, Stream& stream);
  /// Makes room for so many launches beside those under way, with up to so many items, or sends and
  /// receives, each, so that preparing them allocates nothing.
  void reserve(std::size_t launches, std::size_t items, std::size_t pairs);
  /// The launch that was prepared last has been given to the runtime. The next one, on another
  /// stream, waits for it, and not for what the runtime gets there afterwards: that may be work of
  /// another communicator which on another rank comes later than this one's.
  void launched();
  /// The same of all sends and receives of a group: one launch.
  Result<const Launch*> prepare_pairs(std::span<const Call* const> calls, Stream& stream);
  /// Whether a call can be prepared at once.
  [[nodiscard]] bool is_connected(const Call& call);
  /// The same of all sends and receives of a group, or of one other call.
  [[nodiscard]] bool are_connected(std::span<const Call* const> calls);
  /// Whether the sends and receives of a group can be carried out.
  [[nodiscard]] Status check_pairs(std::span<const Call* const> calls) const;
  /// Begins to connect what calls need, all sends and receives of a group or one other call, and
  /// waits for it: apart, since one thread may hold both partners. Fails as well if the calls
  /// cannot be planned. `ahead`: collective calls of the group before this one.
  Status want_connections(std::span<const Call* const> calls);
  Status wait_for_connections(std::span<const Call* const> calls, std::uint64_t ahead);
  /// A call without elements moves nothing. It counts as a call: whoever leaves it out, or calls it
  /// with elements, is found at the next one, or when it waits.
  void pass_over(const Task& task) { history_.add(task); }
  /// The runtime refused the launches of this communicator. Needs no memory.
  void withdraw(const Launch& launch, const Error& why);

  /// Waits until nothing is under way; answers the cause if the communicator has failed. The
  /// calling thread does queued work itself, if it may: then nobody else may use the stream of the
  /// last call.
  Status finish(bool may_work = true);
  /// After finish(), where no call follows: waits until all other ranks have made the calls of this
  /// one, if its last one need not have met them all, and compares those made last. Ranks that have
  /// left are passed over. Of the host device alone.
  Status compare_last_calls();
  /// Has that wait no longer, on whatever thread it does or will.
  void stop_comparing();
  void abort();
  /// A call could not be started, and there is nobody whom that could be answered. Needs no memory.
  void give_up(const Error& why);
  /// Expires when no call may be made any more: with the communicator, or before.
  [[nodiscard]] std::weak_ptr<const void> life() const { return life_; }
  void end_calls() { life_.reset(); }
  [[nodiscard]] weft_result async_error();
  /// The same with its text; nothing while all is well.
  [[nodiscard]] std::optional<Error> known_failure();

  /// Of a device that runs a number of groups at once: whether no other rank, and no other
  /// communicator of this process, has kernels there. Any thread.
  [[nodiscard]] bool has_device_for_itself() const;
  /// Where this rank is and what it has. Any thread; never blocks.
  [[nodiscard]] CommunicatorFacts facts() const;
  /// "shm: same host; first that can of ..."; empty for ranks that do not exist.
  [[nodiscard]] std::string describe_pair(std::uint32_t a, std::uint32_t b) const;
  /// As hops_of() of this communicator's plans.
  [[nodiscard]] std::vector<NetEdge> hops(const Plan& plan) const;
  /// "net-socket from rank 0 to rank 2: eth0 to eth0 on channels 0, 1": which devices carry those
  /// of `edges` that a net does, a line for each two ranks and direction.
  [[nodiscard]] std::vector<std::string> describe_net_edges(std::span<const NetEdge> edges) const;

 private:
  struct UnderWay;
  struct UsedStream;
  struct TaskHash {
    std::size_t operator()(const Task& task) const;
  };

  Communicator(Context& context, Config config, std::uint32_t rank, std::uint32_t ranks,
               DeviceRuntime& runtime);
  Status join_others(const UniqueId& id, int cancel_fd);
  Error why_not_joined(Error error);
  std::uint32_t enter_device();
  Status agree_on_topology();
  Status choose_transports();
  Status open_paths();
  Status start_pairs();
  Status open_tuner();
  Status agree_on_tuner(const Status& opened);
  [[nodiscard]] PairChoice choice_with(std::uint32_t peer) const;
  Status choose_limits();
  [[nodiscard]] std::string why_lines_come_apart() const;
  void choose_lines();
  enum class Reach : std::uint8_t { kMessages = 0, kMemory = 1, kDeviceMemory = 2 };
  [[nodiscard]] Reach find_reach() const;
  [[nodiscard]] bool a_net_joins_ranks_of_a_host() const;
  [[nodiscard]] std::uint64_t two_shot_range() const;
  [[nodiscard]] std::uint64_t wide_bytes() const;
  /// Why no call writes straight into outputs; empty where some may.
  [[nodiscard]] std::string no_outputs() const;
  Status prepare_outputs();
  /// Why no call goes by multicast; empty where devices are to be asked.
  [[nodiscard]] std::string no_multicast() const;
  Status prepare_multicast();
  /// Of a call whose plan says so; until the next.
  const OutputCall* output_call(const Call& call, const Stream& stream);
  Status start_output_mappings();
  [[nodiscard]] bool is_of_one_process() const;
  /// Marks an error that every rank finds, since all compute it from the same: each answers it as
  /// its own, and no rank tells it to another.
  template <typename R>
  R by_all(R result) {
    if (!result) all_find_error_ = true;
    return result;
  }
  [[nodiscard]] PlanInput plan_input(Operation operation) const;
  [[nodiscard]] Status check_kernel(const Task& task) const;

  struct Planned {
    std::shared_ptr<const Plan> plan;
    std::vector<PairLink> links;       // that must be connected first
    std::shared_ptr<BoundPlan> bound;  // null before its first call
    // With other blocks, where those differ: of the calls before the latest.
    std::vector<std::shared_ptr<BoundPlan>> others;
    std::size_t oldest = 0;  // of others
  };
  Result<Planned*> find_plan(const Task& task);
  Result<Planned*> find_plan(const Call& call);
  /// As bind(); until the next plan is looked up.
  Result<const std::shared_ptr<BoundPlan>*> find_bound(const Call& call);
  Result<std::shared_ptr<PlanTables>> tables_of(const Plan& plan);
  Result<std::shared_ptr<BoundPlan>> bind_to(std::shared_ptr<const Plan> plan);
  void log_bound(const Plan& plan) const;
  static bool recall(Planned& planned, const std::vector<Extent>& blocks);
  void keep(Planned& planned);
  void retire(const std::shared_ptr<BoundPlan>& bound);
  struct Need {
    PairLink link;
    CallNote call;
  };
  void say_who_is_not_connected(std::span<const Need> needs, std::chrono::nanoseconds waited);
  Result<std::vector<Need>> needs_of(std::span<const Call* const> calls, std::uint64_t ahead);
  Status why_not_captured(std::span<const Call* const> calls, Stream& stream);
  const Launch* recorded_pairs(std::span<const Call* const> calls, const Stream& stream,
                               UnderWay& record);
  Result<const Launch*> reported_pairs(std::span<const Call* const> calls, Stream& stream);
  Result<const Launch*> prepare_exchange(const Call& call, Stream& stream);
  Result<const Launch*> reported_exchange(const Call& call, Stream& stream, std::uint64_t sequence);
  template <class Make>
  Result<const Launch*> pair_launch(Stream& stream, std::uint32_t named, Make make);
  template <class Make>
  const Launch* pair_launch(UnderWay& record, Make make);
  static void forget_pairs(UnderWay& record);
  Result<const Launch*> reported_pair_launch(Stream& stream, std::uint32_t named);
  void enqueue_pair_messages();
  const PairConnections* partner(std::uint32_t rank, std::uint32_t channel);
  const PairConnections* keep_partner(const PairConnections* pair);
  [[nodiscard]] bool is_joined(std::uint32_t rank, std::uint64_t bytes, const PairSpread& spread);
  [[nodiscard]] bool repeats_exchange(const Call& call) const;
  [[nodiscard]] bool goes_by_inboxes(const Task& task) const;
  WorkItem& begin_inbox_item(const Task& task);
  void enqueue_inbox_messages(const WorkItem& item);
  [[nodiscard]] std::uint64_t wide_chunk(weft_data_type type) const;
  Result<const Launch*> inbox_launch(const Call& call, Protocol protocol, Stream& stream);
  Result<Window*> share_window(void* memory, std::uint64_t bytes);
  [[nodiscard]] std::optional<WindowPlace> copied_into(const Call& call) const;
  Result<const Launch*> copy_launch(const Call& call, const WindowPlace& place, Stream& stream);
  [[nodiscard]] std::optional<ReductionPlaces> reduced_in(const Call& call) const;
  Result<const Launch*> reduction_launch(const Call& call, const ReductionPlaces& places,
                                         Stream& stream);
  [[nodiscard]] bool may_go_through_windows() const;
  [[nodiscard]] bool goes_through_windows(const Call& call) const;
  [[nodiscard]] LinkShape shape_of(const PairLink& link) const;
  [[nodiscard]] bool has_inboxes();
  /// Into which each rank's kernels store themselves, so that they can meet there.
  [[nodiscard]] bool has_inboxes_in_memory() const {
    return limits_.direct_bytes != 0 && reach_ != Reach::kMessages;
  }
  [[nodiscard]] SlotGeometry slots_of_devices(std::uint32_t message_bytes,
                                              const SlotGeometry& over_links) const;
  [[nodiscard]] SlotGeometry slots_of_device_rings() const;
  /// Slots of a connection that is made when two ranks first send to each other; alike on all.
  [[nodiscard]] SlotGeometry slots_of_device_pairs() const;
  [[nodiscard]] SlotGeometry slots_of_pairs() const;
  [[nodiscard]] SlotGeometry slots_of_exchanges() const;
  void choose_spread();
  void choose_inbox_exchanges();
  void choose_exchange_spread();
  [[nodiscard]] std::uint32_t inbox_stripes() const;
  [[nodiscard]] std::uint32_t stripes_over_net(const Plan& plan) const;
  [[nodiscard]] bool meets_in_host_memory(std::uint32_t peer) const;
  [[nodiscard]] std::vector<PairLink> find_inbox_links() const;
  [[nodiscard]] std::uint32_t net_ports() const;
  [[nodiscard]] WorkItem exchange_item(const ExchangePlan& plan, std::uint32_t rank) const;
  [[nodiscard]] std::array<std::uint64_t, 2> bytes_with(const Call& call,
                                                        std::uint32_t other) const;
  /// Than the latest call outside of captures.
  [[nodiscard]] bool is_elsewhere(const Stream& stream) const {
    return latest_.stream != nullptr && latest_.stream != stream.device_stream();
  }
  [[nodiscard]] Status why_not_ordered(const Stream& stream) const;
  Status order_after_latest(Stream& stream) {
    // What a device's own graph holds has an order of its own, and when that begins only the device
    // knows.
    const std::uint64_t capture =
        report_ != nullptr ? runtime_.capture_number(stream.device_stream()) : 0;
    latest_was_captured_ = capture != 0;
    if (capture != 0) has_captured_.store(true, std::memory_order_relaxed);
    // Another stream may have come to be where one was.
    const bool is_latest = latest_.stream == stream.device_stream() && latest_.lives();
    if (is_latest && capture == 0) [[likely]]
      return {};
    return order_after_another(stream, capture);
  }
  Status order_after_another(Stream& stream, std::uint64_t capture);
  UsedStream& latest_of(std::uint64_t capture);
  void wait_for(const UsedStream& used);
  [[nodiscard]] Status why_not_callable(const Stream& stream);
  UnderWay& begin_record(const Task& task, Stream& stream, std::optional<OperationTag> tag);
  /// The rest of a call that is counted: without memory for it the communicator is lost, since the
  /// others count that call, too. `record`: null where none is kept.
  template <class Make>
  Result<const Launch*> finish_counted(UnderWay* record, Make make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return lose_counted(record);
    }
  }
  Result<const Launch*> lose_counted(UnderWay* record);
  void end_record(UnderWay& record, bool done);
  void add_free_record();
  void add_free_records();
  // Under records_mutex_, which all who change it have.
  void count_under_way(int more) {
    const std::uint64_t before = under_way_.load(std::memory_order_relaxed);
    under_way_.store(before + static_cast<std::uint64_t>(more), std::memory_order_release);
  }
  std::uint64_t await_ends();
  void launch_by_report(Stream& stream) { launch_by_report(stream, items_, 0); }
  /// `named`: the most channels that the call itself allows, or 0.
  void launch_by_report(Stream& stream, std::span<const WorkItem> items, std::uint32_t named);
  Result<const Launch*> reported_launch(const Call& call, const std::shared_ptr<BoundPlan>& bound,
                                        Stream& stream);
  struct Finished {
    bool any = false;
    Task task;
    std::uint64_t sequence = 0;
    std::size_t pairs = 0;  // sends and receives of that launch, of which the task is the first
  };
  [[nodiscard]] std::string describe_last_finished(const std::optional<CallNote>& waiting);
  struct Waiting {
    std::uint64_t begun = 0;  // which of all that this rank started
    std::uint64_t pair_progress = 0;
    CallNote note;
    std::string text;
  };
  [[nodiscard]] std::optional<Waiting> oldest_under_way();
  [[nodiscard]] std::optional<CallNote> find_call(std::uint64_t sequence);

  static bool drive_hook(void* self, bool about_to_sleep);
  static bool read_hook(void* self, std::uint32_t peer, std::byte* to, std::uint64_t address,
                        std::uint64_t bytes);
  static weft_result finished_hook(void* record, const KernelOutcome& outcome);
  bool drive(bool about_to_sleep);
  weft_result finished(UnderWay& record, const KernelOutcome& outcome);
  weft_result code_of(const UnderWay& record, const KernelOutcome& outcome);
  void explain_outcome(const UnderWay& record, const KernelOutcome& outcome);
  void restart_clock();
  [[nodiscard]] std::int64_t waited_ns();
  void check_time();
  Status start_kernel_watch();
  Status start_suspicion_watch();
  void watch_kernels();
  [[nodiscard]] bool is_long(std::int64_t waited) const;
  /// `number` tells one wait from another, so that each is reported once.
  void consider_wait(const std::optional<CallNote>& call, std::uint64_t number,
                     const std::string& description, std::int64_t waited);
  void say_what_waits(const std::optional<CallNote>& call, const std::string& description,
                      std::chrono::nanoseconds waited, bool late);
  void note_sent(const UnderWay& record);
  void complain(const KernelOutcome& outcome, const CallNote& mine);
  void answer_complaint(const Complaint& complaint, std::uint32_t asker,
                        std::span<const Departure> departed);
  void ask_others(const CallNote& waiting);
  void call_roll(const CallNote& waiting, bool is_first);
  void pass_roll_call(const RoundText& round, RollCall roll);
  void pass_round(const RoundText& round);
  [[nodiscard]] RankAnswer whereabouts(const CallNote& call);
  [[nodiscard]] std::vector<CallNote> calls_up_to(std::uint64_t sequence);
  [[nodiscard]] std::optional<Error> first_difference(std::span<const CallNote> calls,
                                                      std::uint32_t asker);
  void look_at_departed(std::span<const Departure> departed, std::span<const CallNote> calls,
                        std::uint32_t asker);
  bool send_comparison(std::span<const CallNote> calls);
  void pass_comparison(const RoundText& round);
  void answer_question(const Question& question);
  void look_for_leavers(std::span<const Departure> departed, std::uint32_t asker,
                        const CallNote& waiting);
  void stop_everything(const Error& cause, bool tell_others);

  Context& context_;
  const Config config_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  std::uint64_t number_ = 0;
  DeviceRuntime& runtime_;
  const std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::unique_ptr<Bootstrap> bootstrap_;
  Topology topology_;
  std::vector<std::vector<std::uint32_t>> rings_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<PairConnector> pairs_;
  std::unique_ptr<ChoiceInput> choice_;
  std::unique_ptr<const PairChooser> chooser_;  // of choice_, once all have answered
  Reach reach_ = Reach::kDeviceMemory;          // of the memory that joins the pairs
  PlanLimits limits_;
  std::uint32_t direct_parts_ = kMostDirectParts;
  bool is_bounded_ = false;                   // by channels.max, what calls take of a device
  std::vector<std::uint32_t> device_groups_;  // by rank, while joining
  std::uint32_t line_bytes_ = UINT32_MAX;     // common_line_bytes
  bool is_on_device_ = false;                 // and leaves it
  bool is_later_ = false;                     // a device of its ranks had another one
  bool own_processors_ = false;               // as far as other ranks go
  std::uint32_t ranks_per_processor_ = 1;     // of the host, where workers of it wait
  bool all_find_error_ = false;               // of joining
  CostTable costs_;
  std::unique_ptr<Tuner> tuner_;          // null: the built-in costs alone
  std::string no_tuner_;                  // why there is none, if nobody said so
  std::shared_ptr<KernelReport> report_;  // of devices whose launches do not call back
  UniqueFd kernel_timer_;                 // when to look at report_
  Reactor::WatchId kernel_watch_ = 0;
  UniqueFd suspicion_timer_;  // goes off when a suspicion has had its time
  Reactor::WatchId suspicion_watch_ = 0;
  // Of waits that kernels tell, used by watch_kernels alone.
  OperationTag waiting_tag_ = 0;
  bool another_wait_ = false;
  std::uint32_t silent_looks_ = 0;

  std::shared_ptr<const void> life_ = std::make_shared<int>();

  // Plans: used by the calling thread alone.
  MemoryAccount table_memory_{runtime_};  // of the tables of plans
  LinkTables link_tables_{table_memory_};
  RetiredTables retired_;
  std::unordered_map<Task, std::unique_ptr<Planned>, TaskHash> plans_;
  Planned* latest_plan_ = nullptr;
  MadeReductions made_reductions_;
  KnownBlocks known_blocks_;
  WayOptions way_options_;
  CallHistory history_;
  SentHistory sent_;
  /// A stream that calls were made on. One that waits for its work when it ends need not be kept.
  struct UsedStream {
    DeviceStream* stream = nullptr;
    std::weak_ptr<DeviceStream> life;
    std::shared_ptr<DeviceStream> kept;
    std::weak_ptr<const void> owner;  // expires before the stream that is kept
    [[nodiscard]] bool lives() const { return stream != nullptr && !life.expired(); }
  };
  struct Capture {
    std::uint64_t number = 0;
    UsedStream latest{};
  };
  // Where nothing tells any more whether they have ended.
  static constexpr std::size_t kMostCaptures = 16;
  UsedStream latest_;  // of the latest call that is no part of a device's own graph
  // Of the others: of the latest one's capture, and of those that were under way when that began.
  std::vector<Capture> captures_;
  bool latest_was_captured_ = false;
  std::atomic<bool> has_captured_{false};  // read by watch_kernels
  std::uint64_t latest_piece_ = 0;         // of latest_, where ends are reported
  // Of the launch that was prepared last, where no record is kept of it.
  std::vector<WorkItem> items_;
  std::shared_ptr<BoundPlan> launched_plan_;  // of those with a plan, the latest; and its items
  std::vector<WorkItem> plan_items_;
  Launch reported_launch_;
  PairNumbers pair_numbers_;
  std::vector<PairMessage> pair_messages_;
  std::vector<const PairConnections*> partners_;  // by rank and channel; null until first needed
  std::deque<PairConnections> placed_partners_;   // that those point to, where views have places
  PairViews pair_views_{table_memory_};
  std::vector<PairLink> inbox_links_;      // alike at both ends of each
  bool has_inboxes_ = false;               // they are connected
  std::optional<InboxPorts> inbox_ports_;  // where a net joins ranks; from the first call on
  PairEnds pair_ends_;
  PairEnds exchange_ends_;                    // of calls in which every rank has several partners
  std::size_t most_pairs_ = 0;                // transfers of a launch so far
  InboxExchanges inbox_exchanges_;            // of those
  OutputTable* output_table_ = nullptr;       // of the device; null: calls go by slots alone
  std::vector<std::int32_t> output_devices_;  // of the other ranks, each once
  bool offers_outputs_ = false;               // the devices reach each other
  OutputCall output_call_;                    // of the launch that was prepared last
  OutputMap* output_map_ = nullptr;           // shared memory of the device, or null
  std::unique_ptr<OutputMappings> output_mappings_;  // between processes; else null
  UniqueFd output_timer_;                            // when they are looked after
  Reactor::WatchId output_watch_ = 0;
  std::unique_ptr<Multicast> multicast_;  // null: there is none
  Windows windows_;
  std::uint64_t least_copied_ = 0;       // bytes of output; 0: copy engines are not used
  std::uint64_t least_reduced_ = 0;      // the same of input, of reductions in windows
  std::byte* window_staging_ = nullptr;  // of the device; null until first needed
  WindowReduction window_reduction_;     // of the launch that was prepared last
  std::uint32_t groups_of_a_rank_ = 0;   // that its GPU runs at once, of each rank; 0: nobody knows
  std::uint32_t pair_parts_ = UINT32_MAX;  // of a launch of sends and receives, at most
  // As items_.
  std::vector<PairTransfer> pair_transfers_;
  std::vector<PairTask> pair_tasks_;
  // pair_transfers_ are still those of calls that can_repeat(), or of such an exchange
  bool pairs_repeat_ = false;

  // What is under way: records are recycled, so a call allocates nothing.
  SpinLock records_mutex_;
  std::vector<std::unique_ptr<UnderWay>> records_;  // guarded by records_mutex_
  std::vector<UnderWay*> free_records_;             // guarded by records_mutex_
  std::size_t room_for_items_ = 1;           // of each free record; guarded by records_mutex_
  std::size_t room_for_pairs_ = 0;           // the same
  std::uint64_t records_begun_ = 0;          // guarded by records_mutex_
  Finished last_finished_;                   // guarded by records_mutex_
  std::atomic<std::uint64_t> under_way_{0};  // changed under records_mutex_
  bool is_awaited_ = false;  // somebody sleeps until under_way_ is 0; guarded by records_mutex_
  std::atomic<std::int64_t> waiting_since_ns_{0};  // 0: nobody has looked since
  std::atomic<std::uint64_t> reported_call_{0};
  std::atomic<std::uint64_t> pair_progress_{0};
  // When the next question is due, after the start of the wait; grows with every question.
  std::atomic<std::int64_t> ask_after_ns_{0};
  LatestRoll roll_;
  std::mutex comparison_mutex_;
  std::condition_variable comparison_changed_;
  bool compared_ = false;                // guarded by comparison_mutex_
  std::int64_t report_after_ns_ = 0;     // 0: never
  std::int64_t operation_limit_ns_ = 0;  // 0: never
};

}  // namespace weft
