// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One execution of a plan: what execute() of checker.h makes for it, has run and looks at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/step_lines.h"
#include "core/schedule/work_items.h"
#include "tests/schedule_checker/channel_kinds.h"
#include "tests/schedule_checker/checker.h"
#include "tests/schedule_checker/nets.h"
#include "tests/schedule_checker/output_calls.h"
#include "tests/schedule_checker/results.h"

namespace weft::checker {

class Executor {
 public:
  Executor(Stacks& stacks, std::span<const Plan* const> plans, const Execution& execution);
  Verdict run();

 private:
  struct CallBuffers {
    std::optional<std::size_t> input;  // the input's buffer, unless the output holds it
    std::optional<std::size_t> output;
  };

  [[nodiscard]] bool direct() const { return goes_directly(plan_.algorithm); }
  /// Whether its connections are edges whose slots hold what they say, and no lines.
  [[nodiscard]] bool goes_by_edges() const {
    return !has_lines(plan_.protocol) &&
           (plan_.algorithm == Algorithm::kTree || plan_.algorithm == Algorithm::kPat ||
            plan_.algorithm == Algorithm::kChain);
  }
  /// Whether each kernel has several lanes, each a fiber.
  [[nodiscard]] bool has_lanes() const { return direct() && plan_.protocol == Protocol::kLL128; }
  [[nodiscard]] const Plan& plan_of(std::uint32_t rank) const {
    return *plans_[plans_.size() == 1 ? 0 : rank];
  }
  /// Kernels that one call of a rank is, or lanes of them.
  [[nodiscard]] std::uint32_t kernels_of_rank() const {
    if (has_lanes()) return execution_.direct_parts * execution_.lanes;
    const std::uint32_t threads = execution_.outputs ? kBulkThreads : 1;
    return direct() ? execution_.direct_parts
                    : threads * static_cast<std::uint32_t>(kinds_.first.size());
  }

  [[nodiscard]] bool is_one_of(std::initializer_list<Operation> operations) const {
    return std::ranges::find(operations, plan_.task.operation) != operations.end();
  }
  /// Whether an output has a block of each rank.
  [[nodiscard]] bool gathers() const {
    return is_one_of(
        {Operation::kAllGather, Operation::kAllGatherV, Operation::kGather, Operation::kAllToAll});
  }
  /// Whether an input has a block for each rank.
  [[nodiscard]] bool scatters() const {
    return is_one_of({Operation::kReduceScatter, Operation::kReduceScatterV, Operation::kScatter,
                      Operation::kAllToAll});
  }
  /// Whether a rank's input and output are one buffer.
  [[nodiscard]] bool joined(std::uint32_t rank) const {
    return execution_.in_place && has_input(rank) && has_output(rank) && !(gathers() && scatters());
  }
  /// Blocks that differ begin where they would if all were as long as the longest.
  [[nodiscard]] bool is_due(std::uint32_t rank, std::uint64_t index) const {
    if (plan_.blocks.empty()) return true;
    const std::uint64_t owner = gathers() ? index / plan_.task.count : rank;
    return index % plan_.task.count < plan_.blocks.at(owner).count;
  }
  [[nodiscard]] std::uint64_t input_elements() const {
    return plan_.task.count * (scatters() ? plan_.ranks : 1);
  }
  [[nodiscard]] std::uint64_t output_elements() const {
    return plan_.task.count * (gathers() ? plan_.ranks : 1);
  }
  [[nodiscard]] bool has_input(std::uint32_t rank) const {
    return !is_one_of({Operation::kBroadcast, Operation::kScatter}) || rank == plan_.task.root;
  }
  [[nodiscard]] bool has_output(std::uint32_t rank) const {
    return !is_one_of({Operation::kReduce, Operation::kGather}) || rank == plan_.task.root;
  }
  [[nodiscard]] std::uint32_t element(std::uint32_t call, std::uint64_t index) const {
    return static_cast<std::uint32_t>(call * input_elements() + index);
  }
  [[nodiscard]] bool premultiplies() const {
    return reduces(plan_.task.operation) && plan_.task.reduction == kPremulSum;
  }
  [[nodiscard]] Expression input_expression(std::uint32_t rank) {
    return premultiplies() ? expressions_.raw(rank) : expressions_.leaf(rank);
  }
  [[nodiscard]] const CallBuffers& of_call(std::uint32_t call, std::uint32_t rank) const {
    return of_calls_[std::size_t{call} * plan_.ranks + rank];
  }
  [[nodiscard]] Value* input_of(std::uint32_t call, std::uint32_t rank) {
    if (!has_input(rank)) return nullptr;
    const CallBuffers& own = of_call(call, rank);
    if (own.input) return buffers_.data(*own.input);
    const bool own_block = gathers();
    return buffers_.data(*own.output) + (own_block ? rank * plan_.task.count : 0);
  }
  [[nodiscard]] Value* output_of(std::uint32_t call, std::uint32_t rank) {
    if (!has_output(rank)) return nullptr;
    const CallBuffers& own = of_call(call, rank);
    const bool own_block = scatters() && joined(rank);
    return buffers_.data(*own.output) + (own_block ? rank * plan_.task.count : 0);
  }
  [[nodiscard]] bool averages() const { return plan_.task.reduction == WEFT_AVG; }
  [[nodiscard]] Bound bound() const {
    if (execution_.declared) return *execution_.declared;
    return bound_of(plan_, plan_.algorithm, execution_.spread).value_or(Bound{});
  }
  [[nodiscard]] bool is_executed(std::uint32_t channel) const {
    return std::ranges::binary_search(kinds_.first, channel);
  }
  /// Of a channel that is executed: those that are like it, itself included.
  [[nodiscard]] std::uint64_t members_of(std::uint32_t channel) const {
    const auto place = std::ranges::lower_bound(kinds_.first, channel) - kinds_.first.begin();
    return kinds_.members[static_cast<std::size_t>(place)];
  }

