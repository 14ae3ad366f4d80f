// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/checker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/model/multicast.h"
#include "core/model/operation_tag.h"
#include "core/model/step_lines.h"
#include "core/model/two_shot.h"
#include "core/schedule/work_items.h"
#include "tests/schedule_checker/channel_kinds.h"
#include "tests/schedule_checker/nets.h"
#include "tests/schedule_checker/output_calls.h"
#include "tests/schedule_checker/results.h"

namespace weft::checker {
namespace {

/// The sequence numbers of calls begin here; below 2^15, so that no tag looks like an element.
constexpr std::uint64_t kFirstSequence = 7;

/// Of a plan that does not go directly: what a slot must have for the payload of a step.
std::uint32_t slot_bytes(const Plan& plan) {
  constexpr std::uint32_t kLine = 128;
  if (!has_lines(plan.protocol) || goes_directly(plan.algorithm)) return plan.step_bytes;
  std::uint32_t bytes = kLine;
  while (step_payload(plan.protocol, bytes) < plan.step_bytes)
    bytes += kLine;
  return bytes;
}

class Executor {
 public:
  Executor(Stacks& stacks, std::span<const Plan* const> plans, const Execution& execution)
      : plans_(plans),
        plan_(*plans.front()),
        execution_(execution),
        expressions_(plan_.channels.front().ring),
        fibers_(stacks, execution.turns, execution.seed),
        buffers_(verdict_.report),
        connections_(verdict_.report, plan_.steps, slot_bytes(plan_), has_lines(plan_.protocol)),
        world_{.report = verdict_.report,
               .fibers = fibers_,
               .expressions = expressions_,
               .buffers = buffers_,
               .ranks = plan_.ranks} {}

  Verdict run() {
    compare_plans();
    check_cut(plan_, verdict_.report);
    kinds_ =
        execution_.one_of_a_kind ? kinds_of_channels(plan_, verdict_.report) : all_channels(plan_);
    if (!verdict_.report.empty()) return std::move(verdict_);
    add_buffers();
    if (direct()) {
      inboxes_ = std::make_unique<Inboxes>(verdict_.report, plan_.ranks, geometry());
      world_.inboxes = inboxes_.get();
      if (plan_.algorithm == Algorithm::kMulticast) add_staged_memory();
    } else {
      add_connections();
      world_.connections = &connections_;
    }
    if (execution_.outputs) add_outputs();
    add_kernels();
    const std::size_t kernels = actors_.size();
    world_.lanes.resize(kernels);
    World::running = &world_;
    fibers_.run(
        kernels + (nets_ ? nets_->size() : 0),
        [&](std::size_t fiber) {
          return fiber < kernels ? run_calls(actors_[fiber]) : nets_->run(fiber - kernels);
        },
        [this](const std::vector<Wait>& waits) { report_deadlock(waits); });
    if (verdict_.report.empty()) check_results();
    if (verdict_.report.empty()) check_traffic();
    if (verdict_.report.empty()) check_bound();
    return std::move(verdict_);
  }

 private:
  struct CallBuffers {
    std::optional<std::size_t> input;  // the input's buffer, unless the output holds it
    std::optional<std::size_t> output;
  };

  [[nodiscard]] bool direct() const { return goes_directly(plan_.algorithm); }
  /// Whether each kernel has several lanes, each a fiber.
  [[nodiscard]] bool has_lanes() const { return direct() && plan_.protocol == Protocol::kLL128; }
  [[nodiscard]] Inboxes::Geometry geometry() const {
    if (has_lanes()) {
      const bool once = plan_.algorithm == Algorithm::kDirect && !has_blocks(plan_.task.operation);
      const std::uint64_t bytes = once ? plan_.task.bytes() : plan_.step_bytes;
      return {.half_bytes = wide_half_bytes(bytes), .lines_are_taken = true};
    }
    if (plan_.algorithm == Algorithm::kMulticast) {
      return {.half_bytes = plain_half_bytes(kChunkGrainBytes, execution_.direct_parts),
              .headers = execution_.direct_parts};
    }
    if (plan_.algorithm == Algorithm::kTwoShot) {
      return {.half_bytes = plain_half_bytes(plan_.step_bytes, execution_.direct_parts),
              .headers = execution_.direct_parts};
    }
    return {.half_bytes = direct_half_bytes(plan_.task.bytes()), .period = execution_.flag_period};
  }
  void add_staged_memory() {
    const MulticastPlaces places =
        multicast_places(plan_.step_bytes, plan_.ranks, execution_.direct_parts);
    staged_ = std::make_unique<StagedMemory>(verdict_.report, *inboxes_, plan_.ranks,
                                             places.at(execution_.direct_parts, 0));
    world_.staged = staged_.get();
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank)
      inboxes_->set_multicast(rank, &staged_->view(rank));
  }
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

