// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/checker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/model/operation_tag.h"
#include "core/model/step_lines.h"
#include "tests/schedule_checker/executor.h"

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

}  // namespace

Executor::Executor(Stacks& stacks, std::span<const Plan* const> plans, const Execution& execution)
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

Verdict Executor::run() {
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

// The kernels of a rank's call begin when those of its call before have ended; ranks do not wait
// for each other.
void Executor::run_calls(Actor& actor) {
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

void Executor::move_live(std::uint32_t rank, std::uint32_t call, bool to_call) {
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

void Executor::begin_outputs(std::uint32_t rank, std::uint32_t call) {
  move_live(rank, call, false);
  // Into the output of a broadcast's root nobody writes.
  outputs_->begin(rank, call, live_[rank].of_call,
                  !has_root(plan_.task.operation) || rank != plan_.task.root);
}

void Executor::end_outputs(std::uint32_t rank, std::uint32_t call) {
  move_live(rank, call, true);
  outputs_->end(rank, call);
}

KernelOutcome Executor::run_one(const Actor& actor, const WorkItem& item) {
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

KernelOutcome Executor::run_lane(const Actor& actor, const WorkItem& item) {
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

void Executor::begin_over_net(const Actor& actor, const WorkItem& item) {
  world_.under_way[actor.rank] = actor.call;
  if (plan_.ranks == 1) return;
  LandingWalk walk = landing_of(item);
  walk.output = item.recv;
  if (execution_.change_landing) execution_.change_landing(walk, actor.rank);
  const std::uint32_t previous = ring_place(plan_, actor.channel, actor.rank).previous;
  nets_->begin(leaving_[actor.channel][previous], steps_received(plan_, actor.channel, actor.rank),
               walk);
}

void Executor::report_outcome(const Actor& actor, const KernelOutcome& outcome) {
  verdict_.report.add(
      Rule::kKernel,
      fmt::format("{}: the kernel ends with {}, expected {}, found {}", actor.name(),
                  static_cast<std::uint32_t>(outcome.end), outcome.expected, outcome.found));
  fibers_.stop();
}

void Executor::report_deadlock(const std::vector<Wait>& waits) {
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

Verdict execute(Stacks& stacks, std::span<const Plan* const> plans, const Execution& execution) {
  if (plans.front()->channels.empty()) return {};
  return Executor(stacks, plans, execution).run();
}

}  // namespace weft::checker