  // What there is before it runs (executor_setup.cc).
  [[nodiscard]] Inboxes::Geometry geometry() const;
  void add_staged_memory();
  void add_buffers();
  void add_connections();
  void connect(std::uint32_t channel, std::uint32_t rank, WorkItem& item);
  void add_kernels();
  void add_outputs();

  // What runs (checker.cc).
  void run_calls(Actor& actor);
  /// The live buffers of a rank to those of a call, or the other way round.
  void move_live(std::uint32_t rank, std::uint32_t call, bool to_call);
  void begin_outputs(std::uint32_t rank, std::uint32_t call);
  void end_outputs(std::uint32_t rank, std::uint32_t call);
  KernelOutcome run_one(const Actor& actor, const WorkItem& item);
  KernelOutcome run_lane(const Actor& actor, const WorkItem& item);
  void begin_over_net(const Actor& actor, const WorkItem& item);
  void report_outcome(const Actor& actor, const KernelOutcome& outcome);
  void report_deadlock(const std::vector<Wait>& waits);

  // What is looked at afterwards, but for the plans (executor_checks.cc).
  void compare_plans();
  [[nodiscard]] Due due(std::uint32_t call, std::uint32_t rank, std::uint64_t index) const;
  /// Of direct calls: bytes that a rank writes to others.
  [[nodiscard]] std::uint64_t direct_bytes(std::uint32_t rank) const;
  void check_results();
  bool check_output(std::vector<Results>& results, std::uint32_t call, std::uint32_t rank);
  /// Elements of one block and one channel.
  bool check_part(Results& results, std::uint32_t call, std::uint32_t rank, const Extent& part);
  void check_traffic();
  void check_bound();

  std::span<const Plan* const> plans_;
  const Plan& plan_;
  const Execution& execution_;
  Verdict verdict_;
  ChannelKinds kinds_;
  Expressions expressions_;
  Fibers fibers_;
  Buffers buffers_;
  Connections connections_;
  std::unique_ptr<Inboxes> inboxes_;
  std::unique_ptr<StagedMemory> staged_;
  World world_;
  std::unique_ptr<Nets> nets_;
  std::vector<CallBuffers> of_calls_;  // by call, then by rank
  std::unique_ptr<OutputCalls> outputs_;
  struct LiveBuffers {
    std::optional<std::size_t> input;
    std::optional<std::size_t> output;
    OutputCalls::Live of_call;
  };
  std::vector<LiveBuffers> live_;  // of calls into outputs, by rank
  // Connections, or edges of nets, by channel, then by sender.
  std::vector<std::vector<std::size_t>> leaving_;
  // Connections of trees, chains and PAT by channel, then by sender and receiver; their links by
  // channel and rank.
  std::vector<std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t>> tree_edges_;
  std::vector<std::vector<TreeLinks>> trees_;
  std::vector<std::vector<ChainLinks>> chains_;
  std::vector<std::vector<PatLinks>> pats_;
  std::vector<std::vector<Extent>> blocks_;       // by channel
  std::vector<Actor> actors_;                     // by fiber
  std::vector<std::unique_ptr<LaneTeam>> teams_;  // by rank, then by part
  struct Ended {
    std::uint64_t kernels = 0;
    Waiters waiters;
  };
  std::vector<Ended> ended_;  // by rank
};

}  // namespace weft::checker
