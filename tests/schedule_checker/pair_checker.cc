// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/pair_checker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/comm/pair_calls.h"

namespace weft::checker {
namespace {

std::vector<std::uint32_t> numbers_up_to(std::uint32_t ranks) {
  std::vector<std::uint32_t> numbers(ranks);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class PairExecutor {
 public:
  PairExecutor(Stacks& stacks, const PairExecution& execution)
      : execution_(execution),
        ranks_(execution.ranks),
        expressions_(numbers_up_to(execution.ranks)),
        fibers_(stacks, execution.turns, execution.seed),
        buffers_(verdict_.report),
        connections_(verdict_.report, execution.steps, execution.step_bytes),
        world_{.report = verdict_.report,
               .fibers = fibers_,
               .expressions = expressions_,
               .buffers = buffers_,
               .connections = &connections_,
               .ranks = execution.ranks} {}

  Verdict run() {
    add_connections();
    add_calls();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      fibers_.add([this, rank] { run_rounds(rank); });
    }
    fibers_.run([this](const std::vector<Wait>& waits) { report_deadlock(waits); });
    if (verdict_.report.empty()) check_received();
    if (verdict_.report.empty()) check_traffic();
    return std::move(verdict_);
  }

 private:
  /// One call and what it moves.
  struct BoundCall {
    PairCall call;
    std::size_t buffer;
    std::uint32_t first_element = 0;  // of a send
  };
  using Pair = std::pair<std::uint32_t, std::uint32_t>;

  void add_connections() {
    for (std::uint32_t from = 0; from < ranks_; ++from)
      for (std::uint32_t to = 0; to < ranks_; ++to)
        connections_.add(from, to, 0);
    connections_.allocate();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
        PairConnections& pair = ends_.emplace_back();
        pair.to.view = connections_.sender(std::size_t{rank} * ranks_ + peer);
        pair.from.view = connections_.receiver(std::size_t{peer} * ranks_ + rank);
      }
    }
  }