  [[nodiscard]] bool gathers() const {
    return plan_.task.operation == Operation::kAllGather ||
           plan_.task.operation == Operation::kAllGatherV;
  }
  [[nodiscard]] bool scatters() const {
    return plan_.task.operation == Operation::kReduceScatter ||
           plan_.task.operation == Operation::kReduceScatterV;
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
    return plan_.task.operation != Operation::kBroadcast || rank == plan_.task.root;
  }
  [[nodiscard]] bool has_output(std::uint32_t rank) const {
    return plan_.task.operation != Operation::kReduce || rank == plan_.task.root;
  }
  [[nodiscard]] std::uint32_t element(std::uint32_t call, std::uint64_t index) const {
    return static_cast<std::uint32_t>(call * input_elements() + index);
  }

  void compare_plans() {
    for (std::uint32_t rank = 1; rank < plans_.size(); ++rank) {
      if (*plans_[rank] == plan_) continue;
      verdict_.report.add(Rule::kAgreement,
                          fmt::format("rank {} has another plan than rank 0", rank));
      return;
    }
  }

  void add_buffers() {
    std::vector<ChannelPart> parts;
    for (const ChannelPlan& channel : plan_.channels)
      parts.push_back({.offset = channel.offset, .count = channel.count});
    buffers_.set_channels(std::move(parts));
    const std::uint64_t block = direct() ? 0 : plan_.task.count;
    if (execution_.calls * input_elements() > kMostElements) {
      throw std::length_error("more elements than have numbers");
    }
    for (std::uint32_t call = 0; call < execution_.calls; ++call) {
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        CallBuffers& own = of_calls_.emplace_back();
        const bool joined = execution_.in_place && has_input(rank) && has_output(rank);
        if (has_output(rank)) {
          const std::uint64_t own_block = joined && scatters() ? rank * plan_.task.count : 0;
          own.output =
              buffers_.add({.rank = rank,
                            .elements = joined ? std::max(input_elements(), output_elements())
                                               : output_elements(),
                            .output_begin = own_block,
                            .output_end = own_block + output_elements(),
                            .block = block,
                            .call = call});
        }
        if (has_input(rank) && !joined) {
          own.input = buffers_.add({.rank = rank, .elements = input_elements(), .call = call});
        }
      }
    }
    for (std::uint32_t rank = 0; execution_.outputs && rank < plan_.ranks; ++rank) {
      LiveBuffers& live = live_.emplace_back();
      Buffer output = buffers_.at(*of_call(0, rank).output);
      output.once = true;
      output.whole_lines = true;
      live.output = buffers_.add(output);
      if (of_call(0, rank).input) {
        live.input =
            buffers_.add({.rank = rank, .elements = input_elements(), .whole_lines = true});
      }
    }
    buffers_.allocate();
    for (std::uint32_t call = 0; call < execution_.calls; ++call) {
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        if (!has_input(rank)) continue;
        Value* const input = input_of(call, rank);
        const Value first = make_value(input_expression(rank), element(call, 0));
        for (std::uint64_t i = 0; i < input_elements(); ++i)
          input[i] = first + (i << kHopBits);
      }
    }
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
    const bool own_block = scatters() && !own.input;
    return buffers_.data(*own.output) + (own_block ? rank * plan_.task.count : 0);
  }

  // An algorithm with other edges than a ring's adds them here and binds them in connect().
  void add_connections() {
    if (execution_.over_nets) {
      nets_ = std::make_unique<Nets>(world_, connections_, plan_.ranks, plan_.steps);
      world_.under_way.resize(plan_.ranks);
    }
    if (plan_.algorithm == Algorithm::kTree) {
      for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
        const std::vector<std::uint32_t>& parents = plan_.channels[channel].parents;
        auto& edges = tree_edges_.emplace_back();
        trees_.emplace_back(plan_.ranks);
        if (!is_executed(channel)) continue;
        for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
          if (parents.at(rank) == rank) continue;
          edges[{rank, parents[rank]}] = connections_.add(rank, parents[rank], channel);
          edges[{parents[rank], rank}] = connections_.add(parents[rank], rank, channel);
        }
      }
    } else if (plan_.algorithm == Algorithm::kChain) {
      for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
        auto& edges = tree_edges_.emplace_back();
        chains_.emplace_back(plan_.ranks);
        if (!is_executed(channel)) continue;
        for (std::uint32_t rank = 0; rank + 1 < plan_.ranks; ++rank) {
          edges[{rank, rank + 1}] = connections_.add(rank, rank + 1, channel);
          edges[{rank + 1, rank}] = connections_.add(rank + 1, rank, channel);
        }
      }
    } else if (plan_.algorithm == Algorithm::kPat) {
      for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
        auto& edges = tree_edges_.emplace_back();
        pats_.emplace_back(plan_.ranks);
        if (!is_executed(channel)) continue;
        for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
          for (const std::uint32_t other : pat_place(plan_, channel, rank).to)
            edges[{rank, other}] = connections_.add(rank, other, channel);
        }
      }
    } else if (plan_.ranks > 1) {
      for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
        const std::vector<std::uint32_t>& ring = plan_.channels[channel].ring;
        std::vector<std::size_t>& leaving = leaving_.emplace_back(plan_.ranks);
        if (!is_executed(channel)) continue;
        for (std::size_t i = 0; i < ring.size(); ++i) {
          const std::uint32_t next = ring[(i + 1) % ring.size()];
          if (!nets_) {
            leaving.at(ring[i]) = connections_.add(ring[i], next, channel);
            continue;
          }
          leaving.at(ring[i]) = nets_->size();
          nets_->add(ring[i], next, channel,
                     steps_sent(plan_, channel, ring[i]) * execution_.calls);
        }
      }
    }
    connections_.allocate();
  }

  void connect(std::uint32_t channel, std::uint32_t rank, WorkItem& item) {
    if (direct()) {
      item.direct = &inboxes_->peers(rank);
    } else if (plan_.algorithm == Algorithm::kTree) {
      const auto& edges = tree_edges_[channel];
      trees_[channel][rank] = tree_links(
          tree_place(plan_, channel, rank),
          [&](std::uint32_t other) { return connections_.sender(edges.at({rank, other})); },
          [&](std::uint32_t other) { return connections_.receiver(edges.at({other, rank})); });
      item.tree = &trees_[channel][rank];
    } else if (plan_.algorithm == Algorithm::kChain) {
      const auto& edges = tree_edges_[channel];
      chains_[channel][rank] = chain_links(
          rank, plan_.ranks, plan_.task.root,
          [&](std::uint32_t other) { return connections_.sender(edges.at({rank, other})); },
          [&](std::uint32_t other) { return connections_.receiver(edges.at({other, rank})); });
      item.chain = &chains_[channel][rank];
    } else if (plan_.algorithm == Algorithm::kPat) {
      const auto& edges = tree_edges_[channel];
      pats_[channel][rank] = pat_links(
          pat_place(plan_, channel, rank),
          [&](std::uint32_t other) { return connections_.sender(edges.at({rank, other})); },
          [&](std::uint32_t other) { return connections_.receiver(edges.at({other, rank})); });
      item.pat = &pats_[channel][rank];
    } else if (plan_.ranks > 1 && channel < leaving_.size()) {
      const std::size_t to_next = leaving_[channel][rank];
      const std::size_t from_previous =
          leaving_[channel][ring_place(plan_, channel, rank).previous];
      item.to_next = nets_ ? nets_->sender(to_next) : connections_.sender(to_next);
      item.from_previous =
          nets_ ? nets_->receiver(from_previous) : connections_.receiver(from_previous);
    }
  }

  void add_kernels() {
    ended_.resize(plan_.ranks);
    for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel)
      blocks_.push_back(channel_blocks(plan_, channel));
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      for (std::uint32_t kernel = 0; kernel < kernels_of_rank(); ++kernel) {
        const std::uint32_t lanes = has_lanes() ? execution_.lanes : 1;
        const std::uint32_t threads = execution_.outputs ? kBulkThreads : 1;
        if (has_lanes() && kernel % lanes == 0) {
          teams_.push_back(std::make_unique<LaneTeam>(fibers_, lanes, execution_.gang));
        }
        actors_.push_back({.rank = rank,
                           .channel = direct() ? 0 : kinds_.first[kernel / threads],
                           .call = 0,
                           .part = direct() ? kernel / lanes : 0,
                           .lane = kernel % (direct() ? lanes : threads)});
      }
    }
  }

  // The kernels of a rank's call begin when those of its call before have ended; ranks do not wait
  // for each other.
  void run_calls(Actor& actor) {
    const std::uint32_t rank = actor.rank;
    const std::uint32_t kernels = kernels_of_rank();
    const std::uint32_t channel = actor.channel;
    const Plan& plan = plan_of(rank);
    WorkItem item = work_item(plan, channel, rank);
    if (!blocks_[channel].empty()) item.blocks = blocks_[channel].data();
    connect(channel, rank, item);
    Ended& ended = ended_[rank];
    for (actor.call = 0; actor.call < execution_.calls; ++actor.call) {
      if (!fibers_.wait(&ended.kernels, std::uint64_t{actor.call} * kernels, ended.waiters)) return;
      if (outputs_ && outputs_->is_new(rank, actor.call)) begin_outputs(rank, actor.call);
      set_call(plan, channel, outputs_ ? live_[rank].of_call.input : input_of(actor.call, rank),
               outputs_ ? live_[rank].of_call.output : output_of(actor.call, rank),
               make_operation_tag(plan.task, kFirstSequence + actor.call), item);
      if (nets_) begin_over_net(actor, item);
      const KernelOutcome outcome =
          outputs_      ? outputs_->run(actor, item, [&] { return run_one(actor, item); })
          : has_lanes() ? run_lane(actor, item)
                        : run_one(actor, item);
      if (fibers_.stopped()) return;
      if (outcome.end != KernelEnd::kDone) return report_outcome(actor, outcome);
      ++ended.kernels;
      const bool all = ended.kernels % kernels == 0;
      if (direct() && all) inboxes_->ended(rank);
      if (outputs_ && all) end_outputs(rank, actor.call);
      if (nets_ && all) world_.under_way[rank] = std::nullopt;
      fibers_.raised(&ended.kernels, false, ended.waiters);
    }
  }

  // A rank that has an input and an output in place has one live buffer, as it has in each call.
  void add_outputs() {
    if (plan_.ranks <= kMostDirectRanks) {
      constexpr std::uint64_t kHalfBytes = 128;  // of a header and an offer
      inboxes_ = std::make_unique<Inboxes>(
          verdict_.report, plan_.ranks,
          Inboxes::Geometry{.half_bytes = kHalfBytes, .period = execution_.flag_period});
      world_.inboxes = inboxes_.get();
    }
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      OutputCalls::Live& live = live_[rank].of_call;
      Value* const output = buffers_.data(*live_[rank].output);
      live.output = has_output(rank) ? output : nullptr;
      live.begin = output;
      if (!has_input(rank)) continue;
      live.input = live_[rank].input ? buffers_.data(*live_[rank].input)
                                     : output + (gathers() ? rank * plan_.task.count : 0);
    }
    outputs_ = std::make_unique<OutputCalls>(
        world_, *execution_.outputs, plan_.ranks, static_cast<std::uint32_t>(plan_.channels.size()),
        output_elements() * sizeof(Value), execution_.turns, execution_.seed);
  }

  /// The live buffers of a rank to those of a call, or the other way round.
  void move_live(std::uint32_t rank, std::uint32_t call, bool to_call) {
    const auto move = [&](const std::optional<std::size_t>& of_call,
                          const std::optional<std::size_t>& live) {
      if (!of_call || !live) return;
      const std::uint64_t elements = buffers_.at(*live).elements;
      Value* const kept = buffers_.data(*of_call);
      Value* const at_work = buffers_.data(*live);
      if (!to_call) return static_cast<void>(std::copy_n(kept, elements, at_work));
      std::copy_n(at_work, elements, kept);
      std::fill_n(at_work, elements, make_nothing(Nothing::kUnwritten));
    };
    move(of_call(call, rank).output, live_[rank].output);
    if (!to_call) move(of_call(call, rank).input, live_[rank].input);
  }

  void begin_outputs(std::uint32_t rank, std::uint32_t call) {
    move_live(rank, call, false);
    // Into the output of a broadcast's root nobody writes.
    outputs_->begin(rank, call, live_[rank].of_call,
                    !has_root(plan_.task.operation) || rank != plan_.task.root);
  }

  void end_outputs(std::uint32_t rank, std::uint32_t call) {
    move_live(rank, call, true);
    outputs_->end(rank, call);
  }

  [[nodiscard]] bool averages() const { return plan_.task.reduction == WEFT_AVG; }

  KernelOutcome run_one(const Actor& actor, const WorkItem& item) {
    device::SingleLane group;
    SymbolicMemory memory(world_, actor);
    const SymbolicReduction reduction(memory, averages(), premultiplies());
    return execution_.kernel({.group = group,
                              .memory = memory,
                              .item = item,
                              .reduction = reduction,
                              .rank = actor.rank,
                              .part = actor.part,
                              .parts = direct() ? execution_.direct_parts : 1});
  }

  KernelOutcome run_lane(const Actor& actor, const WorkItem& item) {
    FiberLane group(*teams_[actor.rank * execution_.direct_parts + actor.part], actor.lane);
    WideMemory memory(world_, actor);
    world_.lanes[fibers_.current()] = &memory;
    const WideReduction reduction(memory, averages(), premultiplies());
    return execution_.wide_kernel({.group = group,
                                   .memory = memory,
                                   .item = item,
                                   .reduction = reduction,
                                   .rank = actor.rank,
                                   .part = actor.part,
                                   .parts = execution_.direct_parts});
  }

  void begin_over_net(const Actor& actor, const WorkItem& item) {
    world_.under_way[actor.rank] = actor.call;
    if (plan_.ranks == 1) return;
    LandingWalk walk = landing_of(item);
    walk.output = item.recv;
    if (execution_.change_landing) execution_.change_landing(walk, actor.rank);
    const std::uint32_t previous = ring_place(plan_, actor.channel, actor.rank).previous;
    nets_->begin(leaving_[actor.channel][previous],
                 steps_received(plan_, actor.channel, actor.rank), walk);
  }

  void report_outcome(const Actor& actor, const KernelOutcome& outcome) {
    verdict_.report.add(
        Rule::kKernel,
        fmt::format("{}: the kernel ends with {}, expected {}, found {}", actor.name(),
                    static_cast<std::uint32_t>(outcome.end), outcome.expected, outcome.found));
    fibers_.stop();
  }

  void report_deadlock(const std::vector<Wait>& waits) {
    std::string text = "nobody can go on:";
    for (const Wait& wait : waits) {
      text += fmt::format("\n  {} waits", wait.fiber < actors_.size()
                                              ? actors_[wait.fiber].name()
                                              : nets_->name(wait.fiber - actors_.size()));
      if (wait.counter == nullptr) {
        text += " for what it looks at";
      } else if (const std::string which = connections_.describe(wait.counter); !which.empty()) {
        text += fmt::format(" for {} of {}", wait.threshold, which);
      } else {
        text += fmt::format(" for {} of a counter, which is {}", wait.threshold, *wait.counter);
      }
      constexpr std::size_t kMostText = 2000;
      if (text.size() > kMostText) {
        text += fmt::format("\n  and more, {} kernels in all", waits.size());
        break;
      }
    }
    verdict_.report.add(Rule::kDeadlock, std::move(text));
  }

  [[nodiscard]] Bound bound() const {
    if (execution_.declared) return *execution_.declared;
    return bound_of(plan_, plan_.algorithm, execution_.spread).value_or(Bound{});
  }

  [[nodiscard]] Due due(std::uint32_t call, std::uint32_t rank, std::uint64_t index) const {
    switch (plan_.task.operation) {
      case Operation::kBroadcast:
        return {.of_rank = plan_.task.root, .element = element(call, index)};
      case Operation::kAllGather:
      case Operation::kAllGatherV:
        return {.of_rank = static_cast<std::uint32_t>(index / plan_.task.count),
                .element = element(call, index % plan_.task.count)};
      case Operation::kReduceScatter:
      case Operation::kReduceScatterV:
        index += rank * plan_.task.count;
        break;
      default:
        break;
    }
    // A rank alone copies.
    return {.element = element(call, index),
            .finished = plan_.task.reduction == WEFT_AVG && plan_.ranks > 1};
  }

  void check_results() {
    // A plan may promise more than its algorithm does.
    const Promise order = plan_.by_rank ? Promise::kByRank : bound().order;
    std::vector<Results> results;
    for (const ChannelPlan& channel : plan_.channels)
      results.emplace_back(expressions_, channel.ring, order);
    for (std::uint32_t call = 0; call < execution_.calls; ++call) {
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        if (has_output(rank) && !check_output(results, call, rank)) return;
      }
    }
  }

  bool check_output(std::vector<Results>& results, std::uint32_t call, std::uint32_t rank) {
    const std::uint64_t count = plan_.task.count;
    for (std::uint64_t first = 0; first < output_elements(); first += count) {
      for (std::size_t channel = 0; channel < results.size(); ++channel) {
        if (!is_executed(static_cast<std::uint32_t>(channel))) continue;
        const ChannelPlan& share = plan_.channels[channel];
        const Extent part{.offset = first + share.offset, .count = share.count};
        if (!check_part(results[channel], call, rank, part)) return false;
      }
    }
    return true;
  }

  /// Elements of one block and one channel.
  bool check_part(Results& results, std::uint32_t call, std::uint32_t rank, const Extent& part) {
    const Value* const output = output_of(call, rank);
    const bool all_alike = plan_.task.operation == Operation::kAllReduce;
    const Value* const other = all_alike ? output_of(call, 0) : nullptr;
    Due due = this->due(call, rank, part.offset);
    for (std::uint64_t i = part.offset; i < part.offset + part.count; ++i, ++due.element) {
      if (!is_due(rank, i)) {
        if (execution_.in_place || output[i] == make_nothing(Nothing::kUnwritten)) continue;
        verdict_.report.add(Rule::kWrongElement,
                            fmt::format("call {}, rank {}, element {} is behind its block and was "
                                        "written",
                                        call, rank, i));
        return false;
      }
      std::optional<Violation> violation;
      if (!results.is_as_before(output[i], due)) violation = results.judge(output[i], due);
      if (!violation && all_alike && expression_of(output[i]) != expression_of(other[i])) {
        violation = Violation{.rule = Rule::kAgreement, .text = "is not the sum that rank 0 has"};
      }
      if (violation) {
        verdict_.report.add(violation->rule, fmt::format("call {}, rank {}, element {} {}", call,
                                                         rank, i, violation->text));
        return false;
      }
      verdict_.measures.hops = std::max<std::uint64_t>(verdict_.measures.hops, hops_of(output[i]));
    }
    return true;
  }

  void check_traffic() {
    const auto compare = [&](const char* what, std::uint32_t rank, std::size_t channel,
                             std::uint64_t moved, std::uint64_t announced) {
      if (moved == announced * execution_.calls || !verdict_.report.empty()) return;
      verdict_.report.add(Rule::kTraffic,
                          fmt::format("rank {} {} {} on channel {} in {} calls, the plan says {} "
                                      "for each",
                                      rank, what, moved, channel, execution_.calls, announced));
    };
    std::uint64_t bytes = 0;
    if (direct()) {
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        compare("sent bytes:", rank, 0, inboxes_->bytes(rank), bytes_sent(plan_, 0, rank));
        bytes += inboxes_->bytes(rank);
      }
    }
    struct Moved {
      std::uint64_t sent = 0;
      std::uint64_t received = 0;
      std::uint64_t bytes = 0;
    };
    std::vector<Moved> moved(plan_.channels.size() * plan_.ranks);  // by channel, then by rank
    const auto of = [&](const Connection& connection, std::uint32_t rank) -> Moved& {
      return moved[std::size_t{connection.channel} * plan_.ranks + rank];
    };
    std::vector<std::uint64_t> far(plan_.ranks);  // bytes
    const auto& host_of = execution_.host_of;
    for (const Connection& connection : connections_.all()) {
      // Over a net there are two, the sender's and the receiver's.
      const bool of_sender = !nets_ || !nets_->is_net(connection.from);
      const bool of_receiver = !nets_ || !nets_->is_net(connection.to);
      if (of_receiver) of(connection, connection.to).received += connection.head;
      if (!of_sender) continue;
      Moved& from = of(connection, connection.from);
      from.sent += connection.tail;
      from.bytes += connection.bytes;
      const std::uint64_t all = members_of(connection.channel) * connection.bytes;
      bytes += all;
      if (!host_of.empty() && host_of.at(connection.from) != host_of.at(connection.to)) {
        far[connection.from] += all;
      }
    }
    if (!connections_.all().empty()) {
      std::vector<std::uint64_t> sent(plan_.ranks);  // steps
      for (const std::uint32_t channel : kinds_.first) {
        for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
          const Moved& of_rank = moved[std::size_t{channel} * plan_.ranks + rank];
          compare("sent steps:", rank, channel, of_rank.sent, steps_sent(plan_, channel, rank));
          compare("received steps:", rank, channel, of_rank.received,
                  steps_received(plan_, channel, rank));
          compare("sent bytes:", rank, channel, of_rank.bytes, bytes_sent(plan_, channel, rank));
          sent[rank] += members_of(channel) * of_rank.sent;
        }
      }
      verdict_.measures.steps = std::ranges::max(sent) / execution_.calls;
    }
    verdict_.measures.most_far_bytes = std::ranges::max(far) / execution_.calls;
    verdict_.measures.bytes = bytes / execution_.calls;
  }

  void check_bound() {
    if (!execution_.declared && !bound_of(plan_.algorithm, plan_.task, plan_.ranks)) {
      verdict_.report.add(Rule::kBound, "the algorithm has no row in the table of bounds");
      return;
    }
    const Bound most = bound();
    const Measures& measured = verdict_.measures;
    if (measured.hops <= most.hops && measured.bytes <= most.bytes &&
        measured.steps <= most.steps) {
      return;
    }
    verdict_.report.add(Rule::kBound,
                        fmt::format("{} hops, {} bytes and {} steps of a rank, where {}, {} and {} "
                                    "are promised",
                                    measured.hops, measured.bytes, measured.steps, most.hops,
                                    most.bytes, most.steps));
  }

  [[nodiscard]] bool is_executed(std::uint32_t channel) const {
    return std::ranges::binary_search(kinds_.first, channel);
  }

  /// Of a channel that is executed: those that are like it, itself included.
  [[nodiscard]] std::uint64_t members_of(std::uint32_t channel) const {
    const auto place = std::ranges::lower_bound(kinds_.first, channel) - kinds_.first.begin();
    return kinds_.members[static_cast<std::size_t>(place)];
  }

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

}  // namespace

Verdict execute(Stacks& stacks, std::span<const Plan* const> plans, const Execution& execution) {
  if (plans.front()->channels.empty()) return {};
  return Executor(stacks, plans, execution).run();
}

}  // namespace weft::checker
