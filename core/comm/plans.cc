// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The plans of a communicator: made once for each shape of call, bound to this rank's connections,
// and kept.
#include <algorithm>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/exchange.h"
#include "core/comm/stream.h"

namespace weft {
namespace {

// Plans are small; a program calls few shapes over and over. Beyond that the table starts anew.
constexpr std::size_t kMostPlans = 1024;
// Bindings of a plan to blocks that differ, beside the latest. A program may call for each of its
// layers in turn, so as many as KnownBlocks keeps tables.
constexpr std::size_t kMostBlocks = KnownBlocks::kMost - 1;

}  // namespace

std::size_t Communicator::TaskHash::operator()(const Task& task) const {
  return std::hash<std::uint64_t>{}(make_operation_tag(task, 0) ^ (task.count << 1));
}

PlanInput Communicator::plan_input(Operation operation) const {
  PlanInput input{.topology = topology_, .costs = costs_, .limits = limits_, .tuner = tuner_.get()};
  input.deterministic = config_.flag("collectives.deterministic");
  // There are no parameters for their ways.
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

Result<Communicator::Planned*> Communicator::find_plan(const Call& call) {
  if (!has_uneven_blocks(call.task.operation)) return find_plan(call.task);
  return find_plan(planned_task(call));
}

Result<Communicator::Planned*> Communicator::find_plan(const Task& task) {
  if (latest_plan_ != nullptr && latest_plan_->plan->task == task) return latest_plan_;
  const auto found = plans_.find(task);
  if (found != plans_.end()) return latest_plan_ = found->second.get();
  WEFT_TRY_ASSIGN(auto fresh, plan(task));
  // Work under way shares its plan, and so do graphs of the host.
  if (plans_.size() >= kMostPlans) {
    for (const auto& [known, old] : plans_) {
      retire(old->bound);
      std::ranges::for_each(old->others, [this](const auto& other) { retire(other); });
    }
    plans_.clear();
    latest_plan_ = nullptr;
  }
  context_.logger().debug(Topic::kSchedule, "rank {} plans {}: {} with {}, {}", rank_,
                          describe_task(task), algorithm_name(fresh->algorithm),
                          protocol_name(fresh->protocol), fresh->reason);
  auto planned = std::make_unique<Planned>();
  planned->links = links_of(*fresh, rank_, inbox_links_);
  planned->plan = std::move(fresh);
  return latest_plan_ = plans_.emplace(task, std::move(planned)).first->second.get();
}

// Kernels of the host read tables where their plan has them, and share it while they are under way.
Result<std::shared_ptr<PlanTables>> Communicator::tables_of(const Plan& plan) {
  if (runtime_.reports_ends() || !PlanTables::needed(plan)) return nullptr;
  // Work on a communicator's latest stream comes after all that it had on others.
  if (retired_.many()) {
    const std::shared_ptr<DeviceStream> latest = latest_.life.lock();
    if (latest != nullptr && !runtime_.is_capturing(latest.get()) &&
        runtime_.query(latest.get()) == WEFT_OK) {
      retired_.sweep();
    }
  }
  return PlanTables::create(table_memory_, plan);
}

void Communicator::retire(const std::shared_ptr<BoundPlan>& bound) {
  if (bound != nullptr) retired_.add(bound->tables());
}

// In the lines that `weft explain` prints, of hops this rank's own.
void Communicator::log_bound(const Plan& plan) const {
  Logger& log = context_.logger();
  if (!log.enabled(Topic::kSchedule, WEFT_LOG_TRACE)) return;
  std::vector<NetEdge> own = hops(plan);
  std::erase_if(own, [&](const NetEdge& hop) { return hop.from != rank_ && hop.to != rank_; });
  std::string text = to_text(plan);
  for (const auto& [a, b] : joined_pairs(own))
    text += fmt::format("ranks {} and {}: {}\n", a, b, describe_pair(a, b));
  for (const std::string& edge : describe_net_edges(own))
    text += edge + "\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    log.log(Topic::kSchedule, WEFT_LOG_TRACE, "rank {} runs: {}", rank_, line);
}

// What the other ranks can plan this one may lack memory for.
Result<std::shared_ptr<BoundPlan>> Communicator::bind_to(std::shared_ptr<const Plan> plan) {
  const auto lost = [this](Error error) {
    withdraw({}, error);
    return fail(std::move(error));
  };
  const auto pair = [this](const PairLink& link) -> const PairConnections& {
    return *pairs_->find(link);
  };
  auto tables = tables_of(*plan);
  if (!tables) return lost(std::move(tables.error()));
  BoundPlan::Ends ends{
      .direct = connections_->direct(), .pair = pair, .tables = std::move(*tables)};
  ends.packs_items = !runtime_.reports_ends() && plan->channels.size() > kMostWholeItems;
  if (ends.packs_items) {
    const std::vector<RingLinks> links = ring_links(*plan, rank_, pair);
    if (!links.empty()) {
      auto table = link_tables_.find(links);
      if (!table) return lost(std::move(table.error()));
      ends.links = *table;
    }
  }
  log_bound(*plan);
  return std::make_shared<BoundPlan>(std::move(plan), rank_, ends);
}

// Makes the plan with these blocks the latest one, if it is kept.
bool Communicator::recall(Planned& planned, const std::vector<Extent>& blocks) {
  if (planned.bound != nullptr && planned.bound->plan().blocks == blocks) return true;
  // Calls that are made in turn come in the order in which they were made first.
  for (std::size_t i = 0; i < planned.others.size(); ++i) {
    auto& other = planned.others[(planned.oldest + i) % planned.others.size()];
    if (other->plan().blocks != blocks) continue;
    std::swap(other, planned.bound);
    planned.oldest = (planned.oldest + i + 1) % planned.others.size();
    return true;
  }
  return false;
}

// Makes room for another latest one.
void Communicator::keep(Planned& planned) {
  if (planned.bound == nullptr) return;
  if (planned.others.size() < kMostBlocks) {
    planned.others.push_back(std::move(planned.bound));
    return;
  }
  auto& other = planned.others[planned.oldest];
  retire(other);
  other = std::move(planned.bound);
  planned.oldest = (planned.oldest + 1) % kMostBlocks;
}

Result<std::shared_ptr<BoundPlan>> Communicator::bind(const Call& call) {
  WEFT_TRY_ASSIGN(const auto* const bound, find_bound(call));
  return *bound;
}

Result<const std::shared_ptr<BoundPlan>*> Communicator::find_bound(const Call& call) {
  WEFT_TRY_ASSIGN(Planned* const planned, find_plan(call));
  if (!has_uneven_blocks(call.task.operation)) {
    if (planned->bound == nullptr) {
      WEFT_TRY_ASSIGN(planned->bound, bind_to(planned->plan));
    }
    return &planned->bound;
  }
  if (recall(*planned, call.blocks->common)) return &planned->bound;
  auto with_blocks = std::make_shared<Plan>(*planned->plan);
  with_blocks->blocks = call.blocks->common;
  WEFT_TRY_ASSIGN(auto bound, bind_to(std::move(with_blocks)));
  keep(*planned);
  planned->bound = std::move(bound);
  return &planned->bound;
}

}  // namespace weft