  void add_calls() {
    for (const std::vector<PairGroup>& round : execution_.rounds) {
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        std::vector<BoundCall>& group = calls_.emplace_back();
        for (const PairCall& call : round.at(rank)) {
          const std::size_t buffer = buffers_.add(
              {.rank = rank, .elements = call.count, .output_end = call.sends ? 0 : call.count});
          group.push_back({.call = call, .buffer = buffer});
        }
      }
    }
    buffers_.allocate();
    std::uint64_t element = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const auto rank = static_cast<std::uint32_t>(i % ranks_);
      for (BoundCall& bound : calls_[i]) {
        if (!bound.call.sends) continue;
        if (element + bound.call.count > kMostElements) {
          throw std::length_error("more elements than have numbers");
        }
        bound.first_element = static_cast<std::uint32_t>(element);
        for (std::uint64_t k = 0; k < bound.call.count; ++k, ++element) {
          buffers_.data(bound.buffer)[k] =
              make_value(expressions_.leaf(rank), static_cast<std::uint32_t>(element));
        }
        sent_[{rank, bound.call.partner}].push_back(&bound);
      }
    }
  }

  void run_rounds(std::uint32_t rank) {
    PairNumbers numbers;
    const auto ends_towards = [&](std::uint32_t partner) -> const PairConnections& {
      return ends_[std::size_t{rank} * ranks_ + partner];
    };
    for (std::uint32_t round = 0; round < execution_.rounds.size(); ++round) {
      std::deque<Call> made;
      std::vector<const Call*> calls;
      for (const BoundCall& bound : calls_[std::size_t{round} * ranks_ + rank]) {
        Call& call = made.emplace_back();
        call.task = {.operation = bound.call.sends ? Operation::kSend : Operation::kRecv,
                     .type = WEFT_UINT64,
                     .root = bound.call.partner,
                     .count = bound.call.count};
        if (bound.call.sends) {
          call.send = buffers_.data(bound.buffer);
        } else {
          call.recv = buffers_.data(bound.buffer);
        }
        calls.push_back(&call);
      }
      std::vector<PairTransfer> transfers;
      std::vector<PairMessage> messages;
      std::vector<Task> tasks;
      make_transfers(calls, rank, numbers, ends_towards, transfers, messages, tasks);
      const Actor actor{.rank = rank, .channel = 0, .call = round};
      device::SingleLane group;
      SymbolicMemory memory(world_, actor);
      const SymbolicReduction reduction(memory, false, false);
      const WorkItem item = pair_item(transfers, ranks_);
      const KernelOutcome outcome = execution_.kernel({.group = group,
                                                       .memory = memory,
                                                       .item = item,
                                                       .reduction = reduction,
                                                       .rank = rank,
                                                       .part = 0,
                                                       .parts = 1});
      if (fibers_.stopped()) return;
      if (outcome.end != KernelEnd::kDone) {
        verdict_.report.add(
            Rule::kKernel,
            fmt::format("{}: the kernel ends with {}, expected {}, found {}", actor.name(),
                        static_cast<std::uint32_t>(outcome.end), outcome.expected, outcome.found));
        fibers_.stop();
        return;
      }
    }
  }

  void report_deadlock(const std::vector<Wait>& waits) {
    std::string text = "nobody can go on:";
    for (const Wait& wait : waits) {
      text += fmt::format("\n  rank {} waits", wait.fiber);
      text += wait.counter == nullptr ? std::string(" for what it looks at")
                                      : fmt::format(" for {} of {}", wait.threshold,
                                                    connections_.describe(wait.counter));
    }
    verdict_.report.add(Rule::kDeadlock, std::move(text));
  }

  void check_received() {
    std::map<Pair, std::size_t> received;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const auto rank = static_cast<std::uint32_t>(i % ranks_);
      for (const BoundCall& bound : calls_[i]) {
        if (bound.call.sends) continue;
        const Pair pair{bound.call.partner, rank};
        const BoundCall& source = *sent_.at(pair).at(received[pair]++);
        for (std::uint64_t k = 0; k < bound.call.count; ++k) {
          const Value value = buffers_.data(bound.buffer)[k];
          const std::uint32_t hops = pair.first == pair.second ? 0 : 1;
          if (value == make_value(expressions_.leaf(pair.first),
                                  static_cast<std::uint32_t>(source.first_element + k), hops)) {
            continue;
          }
          verdict_.report.add(
              expression_of(value) == kNothing ? Rule::kNotWritten : Rule::kWrongElement,
              fmt::format("element {} of what {} sent to {} is element {}, after "
                          "{} hops",
                          source.first_element + k, pair.first, pair.second, element_of(value),
                          hops_of(value)));
          return;
        }
      }
    }
  }

  void check_traffic() {
    std::map<Pair, std::pair<std::uint64_t, std::uint64_t>> due;  // steps and bytes
    for (const auto& [pair, sends] : sent_) {
      if (pair.first == pair.second) continue;
      for (const BoundCall* bound : sends) {
        const std::uint64_t bytes = bound->call.count * sizeof(Value);
        due[pair].first += (bytes + execution_.step_bytes - 1) / execution_.step_bytes;
        due[pair].second += bytes;
      }
    }
    for (const Connection& connection : connections_.all()) {
      const auto [steps, bytes] = due[{connection.from, connection.to}];
      verdict_.measures.bytes += connection.bytes;
      if (connection.tail == steps && connection.head == steps && connection.bytes == bytes) {
        continue;
      }
      verdict_.report.add(
          Rule::kTraffic,
          fmt::format("{} -> {}: {} steps, {} of them taken, {} bytes instead of {} "
                      "steps and {} bytes",
                      connection.from, connection.to, connection.tail, connection.head,
                      connection.bytes, steps, bytes));
      return;
    }
  }

  const PairExecution& execution_;
  const std::uint32_t ranks_;
  Verdict verdict_;
  Expressions expressions_;
  Fibers fibers_;
  Buffers buffers_;
  Connections connections_;
  World world_;
  std::vector<PairConnections> ends_;          // by rank, then by partner
  std::vector<std::vector<BoundCall>> calls_;  // by round, then by rank
  std::map<Pair, std::vector<const BoundCall*>> sent_;
};

}  // namespace

Verdict execute_pairs(Stacks& stacks, const PairExecution& execution) {
  return PairExecutor(stacks, execution).run();
}

}  // namespace weft::checker
